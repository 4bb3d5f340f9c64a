//! Anthropic's Messages API.

mod request;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::HeaderName;
use turnwire_contract::{Capabilities, CustomTools, Model, ModelError, ModelStream, Prompt};

use self::{
    request::{PARAMETERS, RequestBody},
    stream::MessageStream,
};
use crate::{
    http::{DEFAULT_CONNECT_TIMEOUT, Endpoint, SetupError},
    secret::Secret,
};

/// The version of the API that is spoken here.
const API_VERSION: &str = "2023-06-01";

/// Marks a seal as the signature of thoughts that can be read.
const SIGNATURE_SEAL: &str = "anthropic.signature:";

/// Marks a seal as thoughts that cannot be read.
///
/// Both go back to the provider in different places. The marks also keep the seals of other
/// providers out when a conversation changes the model.
const REDACTED_SEAL: &str = "anthropic.redacted:";

/// Where the server is and how to speak to it.
#[derive(Debug, Clone)]
pub struct AnthropicMessagesOptions {
    /// The address up to and without `/v1/messages`, such as `https://api.anthropic.com`.
    pub base_url: String,
    /// The key.
    pub api_key: Option<Secret>,
    /// The name of the model as the server knows it; the name in the prompt if not set.
    pub model: Option<String>,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
}

impl Default for AnthropicMessagesOptions {
    fn default() -> Self {
        Self {
            base_url: "https://api.anthropic.com".to_owned(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }
}

/// A model of Anthropic.
#[derive(Debug, Clone)]
pub struct AnthropicMessages {
    endpoint: Endpoint,
    model: Option<String>,
}

impl AnthropicMessages {
    /// Makes ready to speak to the server; connects when first asked.
    pub fn new(options: AnthropicMessagesOptions) -> Result<Self, SetupError> {
        let AnthropicMessagesOptions { base_url, api_key, model, connect_timeout } = options;
        let endpoint = Endpoint::new(&base_url, "/v1/messages", connect_timeout)?
            .with_model(model.as_deref())
            .with_header(HeaderName::from_static("anthropic-version"), API_VERSION)
            .with_key(HeaderName::from_static("x-api-key"), "", api_key)?;
        Ok(Self { endpoint, model })
    }
}

#[async_trait]
impl Model for AnthropicMessages {
    fn upstream_model(&self, name: &str) -> String {
        self.model.as_deref().unwrap_or(name).to_owned()
    }

    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let body = RequestBody::new(&prompt, self.model.as_deref());
        self.endpoint.ask(&body, MessageStream::default()).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: PARAMETERS.to_vec(), custom_tools: CustomTools::Refused }
    }
}

/// What is sent for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None)).unwrap()
}

#[cfg(test)]
#[path = "anthropic_messages_tests.rs"]
mod tests;
