//! Request fields that the two APIs of OpenAI share.

use serde::Serialize;
use turnwire_contract::Generation;

/// Fields that are the same in Chat Completions and Responses.
#[derive(Debug, Serialize)]
pub(crate) struct SharedFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_retention: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    safety_identifier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
}

impl<'a> SharedFields<'a> {
    pub(crate) fn of(generation: &'a Generation) -> Self {
        Self {
            temperature: generation.temperature,
            top_p: generation.top_p,
            prompt_cache_key: generation.prompt_cache_key.as_deref(),
            prompt_cache_retention: generation.prompt_cache_retention.as_deref(),
            safety_identifier: generation.safety_identifier.as_deref(),
            user: generation.user.as_deref(),
            service_tier: generation.service_tier.as_deref(),
        }
    }
}
