//! Adapter for Anthropic's Messages API.

mod families;
mod request;
mod signed;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::HeaderName;
use turnwire_contract::{Capabilities, CustomTools, Model, ModelError, ModelStream, Prompt};

use self::{
    families::Family,
    request::{PARAMETERS, RequestBody},
    stream::MessageStream,
};
use crate::{
    http::{DEFAULT_CONNECT_TIMEOUT, Endpoint, SetupError},
    seal::Origin,
    secret::Secret,
    translator::Dialect,
    vendors::ANTHROPIC_URL,
};

/// Value of the `anthropic-version` header.
const API_VERSION: &str = "2023-06-01";

/// Kind of seal of the signature of readable reasoning.
const SIGNATURE: &str = "anthropic.signature";

/// Kind of seal of redacted reasoning, which is sent back in another field.
const REDACTED: &str = "anthropic.redacted";

/// Settings of the adapter.
#[derive(Debug, Clone)]
pub struct AnthropicMessagesOptions {
    /// Base URL without `/v1/messages`, such as `https://api.anthropic.com`.
    pub base_url: String,
    /// API key.
    pub api_key: Option<Secret>,
    /// Name of the model on the server; the name in the prompt if not set.
    pub model: Option<String>,
    /// Timeout of a connection attempt.
    pub connect_timeout: Duration,
}

impl Default for AnthropicMessagesOptions {
    fn default() -> Self {
        Self {
            base_url: ANTHROPIC_URL.to_owned(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }
}

/// A model behind the Messages API.
#[derive(Debug, Clone)]
pub struct AnthropicMessages {
    endpoint: Endpoint,
    model: Option<String>,
}

impl AnthropicMessages {
    /// Creates the adapter. Connects on the first request.
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
        let model = self.model.as_deref();
        let origin = self.endpoint.origin(model.unwrap_or(&prompt.model));
        let body = |with_reasoning: bool| {
            RequestBody::new(&prompt, model, with_reasoning.then_some(&origin))
        };
        let dialect = |body: &RequestBody<'_>| MessageStream::new(&origin, body.prefix());
        self.endpoint.ask(body, dialect, prompt.trace.as_deref()).await
    }

    fn capabilities(&self) -> Capabilities {
        let family = Family::of(self.model.as_deref().unwrap_or_default());
        let parameters = PARAMETERS.iter().copied().filter(|parameter| family.takes(*parameter));
        Capabilities { parameters: parameters.collect(), custom_tools: CustomTools::Refused }
    }
}

/// Returns the request body for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None, Some(&Origin::UNKNOWN))).unwrap()
}

/// A reader of answers, for fuzzing.
pub(crate) fn dialect() -> impl Dialect {
    MessageStream::new(&Origin::UNKNOWN, "")
}

#[cfg(test)]
#[path = "anthropic_messages_tests.rs"]
mod tests;
