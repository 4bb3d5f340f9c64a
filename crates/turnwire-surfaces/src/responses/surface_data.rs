//! The fields of a response that repeat its request.
//!
//! The gateway puts these keys of the request into `RunRequest::surface_data`, in wire format and
//! with defaults filled in; only this surface reads them. Missing ones are derived from the rest of
//! the request, so that a run of another surface can be read as a response too. Secrets
//! (`authorization` and `headers` of a server) must not be put in: surface data is stored in the
//! journal and shown to clients.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use turnwire_contract::{CallId, ItemId};

/// Every key of the request that a response repeats under the same name.
pub const RESPONSE_KEYS: &[&str] = &[
    "background",
    "frequency_penalty",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "presence_penalty",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
];

/// Additional output that the client requested: a list of the values in [`mod@include`].
pub const INCLUDE: &str = "include";

/// Fields of the request that were ignored: a list of their paths.
pub const IGNORED: &str = "ignored";

/// Approval requests of the request's first calls: item IDs by call ID. A call refers to the
/// approval request it came from.
pub const APPROVAL_REQUESTS: &str = "approval_requests";

/// The values of [`INCLUDE`] that have an effect.
pub mod include {
    /// The pages that a web search found.
    pub const WEB_SOURCES: &str = "web_search_call.action.sources";
    /// The chunks that a file search found.
    pub const FILE_RESULTS: &str = "file_search_call.results";
    /// The provider's encrypted reasoning.
    pub const ENCRYPTED_CONTENT: &str = "reasoning.encrypted_content";
}

/// The surface data of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SurfaceData<'a>(pub(crate) &'a Map<String, Value>);

impl SurfaceData<'_> {
    /// The value of `key`, if it is present and of the right type.
    pub(crate) fn get<T: DeserializeOwned>(self, key: &str) -> Option<T> {
        self.0.get(key).and_then(|value| T::deserialize(value).ok())
    }

    /// Whether the client requested `what`.
    pub(super) fn includes(self, what: &str) -> bool {
        let asked = self.0.get(INCLUDE).and_then(Value::as_array);
        asked.is_some_and(|asked| asked.iter().any(|value| value == what))
    }

    /// The approval request of the call, in an earlier response.
    pub(super) fn approval_request(self, call_id: &CallId) -> Option<ItemId> {
        let asked = self.0.get(APPROVAL_REQUESTS)?.get(call_id.as_str())?.as_str()?;
        Some(ItemId::new(asked))
    }
}
