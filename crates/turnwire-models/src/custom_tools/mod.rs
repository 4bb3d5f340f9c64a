//! Custom tools for providers that support only functions.
//!
//! The input of a custom tool is plain text, and a function takes a JSON object. The tool is
//! offered as a function with one string argument, `{"input": "…"}`, and the argument is extracted
//! while it is streamed. A grammar is included in the description and not enforced.
//!
//! [`CustomToolsAsFunctions`] wraps any other model, transparently to the engine.

mod input_reader;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use futures::{StreamExt, stream};
use serde_json::{Map, Value, json};
use turnwire_contract::{
    Capabilities, CustomTools, InputFormat, Item, Model, ModelError, ModelPart, ModelStream,
    Prompt, ToolKind, ToolSpec, partial_debug,
};

use self::input_reader::InputReader;

/// The argument of the function that represents a custom tool.
const INPUT: &str = "input";

/// A wrapper that offers custom tools as functions.
#[derive(Clone)]
pub struct CustomToolsAsFunctions {
    model: Arc<dyn Model>,
    custom_tools: CustomTools,
}

impl CustomToolsAsFunctions {
    /// Offers custom tools to `model` as functions.
    pub fn new(model: Arc<dyn Model>) -> Self {
        Self { model, custom_tools: CustomTools::AsFunctions }
    }

    /// Refuses custom tools. Calls of them in the history are still sent as function calls.
    pub fn refusing(model: Arc<dyn Model>) -> Self {
        Self { model, custom_tools: CustomTools::Refused }
    }
}

#[async_trait]
impl Model for CustomToolsAsFunctions {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let (prompt, custom) = with_functions(prompt);
        let parts = self.model.stream(prompt).await?;
        if custom.is_empty() {
            return Ok(parts);
        }
        let mut extractor = InputExtractor { custom, calls: HashMap::new() };
        Ok(Box::pin(parts.flat_map(move |part| stream::iter(extractor.take(part)))))
    }

    fn upstream_model(&self, name: &str) -> String {
        self.model.upstream_model(name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { custom_tools: self.custom_tools, ..self.model.capabilities() }
    }
}

partial_debug!(CustomToolsAsFunctions { custom_tools });

/// Replaces custom tools by functions, and returns their names.
fn with_functions(mut prompt: Prompt) -> (Prompt, HashSet<String>) {
    let mut custom = HashSet::new();
    for tool in &mut prompt.tools {
        if tool.kind == ToolKind::Custom {
            custom.insert(tool.name.clone());
            *tool = Arc::new(as_function(tool));
        }
    }
    for item in &mut prompt.items {
        if let Some(call) = as_function_call(item) {
            *item = Arc::new(call);
        }
    }
    (prompt, custom)
}

fn as_function(tool: &ToolSpec) -> ToolSpec {
    let description = match &tool.format {
        None | Some(InputFormat::Text) => tool.description.clone(),
        Some(InputFormat::Grammar { syntax, definition }) => format!(
            "{}\n\nThe input must fit this grammar, written in {syntax}:\n\n{definition}",
            tool.description
        ),
    };
    ToolSpec {
        description: description.trim_start().to_owned(),
        kind: ToolKind::Client,
        format: None,
        parameters: json!({
            "type": "object",
            "properties": { INPUT: { "type": "string", "description": "The whole input." } },
            "required": [INPUT],
            "additionalProperties": false,
        }),
        ..tool.clone()
    }
}

fn as_function_call(item: &Item) -> Option<Item> {
    let Item::Call { call_id, name, arguments, kind: ToolKind::Custom, server } = item else {
        return None;
    };
    Some(Item::Call {
        call_id: call_id.clone(),
        name: name.clone(),
        arguments: Value::Object(wrapped(arguments)).to_string(),
        kind: ToolKind::Client,
        server: server.clone(),
    })
}

/// Returns the input of a custom tool as function arguments.
pub(crate) fn wrapped(input: &str) -> Map<String, Value> {
    Map::from_iter([(INPUT.to_owned(), input.into())])
}

type Part = Result<ModelPart, ModelError>;

/// Extracts the input of custom tools from function arguments.
struct InputExtractor {
    /// Names of the functions that represent custom tools.
    custom: HashSet<String>,
    /// Their calls by key.
    calls: HashMap<u32, InputReader>,
}

impl InputExtractor {
    fn take(&mut self, part: Part) -> Vec<Part> {
        match part {
            Ok(ModelPart::CallStarted { key, id, name }) => {
                if self.custom.contains(&name) {
                    self.calls.insert(key, InputReader::default());
                }
                vec![Ok(ModelPart::CallStarted { key, id, name })]
            }
            Ok(ModelPart::CallArguments { key, text }) => match self.calls.get_mut(&key) {
                Some(reader) => arguments(key, reader.push(&text)).into_iter().collect(),
                None => vec![Ok(ModelPart::CallArguments { key, text })],
            },
            Ok(ModelPart::Finished(finish)) => {
                let mut open: Vec<_> = self.calls.drain().collect();
                open.sort_by_key(|(key, _)| *key);
                let rest =
                    open.into_iter().filter_map(|(key, reader)| arguments(key, reader.rest()));
                rest.chain([Ok(ModelPart::Finished(finish))]).collect()
            }
            other => vec![other],
        }
    }
}

fn arguments(key: u32, text: String) -> Option<Part> {
    (!text.is_empty()).then_some(Ok(ModelPart::CallArguments { key, text }))
}

#[cfg(test)]
#[path = "custom_tools_tests.rs"]
mod tests;
