//! The Responses API of `OpenAI`, as a model: one answer per request, nothing stored there.

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
};

/// Marks a seal as encrypted thoughts of this API, so that the seals of other providers stay
/// out when a conversation changes the model.
const ENCRYPTED_SEAL: &str = "openai.encrypted:";

/// Where the server is and how to speak to it.
#[derive(Debug, Clone)]
pub struct OpenAiResponsesOptions {
    /// The address up to and without `/responses`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key.
    pub api_key: Option<Secret>,
    /// The name of the model as the server knows it; the name in the prompt if not set.
    pub model: Option<String>,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// Asks for a summary of the thoughts: `auto`, `concise` or `detailed`. Not asked for if
    /// not set, because `OpenAI` refuses it to accounts that are not verified.
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
    /// Makes ready to speak to the server; connects when first asked.
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
        self.endpoint.ask(&body, ResponseStream::new(&prompt.tools)).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: PARAMETERS.to_vec(), custom_tools: CustomTools::Native }
    }
}

/// What is sent for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None, None)).unwrap()
}

#[cfg(test)]
#[path = "openai_responses_tests.rs"]
mod tests;
