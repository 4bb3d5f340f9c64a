//! Who asked for a run, or decided about a call.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who asked for something, as far as the server that accepted it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Actor {
    /// ID of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_id: Option<String>,
    /// The person or program that an identity provider vouches for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Part of the tenant that the key is used by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}
