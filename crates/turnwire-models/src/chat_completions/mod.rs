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
    request::{PARAMETERS, RequestBody},
    stream::ChatStream,
};
use crate::{
    http::{DEFAULT_CONNECT_TIMEOUT, Endpoint, SetupError},
    secret::Secret,
    translator::Dialect,
};

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
}

impl ChatCompletionsOptions {
    /// Settings without a key, with the model names of the prompts, and a timeout of ten seconds.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            model: None,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
        }
    }
}

/// A model behind an OpenAI-compatible server.
#[derive(Debug, Clone)]
pub struct ChatCompletions {
    endpoint: Endpoint,
    model: Option<String>,
}

impl ChatCompletions {
    /// Creates the adapter. Connects on the first request.
    pub fn new(options: ChatCompletionsOptions) -> Result<Self, SetupError> {
        let ChatCompletionsOptions { base_url, api_key, model, connect_timeout } = options;
        let endpoint = Endpoint::new(&base_url, "/chat/completions", connect_timeout)?
            .with_model(model.as_deref())
            .with_key(AUTHORIZATION, "Bearer ", api_key)?;
        Ok(Self { endpoint, model })
    }
}

#[async_trait]
impl Model for ChatCompletions {
    fn upstream_model(&self, name: &str) -> String {
        self.model.as_deref().unwrap_or(name).to_owned()
    }

    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let body = RequestBody::new(&prompt, self.model.as_deref());
        let tool_names = prompt.tools.iter().map(|tool| tool.name.clone());
        self.endpoint.ask(&body, ChatStream::new(tool_names), prompt.trace.as_deref()).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: PARAMETERS.to_vec(), custom_tools: CustomTools::Native }
    }
}

/// Returns the request body for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None)).unwrap()
}

/// A reader of answers, for fuzzing.
pub(crate) fn dialect() -> impl Dialect {
    ChatStream::new(["search".to_owned()])
}

#[cfg(test)]
#[path = "chat_completions_tests.rs"]
mod tests;
