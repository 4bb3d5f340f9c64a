//! What a request said about itself, kept with the run.
//!
//! The names of the thread and the run are the client's, and the snapshot after a withdrawn turn
//! needs the messages that the client has. So they are recorded with the run, and a stream that is
//! resumed on another server shows the same.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::RunRequest;

use super::event::ProtocolVersion;

/// Key of the origin in [`RunRequest::surface_data`].
const KEY: &str = "ag_ui";
/// Begins the source of an answer that was given on this surface.
const SOURCE: &str = "/ag-ui#";

/// What a request on this surface said about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// ID of the thread.
    pub thread_id: String,
    /// ID of the run, as the client chose it.
    pub run_id: String,
    /// ID of the run that the client calls its parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_run_id: Option<String>,
    /// Whether the client speaks 1.0.
    #[serde(default)]
    pub is_v1: bool,
    /// Fingerprint of the request, by which a repeated request is recognised.
    #[serde(default)]
    pub fingerprint: String,
    /// The messages of the thread that the client has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Value>,
}

impl Origin {
    /// The origin of a run; `None` if the run was started on another surface.
    pub fn of(request: &RunRequest) -> Option<Self> {
        request.surface_data.get(KEY).and_then(|kept| Self::deserialize(kept).ok())
    }

    /// The origin, for [`RunRequest::surface_data`].
    pub fn surface_data(&self) -> Map<String, Value> {
        let kept = serde_json::to_value(self).unwrap_or_default();
        Map::from_iter([(KEY.to_owned(), kept)])
    }

    /// The version of the protocol that the client speaks.
    pub fn version(&self) -> ProtocolVersion {
        if self.is_v1 { ProtocolVersion::V1 } else { ProtocolVersion::Before1 }
    }
}

/// The source of an answer that the run `run_id` of the protocol gives. It is recorded with the
/// answer, because the run of ours goes on under this name.
pub fn source(run_id: &str) -> String {
    format!("{SOURCE}{run_id}")
}

/// The run of the protocol that gave an answer, if it was given on this surface.
pub(super) fn answering_run(source: &str) -> Option<&str> {
    source.strip_prefix(SOURCE)
}
