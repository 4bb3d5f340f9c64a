//! Every answer that is not a success, in the shape OpenAI's clients read.
//!
//! The `code` is for programs and stable; the message is for people and says what to do. A
//! cause that only the operator can repair goes to the log and not over the wire.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tracing::error;
use turnwire_contract::{BlobError, LibraryError, LogError, StoreError};
use turnwire_engine::{ForgetError, StartError};
use utoipa::ToSchema;

use crate::{
    body::Json,
    limits::{Reached, limit_of},
    responses::request::ClientError,
};

/// How long a client should wait before it tries again what a store could not do.
const RETRY_AFTER_SECONDS: &str = "2";

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status.
    pub status: StatusCode,
    /// The stable code.
    pub code: &'static str,
    /// What is wrong and what to do.
    pub message: String,
    /// The field it is about, such as `input[2].role`.
    pub param: Option<String>,
    /// The setting of the limit that was reached, if its code does not say it.
    pub limit: Option<&'static str>,
}

/// The body of a refusal.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetails,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetails {
    /// For people.
    pub message: String,
    /// The family: `invalid_request_error`, `authentication_error`, `server_error`, …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The field it is about.
    pub param: Option<String>,
    /// For programs.
    pub code: &'static str,
}

impl Refusal {
    /// A refusal with its stable code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, limit: None }
    }

    /// The client sent something that makes no sense.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// There is no such thing for this caller. Says the same whether it belongs to somebody
    /// else or to nobody.
    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} with id '{id}' not found."))
    }

    /// The field it is about.
    pub fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// The setting of the limit that was reached.
    pub(crate) fn limited_by(mut self, limit: &'static str) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The setting of the limit that was reached, if that is why.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        self.limit.or_else(|| limit_of(self.code))
    }

    /// The body that goes over the wire.
    pub fn body(&self) -> ErrorBody {
        let Self { code, message, param, .. } = self.clone();
        let kind = error_kind(self.status);
        ErrorBody { error: ErrorDetails { message, kind, param, code } }
    }

    fn unavailable() -> Self {
        let message = "The store is not available right now; try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
    }
}

/// The family of errors that a status stands for.
pub(crate) fn error_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if let Some(limit) = self.limit() {
            response.extensions_mut().insert(Reached(limit));
        }
        // What the status makes a client look for.
        let header = match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                Some((header::RETRY_AFTER, RETRY_AFTER_SECONDS))
            }
            StatusCode::UPGRADE_REQUIRED => Some((header::UPGRADE, "websocket")),
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy { .. } => {
                Self::new(StatusCode::CONFLICT, "conversation_locked", sentence(&error))
            }
            StoreError::Unfinished(_) => {
                Self::new(StatusCode::CONFLICT, "run_not_finished", sentence(&error))
            }
            StoreError::KeyReused(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                sentence(&error),
            ),
            StoreError::Exists(_) => {
                Self::new(StatusCode::CONFLICT, "already_exists", sentence(&error))
            }
            StoreError::NotFound(_) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", sentence(&error))
            }
            StoreError::Unavailable(cause) => {
                error!(%cause, "The run store is not available.");
                Self::unavailable()
            }
            StoreError::Rejected(_) => Self::bad_request("not_storable", sentence(&error)),
        }
    }
}

impl From<LogError> for Refusal {
    fn from(error: LogError) -> Self {
        match error {
            LogError::NotFound(_) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", sentence(&error))
            }
            LogError::Conflict { .. } | LogError::Unavailable(_) => {
                error!(%error, "The journal is not available.");
                Self::unavailable()
            }
            LogError::Rejected { .. } => {
                error!(%error, "the journal rejected an event");
                let message = "What was asked for could not be recorded; the run ends.";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "journal_rejected", message)
            }
        }
    }
}

impl From<ForgetError> for Refusal {
    fn from(error: ForgetError) -> Self {
        match error {
            ForgetError::Store(error) => error.into(),
            ForgetError::Log(error) => error.into(),
            ForgetError::Blobs(error) => error.into(),
        }
    }
}

impl From<BlobError> for Refusal {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound(_) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", sentence(&error))
            }
            BlobError::Unavailable(cause) | BlobError::Rejected(cause) => {
                error!(%cause, "The blob store is not available.");
                Self::unavailable()
            }
        }
    }
}

impl From<ClientError> for Refusal {
    fn from(ClientError { message, param, code, status }: ClientError) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        Self { status, code, message, param, limit: None }
    }
}

impl From<LibraryError> for Refusal {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::Exists(_) => {
                Self::new(StatusCode::CONFLICT, "already_exists", sentence(&error))
            }
            LibraryError::NotFound(_) => {
                Self::new(StatusCode::NOT_FOUND, "not_found", sentence(&error))
            }
            LibraryError::Refused(_) => Self::bad_request("file_refused", sentence(&error)),
            LibraryError::Unavailable(cause) => {
                error!(%cause, "The library is not available.");
                Self::unavailable()
            }
        }
    }
}

impl From<StartError> for Refusal {
    fn from(error: StartError) -> Self {
        match error {
            StartError::UnknownModel(model) => {
                let message = format!("The requested model '{model}' does not exist.");
                Self::new(StatusCode::NOT_FOUND, "model_not_found", message).about("model")
            }
            StartError::ShuttingDown => {
                let message = "The server is shutting down; try again in a moment.";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message)
            }
            StartError::NotAbandoned(_) | StartError::Lacks(_) => {
                Self::new(StatusCode::CONFLICT, "run_not_abandoned", sentence(&error))
            }
            StartError::Store(error) => error.into(),
            StartError::Log(error) => error.into(),
        }
    }
}

/// An error as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
