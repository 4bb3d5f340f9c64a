//! `[embeddings]`: the embeddings model for file search.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_tools::EmbeddingsOptions;

use super::{
    file::read_table,
    words::{check_needed_url, missing, value_of},
};
use crate::environment::Environment;

const EXAMPLE_URL: &str = "http://localhost:11434/v1";

/// Adds vector search to the full-text search of files. See file-search.md.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEmbeddings {
    /// The base URL of a server with `/v1/embeddings`
    #[schemars(extend("x-required" = true))]
    base_url: Option<String>,
    /// The embeddings model
    #[schemars(extend("x-required" = true))]
    model: Option<String>,
    /// The variable with the API key
    api_key_env: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EmbeddingsSection {
    base_url: String,
    model: String,
    api_key_env: Option<String>,
}

impl EmbeddingsSection {
    pub(super) fn read(table: Table, mistakes: &mut Vec<String>) -> Self {
        let raw: RawEmbeddings = read_table("embeddings", table, mistakes);
        let base_url = raw.base_url.as_deref();
        check_needed_url("embeddings.base_url", base_url, EXAMPLE_URL, mistakes);
        if raw.model.as_deref().is_none_or(str::is_empty) {
            missing("embeddings.model", "missing; name a model of that server", mistakes);
        }
        Self {
            base_url: raw.base_url.unwrap_or_default(),
            model: raw.model.unwrap_or_default(),
            api_key_env: raw.api_key_env,
        }
    }

    /// Returns the options with the key from the environment.
    pub(super) fn options(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> EmbeddingsOptions {
        let mut options = EmbeddingsOptions::new(self.base_url.as_str(), self.model.as_str());
        let key = self.api_key_env.as_deref().and_then(|variable| {
            value_of("embeddings.api_key_env", variable, environment, mistakes)
        });
        options.api_key = key.map(Into::into);
        options
    }
}

#[cfg(test)]
#[path = "embeddings_tests.rs"]
mod tests;
