//! Error responses, in the format that OpenAI's clients read.
//!
//! The `code` is stable and meant for programs; the message is for people and says what to do. A
//! cause that only the operator can repair is logged and not sent.

use std::num::NonZeroU32;

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tracing::error;
use turnwire_contract::{BlobError, JournalError, LibraryError, StoreError};
use turnwire_engine::{DeleteError, StartError};
use utoipa::ToSchema;

use crate::{
    access_log::ErrorCode,
    client_error::ClientError,
    json::Json,
    limits::{LimitReached, limit_of},
};

/// Usual value of `Retry-After`, in seconds.
const RETRY_AFTER_SECONDS: u32 = 2;

/// Header that tells official clients whether to retry.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// The result of what fails with an error for an HTTP client.
pub type Result<T, E = ApiError> = std::result::Result<T, E>;

/// An error for an HTTP client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    pub status: StatusCode,
    pub code: &'static str,
    /// What is wrong and what to do about it.
    pub message: String,
    /// The request field that caused the error, such as `input[2].role`.
    pub param: Option<String>,
    /// The setting of the limit that was reached, if the code does not imply it.
    pub limit: Option<&'static str>,
    /// Seconds after which the request may succeed, if they are known.
    pub retry_after: Option<NonZeroU32>,
}

/// Body of an error response.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// Details of the error.
    pub error: ErrorDetails,
}

/// Details of an error.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetails {
    /// Human-readable message. The wording may change; use `code` in programs.
    pub message: String,
    /// Category of the error: `invalid_request_error`, `authentication_error`, `permission_error`,
    /// `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Path of the request field that caused the error, such as `input[2].role`. Null if the error
    /// is not about one field.
    pub param: Option<String>,
    /// Stable, machine-readable error code.
    pub code: &'static str,
}

impl ApiError {
    /// An error with its stable code.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), param: None, limit: None, retry_after: None }
    }

    /// A 400 error.
    pub fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A 404 error. The message is the same whether the object does not exist or belongs to another
    /// tenant.
    pub fn not_found(what: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("{what} with id '{id}' not found."))
    }

    /// Sets the request field that caused the error.
    pub fn about(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Sets the setting of the limit that was reached.
    pub(crate) fn limited_by(mut self, limit: &'static str) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Sets the seconds after which the request may succeed.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = NonZeroU32::new(u32::try_from(seconds).unwrap_or(u32::MAX));
        self
    }

    /// The setting of the limit that was reached, if the error is about a limit.
    pub(crate) fn limit(&self) -> Option<&'static str> {
        self.limit.or_else(|| limit_of(self.code))
    }

    /// The body of the response.
    pub fn body(&self) -> ErrorBody {
        let Self { code, message, param, .. } = self.clone();
        let kind = error_kind(self.status);
        ErrorBody { error: ErrorDetails { message, kind, param, code } }
    }

    /// A 404 error about an object that `error` names.
    fn missing(error: &dyn std::fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", sentence(error))
    }

    fn conflict(code: &'static str, error: &dyn std::fmt::Display) -> Self {
        Self::new(StatusCode::CONFLICT, code, sentence(error))
    }

    fn key_missing(cause: &str) -> Self {
        error!(cause, "stored data is encrypted, and its key is missing");
        let message = "This is stored encrypted, and this server does not have the key. Its operator \
                       has to add the key to [encryption].";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "encryption_key_missing", message)
    }

    fn unavailable() -> Self {
        let message = "The store is not available right now; try again in a moment.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store_unavailable", message)
    }
}

/// The `type` of errors with this status.
pub(crate) fn error_kind(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "authentication_error",
        StatusCode::FORBIDDEN => "permission_error",
        StatusCode::TOO_MANY_REQUESTS => "rate_limit_error",
        status if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        response.extensions_mut().insert(ErrorCode(self.code));
        if let Some(limit) = self.limit() {
            response.extensions_mut().insert(LimitReached(limit));
        }
        // Header that clients expect with this status.
        let header = match self.status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                let seconds = self.retry_after.map_or(RETRY_AFTER_SECONDS, NonZeroU32::get);
                Some((header::RETRY_AFTER, HeaderValue::from(seconds)))
            }
            StatusCode::UPGRADE_REQUIRED => {
                Some((header::UPGRADE, HeaderValue::from_static("websocket")))
            }
            _ => None,
        };
        if let Some((name, value)) = header {
            response.headers_mut().insert(name, value);
        }
        if self.code == "insufficient_quota" {
            // The next month is not worth waiting for.
            response.headers_mut().insert(SHOULD_RETRY, HeaderValue::from_static("false"));
        }
        response
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy { .. } => Self::conflict("conversation_locked", &error),
            StoreError::Unfinished(_) => Self::conflict("run_not_finished", &error),
            StoreError::IdempotencyKeyReused(_) => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                sentence(&error),
            ),
            StoreError::Exists(_) => Self::conflict("already_exists", &error),
            StoreError::NotFound(_) => Self::missing(&error),
            StoreError::Unavailable(cause) => {
                error!(%cause, "run store unavailable");
                Self::unavailable()
            }
            StoreError::Rejected(_) => Self::bad_request("not_storable", sentence(&error)),
            StoreError::KeyMissing(cause) => Self::key_missing(&cause),
        }
    }
}

impl From<JournalError> for ApiError {
    fn from(error: JournalError) -> Self {
        match error {
            JournalError::NotFound(_) => Self::missing(&error),
            JournalError::Conflict { .. } | JournalError::Unavailable(_) => {
                error!(%error, "journal unavailable");
                Self::unavailable()
            }
            JournalError::Rejected { .. } => {
                error!(%error, "event rejected by the journal");
                let message = "The request could not be recorded, so the run ends.";
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "journal_rejected", message)
            }
            JournalError::KeyMissing(cause) => Self::key_missing(&cause),
        }
    }
}

impl From<DeleteError> for ApiError {
    fn from(error: DeleteError) -> Self {
        match error {
            DeleteError::Store(error) => error.into(),
            DeleteError::Journal(error) => error.into(),
            DeleteError::Blobs(error) => error.into(),
        }
    }
}

impl From<BlobError> for ApiError {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::NotFound(_) => Self::missing(&error),
            BlobError::Unavailable(cause) | BlobError::Rejected(cause) => {
                error!(%cause, "blob store unavailable");
                Self::unavailable()
            }
            BlobError::KeyMissing(cause) => Self::key_missing(&cause),
        }
    }
}

impl From<ClientError> for ApiError {
    fn from(ClientError { message, param, code, status }: ClientError) -> Self {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
        Self { status, code, message, param, limit: None, retry_after: None }
    }
}

impl From<LibraryError> for ApiError {
    fn from(error: LibraryError) -> Self {
        match error {
            LibraryError::Exists(_) => Self::conflict("already_exists", &error),
            LibraryError::NotFound(_) => Self::missing(&error),
            LibraryError::Refused(_) => Self::bad_request("file_refused", sentence(&error)),
            LibraryError::Unavailable(cause) => {
                error!(%cause, "file library unavailable");
                Self::unavailable()
            }
            LibraryError::KeyMissing(cause) => Self::key_missing(&cause),
        }
    }
}

impl From<StartError> for ApiError {
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
                Self::conflict("run_not_abandoned", &error)
            }
            StartError::Secrets(..) => {
                Self::bad_request("unsupported_parameter", sentence(&error)).about("tools")
            }
            StartError::Store(error) => error.into(),
            StartError::Journal(error) => error.into(),
        }
    }
}

/// Names what a client asked for, if it is not found.
pub(crate) trait OrNotFound<T> {
    /// The error for a missing object names the ID that the client used, whether the object does
    /// not exist or belongs to another tenant (A1).
    fn or_not_found(self, what: &str, id: &str) -> Result<T>;
}

impl<T, E: Into<ApiError>> OrNotFound<T> for Result<T, E> {
    fn or_not_found(self, what: &str, id: &str) -> Result<T> {
        self.map_err(|error| match error.into() {
            ApiError { code: "not_found", .. } => ApiError::not_found(what, id),
            other => other,
        })
    }
}

/// Formats an error as a sentence: with a capital letter and a full stop.
pub(crate) fn sentence(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
