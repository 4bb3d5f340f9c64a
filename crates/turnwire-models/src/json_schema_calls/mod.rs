//! Tool calls for models without tool support, through structured output.
//!
//! Many small models write calls badly or not at all, while their servers can enforce a JSON
//! Schema. The tools are described in the instructions, and the answer must be `{"answer": "…"}` or
//! `{"tool": "…", "arguments": {…}}`. `prompt` rewrites the prompt. `stream` parses the answer
//! while it is streamed: the text of an answer is passed on as it arrives, and a call is converted
//! to regular parts. The result of a call is sent to the model as a message.
//!
//! [`JsonSchemaCalls`] wraps any other model, transparently to the engine. The model can make one
//! call per turn.

mod prompt;
mod stream;

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream as streams};
use turnwire_contract::{
    Capabilities, CustomTools, Model, ModelError, ModelStream, Parameter, Prompt, partial_debug,
};

use self::{
    prompt::{RewrittenPrompt, rewrite},
    stream::AnswerReader,
};

/// A wrapper that adds tool calls through structured output.
#[derive(Clone)]
pub struct JsonSchemaCalls {
    model: Arc<dyn Model>,
}

impl JsonSchemaCalls {
    /// Wraps `model`.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model }
    }
}

#[async_trait]
impl Model for JsonSchemaCalls {
    fn upstream_model(&self, name: &str) -> String {
        self.model.upstream_model(name)
    }

    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        match rewrite(prompt) {
            RewrittenPrompt::Plain(prompt) => self.model.stream(prompt).await,
            RewrittenPrompt::WithTools(prompt) => {
                let parts = self.model.stream(prompt).await?;
                let mut reader = AnswerReader::default();
                Ok(Box::pin(parts.flat_map(move |part| streams::iter(reader.take(part)))))
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.model.capabilities();
        // Tools are described in text, and the answer format is already used.
        let untold = [
            Parameter::StrictFunctions,
            Parameter::Namespaces,
            Parameter::SchemaDescription,
            Parameter::LooseSchema,
        ];
        capabilities.parameters.retain(|parameter| !untold.contains(parameter));
        Capabilities { custom_tools: CustomTools::Refused, ..capabilities }
    }
}

partial_debug!(JsonSchemaCalls {});

#[cfg(test)]
#[path = "json_schema_calls_tests.rs"]
mod tests;
