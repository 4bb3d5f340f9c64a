//! Adapter for servers compatible with Chat Completions of OpenAI: vLLM, Ollama, llama.cpp,
//! `LiteLLM`, Mistral, Groq and others.
//!
//! Most of them deviate from the specification. `stream` tolerates that; most deviations are
//! handled in `calls`.

mod calls;
mod request;
mod stream;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::AUTHORIZATION;
use turnwire_contract::{Capabilities, CustomTools, Model, ModelError, ModelStream, Prompt};

use self::{
    request::{PARAMETERS, RequestBody, Target},
    stream::ChatStream,
};
use crate::{
    http::{DEFAULT_CONNECT_TIMEOUT, Endpoint, SetupError},
    seal::Origin,
    secret::Secret,
    translator::Dialect,
    vendors::{OPEN, Vendor},
    without_parameters::leave_out,
};

/// Kind of seal of reasoning that came as `reasoning_content`.
const REASONING_CONTENT: &str = "chat.reasoning_content";

/// Kind of seal of `reasoning_details`.
const DETAILS: &str = "chat.reasoning_details";

/// Kind of seal of the `extra_content` of calls.
const EXTRA_CONTENT: &str = "chat.extra_content";

/// Settings of the adapter.
#[derive(Debug, Clone)]
pub struct ChatCompletionsOptions {
    /// Base URL without `/chat/completions`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// API key, if required.
    pub api_key: Option<Secret>,
    /// Name of the model on the server; the name in the prompt if not set.
    pub model: Option<String>,
    /// Timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// Who serves the model; found by the base URL if not set.
    pub vendor: Option<&'static Vendor>,
}

impl ChatCompletionsOptions {
    /// Settings without a key, with the model names of the prompts, and a timeout of ten seconds.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            vendor: None,
        }
    }
}

/// A model behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct ChatCompletions {
    endpoint: Endpoint,
    model: Option<String>,
    vendor: Option<&'static Vendor>,
}

impl ChatCompletions {
    /// Creates the adapter. Connects on the first request.
    pub fn new(options: ChatCompletionsOptions) -> Result<Self, SetupError> {
        let ChatCompletionsOptions { base_url, api_key, model, connect_timeout, vendor } = options;
        let endpoint = Endpoint::new(&base_url, "/chat/completions", connect_timeout)?
            .with_model(model.as_deref())
            .with_key(AUTHORIZATION, "Bearer ", api_key)?;
        let vendor = vendor.or_else(|| Vendor::at(&base_url));
        Ok(Self { endpoint, model, vendor })
    }
}

#[async_trait]
impl Model for ChatCompletions {
    fn upstream_model(&self, name: &str) -> String {
        self.model.as_deref().unwrap_or(name).to_owned()
    }

    async fn stream(&self, mut prompt: Prompt) -> Result<ModelStream, ModelError> {
        for parameter in Vendor::refused(self.vendor) {
            leave_out(*parameter, &mut prompt);
        }
        let model = self.model.as_deref();
        let origin = self.endpoint.origin(model.unwrap_or(&prompt.model));
        let rules = self.vendor.map_or(&OPEN, |vendor| &vendor.chat);
        let body = |with_reasoning| {
            RequestBody::new(&prompt, Target { model, rules, origin: &origin, with_reasoning })
        };
        let tool_names = prompt.tools.iter().map(|tool| {
            let written = rules.name(&tool.name).into_owned();
            (written, tool.name.clone())
        });
        let dialect = |_: &_| ChatStream::new(tool_names, origin.clone());
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
    serde_json::to_value(RequestBody::new(prompt, Target::default())).unwrap()
}

/// A reader of answers, for fuzzing.
pub(crate) fn dialect() -> impl Dialect {
    ChatStream::new([("search".to_owned(), "search".to_owned())], Origin::UNKNOWN)
}

#[cfg(test)]
#[path = "chat_completions_tests.rs"]
mod tests;
