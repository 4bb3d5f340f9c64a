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

use super::Stage;
use crate::{
    client::Client,
    dice::Dice,
    evidence::Verdict,
    node::Node,
    options::Options,
    report::Setting,
    shapes::{Endpoint, Shape},
    workload::Workload,
};

/// Timeout of one stream.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of runs checked concurrently.
const N_AT_ONCE: usize = 4;
/// Maximum number of reported differences.
const MAX_TOLD: usize = 10;

/// A surface and its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Responses,
    Events,
    Lines,
    Chat,
    Socket,
}

const WAYS: [Way; 5] = [Way::Responses, Way::Events, Way::Lines, Way::Chat, Way::Socket];

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Responses => "/v1/responses",
            Self::Events => "/v1/runs/…/events",
            Self::Lines => "/v1/runs/…/events as lines",
            Self::Chat => "/chat/stream",
            Self::Socket => "/ws/chat",
        })
    }
}

/// One frame, and the id to resume after it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Frame {
    bytes: String,
    /// `None` for a frame without an id to resume after.
    place: Option<String>,
}

/// Starts this many runs and reads each again from every position.
pub async fn resume(options: &Options, n_runs: u64) -> anyhow::Result<(Setting, Verdict)> {
    let title = format!("{n_runs} runs read again after every frame, on {} nodes", options.nodes);
    let mut stage = Stage::set(&title, options, &[]).await?;
    let workload = stage.workload(Shape::brief, None);
    let dices: Vec<Dice> = (0..n_runs).map(|_| stage.dice.fork()).collect();
    let rounds = dices.into_iter().enumerate().map(|(n, mut dice)| {
        let workload = workload.clone();
        async move {
            let key = format!("{}-{n}", workload.name);
            one_run(&workload, &key, &mut dice).await.with_context(|| key)
        }
    });
    let looked: Vec<anyhow::Result<Looked>> =
        stream::iter(rounds).buffer_unordered(N_AT_ONCE).collect().await;
    let (mut n_places, mut n_bytes) = ([0_u64; WAYS.len()], 0);
    for looked in looked {
        let looked = looked?;
        n_bytes += looked.n_bytes;
        n_places.iter_mut().zip(looked.n_places).for_each(|(sum, n)| *sum += n);
        stage.setting.missed.extend(looked.differences);
    }
    stage.setting.missed.truncate(MAX_TOLD);
    for (way, n) in WAYS.iter().zip(n_places) {
        stage.setting.notes.push((format!("places read again on {way}"), n.to_string()));
    }
    stage.setting.notes.push(("bytes compared".to_owned(), n_bytes.to_string()));
    let verdict = stage.close().await?;
    stage.client.cluster.stop().await;
    Ok((stage.setting, verdict))
}

/// The result for one run.
#[derive(Debug, Default)]
struct Looked {
    n_places: [u64; WAYS.len()],
    n_bytes: usize,
    differences: Vec<String>,
}

async fn one_run(workload: &Workload, key: &str, dice: &mut Dice) -> anyhow::Result<Looked> {
    let shape = Shape { endpoint: Endpoint::Background, ..Shape::brief(dice) };
    workload.note(key, &shape);
    let begun = workload.begin(key, &shape, None, dice, false).await;
    let (run_id, _) = begun.map_err(|refused| anyhow::anyhow!("not begun: {refused}"))?;
    let client = &workload.client;
    let home = client.cluster.any_node(dice)?;
    let live = WAYS.map(|way| read(client, home, &run_id, way, None));
    let live: Vec<Vec<Frame>> = join_all(live).await.into_iter().collect::<Result<_, _>>()?;
    let others: Vec<&Arc<Node>> =
        client.cluster.nodes.iter().filter(|node| node.index != home.index).collect();
    let mut looked = Looked::default();
    for ((way, frames), n_places) in WAYS.into_iter().zip(&live).zip(&mut looked.n_places) {
        for (n, frame) in frames.iter().enumerate() {
            let Some(place) = &frame.place else { continue };
            let rest = frames.get(n + 1..).unwrap_or_default();
            if way == Way::Socket && rest.is_empty() {
                // The socket stays open for the next turn, so there is nothing to read.
                continue;
            }
            let there = dice.pick(&others).context("there is no other node")?;
            let again = read(client, there, &run_id, way, Some(place)).await?;
            *n_places += 1;
            looked.n_bytes += rest.iter().map(|frame| frame.bytes.len()).sum::<usize>();
            if again != rest {
                looked.differences.push(difference(&run_id, way, place, &again, rest));
            }
        }
    }
    Ok(looked)
}

fn difference(run_id: &RunId, way: Way, place: &str, again: &[Frame], rest: &[Frame]) -> String {
    let n_same = again.iter().zip(rest).take_while(|(ours, theirs)| ours == theirs).count();
    let (ours, theirs) = (again.get(n_same), rest.get(n_same));
    format!("{run_id} on {way} after {place}, frame {n_same}: {ours:?}, live it was {theirs:?}")
}

/// Reads a run on a surface after `place`, or from the start, to its end.
async fn read(
    client: &Client,
    node: &Node,
    run_id: &RunId,
    way: Way,
    place: Option<&str>,
) -> anyhow::Result<Vec<Frame>> {
    let reading = async {
        match way {
            Way::Socket => read_socket(node, run_id, place).await,
            Way::Responses | Way::Events | Way::Lines | Way::Chat => {
                let url = node.url(&path(run_id, way, place));
                let answer = client.cluster.http.get(&url).send().await?;
                let (status, text) = (answer.status(), answer.text().await?);
                if !status.is_success() {
                    bail!("{url}: {status}: {text}");
                }
                Ok(frames(way, &text))
            }
        }
    };
    timeout(PATIENCE, reading).await.with_context(|| format!("{run_id} on {way} does not end"))?
}

fn path(run_id: &RunId, way: Way, place: Option<&str>) -> String {
    let from = place.unwrap_or("0");
    match (way, place) {
        (Way::Responses, None) => format!("/v1/responses/{}?stream=true", response_id(run_id)),
        (Way::Responses, Some(place)) => {
            let response = response_id(run_id);
            format!("/v1/responses/{response}?stream=true&starting_after={place}")
        }
        (Way::Lines, _) => format!("/v1/runs/{run_id}/events?format=ndjson&after={from}"),
        (Way::Chat, None) => format!("/chat/stream?tokens=true&after={run_id}:0.0"),
        (Way::Chat, Some(place)) => format!("/chat/stream?tokens=true&after={place}"),
        (Way::Events | Way::Socket, _) => format!("/v1/runs/{run_id}/events?after={from}"),
    }
}

/// Splits the bytes of a stream into frames, without keep-alive comments.
fn frames(way: Way, text: &str) -> Vec<Frame> {
    let end = if way == Way::Lines { "\n" } else { "\n\n" };
    let is_said = |bytes: &&str| !bytes.trim().is_empty() && !bytes.starts_with(':');
    text.split_inclusive(end)
        .filter(is_said)
        .map(|bytes| Frame { bytes: bytes.to_owned(), place: place_in(way, bytes) })
        .collect()
}

fn place_in(way: Way, bytes: &str) -> Option<String> {
    let line = |name: &str| bytes.lines().find_map(|line| line.strip_prefix(name));
    let number = |data: &str, field: &str| {
        let data: Value = serde_json::from_str(data).ok()?;
        Some(data.get(field)?.to_string())
    };
    match way {
        Way::Responses => number(line("data: ")?, "sequence_number"),
        Way::Events | Way::Chat => line("id: ").map(ToOwned::to_owned),
        Way::Lines => number(bytes, "seq"),
        Way::Socket => {
            let message: Value = serde_json::from_str(bytes).ok()?;
            message.get("cursor")?.as_str().map(ToOwned::to_owned)
        }
    }
}

/// The same over a WebSocket, where the last message of a turn ends it.
async fn read_socket(
    node: &Node,
    run_id: &RunId,
    place: Option<&str>,
) -> anyhow::Result<Vec<Frame>> {
    let url = node.url("/ws/chat").replacen("http", "ws", 1);
    let (mut socket, _) = connect_async(url).await?;
    let hello = json!({ "type": "hello", "resume": true, "progress": true, "chunks": true });
    socket.send(Message::text(hello.to_string())).await?;
    let wish = json!({ "type": "resume", "run_id": run_id, "after": place.unwrap_or("0.0") });
    socket.send(Message::text(wish.to_string())).await?;
    let mut frames = Vec::new();
    loop {
        match socket.next().await.context("the socket ended")?? {
            Message::Text(text) => {
                let frame =
                    Frame { bytes: text.to_string(), place: place_in(Way::Socket, text.as_str()) };
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
