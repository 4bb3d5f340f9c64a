//! `[embeddings]`: the embeddings model for file search.

use serde::Deserialize;
use toml::Table;
use turnwire_tools::EmbeddingsOptions;

use super::{
    file::{RawTable, read_table},
    words::{is_http_url, not_a_url, not_set},
};
use crate::environment::Environment;

const EXAMPLE_URL: &str = "http://localhost:11434/v1";

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEmbeddings {
    base_url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
}

impl RawTable for RawEmbeddings {
    const KEYS: &'static [&'static str] = &["base_url", "model", "api_key_env"];
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EmbeddingsSection {
    base_url: String,
    model: String,
    api_key_env: Option<String>,
}

impl EmbeddingsSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Option<Self> {
        let (had_url, had_model) = (table.contains_key("base_url"), table.contains_key("model"));
        let raw: RawEmbeddings = read_table("embeddings.", table, mistakes);
        let mut tell = |key: &str, why: String| mistakes.push(format!("embeddings.{key}: {why}"));
        match raw.base_url.as_deref() {
            Some(url) if !is_http_url(url) => tell("base_url", not_a_url(url, EXAMPLE_URL)),
            None if !had_url => {
                tell("base_url", format!("missing; it should look like {EXAMPLE_URL}"));
            }
            // An invalid value is already reported.
            Some(_) | None => {}
        }
        if raw.model.as_deref().is_none_or(str::is_empty) && (raw.model.is_some() || !had_model) {
            tell("model", "missing; name a model of that server".to_owned());
        }
        Some(Self { base_url: raw.base_url?, model: raw.model?, api_key_env: raw.api_key_env })
    }

    /// Returns the options with the key from the environment.
    pub(super) fn options(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> EmbeddingsOptions {
        let mut options = EmbeddingsOptions::new(self.base_url.as_str(), self.model.as_str());
        if let Some(variable) = &self.api_key_env {
            match environment.get(variable) {
                Some(key) => options.api_key = Some(key.into()),
                None => {
                    mistakes.push(format!("embeddings.api_key_env: {}", not_set(variable)));
                }
            }
        }
        options
    }
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
