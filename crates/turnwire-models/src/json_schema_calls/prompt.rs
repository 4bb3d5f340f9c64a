//! Rewrites a prompt for a model without tool support: the tools are described in text.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use serde_json::{Map, Value, json};
use turnwire_contract::{CallId, Content, Item, Prompt, Role, ToolChoice, ToolSpec};

/// Keywords for definitions in a schema.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Appended to the latest result. Without it, very small models repeat the same call.
const WHAT_NOW: &str = "\n\nNow answer with {\"answer\": …}, or use another tool.";

#[derive(Debug, PartialEq)]
pub(super) enum RewrittenPrompt {
    /// No tool may be called. The answer is plain text.
    Plain(Prompt),
    /// The answer conforms to [`answer_schema`].
    WithTools(Prompt),
}

pub(super) fn rewrite(mut prompt: Prompt) -> RewrittenPrompt {
    let tools = std::mem::take(&mut prompt.tools);
    let choice = std::mem::take(&mut prompt.tool_choice);
    let tools: Vec<Arc<ToolSpec>> = match &choice {
        ToolChoice::None => Vec::new(),
        ToolChoice::Auto | ToolChoice::Required => tools,
        ToolChoice::Named { name } => tools.into_iter().filter(|tool| tool.name == *name).collect(),
    };
    let has_tools = !tools.is_empty();
    let may_answer = choice == ToolChoice::Auto;
    prompt.items = items(&prompt.items, has_tools, may_answer);
    if !has_tools {
        return RewrittenPrompt::Plain(prompt);
    }
    let own = prompt.instructions.take().map(|own| format!("{own}\n\n")).unwrap_or_default();
    prompt.instructions = Some(format!("{own}{}", instructions(&tools, may_answer)));
    let generation = &mut prompt.generation;
    let any_object = std::mem::take(&mut generation.json_object);
    let answer = generation.answer_schema.take();
    let answer = answer.or_else(|| any_object.then(|| json!({ "type": "object" })));
    generation.answer_schema = Some(answer_schema(&tools, may_answer, answer));
    // The schema of the calls replaces the client's schema.
    generation.schema_name = None;
    generation.schema_description = None;
    generation.schema_strict = None;
    RewrittenPrompt::WithTools(prompt)
}

fn instructions(tools: &[Arc<ToolSpec>], may_answer: bool) -> String {
    let mut text = "You can use tools. Reply with one JSON object and nothing else.\n\
        To use a tool: {\"tool\": \"its name\", \"arguments\": {…}}. You are then told what came \
        of it.\n"
        .to_owned();
    if may_answer {
        text.push_str(
            "To answer, when you need no tool or know enough: {\"answer\": \"your answer\"}.\n",
        );
    }
    text.push_str("\nThe tools:\n");
    for tool in tools {
        let ToolSpec { name, description, parameters, .. } = tool.as_ref();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "- {name}: {description}\n  arguments: {parameters}");
    }
    text
}

/// Returns the schema of the answer: text, or one call.
fn answer_schema(tools: &[Arc<ToolSpec>], may_answer: bool, answer: Option<Value>) -> Value {
    let mut definitions = Map::new();
    let mut ways = Vec::new();
    if may_answer {
        let answer = answer.unwrap_or_else(|| json!({ "type": "string" }));
        let answer = lifted("answer", answer, &mut definitions);
        ways.push(object(&[("answer", answer)]));
    }
    for tool in tools {
        let arguments = lifted(&tool.name, tool.parameters.clone(), &mut definitions);
        let name = json!({ "type": "string", "enum": [tool.name] });
        ways.push(object(&[("tool", name), ("arguments", arguments)]));
    }
    let mut schema = Map::from_iter([("anyOf".to_owned(), Value::Array(ways))]);
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Value::Object(schema)
}

fn object(properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": false,
    })
}

/// Prepares `schema` for use inside another: its definitions move to the top level, with names that
/// are unique per tool.
fn lifted(owner: &str, mut schema: Value, definitions: &mut Map<String, Value>) -> Value {
    for place in DEFINITIONS {
        let own = schema.as_object_mut().and_then(|schema| schema.shift_remove(place));
        for (name, mut definition) in own.and_then(into_object).unwrap_or_default() {
            rename(owner, &mut definition);
            definitions.insert(format!("{owner}.{name}"), definition);
        }
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$schema");
    }
    rename(owner, &mut schema);
    schema
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(object) => Some(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    }
}

/// Adjusts all references to the moved definitions.
fn rename(owner: &str, schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(to) if key == "$ref" => {
                        let places = DEFINITIONS.map(|place| format!("#/{place}/"));
                        let name = places.iter().find_map(|place| to.strip_prefix(place.as_str()));
                        if let Some(moved) = name.map(|name| format!("#/$defs/{owner}.{name}")) {
                            *to = moved;
                        }
                    }
                    other => rename(owner, other),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename(owner, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Converts calls and results in the conversation to messages, in the format of [`instructions`].
fn items(items: &[Arc<Item>], has_tools: bool, may_answer: bool) -> Vec<Arc<Item>> {
    let mut names: BTreeMap<&CallId, &str> = BTreeMap::new();
    let mut rewritten = Vec::with_capacity(items.len());
    for (n, item) in items.iter().enumerate() {
        let is_new = has_tools && may_answer && n + 1 == items.len();
        rewritten.push(match item.as_ref() {
            // Earlier answers have the same format as the requested one.
            Item::Message { role: Role::Assistant, content } if has_tools => {
                Arc::new(Item::assistant(json!({ "answer": text_of(content) }).to_string()))
            }
            Item::Message { .. } | Item::Reasoning { .. } => Arc::clone(item),
            Item::Call { call_id, name, arguments, .. } => {
                names.insert(call_id, name);
                let name = Value::from(name.as_str());
                let call = format!("{{\"tool\":{name},\"arguments\":{arguments}}}");
                Arc::new(Item::assistant(call))
            }
            Item::CallResult { call_id, output, images, failed, .. } => {
                let name = names.get(call_id).copied().unwrap_or("?");
                let how = if *failed { "failed" } else { "returned" };
                let hint = if is_new { WHAT_NOW } else { "" };
                let text = format!("The tool `{name}` {how}:\n{output}{hint}");
                let pictures = images.iter().map(|image| Content::image(image.data_url()));
                let content = std::iter::once(Content::text(text)).chain(pictures).collect();
                Arc::new(Item::Message { role: Role::User, content })
            }
        });
    }
    rewritten
}

fn text_of(content: &[Content]) -> String {
    let text = |content: &Content| match content {
        Content::Text { text } | Content::Refusal { text } => Some(text.clone()),
        Content::Image { .. } | Content::File { .. } => None,
    };
    content.iter().filter_map(text).collect::<Vec<_>>().join("\n")
}
