//! Conversations by thread, and runs by the names that clients have for them.

use axum::http::StatusCode;
use turnwire_contract::{ConversationId, IdempotencyKey, RunId, StoreError};

use crate::{ApiError, App, Caller, Result, conversations, fingerprint::conversation_id};

/// The protocol, for the IDs of its conversations.
const PROTOCOL: &str = "ag-ui";
/// Endpoint of the keys by which runs are found.
const ENDPOINT: &str = "/ag-ui";

/// The conversation of a thread: the one with this ID, or else the one that belongs to the thread
/// of this tenant. Its ID is derived from both, so no other tenant can have it.
pub(super) async fn conversation_of(
    app: &App,
    caller: &Caller,
    thread_id: &str,
) -> Result<ConversationId> {
    match conversations::find(app, caller, thread_id).await {
        Ok(conversation) => Ok(conversation.id),
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            Ok(conversation_id(PROTOCOL, caller.tenant(), thread_id))
        }
        Err(error) => Err(error),
    }
}

/// The key by which the run of a client's `runId` is found. All requests with the same `runId` have
/// the same key; whether one of them is a repetition is decided by what the run was asked.
pub(super) fn key_of(run_id: &str) -> IdempotencyKey {
    let (endpoint, key) = (ENDPOINT.to_owned(), run_id.to_owned());
    IdempotencyKey { endpoint, key, fingerprint: "run".to_owned() }
}

/// A run of the caller, by its ID or by the `runId` of the request that started it.
pub(super) async fn find_run(app: &App, caller: &Caller, id: &str) -> Result<RunId> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    match runs.find(tenant, &RunId::new(id)).await {
        Ok(record) => return Ok(record.run_id),
        Err(StoreError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let found = runs.find_by_key(tenant, &key_of(id)).await?;
    found.map(|handle| handle.id().clone()).ok_or_else(|| ApiError::not_found("Run", id))
}
