//! Tools for models that cannot call any, by way of answers that fit a JSON Schema.
//!
//! Many small models write calls badly or not at all, while their servers can hold any answer to
//! a schema. So the tools are described in the instructions, and the answer must be one of two
//! things: `{"answer": "…"}`, or `{"tool": "…", "arguments": {…}}`. `prompt` words the question,
//! `stream` reads the answer while it is being written: the words of an answer go out as they
//! come, and a call comes out as if the model had called by itself. What came of a call is told to
//! the model as a message.
//!
//! [`JsonSchemaCalls`] is put around any other model, and the engine cannot tell. A model can make
//! one call in a turn this way, not several.

mod prompt;
mod stream;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use futures::{StreamExt, stream as streams};
use turnwire_contract::{
    Capabilities, CustomTools, Model, ModelError, ModelStream, Parameter, Prompt,
};

use self::{
    prompt::{Worded, worded},
    stream::AnswerReader,
};

/// A model that calls tools by answers that fit a schema.
#[derive(Clone)]
pub struct JsonSchemaCalls {
    model: Arc<dyn Model>,
}

impl JsonSchemaCalls {
    /// Makes `model` call tools this way.
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
        match worded(prompt) {
            Worded::Plain(prompt) => self.model.stream(prompt).await,
            Worded::WithTools(prompt) => {
                let parts = self.model.stream(prompt).await?;
                let mut reader = AnswerReader::default();
                Ok(Box::pin(parts.flat_map(move |part| streams::iter(reader.take(part)))))
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.model.capabilities();
        // Tools are told in words, and the form of the answer is taken.
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

impl fmt::Debug for JsonSchemaCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonSchemaCalls").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "json_schema_calls_tests.rs"]
mod tests;
