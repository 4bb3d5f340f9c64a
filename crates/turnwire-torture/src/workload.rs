//! Clients that keep a number of runs active: they start, read, cancel, approve, and continue.

use std::{sync::Arc, time::Duration};

use reqwest::Response;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{CallId, RunId};
use turnwire_surfaces::responses::ids::{response_id, run_id};

use crate::{
    checker::across::{KEY_FILE, KEY_NOTE},
    client::{Client, PATIENCE, RequestError},
    dice::Dice,
    evidence,
    observations::{Approval, Cancel, SubmittedRequest, Surface, View, now},
    reader::{Reader, ReaderBehavior, StreamReader, run_in},
    shapes::{Endpoint, Shape},
};

/// Timeout of a cancel, whose response waits for the end of the run.
const CANCEL_PATIENCE: Duration = Duration::from_secs(12);

pub type ShapeMaker = fn(&mut Dice) -> Shape;

#[derive(Debug, Clone)]
pub struct Workload {
    pub client: Client,
    pub stop: CancellationToken,
    pub shape: ShapeMaker,
    /// The behaviour of readers.
    pub behavior: Option<ReaderBehavior>,
    /// Whether to fetch each run right after its end, for in-memory nodes.
    pub fetches_journal_at_end: bool,
    /// Prefix of the keys.
    pub name: Arc<str>,
}

impl Workload {
    /// Keeps `n_runs` runs active until stopped, and lets them end.
    pub async fn run_load(&self, n_runs: usize, dice: &mut Dice) {
        let tasks = TaskTracker::new();
        for slot in 0..n_runs {
            let (workload, mut dice) = (self.clone(), dice.fork());
            tasks.spawn(async move {
                for n in 0.. {
                    if workload.stop.is_cancelled() {
                        return;
                    }
                    let shape = (workload.shape)(&mut dice);
                    let key = format!("{}-{slot}-{n}", workload.name);
                    workload.play(&key, &shape, &mut dice).await;
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    /// Executes one shape to its end: one run, or several in one conversation.
    pub async fn play(&self, key: &str, shape: &Shape, dice: &mut Dice) {
        if shape.n_in_conversation == 0 {
            return self.one_run(key, shape, None, dice, false).await;
        }
        let conversation = self.new_conversation(dice).await;
        for n in 0..shape.n_in_conversation {
            let key = format!("{key}.{n}");
            let conversation = conversation.as_deref();
            let mut others = dice.fork();
            let is_contested = dice.chance(25);
            let main = self.one_run(&key, shape, conversation, dice, is_contested);
            let rival = async {
                let key = format!("{key}.rival");
                if is_contested {
                    self.one_run(&key, shape, conversation, &mut others, true).await;
                }
            };
            tokio::join!(main, rival);
            if self.client.give_up.is_cancelled() {
                return;
            }
        }
    }

    async fn new_conversation(&self, dice: &mut Dice) -> Option<String> {
        let http = &self.client.cluster.http;
        let make =
            |node: &crate::node::Node| http.post(node.url("/v1/conversations")).json(&json!({}));
        let answer = self.client.send_until_accepted(dice, PATIENCE, make).await.ok()?;
        let conversation = Client::json(answer).await.ok()?;
        conversation.get("id")?.as_str().map(ToOwned::to_owned)
    }

    async fn one_run(
        &self,
        key: &str,
        shape: &Shape,
        conversation: Option<&str>,
        dice: &mut Dice,
        is_contested: bool,
    ) {
        self.record(key, shape);
        let (run_id, first) =
            match self.start_run(key, shape, conversation, dice, is_contested).await {
                Ok(begun) => begun,
                // Only one of two concurrent runs can use the conversation.
                Err(RequestError::Status(status, _)) if status.as_u16() == 409 && is_contested => {
                    self.client.recorder.write().submitted.remove(key);
                    return;
                }
                Err(refused) => {
                    let detail = format!("{key} ({}): {refused}", shape.name);
                    return self.client.recorder.write().tally.given_up.push(detail);
                }
            };
        let views = self.watch(&run_id, shape, first, dice).await;
        let reported = if self.fetches_journal_at_end {
            evidence::fetch_reported(&self.client, &run_id, dice).await.ok()
        } else {
            None
        };
        let mut recorder = self.client.recorder.write();
        recorder.views.extend(views);
        recorder.reported.extend(reported.map(|reported| (run_id, reported)));
    }

    /// Records the request before it is sent.
    pub fn record(&self, key: &str, shape: &Shape) {
        let submitted = SubmittedRequest {
            shape: shape.name,
            answer: shape.answer.clone(),
            is_cancelled: shape.cancel_after_ms.is_some(),
            ..SubmittedRequest::default()
        };
        self.client.recorder.write().submitted.insert(key.to_owned(), submitted);
    }

    /// Retries the request until a node returns the run.
    pub async fn start_run(
        &self,
        key: &str,
        shape: &Shape,
        conversation: Option<&str>,
        dice: &mut Dice,
        is_contested: bool,
    ) -> Result<(RunId, Option<(Response, StreamReader)>), RequestError> {
        let (path, body) = request_of(key, shape, conversation);
        let http = &self.client.cluster.http;
        let make = |node: &crate::node::Node| {
            http.post(node.url(path)).header("idempotency-key", key).json(&body)
        };
        let mut n_busy = 0;
        loop {
            let answer = match self.client.send_until_accepted(dice, PATIENCE, make).await {
                // The previous run has ended, as far as its readers know.
                Err(RequestError::Status(status, _))
                    if status.as_u16() == 409 && n_busy < 200 && !is_contested =>
                {
                    n_busy += 1;
                    self.client.recorder.write().tally.n_busy_after_end += 1;
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
                answer => answer?,
            };
            let named = match shape.endpoint {
                Endpoint::Background => named_in_body(answer).await.map(|run_id| (run_id, None)),
                Endpoint::Stream | Endpoint::BackgroundStream | Endpoint::Chat => {
                    let named = named_in_stream(surface_of(shape.endpoint), answer).await;
                    named.map(|(run_id, answer, reader)| (run_id, Some((answer, reader))))
                }
            };
            if let Some((run_id, first)) = named {
                let mut recorder = self.client.recorder.write();
                let submitted = recorder.submitted.entry(key.to_owned()).or_default();
                submitted.run_ids.insert(run_id.clone());
                return Ok((run_id, first));
            }
            if self.client.give_up.is_cancelled() {
                return Err(RequestError::NoResponse("nobody named the run".to_owned()));
            }
        }
    }

    /// Runs readers, approvals and the cancel until the run has ended.
    async fn watch(
        &self,
        run_id: &RunId,
        shape: &Shape,
        first: Option<(Response, StreamReader)>,
        dice: &mut Dice,
    ) -> Vec<View> {
        let (questions, asked) = mpsc::unbounded_channel();
        let over = CancellationToken::new();
        let tasks = TaskTracker::new();
        let main = self.reader(run_id, surface_of(shape.endpoint), shape, dice).asking(questions);
        let main = tasks.spawn(main.follow(first));
        // Only runs of the chat have frames of the chat, and only they wait for people.
        let is_chat = shape.endpoint == Endpoint::Chat;
        let has_surface = |surface: &Surface| match surface {
            Surface::Chat => is_chat,
            other => !(is_chat && other.ends_for_people()),
        };
        let choices: Vec<Surface> = Surface::ALL.into_iter().filter(has_surface).collect();
        let others: Vec<_> = (0..dice.between(1, 4))
            .map(|_| {
                let surface = dice.pick(&choices).copied().unwrap_or(Surface::Runs);
                let reader = self.reader(run_id, surface, shape, dice);
                let late = if dice.chance(40) { 500 } else { 0 };
                let late = dice.millis(0, late);
                tasks.spawn(async move {
                    sleep(late).await;
                    reader.follow(None).await
                })
            })
            .collect();
        if let Some(after) = shape.cancel_after_ms {
            let (workload, run_id, dice) = (self.clone(), run_id.clone(), dice.fork());
            let over = over.clone();
            tasks.spawn(async move {
                let cancel = workload.cancel(run_id, Duration::from_millis(after), dice);
                let _ = over.run_until_cancelled(cancel).await;
            });
        }
        let (workload, id, dice) = (self.clone(), run_id.clone(), dice.fork());
        let until = over.clone();
        tasks.spawn(async move {
            let approving = workload.approve_all(id, asked, dice);
            let _ = until.run_until_cancelled(approving).await;
        });
        let mut views: Vec<View> = main.await.into_iter().collect();
        for other in others {
            views.extend(other.await);
        }
        over.cancel();
        tasks.close();
        tasks.wait().await;
        views
    }

    fn reader(&self, run_id: &RunId, surface: Surface, shape: &Shape, dice: &mut Dice) -> Reader {
        let behavior = self.behavior.unwrap_or_else(|| ReaderBehavior {
            disconnects_per_thousand: if dice.chance(50) { dice.between(2, 60) } else { 0 },
            slow: shape.name == "flood" || dice.chance(5),
            patient: false,
            lines: dice.chance(50),
        });
        Reader::new(self.client.clone(), run_id.clone(), surface, behavior, dice.fork())
    }

    /// Cancels the run on any node, with retries until one accepts it.
    async fn cancel(&self, run: RunId, after: Duration, mut dice: Dice) {
        sleep(after).await;
        let path = if dice.chance(50) {
            format!("/v1/responses/{}/cancel", response_id(&run))
        } else {
            format!("/v1/runs/{run}/cancel")
        };
        let cluster = Arc::clone(&self.client.cluster);
        let mut refused_at = None;
        loop {
            let asked_at = now();
            let Ok(node) = cluster.any_node(&mut dice) else { return };
            let request = cluster.http.post(node.url(&path));
            let answer = self.client.send(request, CANCEL_PATIENCE).await;
            let (is_taken, is_last) = match answer {
                Ok(answer) => (is_done(answer).await, false),
                Err(RequestError::Status(status, _)) if status.is_client_error() => {
                    (Some(false), true)
                }
                Err(_) => (None, false),
            };
            if is_taken == Some(false) {
                refused_at.get_or_insert_with(now);
            }
            let taken_at = (is_taken == Some(true)).then(now);
            if is_last || taken_at.is_some() {
                let cancel = Cancel { run_id: run, asked_at, taken_at, refused_at };
                return self.client.recorder.write().cancels.push(cancel);
            }
            sleep(dice.millis(20, 100)).await;
        }
    }

    /// Approves every call on any node, sometimes twice.
    async fn approve_all(
        &self,
        run_id: RunId,
        mut asked: mpsc::UnboundedReceiver<CallId>,
        mut dice: Dice,
    ) {
        while let Some(call_id) = asked.recv().await {
            let n_answers = if dice.chance(30) { 2 } else { 1 };
            let answers = (0..n_answers).map(|_| self.approve(&run_id, &call_id, dice.fork()));
            futures::future::join_all(answers).await;
        }
    }

    async fn approve(&self, run: &RunId, call: &CallId, mut dice: Dice) {
        let path = format!("/v1/runs/{run}/calls/{call}/approve");
        let cluster = Arc::clone(&self.client.cluster);
        for _ in 0..200 {
            let Ok(node) = cluster.any_node(&mut dice) else { return };
            let request = cluster.http.post(node.url(&path)).json(&json!({ "approve": true }));
            let answer = self.client.send(request, PATIENCE).await;
            let reported = match answer {
                Ok(answer) => is_done(answer).await,
                Err(_) => None,
            };
            let (was_answered, taken) = (reported.is_some(), reported == Some(true));
            let approval = Approval { run_id: run.clone(), call_id: call.clone(), taken };
            self.client.recorder.write().approvals.push(approval);
            // The second answer is rejected; sometimes it is repeated to verify that.
            if taken || was_answered && dice.chance(30) {
                return;
            }
            sleep(dice.millis(50, 200)).await;
        }
    }
}

fn surface_of(endpoint: Endpoint) -> Surface {
    match endpoint {
        Endpoint::Stream | Endpoint::Background | Endpoint::BackgroundStream => Surface::Responses,
        Endpoint::Chat => Surface::Chat,
    }
}

fn request_of(key: &str, shape: &Shape, conversation: Option<&str>) -> (&'static str, Value) {
    if shape.endpoint == Endpoint::Chat {
        let body = json!({
            "message": shape.script,
            "session_id": conversation,
            "active_file": format!("{KEY_FILE}{key}"),
            "tokens": true,
            "approvals": true,
        });
        return ("/chat/stream", body);
    }
    let tools = shape
        .uses_tools
        .then(|| json!([{ "type": "mcp", "server_label": "tools", "require_approval": "never" }]));
    let body = json!({
        "model": "default",
        "input": shape.script,
        // So long that the store shares them between runs.
        "instructions": shape.uses_tools.then(|| "Use the tools. ".repeat(400)),
        "stream": shape.endpoint != Endpoint::Background,
        "background": shape.endpoint != Endpoint::Stream,
        "conversation": conversation,
        "tools": tools.unwrap_or_else(|| json!([])),
        "metadata": { KEY_NOTE: key },
    });
    ("/v1/responses", body)
}

async fn named_in_body(answer: Response) -> Option<RunId> {
    let response = Client::json(answer).await.ok()?;
    run_id(response.get("id")?.as_str()?)
}

/// Returns the run named in the first frames of a stream; the frames are kept for the reader.
async fn named_in_stream(
    surface: Surface,
    mut answer: Response,
) -> Option<(RunId, Response, StreamReader)> {
    let mut reader = StreamReader::sse();
    while let Ok(Ok(Some(bytes))) = timeout(PATIENCE, answer.chunk()).await {
        let pieces = reader.read(&bytes);
        reader.ready.extend(pieces);
        let named = reader.ready.iter().find_map(|piece| run_in(surface, piece));
        if let Some(run_id) = named {
            return Some((run_id, answer, reader));
        }
    }
    None
}

/// Returns whether a command was accepted, if the response says so. A response object always means
/// that it was.
async fn is_done(answer: Response) -> Option<bool> {
    let body = Client::json(answer).await.ok()?;
    let done = body.get("done").and_then(Value::as_bool);
    Some(done.unwrap_or(body.get("id").is_some()))
}
