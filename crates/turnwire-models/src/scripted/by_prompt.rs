//! Scripts that are part of the prompt.
//!
//! Tests that use a server from outside cannot configure its turns, and concurrent tests would get
//! each other's. So the client sends the script in the prompt, and the server stores nothing. The
//! index of the next turn is the number of answers since the prompt.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{Content, Item, ModelError, ModelPart, Prompt, Role, ToolKind, ToolSpec};

use super::Turn;

/// Placeholder for the results of the last calls.
const RESULTS: &str = "{results}";

/// Size of an unreadable part.
const GARBLED_BYTES: u64 = 32;

pub(super) fn turn_for(prompt: &Prompt) -> Result<Turn, ModelError> {
    let (question, since) = last_question(prompt);
    let Some(script) = script_in(&question) else {
        return Ok(echo(&question));
    };
    let script: Script = serde_json::from_value(script).map_err(|error| ModelError::Rejected {
        message: format!("the script in the prompt is not valid: {error}"),
    })?;
    let wanted = answers_in(since);
    let spoken = script.turns.into_iter().nth(wanted).ok_or_else(|| ModelError::Rejected {
        message: format!("the script in the prompt has no turn {}", wanted + 1),
    })?;
    Ok(spoken.into_turn(&last_results(since), prompt))
}

/// Returns the last user message, and the items after it.
fn last_question(prompt: &Prompt) -> (String, &[Arc<Item>]) {
    let is_question =
        |item: &Arc<Item>| matches!(item.as_ref(), Item::Message { role: Role::User, .. });
    let Some(place) = prompt.items.iter().rposition(is_question) else {
        return (String::new(), &prompt.items);
    };
    let (before, since) = prompt.items.split_at(place + 1);
    (before.last().map(|item| words_of(item)).unwrap_or_default(), since)
}

fn words_of(item: &Item) -> String {
    let content = match item {
        Item::Message { content, .. } => content.as_slice(),
        Item::Reasoning { .. } | Item::Call { .. } | Item::CallResult { .. } => &[],
    };
    let texts = content.iter().filter_map(|content| match content {
        Content::Text { text } => Some(text.trim()),
        Content::Refusal { .. } | Content::Image { .. } | Content::File { .. } => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Returns the script, if the whole text is one.
fn script_in(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    value.as_object()?.contains_key("turns").then_some(value)
}

/// Returns the number of answers. Consecutive text and calls before the first result are one
/// answer.
fn answers_in(items: &[Arc<Item>]) -> usize {
    let (mut n_answers, mut is_speaking) = (0, false);
    for item in items {
        match item.as_ref() {
            Item::CallResult { .. } => is_speaking = false,
            Item::Message { role: Role::Assistant, .. }
            | Item::Reasoning { .. }
            | Item::Call { .. } => {
                n_answers += usize::from(!is_speaking);
                is_speaking = true;
            }
            Item::Message { role: Role::System | Role::User, .. } => {}
        }
    }
    n_answers
}

/// Returns the results of the last calls, in order.
fn last_results(items: &[Arc<Item>]) -> String {
    let mut results: Vec<&str> = Vec::new();
    for item in items {
        match item.as_ref() {
            Item::CallResult { output, .. } => results.push(output),
            Item::Call { .. } => results.clear(),
            Item::Message { .. } | Item::Reasoning { .. } => {}
        }
    }
    results.join(", ")
}

fn echo(question: &str) -> Turn {
    if question.is_empty() {
        return Turn::new().text("You said nothing.");
    }
    Turn::new().text_in(format!("You said: {question}").split_inclusive(' '))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    turns: Vec<ScriptTurn>,
}

/// A turn in the JSON of a script.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ScriptTurn {
    reasoning: Pieces,
    text: Pieces,
    refusal: Pieces,
    calls: Vec<ScriptCall>,
    finish: PromptedEnd,
    pause_ms: u64,
    pace_ms: u64,
    error: Option<ScriptError>,
    retry_after_ms: Option<u64>,
    after: Option<usize>,
    /// Number of pieces before an unreadable part.
    garbled_after: Option<usize>,
}

impl ScriptTurn {
    fn into_turn(mut self, results: &str, prompt: &Prompt) -> Turn {
        let mut parts = self.parts(results, prompt);
        if let Some(place) = self.garbled_after {
            parts.insert(place.min(parts.len()), ModelPart::Unreadable { bytes: GARBLED_BYTES });
        }
        let retry_after = self.retry_after_ms.map(Duration::from_millis);
        let error = self.error.map(|trouble| trouble.into_error(retry_after));
        let error = match (error, self.after) {
            // A broken stream has already started.
            (Some(error @ ModelError::Broken { .. }), None) => {
                parts.clear();
                Some(error)
            }
            (Some(error), None) => return Turn::fails(error),
            (Some(error), Some(n_pieces)) => {
                parts.truncate(n_pieces);
                Some(error)
            }
            (None, _) => None,
        };
        let mut turn = Turn::new();
        if self.pause_ms > 0 {
            turn = turn.pause(Duration::from_millis(self.pause_ms));
        }
        for part in parts {
            if self.pace_ms > 0 {
                turn = turn.pause(Duration::from_millis(self.pace_ms));
            }
            turn = turn.part(part);
        }
        match (error, self.finish) {
            (Some(error), _) => turn.ends_with(error),
            (None, PromptedEnd::ByItself) => turn,
            (None, PromptedEnd::Length) => turn.length_cut(),
            (None, PromptedEnd::ContentFilter) => turn.content_filter(),
            (None, PromptedEnd::Silent) => turn.ends_silently(),
            (None, PromptedEnd::Never) => turn.wait_forever(),
        }
    }

    fn parts(&mut self, results: &str, prompt: &Prompt) -> Vec<ModelPart> {
        let reasoning = std::mem::take(&mut self.reasoning).0.into_iter().map(ModelPart::Reasoning);
        let text = std::mem::take(&mut self.text).0.into_iter();
        let text = text.map(|text| ModelPart::Text(text.replace(RESULTS, results)));
        let refusal = std::mem::take(&mut self.refusal).0.into_iter().map(ModelPart::Refusal);
        let calls = (0..).zip(std::mem::take(&mut self.calls));
        let calls = calls.flat_map(|(key, call)| call.into_parts(key, prompt));
        reasoning.chain(text).chain(refusal).chain(calls).collect()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptCall {
    name: String,
    id: Option<String>,
    #[serde(default)]
    arguments: Map<String, Value>,
    raw: Option<Pieces>,
    input: Option<Pieces>,
}

impl ScriptCall {
    fn into_parts(self, key: u32, prompt: &Prompt) -> Vec<ModelPart> {
        let Self { name, id, arguments, raw, input } = self;
        let is_custom = |tool: &ToolSpec| tool.kind == ToolKind::Custom && tool.name == name;
        let is_custom = prompt.tools.iter().any(|tool| is_custom(tool));
        let pieces = match (raw, input) {
            (Some(raw), _) => raw.0,
            (None, Some(input)) if is_custom => input.0,
            // A provider without custom tools was offered a function.
            (None, Some(input)) => vec![json!({ "input": input.0.concat() }).to_string()],
            (None, None) => vec![Value::Object(arguments).to_string()],
        };
        let arguments = pieces.into_iter().map(|text| ModelPart::CallArguments { key, text });
        std::iter::once(ModelPart::CallStarted { key, id, name }).chain(arguments).collect()
    }
}

/// A text in one or several pieces.
#[derive(Default, Deserialize)]
#[serde(from = "OneOrMany")]
struct Pieces(Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for Pieces {
    fn from(text: OneOrMany) -> Self {
        match text {
            OneOrMany::One(text) => Self(vec![text]),
            OneOrMany::Many(pieces) => Self(pieces),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PromptedEnd {
    #[default]
    #[serde(alias = "stop", alias = "tool_calls")]
    ByItself,
    Length,
    ContentFilter,
    Silent,
    Never,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ScriptError {
    Unavailable,
    RateLimited,
    Rejected,
    Broken,
}

impl ScriptError {
    fn into_error(self, retry_after: Option<Duration>) -> ModelError {
        let message = "the script says so".to_owned();
        match self {
            Self::Unavailable => ModelError::Unavailable { message, retry_after },
            Self::RateLimited => ModelError::RateLimited { message, retry_after },
            Self::Rejected => ModelError::Rejected { message },
            Self::Broken => ModelError::Broken { message },
        }
    }
}

#[cfg(test)]
#[path = "by_prompt_tests.rs"]
mod tests;
