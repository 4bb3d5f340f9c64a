//! Reads every run again, after every frame of every surface, on another node: the bytes must equal
//! those of the live stream (C2, C10, C11).

use std::{fmt, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use futures::{SinkExt, StreamExt, future::join_all, stream};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::{connect_async, tungstenite::Message};
use turnwire_contract::RunId;
use turnwire_surfaces::responses::ids::response_id;

use super::Harness;
use crate::{
    client::Client,
    dice::Dice,
    evidence::Verdict,
    node::Node,
    options::Options,
    report::ReportHeader,
    shapes::{Endpoint, Shape},
    workload::Workload,
};

/// Timeout of one stream.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of runs checked concurrently.
const MAX_CONCURRENT: usize = 4;
/// Maximum number of reported differences.
const MAX_LISTED: usize = 10;

/// A surface and its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadMethod {
    Responses,
    Events,
    Lines,
    Chat,
    Socket,
    AiSdk,
    AgUi,
}

const READ_METHODS: [ReadMethod; 7] = [
    ReadMethod::Responses,
    ReadMethod::Events,
    ReadMethod::Lines,
    ReadMethod::Chat,
    ReadMethod::Socket,
    ReadMethod::AiSdk,
    ReadMethod::AgUi,
];

impl fmt::Display for ReadMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Responses => "/v1/responses",
            Self::Events => "/v1/runs/…/events",
            Self::Lines => "/v1/runs/…/events as lines",
            Self::Chat => "/chat/stream",
            Self::Socket => "/ws/chat",
            Self::AiSdk => "/ai-sdk/chat/…/stream",
            Self::AgUi => "/ag-ui/runs/…",
        })
    }
}

/// One frame, and the id to resume after it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    bytes: String,
    /// `None` for a frame without an id to resume after.
    cursor: Option<String>,
}

/// Starts this many runs and reads each again from every position.
pub async fn resume(options: &Options, n_runs: u64) -> anyhow::Result<(ReportHeader, Verdict)> {
    let title = format!("{n_runs} runs read again after every frame, on {} nodes", options.nodes);
    let mut harness = Harness::start(&title, options, &[]).await?;
    let workload = harness.workload(Shape::brief, None);
    let dices: Vec<Dice> = (0..n_runs).map(|_| harness.dice.fork()).collect();
    let rounds = dices.into_iter().enumerate().map(|(n, mut dice)| {
        let workload = workload.clone();
        async move {
            let key = format!("{}-{n}", workload.name);
            one_run(&workload, &key, &mut dice).await.with_context(|| key)
        }
    });
    let looked: Vec<anyhow::Result<ResumeResult>> =
        stream::iter(rounds).buffer_unordered(MAX_CONCURRENT).collect().await;
    let (mut n_places, mut n_bytes) = ([0_u64; READ_METHODS.len()], 0);
    for looked in looked {
        let looked = looked?;
        n_bytes += looked.n_bytes;
        n_places.iter_mut().zip(looked.n_places).for_each(|(sum, n)| *sum += n);
        harness.header.missed.extend(looked.differences);
    }
    harness.header.missed.truncate(MAX_LISTED);
    for (method, n) in READ_METHODS.iter().zip(n_places) {
        harness.header.remarks.push((format!("places read again on {method}"), n.to_string()));
    }
    harness.header.remarks.push(("bytes compared".to_owned(), n_bytes.to_string()));
    let verdict = harness.close().await?;
    harness.client.cluster.stop().await;
    Ok((harness.header, verdict))
}

/// The result for one run.
#[derive(Debug, Default)]
struct ResumeResult {
    n_places: [u64; READ_METHODS.len()],
    n_bytes: usize,
    differences: Vec<String>,
}

async fn one_run(workload: &Workload, key: &str, dice: &mut Dice) -> anyhow::Result<ResumeResult> {
    let shape = Shape { endpoint: Endpoint::Background, ..Shape::brief(dice) };
    workload.record(key, &shape);
    let begun = workload.start_run(key, &shape, None, dice, false).await;
    let (run_id, _) = begun.map_err(|refused| anyhow::anyhow!("not begun: {refused}"))?;
    let client = &workload.client;
    let home = client.cluster.any_node(dice)?;
    let live = READ_METHODS.map(|method| read(client, home, &run_id, method, None));
    let live: Vec<Vec<Frame>> = join_all(live).await.into_iter().collect::<Result<_, _>>()?;
    let others: Vec<&Arc<Node>> =
        client.cluster.nodes.iter().filter(|node| node.index != home.index).collect();
    let mut looked = ResumeResult::default();
    for ((method, frames), n_places) in
        READ_METHODS.into_iter().zip(&live).zip(&mut looked.n_places)
    {
        for (n, frame) in frames.iter().enumerate() {
            let Some(cursor) = &frame.cursor else { continue };
            let rest = frames.get(n + 1..).unwrap_or_default();
            if method == ReadMethod::Socket && rest.is_empty() {
                // The socket stays open for the next turn, so there is nothing to read.
                continue;
            }
            let there = dice.pick(&others).context("there is no other node")?;
            let again = read(client, there, &run_id, method, Some(cursor)).await?;
            *n_places += 1;
            looked.n_bytes += rest.iter().map(|frame| frame.bytes.len()).sum::<usize>();
            if again != rest {
                looked.differences.push(difference(&run_id, method, cursor, &again, rest));
            }
        }
    }
    Ok(looked)
}

fn difference(
    run_id: &RunId,
    method: ReadMethod,
    cursor: &str,
    again: &[Frame],
    rest: &[Frame],
) -> String {
    let n_same = again.iter().zip(rest).take_while(|(ours, theirs)| ours == theirs).count();
    let (ours, theirs) = (again.get(n_same), rest.get(n_same));
    format!("{run_id} on {method} after {cursor}, frame {n_same}: {ours:?}, live it was {theirs:?}")
}

/// Reads a run on a surface after `cursor`, or from the start, to its end.
async fn read(
    client: &Client,
    node: &Node,
    run_id: &RunId,
    method: ReadMethod,
    cursor: Option<&str>,
) -> anyhow::Result<Vec<Frame>> {
    let reading = async {
        if method == ReadMethod::Socket {
            return read_socket(node, run_id, cursor).await;
        }
        let url = node.url(&path(run_id, method, cursor));
        let answer = client.cluster.http.get(&url).send().await?;
        let (status, text) = (answer.status(), answer.text().await?);
        if !status.is_success() {
            bail!("{url}: {status}: {text}");
        }
        Ok(numbered(method, cursor, frames(method, &text)))
    };
    timeout(PATIENCE, reading)
        .await
        .with_context(|| format!("{run_id} on {method} does not end"))?
}

fn path(run_id: &RunId, method: ReadMethod, cursor: Option<&str>) -> String {
    let from = cursor.unwrap_or("0");
    match (method, cursor) {
        (ReadMethod::Responses, None) => {
            format!("/v1/responses/{}?stream=true", response_id(run_id))
        }
        (ReadMethod::Responses, Some(cursor)) => {
            let response = response_id(run_id);
            format!("/v1/responses/{response}?stream=true&starting_after={cursor}")
        }
        (ReadMethod::Lines, _) => format!("/v1/runs/{run_id}/events?format=ndjson&after={from}"),
        (ReadMethod::Chat, None) => format!("/chat/stream?tokens=true&after={run_id}:0.0"),
        (ReadMethod::Chat, Some(cursor)) => format!("/chat/stream?tokens=true&after={cursor}"),
        (ReadMethod::AiSdk, _) => format!("/ai-sdk/chat/{run_id}/stream?startIndex={from}"),
        (ReadMethod::AgUi, _) => format!("/ag-ui/runs/{run_id}?after={from}"),
        (ReadMethod::Events | ReadMethod::Socket, _) => {
            format!("/v1/runs/{run_id}/events?after={from}")
        }
    }
}

/// Splits the bytes of a stream into frames, without keep-alive comments.
fn frames(method: ReadMethod, text: &str) -> Vec<Frame> {
    let end = if method == ReadMethod::Lines { "\n" } else { "\n\n" };
    let is_said = |bytes: &&str| !bytes.trim().is_empty() && !bytes.starts_with(':');
    text.split_inclusive(end)
        .filter(is_said)
        .map(|bytes| Frame { bytes: bytes.to_owned(), cursor: cursor_in(method, bytes) })
        .collect()
}

/// Chunks of the AI SDK have no id: a client counts them, beginning with those it has.
fn numbered(method: ReadMethod, cursor: Option<&str>, mut frames: Vec<Frame>) -> Vec<Frame> {
    if method == ReadMethod::AiSdk {
        let n_received: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or_default();
        let chunks = frames.iter_mut().filter(|frame| !frame.bytes.contains("[DONE]"));
        for (n, chunk) in (n_received + 1..).zip(chunks) {
            chunk.cursor = Some(n.to_string());
        }
    }
    frames
}

fn cursor_in(method: ReadMethod, bytes: &str) -> Option<String> {
    let line = |name: &str| bytes.lines().find_map(|line| line.strip_prefix(name));
    let number = |data: &str, field: &str| {
        let data: Value = serde_json::from_str(data).ok()?;
        Some(data.get(field)?.to_string())
    };
    match method {
        ReadMethod::Responses => number(line("data: ")?, "sequence_number"),
        ReadMethod::Events | ReadMethod::Chat | ReadMethod::AgUi => {
            line("id: ").map(ToOwned::to_owned)
        }
        ReadMethod::Lines => number(bytes, "seq"),
        ReadMethod::AiSdk => None,
        ReadMethod::Socket => {
            let message: Value = serde_json::from_str(bytes).ok()?;
            message.get("cursor")?.as_str().map(ToOwned::to_owned)
        }
    }
}

/// The same over a WebSocket, where the last message of a turn ends it.
async fn read_socket(
    node: &Node,
    run_id: &RunId,
    cursor: Option<&str>,
) -> anyhow::Result<Vec<Frame>> {
    let url = node.url("/ws/chat").replacen("http", "ws", 1);
    let (mut socket, _) = connect_async(url).await?;
    let hello = json!({ "type": "hello", "resume": true, "progress": true, "chunks": true });
    socket.send(Message::text(hello.to_string())).await?;
    let message = json!({ "type": "resume", "run_id": run_id, "after": cursor.unwrap_or("0.0") });
    socket.send(Message::text(message.to_string())).await?;
    let mut frames = Vec::new();
    loop {
        match socket.next().await.context("the socket ended")?? {
            Message::Text(text) => {
                let frame = Frame {
                    bytes: text.to_string(),
                    cursor: cursor_in(ReadMethod::Socket, text.as_str()),
                };
                let is_last = ends_the_turn(text.as_str());
                frames.push(frame);
                if is_last {
                    break;
                }
            }
            Message::Ping(_) | Message::Pong(_) => {}
            other => bail!("the socket says {other:?}"),
        }
    }
    socket.close(None).await?;
    Ok(frames)
}

fn ends_the_turn(text: &str) -> bool {
    let message: Value = serde_json::from_str(text).unwrap_or_default();
    match message.get("type").and_then(Value::as_str) {
        Some("complete") => true,
        // Without an outcome it is not the end.
        Some("error") => message.get("outcome").is_some(),
        Some(_) | None => false,
    }
}
