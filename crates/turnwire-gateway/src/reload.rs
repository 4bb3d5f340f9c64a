//! Requests to read the settings again.
//!
//! The gateway does not know where its settings come from. It passes a request on to whoever started
//! it, by a channel, and answers with what became of it. One task takes the requests and the signals
//! of the operating system, so two reloads never overlap.

use std::sync::Arc;

use axum::http::StatusCode;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use turnwire_contract::Actor;
use utoipa::ToSchema;

use crate::api_error::ApiError;

/// Requests that wait for the one before. More of them wait in their handlers.
const MAX_WAITING: usize = 16;

/// A request to read the settings again.
#[derive(Debug)]
pub struct ReloadCall {
    /// Who asks.
    pub actor: Option<Arc<Actor>>,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<ReloadReport, ReloadRefused>>,
}

/// Where requests to read the settings again go.
#[derive(Debug, Clone)]
pub struct ReloadCalls(mpsc::Sender<ReloadCall>);

impl ReloadCalls {
    /// Returns both ends.
    pub fn channel() -> (Self, mpsc::Receiver<ReloadCall>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    /// Passes a request on, and waits for its answer. `None` if nobody takes requests any more.
    pub(crate) async fn ask(
        &self,
        actor: Option<Arc<Actor>>,
    ) -> Option<Result<ReloadReport, ReloadRefused>> {
        let (reply, answer) = oneshot::channel();
        self.0.send(ReloadCall { actor, reply }).await.ok()?;
        answer.await.ok()
    }
}

/// What a reload changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ReloadReport {
    /// Always `settings.reload`.
    pub object: &'static str,
    /// Settings that have changed and are in force now, such as `models.default`.
    pub changed: Vec<String>,
    /// Settings that have changed and stay as they were until the server is started again.
    pub needs_restart: Vec<String>,
    /// SHA-256 of the settings file, in hexadecimal. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl ReloadReport {
    /// A report on these changes.
    pub fn new(changed: Vec<String>, needs_restart: Vec<String>, digest: Option<String>) -> Self {
        Self { object: "settings.reload", changed, needs_restart, digest }
    }
}

/// Why the settings stay as they were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadRefused {
    /// The new settings have mistakes. They name settings, and no values that are secret.
    Mistakes(Vec<String>),
    /// The audit log could not be written.
    NotRecorded,
}

impl From<ReloadRefused> for ApiError {
    fn from(refused: ReloadRefused) -> Self {
        match refused {
            ReloadRefused::Mistakes(mistakes) => {
                let mistakes = mistakes.join("\n");
                let message = format!("The settings were not reloaded. Mistakes:\n{mistakes}");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_settings", message)
            }
            ReloadRefused::NotRecorded => {
                let message = "The settings were not reloaded: the audit log cannot be written. \
                               Try again later.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
            }
        }
    }
}
