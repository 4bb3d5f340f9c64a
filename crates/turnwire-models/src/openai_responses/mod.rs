//! Adapter for the Responses API of OpenAI. Nothing is stored at OpenAI.

mod request;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::AUTHORIZATION;
use turnwire_contract::{Capabilities, CustomTools, Model, ModelError, ModelStream, Prompt};

use self::{
    request::{PARAMETERS, RequestBody},
    stream::ResponseStream,
};
use crate::{
    http::{DEFAULT_CONNECT_TIMEOUT, Endpoint, SetupError},
    secret::Secret,
    translator::Dialect,
};

/// Prefix of the encrypted content of this API. It excludes content of other providers after a
/// conversation changes its model.
const ENCRYPTED_PREFIX: &str = "openai.encrypted:";

/// Settings of the adapter.
#[derive(Debug, Clone)]
pub struct OpenAiResponsesOptions {
    /// Base URL without `/responses`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// API key.
    pub api_key: Option<Secret>,
    /// Name of the model on the server; the name in the prompt if not set.
    pub model: Option<String>,
    /// Timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// Requests a reasoning summary: `auto`, `concise` or `detailed`. Not requested if not set,
    /// because OpenAI rejects it for unverified accounts.
    pub reasoning_summary: Option<String>,
}

impl Default for OpenAiResponsesOptions {
    fn default() -> Self {
        Self {
            base_url: "https://api.openai.com/v1".to_owned(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            reasoning_summary: None,
        }
    }
}

/// A model behind the Responses API.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    endpoint: Endpoint,
    model: Option<String>,
    reasoning_summary: Option<String>,
}

impl OpenAiResponses {
    /// Creates the adapter. Connects on the first request.
    pub fn new(options: OpenAiResponsesOptions) -> Result<Self, SetupError> {
        let OpenAiResponsesOptions { base_url, api_key, model, connect_timeout, reasoning_summary } =
            options;
        let endpoint = Endpoint::new(&base_url, "/responses", connect_timeout)?
            .with_model(model.as_deref())
            .with_key(AUTHORIZATION, "Bearer ", api_key)?;
        Ok(Self { endpoint, model, reasoning_summary })
    }
}

#[async_trait]
impl Model for OpenAiResponses {
    fn upstream_model(&self, name: &str) -> String {
        self.model.as_deref().unwrap_or(name).to_owned()
    }

    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let summary = self.reasoning_summary.as_deref();
        let body = RequestBody::new(&prompt, self.model.as_deref(), summary);
        let dialect = ResponseStream::new(&prompt.tools);
        self.endpoint.ask(&body, dialect, prompt.trace.as_deref()).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: PARAMETERS.to_vec(), custom_tools: CustomTools::Native }
    }
}

/// Returns the request body for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None, None)).unwrap()
}

/// A reader of answers, for fuzzing.
pub(crate) fn dialect() -> impl Dialect {
    ResponseStream::new(&[])
}

#[cfg(test)]
#[path = "openai_responses_tests.rs"]
mod tests;
