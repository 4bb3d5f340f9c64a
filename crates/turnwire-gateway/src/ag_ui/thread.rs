//! Conversations by thread, and runs by the names that clients have for them.

use std::fmt::Write;

use axum::http::StatusCode;
use sha2::{Digest, Sha256};
use turnwire_contract::{ConversationId, RequestKey, RunId, StoreError, TenantId};

use crate::{api_error::ApiError, app::App, auth::Caller, conversations};

/// Endpoint of the keys by which runs are found.
const ENDPOINT: &str = "/ag-ui";

/// The conversation of a thread: the one with this ID, or else the one that belongs to the thread of
/// this tenant. Its ID is derived from both, so no other tenant can have it.
pub(super) async fn conversation_of(
    app: &App,
    caller: &Caller,
    thread_id: &str,
) -> Result<ConversationId, ApiError> {
    match conversations::find(app, caller, thread_id).await {
        Ok(conversation) => Ok(conversation.id),
        Err(error) if error.status == StatusCode::NOT_FOUND => {
            Ok(derived(caller.tenant(), thread_id))
        }
        Err(error) => Err(error),
    }
}

fn derived(tenant: &TenantId, thread_id: &str) -> ConversationId {
    let hash = Sha256::digest(format!("{tenant}\n{thread_id}"));
    let (half, _) = hash.split_at(hash.len() / 2);
    ConversationId::new(format!("conv_{}", hex(half)))
}

/// Bytes as hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The key by which the run of a client's `runId` is found. All requests with the same `runId` have
/// the same key; whether one of them is a repetition is decided by what the run was asked.
pub(super) fn key_of(run_id: &str) -> RequestKey {
    let (endpoint, key) = (ENDPOINT.to_owned(), run_id.to_owned());
    RequestKey { endpoint, key, fingerprint: "run".to_owned() }
}

/// A run of the caller, by its ID or by the `runId` of the request that started it.
pub(super) async fn find_run(app: &App, caller: &Caller, id: &str) -> Result<RunId, ApiError> {
    let (runs, tenant) = (app.runs(), caller.tenant());
    match runs.find(tenant, &RunId::new(id)).await {
        Ok(record) => return Ok(record.run_id),
        Err(StoreError::NotFound(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let found = runs.find_by_key(tenant, &key_of(id)).await?;
    found.map(|handle| handle.id().clone()).ok_or_else(|| ApiError::not_found("Run", id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread is one conversation per tenant, always the same.
    #[test]
    fn a_thread_is_one_conversation_per_tenant() {
        let of = |tenant: &str, thread: &str| derived(&TenantId::from(tenant), thread);
        assert_eq!(of("a", "t"), of("a", "t"));
        assert_ne!(of("a", "t"), of("b", "t"));
        assert_ne!(of("a", "t"), of("a", "u"));
        assert!(of("a", "t").as_str().starts_with("conv_"));
    }
}
