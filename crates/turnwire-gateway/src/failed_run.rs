//! A run that failed before any tool began to work, as the answer to a request that waited for
//! its end.
//!
//! Official clients raise what has an error status, and take anything else for an answer. Nothing
//! has happened to the world, so whoever sends such a request again repeats nothing; the clients
//! do so by themselves when the failure may pass, and are told when not to. The run is kept like
//! any other one, and a header names it. Decision 019 has the reasons.

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

use crate::{body::Json, refusal::error_kind};

/// Names the response of a failed request, which can be fetched by it.
const RESPONSE_ID: HeaderName = HeaderName::from_static("turnwire-response-id");

/// Names the run of a failed request.
const RUN_ID: HeaderName = HeaderName::from_static("turnwire-run-id");

/// Tells official clients whether to send the request again by themselves.
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// How long a client should wait if nobody has said.
const USUAL_WAIT_SECONDS: u64 = 2;

/// Why a run failed, as an error status.
#[derive(Debug)]
pub(crate) struct FailedRun {
    failure: Failure,
    /// The header that names the run, if it can be fetched.
    name: Option<(HeaderName, String)>,
    may_be_sent_again: bool,
}

/// The body of an answer to a request whose run failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailedRunBody {
    /// What went wrong.
    error: FailedRunError,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
struct FailedRunError {
    /// For people.
    message: String,
    /// The family: `rate_limit_error`, `invalid_request_error` or `server_error`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The field it is about, if the request was refused; null if its run failed.
    param: Option<String>,
    /// The official code that fits best, such as `rate_limit_exceeded`.
    code: String,
    /// The code of ours; not there if the request was refused before there was a run.
    #[schema(required = false)]
    turnwire: OwnCode,
}

impl FailedRun {
    /// A run that nobody can fetch.
    pub(crate) fn new(failure: &Failure) -> Self {
        Self { failure: failure.clone(), name: None, may_be_sent_again: true }
    }

    /// It can be fetched as a response.
    pub(crate) fn response(self, run_id: &RunId) -> Self {
        Self { name: Some((RESPONSE_ID, ids::response_id(run_id))), ..self }
    }

    /// It can be fetched as a run.
    pub(crate) fn run(self, run_id: &RunId) -> Self {
        Self { name: Some((RUN_ID, run_id.to_string())), ..self }
    }

    /// Its request had a key: sent again, it finds the same run and gets the same answer.
    pub(crate) fn with_key(self, has_key: bool) -> Self {
        Self { may_be_sent_again: self.may_be_sent_again && !has_key, ..self }
    }

    fn status(&self) -> StatusCode {
        match self.failure.code.as_str() {
            "model_rate_limited" => StatusCode::TOO_MANY_REQUESTS,
            "model_unavailable" | "engine_stopped" | "journal_lost" => {
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

    /// How many seconds to wait before the next try, if one may help.
    fn wait(&self, status: StatusCode) -> Option<u64> {
        let asked = self.failure.retry_after_ms.map(|wait| wait.div_ceil(1_000).max(1));
        match status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                Some(asked.unwrap_or(USUAL_WAIT_SECONDS))
            }
            _ => None,
        }
    }
}

/// Whether the same request may work later.
fn may_pass(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || (status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR)
}

impl IntoResponse for FailedRun {
    fn into_response(self) -> Response {
        let status = self.status();
        let ResponseError { code, message, turnwire, .. } = ResponseError::from(&self.failure);
        // The stream has no official code for it; a status has.
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
