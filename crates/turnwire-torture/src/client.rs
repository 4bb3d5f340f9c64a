//! A client that retries requests on other nodes, with the same idempotency key.

use std::{sync::Arc, time::Duration};

use reqwest::{RequestBuilder, Response, StatusCode, header::RETRY_AFTER};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{cluster::Cluster, dice::Dice, node::Node, observations::Notes};

/// How long a node may take to start its response. A stopped node never responds.
pub const PATIENCE: Duration = Duration::from_secs(3);

/// How long a request is retried.
const STUBBORNNESS: Duration = Duration::from_secs(90);

/// A client. Clones share its state.
#[derive(Debug, Clone)]
pub struct Client {
    /// The nodes it uses.
    pub cluster: Arc<Cluster>,
    /// Records the results.
    pub notes: Notes,
    /// Cancelled when retries should end.
    pub give_up: CancellationToken,
}

/// Why a request failed.
#[derive(Debug)]
pub enum Refused {
    /// No response arrived.
    Lost(String),
    /// The response was an error.
    Status(StatusCode, String),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lost(why) => write!(f, "no answer: {why}"),
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
    ) -> Result<Response, Refused> {
        let answer = match timeout(patience, request.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(self.lost(error.to_string())),
            Err(_) => return Err(self.lost("it takes too long".to_owned())),
        };
        let status = answer.status();
        *self.notes.write().tally.statuses.entry(status.as_u16()).or_default() += 1;
        if status.is_success() {
            return Ok(answer);
        }
        let has_advice = answer.headers().contains_key(RETRY_AFTER);
        let place = answer.url().path().to_owned();
        let body = timeout(patience, answer.text()).await.ok().and_then(Result::ok);
        let body = body.unwrap_or_default();
        self.judge(status, has_advice, &place, &body);
        Err(Refused::Status(status, body))
    }

    fn lost(&self, why: String) -> Refused {
        self.notes.write().tally.n_lost += 1;
        Refused::Lost(why)
    }

    fn judge(&self, status: StatusCode, has_advice: bool, place: &str, body: &str) {
        let tally = &mut self.notes.write().tally;
        if status == StatusCode::SERVICE_UNAVAILABLE {
            tally.n_without_retry_after += u64::from(!has_advice);
        } else if status.is_server_error() && tally.server_errors.len() < 20 {
            let body: String = body.chars().take(300).collect();
            tally.server_errors.push(format!("{place}: {status}: {body}"));
        }
    }

    /// Retries a request on random nodes until one accepts it. `make` builds it for a node. Client
    /// errors and conflicts are not retried.
    pub async fn insist(
        &self,
        dice: &mut Dice,
        patience: Duration,
        make: impl Fn(&Node) -> RequestBuilder,
    ) -> Result<Response, Refused> {
        let until = Instant::now() + STUBBORNNESS;
        loop {
            let refused = match self.cluster.any_node(dice) {
                Ok(node) => match self.send(make(node), patience).await {
                    Ok(answer) => return Ok(answer),
                    Err(refused) => refused,
                },
                Err(error) => Refused::Lost(error.to_string()),
            };
            if let Refused::Status(status, _) = &refused
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
    pub async fn json(answer: Response) -> Result<Value, Refused> {
        let body = timeout(PATIENCE, answer.json()).await;
        let body = body.map_err(|_| Refused::Lost("the body takes too long".to_owned()))?;
        body.map_err(|error| Refused::Lost(error.to_string()))
    }
}
