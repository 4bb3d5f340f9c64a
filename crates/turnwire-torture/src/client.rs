//! A client that retries requests on other nodes, with the same idempotency key.

use std::{sync::Arc, time::Duration};

use reqwest::{RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{cluster::Cluster, dice::Dice, node::Node, observations::Recorder};

/// How long a node may take to start its response. A stopped node never responds.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How long a request is retried.
const RETRY_LIMIT: Duration = Duration::from_secs(90);

/// A client. Clones share its state.
#[derive(Debug, Clone)]
pub struct Client {
    /// The nodes it uses.
    pub cluster: Arc<Cluster>,
    pub recorder: Recorder,
    /// Cancelled when retries should end.
    pub give_up: CancellationToken,
}

/// Why a request failed.
#[derive(Debug)]
pub enum RequestError {
    NoResponse(String),
    /// The response was an error.
    Status(StatusCode, String),
}

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoResponse(why) => write!(f, "no answer: {why}"),
            Self::Status(status, body) => write!(f, "{status}: {body}"),
        }
    }
}

impl Client {
    /// Sends one request without retries.
    pub async fn send(
        &self,
        request: RequestBuilder,
        patience: Duration,
    ) -> Result<Response, RequestError> {
        let answer = match timeout(patience, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.no_response(error.to_string())),
            Err(_) => return Err(self.no_response("it takes too long".to_owned())),
        };
        let status = answer.status();
        *self.recorder.write().tally.statuses.entry(status.as_u16()).or_default() += 1;
        if status.is_success() {
            return Ok(answer);
        }
        let has_retry_after = answer.headers().contains_key(RETRY_AFTER);
        let path = answer.url().path().to_owned();
        let body = timeout(patience, answer.text()).await.ok().and_then(Result::ok);
        let body = body.unwrap_or_default();
        self.count_error(status, has_retry_after, &path, &body);
        Err(RequestError::Status(status, body))
    }

    fn no_response(&self, why: String) -> RequestError {
        self.recorder.write().tally.n_lost += 1;
        RequestError::NoResponse(why)
    }

    fn count_error(&self, status: StatusCode, has_retry_after: bool, path: &str, body: &str) {
        let tally = &mut self.recorder.write().tally;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tally.n_without_retry_after += u64::from(!has_retry_after);
        } else if status.is_server_error() && tally.server_errors.len() < 20 {
            let body: String = body.chars().take(300).collect();
            tally.server_errors.push(format!("{path}: {status}: {body}"));
        }
    }

    /// Retries a request on random nodes until one accepts it. `make` builds it for a node. Client
    /// errors and conflicts are not retried.
    pub async fn send_until_accepted(
        &self,
        dice: &mut Dice,
        patience: Duration,
        make: impl Fn(&Node) -> RequestBuilder,
    ) -> Result<Response, RequestError> {
        let until = Instant::now() + RETRY_LIMIT;
        loop {
            let refused = match self.cluster.any_node(dice) {
                Ok(node) => match self.send(make(node), patience).await {
                    Ok(answer) => return Ok(answer),
                    Err(refused) => refused,
                },
                Err(error) => RequestError::NoResponse(error.to_string()),
            };
            if let RequestError::Status(status, _) = &refused
                && status.is_client_error()
                && *status != StatusCode::TOO_MANY_REQUESTS
            {
                return Err(refused);
            }
            if Instant::now() > until || self.give_up.is_cancelled() {
                return Err(refused);
            }
            sleep(dice.millis(10, 80)).await;
        }
    }

    /// Decodes the JSON body of a response.
    pub async fn json(answer: Response) -> Result<Value, RequestError> {
        let body = timeout(PATIENCE, answer.json()).await;
        let body =
            body.map_err(|_| RequestError::NoResponse("the body takes too long".to_owned()))?;
        body.map_err(|error| RequestError::NoResponse(error.to_string()))
    }
}
