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
    seal::Origin,
    secret::Secret,
    translator::Dialect,
    vendors::{OPENAI_URL, Vendor},
    without_parameters::leave_out,
};

/// Kind of seal of the encrypted content of this API.
const ENCRYPTED: &str = "openai.encrypted";

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
    /// Who serves the model; found by the base URL if not set.
    pub vendor: Option<&'static Vendor>,
}

impl Default for OpenAiResponsesOptions {
    fn default() -> Self {
        Self {
            base_url: OPENAI_URL.to_owned(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            reasoning_summary: None,
            vendor: None,
        }
    }
}

/// A model behind the Responses API.
#[derive(Debug, Clone)]
pub struct OpenAiResponses {
    endpoint: Endpoint,
    model: Option<String>,
    reasoning_summary: Option<String>,
    vendor: Option<&'static Vendor>,
}

impl OpenAiResponses {
    /// Creates the adapter. Connects on the first request.
    pub fn new(options: OpenAiResponsesOptions) -> Result<Self, SetupError> {
        let OpenAiResponsesOptions {
            base_url,
            api_key,
            model,
            connect_timeout,
            reasoning_summary,
            vendor,
        } = options;
        let endpoint = Endpoint::new(&base_url, "/responses", connect_timeout)?
            .with_model(model.as_deref())
            .with_key(AUTHORIZATION, "Bearer ", api_key)?;
        let vendor = vendor.or_else(|| Vendor::at(&base_url));
        Ok(Self { endpoint, model, reasoning_summary, vendor })
    }
}

#[async_trait]
impl Model for OpenAiResponses {
    fn upstream_model(&self, name: &str) -> String {
        self.model.as_deref().unwrap_or(name).to_owned()
    }

    async fn stream(&self, mut prompt: Prompt) -> Result<ModelStream, ModelError> {
        for parameter in Vendor::refused(self.vendor) {
            leave_out(*parameter, &mut prompt);
        }
        let summary = self.reasoning_summary.as_deref();
        let model = self.model.as_deref();
        let origin = self.endpoint.origin(model.unwrap_or(&prompt.model));
        let body = |with_reasoning: bool| {
            RequestBody::new(&prompt, model, summary, with_reasoning.then_some(&origin))
        };
        let dialect = |_: &_| ResponseStream::new(&prompt.tools, origin.clone());
        self.endpoint.ask(body, dialect, prompt.trace.as_deref()).await
    }

    fn capabilities(&self) -> Capabilities {
        let parameters = Vendor::accepted(self.vendor, PARAMETERS);
        Capabilities { parameters, custom_tools: CustomTools::Native }
    }
}

/// Returns the request body for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None, None, Some(&Origin::UNKNOWN))).unwrap()
}

/// A reader of answers, for fuzzing.
pub(crate) fn dialect() -> impl Dialect {
    ResponseStream::new(&[], Origin::UNKNOWN)
}

#[cfg(test)]
#[path = "openai_responses_tests.rs"]
mod tests;
