//! A reader of one run: it connects, reads, disconnects by fault or by itself, and resumes on any
//! node.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use turnwire_contract::{CallId, RecordedEvent, RunId};
use turnwire_surfaces::{responses::ids::response_id, wire_json};

use crate::{
    client::{Client, PATIENCE, RequestError},
    dice::Dice,
    node::Node,
    observations::{FrameId, ReceivedFrame, Surface, View, fingerprint},
    sse::{LineReader, Piece, SseReader},
};

/// Idle timeout of an impatient reader.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum number of voluntary disconnects, and of pauses.
const MAX_DISCONNECTS: u32 = 6;
const MAX_PAUSES: u32 = 12;

/// The behaviour of a reader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaderBehavior {
    /// Frames per thousand after which it disconnects and resumes.
    pub disconnects_per_thousand: u64,
    /// Whether it reads slowly.
    pub slow: bool,
    /// Whether it has no idle timeout.
    pub patient: bool,
    /// Whether it reads JSON lines, where supported.
    pub lines: bool,
}

/// A reader of one run on one surface.
#[derive(Debug)]
pub struct Reader {
    client: Client,
    view: View,
    behavior: ReaderBehavior,
    dice: Dice,
    /// The `id` of the last frame, on surfaces that have ids.
    last_id: Option<String>,
    n_disconnects: u32,
    n_pauses: u32,
    questions: Option<mpsc::UnboundedSender<CallId>>,
}

impl Reader {
    /// Creates a reader of `run_id` from its start.
    pub fn new(
        client: Client,
        run_id: RunId,
        surface: Surface,
        behavior: ReaderBehavior,
        dice: Dice,
    ) -> Self {
        let view = View::new(run_id, surface);
        let (last_id, questions) = (None, None);
        Self { client, view, behavior, dice, last_id, n_disconnects: 0, n_pauses: 0, questions }
    }

    /// Also sends calls that need an approval to `questions`.
    pub fn asking(self, questions: mpsc::UnboundedSender<CallId>) -> Self {
        Self { questions: Some(questions), ..self }
    }

    /// Reads to the end. `first` is an open connection to start with, and what was read from it.
    pub async fn follow(mut self, first: Option<(Response, StreamReader)>) -> View {
        let give_up = self.client.give_up.clone();
        tokio::select! {
            () = self.read_on(first) => {}
            () = give_up.cancelled() => {}
        }
        self.view
    }

    async fn read_on(&mut self, mut first: Option<(Response, StreamReader)>) {
        while !self.view.ended {
            let connected = match first.take() {
                Some(first) => Ok(first),
                None => self.connect().await.map(|answer| (answer, self.stream_reader())),
            };
            match connected {
                Ok((answer, reader)) => {
                    self.view.n_connections += 1;
                    self.read(answer, reader).await;
                }
                Err(refused) => {
                    self.view.refused = Some(refused.to_string());
                    let wait = self.dice.millis(20, 120);
                    sleep(wait).await;
                }
            }
        }
    }

    fn stream_reader(&self) -> StreamReader {
        let reads_lines = self.behavior.lines && self.view.surface == Surface::Runs;
        if reads_lines { StreamReader::lines() } else { StreamReader::sse() }
    }

    async fn connect(&mut self) -> Result<Response, RequestError> {
        let mut dice = self.dice.fork();
        let cluster = self.client.cluster.clone();
        let node =
            cluster.any_node(&mut dice).map_err(|e| RequestError::NoResponse(e.to_string()))?;
        let request = self.request(node, dice.chance(50));
        self.client.send(request, PATIENCE).await
    }

    /// Returns the request that resumes; `by_header` selects one of two ways.
    fn request(&self, node: &Node, by_header: bool) -> RequestBuilder {
        let http = &self.client.cluster.http;
        let run_id = &self.view.run_id;
        let last = self.view.seen.last().map(|seen| seen.frame_id.seq);
        let after = |path: &str| {
            let joint = if path.contains('?') { '&' } else { '?' };
            match last {
                Some(n) if by_header => {
                    http.get(node.url(path)).header("last-event-id", n.to_string())
                }
                Some(n) => http.get(node.url(&format!("{path}{joint}after={n}"))),
                None => http.get(node.url(path)),
            }
        };
        match self.view.surface {
            Surface::Responses => {
                let after = last.map(|n| format!("&starting_after={n}")).unwrap_or_default();
                let response = response_id(run_id);
                http.get(node.url(&format!("/v1/responses/{response}?stream=true{after}")))
            }
            Surface::Runs => {
                let format = if self.behavior.lines { "ndjson" } else { "sse" };
                after(&format!("/v1/runs/{run_id}/events?format={format}"))
            }
            Surface::Chat => {
                let start = format!("{run_id}:0.0");
                let id = self.last_id.as_deref().unwrap_or(&start);
                if by_header {
                    let body = serde_json::json!({ "tokens": true, "approvals": true });
                    let request = http.post(node.url("/chat/stream"));
                    return request.header("last-event-id", id).json(&body);
                }
                let path = format!("/chat/stream?tokens=true&approvals=true&after={id}");
                http.get(node.url(&path))
            }
            Surface::DurableStream => {
                let offset = last.map_or_else(|| "-1".to_owned(), |n| format!("{n:020}"));
                http.get(node.url(&format!("/v1/runs/{run_id}/stream?live=sse&offset={offset}")))
            }
            Surface::AiSdk => {
                let start = last.map_or(0, |n| n + 1);
                http.get(node.url(&format!("/ai-sdk/chat/{run_id}/stream?startIndex={start}")))
            }
            Surface::AgUi => after(&format!("/ag-ui/runs/{run_id}")),
        }
    }

    /// Reads until the end of the stream or the connection, or until it disconnects.
    async fn read(&mut self, mut answer: Response, mut reader: StreamReader) {
        let begun = std::mem::take(&mut reader.ready);
        if self.take_all(begun) {
            return;
        }
        let bored_after =
            if self.behavior.patient { Duration::from_mins(10) } else { IDLE_TIMEOUT };
        while let Ok(Ok(Some(bytes))) = timeout(bored_after, answer.chunk()).await {
            if self.take_all(reader.read(&bytes)) {
                return;
            }
            if self.behavior.slow && self.n_pauses < MAX_PAUSES && self.dice.chance(20) {
                self.n_pauses += 1;
                let rest = self.dice.millis(50, 300);
                sleep(rest).await;
            }
        }
    }

    /// Adds the received pieces. Returns whether to disconnect.
    fn take_all(&mut self, pieces: Vec<Piece>) -> bool {
        let mut leaves = false;
        for piece in pieces {
            match piece {
                Piece::Comment => self.view.n_comments += 1,
                Piece::Frame { data, .. } if self.view.surface == Surface::DurableStream => {
                    for event in events_in(&data) {
                        self.take(None, &event);
                        leaves |= self.should_disconnect();
                    }
                }
                Piece::Frame { id, data } => {
                    self.take(id, &data);
                    leaves |= self.should_disconnect();
                }
            }
            // The remaining bytes count as not received.
            if self.view.ended || leaves {
                return true;
            }
        }
        false
    }

    fn should_disconnect(&mut self) -> bool {
        let disconnects = self.dice.roll() % 1_000 < self.behavior.disconnects_per_thousand;
        let disconnects = disconnects && self.n_disconnects < MAX_DISCONNECTS;
        self.n_disconnects += u32::from(disconnects);
        disconnects
    }

    fn take(&mut self, id: Option<String>, data: &str) {
        if data == "[DONE]" {
            return;
        }
        let frame_id = match self.view.surface {
            // Chunks are numbered by counting.
            Surface::AiSdk => Some(FrameId::at(self.view.seen.len() as u64)),
            surface => parse_frame_id(surface, id.as_deref(), data),
        };
        // A frame without an id is in no journal.
        let frame_id = frame_id.unwrap_or(FrameId { seq: u64::MAX, index: 0 });
        self.view.seen.push(ReceivedFrame { frame_id, fingerprint: fingerprint(data) });
        self.last_id = id.or(self.last_id.take());
        self.view.ended = is_end(self.view.surface, data);
        if let Some(questions) = &self.questions
            && let Some(call_id) = question_in(self.view.surface, data)
        {
            let _ = questions.send(call_id);
        }
    }
}

/// Parses a stream in one of two formats.
#[derive(Debug)]
pub struct StreamReader {
    how: StreamFormat,
    /// Parsed pieces that are not consumed yet.
    pub ready: Vec<Piece>,
}

#[derive(Debug)]
enum StreamFormat {
    Sse(SseReader),
    Lines(LineReader),
}

impl StreamReader {
    /// Creates a parser for server-sent events.
    pub fn sse() -> Self {
        Self { how: StreamFormat::Sse(SseReader::default()), ready: Vec::new() }
    }

    /// Creates a parser for JSON lines.
    pub fn lines() -> Self {
        Self { how: StreamFormat::Lines(LineReader::default()), ready: Vec::new() }
    }

    /// Returns the pieces that `bytes` complete.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<Piece> {
        match &mut self.how {
            StreamFormat::Sse(reader) => reader.read(bytes),
            StreamFormat::Lines(reader) => reader.read(bytes),
        }
    }
}

/// Returns the id of a frame. Searches the text, because parsing every frame is too slow.
fn parse_frame_id(surface: Surface, id: Option<&str>, data: &str) -> Option<FrameId> {
    match surface {
        Surface::Responses => number_after(data, "\"sequence_number\":").map(FrameId::at),
        Surface::Runs | Surface::DurableStream => number_after(data, "\"seq\":").map(FrameId::at),
        Surface::AgUi => id?.parse().ok().map(FrameId::at),
        Surface::AiSdk => None,
        Surface::Chat => {
            let (_, cursor) = id?.rsplit_once(':')?;
            let (seq, index) = cursor.split_once('.')?;
            Some(FrameId { seq: seq.parse().ok()?, index: index.parse().ok()? })
        }
    }
}

/// Returns the events of a batch in a durable stream; none for a control frame.
fn events_in(data: &str) -> Vec<String> {
    let events: Vec<RecordedEvent> = serde_json::from_str(data).unwrap_or_default();
    events.iter().map(wire_json).collect()
}

fn number_after(data: &str, name: &str) -> Option<u64> {
    let (_, rest) = data.split_once(name)?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn is_end(surface: Surface, data: &str) -> bool {
    let is_of_type = |kind: &str| data.starts_with(&format!("{{\"type\":\"{kind}\""));
    match surface {
        Surface::Responses => {
            is_of_type("response.completed")
                || is_of_type("response.failed")
                || is_of_type("response.incomplete")
        }
        Surface::Runs | Surface::DurableStream => {
            data.contains("\"event\":{\"type\":\"run_finished\"")
        }
        Surface::Chat => is_of_type("done"),
        Surface::AiSdk => is_of_type("finish"),
        Surface::AgUi => is_of_type("RUN_FINISHED") || is_of_type("RUN_ERROR"),
    }
}

/// Returns the call that needs an approval.
fn question_in(surface: Surface, data: &str) -> Option<CallId> {
    let is_question =
        surface == Surface::Chat && data.starts_with("{\"type\":\"approval_request\"");
    let question: serde_json::Value =
        is_question.then(|| serde_json::from_str(data).ok()).flatten()?;
    question.get("call_id")?.as_str().map(CallId::from)
}

/// Returns the run named in the first frames of a stream.
pub fn run_in(surface: Surface, piece: &Piece) -> Option<RunId> {
    let Piece::Frame { id, data } = piece else { return None };
    match surface {
        Surface::Responses => {
            let (_, rest) = data.split_once("\"id\":\"resp_")?;
            let (id, _) = rest.split_once('"')?;
            Some(RunId::new(format!("run_{id}")))
        }
        Surface::Runs | Surface::DurableStream | Surface::AiSdk | Surface::AgUi => None,
        Surface::Chat => Some(RunId::new(id.as_deref()?.rsplit_once(':')?.0)),
    }
}
