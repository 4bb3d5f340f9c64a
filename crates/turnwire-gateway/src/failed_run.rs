//! Error response for a failed run, for requests that wait for the end of the run.
//!
//! Official clients raise an exception for an error status, and treat anything else as an answer.
//! If no tool has run, sending such a request again repeats no side effect. The clients do so
//! themselves if the failure may be temporary, and are told when not to. The run is stored like any
//! other, and a header names it. Decision 019 has the reasons.

use axum::{
    http::{HeaderName, HeaderValue, StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use turnwire_contract::{Failure, RunId};
use turnwire_surfaces::responses::{
    ids,
    response::{OwnCode, ResponseError},
};
use utoipa::ToSchema;

use crate::{
    Json,
    api_error::{SHOULD_RETRY, error_kind},
};

/// Header with the ID of the response, which can be fetched by it.
const RESPONSE_ID: HeaderName = HeaderName::from_static("turnwire-response-id");

/// Header with the ID of the run.
pub(crate) const RUN_ID: HeaderName = HeaderName::from_static("turnwire-run-id");

/// Value of `Retry-After`, in seconds, if the provider named none.
const USUAL_WAIT_SECONDS: u64 = 2;

/// A failed run as an error response.
#[derive(Debug)]
pub(crate) struct FailedRun {
    failure: Failure,
    /// The header that names the run, if it can be fetched.
    name: Option<(HeaderName, String)>,
    may_be_sent_again: bool,
}

/// Body of an error response whose run failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedRunBody {
    /// Details of the error.
    error: FailedRunError,
}

/// Details of the failure of a run, or of an API error.
#[derive(Debug, Serialize, ToSchema)]
struct FailedRunError {
    /// Human-readable message. The wording may change; use `code` in programs.
    message: String,
    /// Category of the error: `rate_limit_error`, `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Path of the request field that caused the error, if the request was refused. Null if its run
    /// failed.
    param: Option<String>,
    /// Error code. For a failed run, the closest code of the OpenAI API, such as
    /// `rate_limit_exceeded`.
    code: String,
    /// Turnwire's own failure code. Missing if the request was refused before a run was created.
    #[schema(required = false)]
    turnwire: OwnCode,
}

impl FailedRun {
    /// A run that cannot be fetched.
    pub(crate) fn new(failure: &Failure) -> Self {
        Self { failure: failure.clone(), name: None, may_be_sent_again: true }
    }

    /// Names the run as a response.
    pub(crate) fn response(self, run_id: &RunId) -> Self {
        Self { name: Some((RESPONSE_ID, ids::response_id(run_id))), ..self }
    }

    /// Names the run by its run ID.
    pub(crate) fn run(self, run_id: &RunId) -> Self {
        Self { name: Some((RUN_ID, run_id.to_string())), ..self }
    }

    /// Marks the request as not retryable: tools may have acted.
    pub(crate) fn after_acting(self, has_acted: bool) -> Self {
        Self { may_be_sent_again: self.may_be_sent_again && !has_acted, ..self }
    }

    /// Marks a request with an `Idempotency-Key` as not retryable: sent again, it finds the same
    /// failed run.
    pub(crate) fn with_key(self, has_key: bool) -> Self {
        Self { may_be_sent_again: self.may_be_sent_again && !has_key, ..self }
    }

    fn status(&self) -> StatusCode {
        match self.failure.code.as_str() {
            "model_rate_limited" => StatusCode::TOO_MANY_REQUESTS,
            "model_unavailable" | "model_overloaded" | "engine_stopped" | "journal_lost" => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            "model_silent" => StatusCode::GATEWAY_TIMEOUT,
            "model_broke_off" => StatusCode::BAD_GATEWAY,
            "model_not_found" => StatusCode::NOT_FOUND,
            "context_length_exceeded" | "content_filtered" | "model_rejected" => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Seconds to wait before a retry, if a retry may succeed.
    fn wait(&self, status: StatusCode) -> Option<u64> {
        let asked = self.failure.retry_after_ms.map(|wait| wait.div_ceil(1_000).max(1));
        let passes =
            matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        passes.then(|| asked.unwrap_or(USUAL_WAIT_SECONDS))
    }
}

/// Whether the failure may be temporary.
fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for FailedRun {
    fn into_response(self) -> Response {
        let status = self.status();
        let ResponseError { code, message, turnwire, .. } = ResponseError::from(&self.failure);
        // The stream has no official code for this failure; a status has.
        let code = if status == StatusCode::NOT_FOUND { turnwire.code.clone() } else { code };
        let kind = error_kind(status);
        let error = FailedRunError { message, kind, param: None, code, turnwire };
        let mut response = (status, Json(FailedRunBody { error })).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.wait(status) {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        let again = if self.may_be_sent_again && may_pass(status) { "true" } else { "false" };
        headers.insert(SHOULD_RETRY, HeaderValue::from_static(again));
        if let Some((name, id)) = self.name
            && let Ok(id) = HeaderValue::try_from(id)
        {
            headers.insert(name, id);
        }
        response
    }
}
