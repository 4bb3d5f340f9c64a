//! Any server that speaks the Chat Completions of `OpenAI`: vLLM, Ollama, llama.cpp, `LiteLLM`,
//! Mistral, Groq and many more.
//!
//! Few of them speak it quite alike, so `stream` forgives a lot; `calls` is where most of the
//! forgiving happens.

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
};

/// Where the server is and how to speak to it.
#[derive(Debug, Clone)]
pub struct ChatCompletionsOptions {
    /// The address up to and without `/chat/completions`, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The key, for servers that want one.
    pub api_key: Option<Secret>,
    /// The name of the model as the server knows it; the name in the prompt if not set.
    pub model: Option<String>,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
}

impl ChatCompletionsOptions {
    /// No key, the prompt's own model names, and ten seconds to connect.
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
    /// Makes ready to speak to the server; connects when first asked.
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
        self.endpoint.ask(&body, ChatStream::new(tool_names)).await
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { parameters: PARAMETERS.to_vec(), custom_tools: CustomTools::Native }
    }
}

/// What is sent for `prompt`.
#[cfg(test)]
pub(crate) fn written(prompt: &Prompt) -> serde_json::Value {
    serde_json::to_value(RequestBody::new(prompt, None)).unwrap()
}

#[cfg(test)]
#[path = "chat_completions_tests.rs"]
mod tests;
