//! The events of a run on a server, from the first to the last, over cut lines and restarts.
//!
//! A line that is cut is opened again at once, and if that fails often for a quarter of a minute,
//! so that a server that restarts is there again at once; then after 1, 2, 4, 8 and every 15
//! seconds. What was missed is read first, so that it can be counted; then the stream continues.
//! Events have numbers, so none is shown twice and none is left out.

use std::{collections::VecDeque, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use reqwest::{Method, Response, StatusCode};
use sse_stream::SseStream;
use tokio::time::{Instant, sleep, timeout};
use turnwire_contract::{Event, RecordedEvent, RunId, Seq};
use uuid::Uuid;

use super::{ServerClient, ServerError};
use crate::{exit::Result, terminal::Connection, watch::RunUpdate};

/// A pause before the attempt that nobody is told of.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The wait between attempts while the line was lost a moment ago, and how long that is.
const SHORT_WAIT: Duration = Duration::from_millis(250);
const SHORT_WAITS_FOR: Duration = Duration::from_secs(15);
/// Waits after that, in seconds. The last one is repeated.
const LONG_WAITS: [u64; 5] = [1, 2, 4, 8, 15];
/// A line without even a keep-alive for this long is cut. Servers send one every 15 seconds.
const MAX_SILENCE: Duration = Duration::from_secs(45);
const LAST_EVENT_ID: &str = "Last-Event-ID";

/// Follows a run from its first event. If the server cannot be reached at first, it fails, unless
/// the run `is_known` to exist.
pub(super) fn run_feed(
    client: ServerClient,
    run_id: RunId,
    is_known: bool,
) -> BoxStream<'static, Result<RunUpdate>> {
    let feed = Feed {
        client,
        run_id,
        is_known,
        last: Seq::START,
        ready: VecDeque::new(),
        line: Line::Unopened,
    };
    let next = |mut feed: Feed| async move { Some((feed.next().await?, feed)) };
    stream::unfold(feed, next).boxed()
}

struct Feed {
    client: ServerClient,
    run_id: RunId,
    is_known: bool,
    /// Number of the last event that was passed on.
    last: Seq,
    /// Updates that were read and not yet passed on.
    ready: VecDeque<RunUpdate>,
    line: Line,
}

/// State of the connection.
enum Line {
    Unopened,
    Open(BoxStream<'static, io::Result<RecordedEvent>>),
    Lost(Outage),
    /// The run is over, or cannot be read at all.
    Closed,
}

/// A line that is lost.
#[derive(Debug, Clone, Copy)]
struct Outage {
    since: Instant,
    /// Number of attempts to connect again that have failed.
    n_failed: usize,
    /// Number of those after which the wait was long.
    n_long: usize,
}

impl Outage {
    fn begins() -> Self {
        Self { since: Instant::now(), n_failed: 0, n_long: 0 }
    }

    /// The outage after one more attempt that failed.
    fn goes_on(self) -> Self {
        let is_long = self.since.elapsed() >= SHORT_WAITS_FOR;
        Self { n_failed: self.n_failed + 1, n_long: self.n_long + usize::from(is_long), ..self }
    }

    /// The wait before the next attempt.
    fn wait(self) -> Duration {
        let last = LONG_WAITS.last().copied().unwrap_or_default();
        match (self.n_failed, self.n_long) {
            (0, _) => FIRST_WAIT,
            (_, 0) => SHORT_WAIT,
            (_, n) => Duration::from_secs(LONG_WAITS.get(n - 1).copied().unwrap_or(last)),
        }
    }
}

impl Feed {
    async fn next(&mut self) -> Option<Result<RunUpdate>> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Some(Ok(update));
            }
            match &mut self.line {
                Line::Closed => return None,
                Line::Unopened => match self.open(None).await {
                    Ok(()) => {}
                    Err(error) if self.is_known && error.is_temporary() => {
                        self.line = Line::Lost(Outage::begins());
                    }
                    Err(error) => {
                        self.line = Line::Closed;
                        return Some(Err(error.into()));
                    }
                },
                Line::Open(events) => match events.next().await {
                    Some(Ok(recorded)) => self.take(recorded),
                    // A stream that ends before its run was cut by a proxy or a shutdown.
                    Some(Err(_)) | None => self.line = Line::Lost(Outage::begins()),
                },
                Line::Lost(outage) => {
                    let outage = *outage;
                    if let Err(problem) = self.reconnect(outage).await {
                        self.line = Line::Closed;
                        return Some(Err(problem));
                    }
                }
            }
        }
    }

    /// Tries to connect again after a wait. Fails if there is no use in trying.
    async fn reconnect(&mut self, outage: Outage) -> Result<()> {
        sleep(with_jitter(outage.wait())).await;
        match self.catch_up().await {
            Ok(n_events) => {
                if outage.n_failed > 0 {
                    self.ready.push_back(RunUpdate::Connection(Connection::Back { n_events }));
                }
                Ok(())
            }
            Err(error) if error.is_temporary() => {
                let outage = outage.goes_on();
                self.line = Line::Lost(outage);
                let (wait, attempt) = (outage.wait(), outage.n_failed);
                self.ready.push_back(RunUpdate::Connection(Connection::Lost { wait, attempt }));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what was missed, then opens the stream again. Returns the number of events.
    async fn catch_up(&mut self) -> Result<usize, ServerError> {
        let query = [
            ("after", self.last.to_string()),
            ("follow", "false".to_owned()),
            ("format", "ndjson".to_owned()),
        ];
        let request = self.client.request(Method::GET, &self.path(), &query);
        let response = self.client.send(request).await?;
        let missed = response.text().await.map_err(|error| self.client.unreachable(&error))?;
        // A line that is cut in the middle is read again from the stream.
        let events = missed.lines().map_while(|line| serde_json::from_str(line).ok());
        let n_ready = self.ready.len();
        for recorded in events.collect::<Vec<RecordedEvent>>() {
            self.take(recorded);
        }
        let n_events = self.ready.len() - n_ready;
        if !matches!(self.line, Line::Closed) {
            self.open(Some(self.last)).await?;
        }
        Ok(n_events)
    }

    async fn open(&mut self, after: Option<Seq>) -> Result<(), ServerError> {
        let mut request = self.client.request(Method::GET, &self.path(), &[]);
        if let Some(after) = after {
            request = request.header(LAST_EVENT_ID, after.to_string());
        }
        let response = self.client.send(request).await?;
        self.line = match response.status() {
            StatusCode::NO_CONTENT => Line::Closed,
            _ => Line::Open(events_of(response).boxed()),
        };
        Ok(())
    }

    /// Passes an event on, unless it was passed on before.
    fn take(&mut self, recorded: RecordedEvent) {
        if recorded.seq <= self.last {
            return;
        }
        self.last = recorded.seq;
        if matches!(recorded.event, Event::RunFinished { .. }) {
            self.line = Line::Closed;
        }
        self.ready.push_back(RunUpdate::Event(Arc::new(recorded)));
    }

    fn path(&self) -> [&str; 4] {
        ["v1", "runs", self.run_id.as_str(), "events"]
    }
}

/// Up to a fifth more, so that the clients of a server that restarts do not come all at once.
fn with_jitter(wait: Duration) -> Duration {
    let [random, ..] = Uuid::new_v4().into_bytes();
    wait + wait.mul_f64(f64::from(random) / f64::from(u8::MAX) / 5.0)
}

/// The events of a response. Fails if the line is silent or cut.
fn events_of(response: Response) -> impl Stream<Item = io::Result<RecordedEvent>> + Send {
    let bytes = response.bytes_stream().map(|read| read.map_err(io::Error::other)).boxed();
    let bytes = stream::unfold(bytes, |mut bytes| async move {
        match timeout(MAX_SILENCE, bytes.next()).await {
            Ok(read) => read.map(|read: io::Result<Bytes>| (read, bytes)),
            Err(_) => Some((Err(io::Error::other("the line is silent")), bytes)),
        }
    });
    SseStream::from_bytes_stream(bytes).filter_map(|frame| async {
        let data = match frame {
            Ok(frame) => frame.data?,
            Err(error) => return Some(Err(io::Error::other(error.to_string()))),
        };
        Some(serde_json::from_str(&data).map_err(io::Error::other))
    })
}

#[cfg(test)]
#[path = "run_feed_tests.rs"]
mod tests;
