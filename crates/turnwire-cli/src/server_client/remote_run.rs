//! A run on a server, to be watched like one of this process.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;
use turnwire::{ApprovalAnswer, CallId, RunId};
use turnwire_contract::{Decision, InputId, Reply};
use uuid::Uuid;

use super::{ServerClient, ServerError, run_feed::run_feed};
use crate::{
    exit::Result,
    watch::{OpenRun, RunControl, Taken},
};

/// Header with the ID of the run that a request started.
const RUN_ID: &str = "turnwire-run-id";
/// Waits between attempts to deliver a command, or to start a run.
const RETRY: Duration = Duration::from_secs(1);
/// Attempts to start a run. The key of the request prevents a second one.
const MAX_STARTS: u32 = 3;

/// A run to start on a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewRun<'a> {
    pub(crate) message: &'a str,
    /// The default of the server, if none is named.
    pub(crate) model: Option<&'a str>,
    /// A new one, if none is named.
    pub(crate) conversation_id: Option<&'a str>,
}

/// Starts a run. Returns its ID.
pub(crate) async fn start(
    client: &ServerClient,
    NewRun { message, model, conversation_id }: NewRun<'_>,
) -> Result<RunId, ServerError> {
    // Null is the same as nothing.
    let body = json!({
        "message": message,
        "model": model,
        "session_id": conversation_id,
        "approvals": true,
        "inputs": true,
    });
    let key = Uuid::new_v4().to_string();
    let mut n_failed = 0;
    loop {
        let request = client.request(Method::POST, &["chat", "stream"], &[]);
        let request = request.header("Idempotency-Key", &key).json(&body);
        match client.send(request).await {
            // The run does not depend on this stream, which is closed here.
            Ok(response) => {
                let id = response.headers().get(RUN_ID).and_then(|id| id.to_str().ok());
                let url = client.url();
                return id.map(RunId::new).ok_or(ServerError::NotTurnwire { url });
            }
            Err(error @ ServerError::Refused { .. })
                if error.is_temporary() && n_failed + 1 < MAX_STARTS =>
            {
                n_failed += 1;
                sleep(RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Watches a run from its first event. It fails if there is no such run, or no server.
pub(crate) fn follow(client: &ServerClient, run_id: &RunId) -> OpenRun {
    open(client, run_id, false)
}

/// Watches a run that was started a moment ago. It waits for its server.
pub(crate) fn follow_started(client: &ServerClient, run_id: &RunId) -> OpenRun {
    open(client, run_id, true)
}

fn open(client: &ServerClient, run_id: &RunId, is_known: bool) -> OpenRun {
    let control = RemoteRun { client: client.clone(), run_id: run_id.clone() };
    OpenRun {
        id: run_id.clone(),
        updates: run_feed(client.clone(), run_id.clone(), is_known),
        control: Arc::new(control),
    }
}

struct RemoteRun {
    client: ServerClient,
    run_id: RunId,
}

impl RemoteRun {
    async fn command(&self, call_id: &CallId, command: &str, body: &Value) -> Result<Taken> {
        let path = ["v1", "runs", self.run_id.as_str(), "calls", call_id.as_str(), command];
        match self.client.post(&path, body).await {
            Ok(_) => Ok(Taken::Settled),
            // The events say how it was answered.
            Err(error) if matches!(error.code(), "already_answered" | "not_waiting") => {
                Ok(Taken::Settled)
            }
            Err(ServerError::Refused { status: 400, message, .. }) => Ok(Taken::Refused(message)),
            Err(error) if error.is_temporary() => {
                Ok(Taken::Refused("the server cannot be reached; try again".to_owned()))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[async_trait]
impl RunControl for RemoteRun {
    /// Tries until the server has heard of it, also over a restart.
    async fn cancel(&self) {
        let path = ["v1", "runs", self.run_id.as_str(), "cancel"];
        while let Err(error) = self.client.post(&path, &json!({})).await {
            if !error.is_temporary() {
                return;
            }
            sleep(RETRY).await;
        }
    }

    async fn approve(&self, call_id: &CallId, answer: ApprovalAnswer) -> Result<Taken> {
        self.command(call_id, "approve", &approval_body(&answer)).await
    }

    async fn reply(&self, call_id: &CallId, input_id: &InputId, reply: Reply) -> Result<Taken> {
        let body = match reply {
            Reply::Accepted { content } => {
                json!({ "action": "accept", "content": content, "input_id": input_id })
            }
            Reply::Declined => json!({ "action": "decline", "input_id": input_id }),
            Reply::Cancelled => json!({ "action": "cancel", "input_id": input_id }),
        };
        self.command(call_id, "input", &body).await
    }

    async fn abandon(&self) {}

    fn outlives_us(&self) -> bool {
        true
    }
}

fn approval_body(answer: &ApprovalAnswer) -> Value {
    match &answer.decision {
        Decision::Approved => {
            let mut body = json!({ "decision": "approve", "remember": answer.remember });
            let arguments = answer.arguments.as_deref().map(serde_json::from_str::<Value>);
            if let (Some(Ok(arguments)), Some(body)) = (arguments, body.as_object_mut()) {
                body.insert("arguments".to_owned(), arguments);
            }
            body
        }
        Decision::Denied { reason } => json!({ "decision": "deny", "reason": reason }),
    }
}
