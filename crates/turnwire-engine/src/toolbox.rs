//! The tools by name, with what it takes to check a call before it is carried out.

use std::{collections::BTreeMap, fmt, sync::Arc};

use jsonschema::Validator;
use serde_json::{Map, Value};
use tracing::warn;
use turnwire_contract::{Tool, ToolSpec};

/// How many things wrong with the arguments the model is told at once.
const MAX_COMPLAINTS: usize = 3;

/// Tools by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<Entry>>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    /// The tool's spec, shared by every run that offers it.
    spec: Arc<ToolSpec>,
    schema: Validator,
}

impl Toolbox {
    /// Puts `tool` in.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let name = tool.spec().name.clone();
        if name.is_empty() {
            return Err(ToolboxError::NoName);
        }
        if self.tools.contains_key(&name) {
            return Err(ToolboxError::Duplicate(name));
        }
        let schema = jsonschema::validator_for(&tool.spec().parameters)
            .map_err(|error| ToolboxError::Schema { name: name.clone(), why: error.to_string() })?;
        let spec = Arc::new(tool.spec().clone());
        self.tools.insert(name, Arc::new(Entry { tool, spec, schema }));
        Ok(())
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// What is known about every tool, in the order of their names.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| Arc::clone(&entry.spec)).collect()
    }

    /// Reads `raw` as the arguments of the tool `name`, or says what is wrong with them.
    pub fn read_arguments(&self, name: &str, raw: &str) -> Result<Map<String, Value>, String> {
        match self.tools.get(name) {
            Some(entry) => read_arguments(Some(&entry.schema), raw),
            None => Err(not_found(name, [])),
        }
    }
}

/// Reads `raw` as the arguments of the tool that `spec` describes, or says what is wrong with
/// them. A schema that is none is left to the tool itself.
pub(crate) fn read_arguments_for(spec: &ToolSpec, raw: &str) -> Result<Map<String, Value>, String> {
    let schema = jsonschema::validator_for(&spec.parameters)
        .inspect_err(|error| warn!(tool = %spec.name, %error, "invalid tool schema"));
    read_arguments(schema.ok().as_ref(), raw)
}

/// What is wrong with `value` by `schema`; nothing if it fits, or if the schema is none.
pub(crate) fn complaints_about(schema: &Value, value: &Value) -> Option<String> {
    let schema = jsonschema::validator_for(schema).ok()?;
    complaints(Some(&schema), value)
}

fn complaints(schema: Option<&Validator>, value: &Value) -> Option<String> {
    let errors = schema.into_iter().flat_map(|schema| schema.iter_errors(value));
    let complaints: Vec<String> = errors
        .take(MAX_COMPLAINTS)
        .map(|error| complaint(&error.instance_path().to_string(), &error.to_string()))
        .collect();
    (!complaints.is_empty()).then(|| complaints.join("; "))
}

fn read_arguments(schema: Option<&Validator>, raw: &str) -> Result<Map<String, Value>, String> {
    let value = parse(raw)?;
    if let Some(complaints) = complaints(schema, &value) {
        return Err(complaints);
    }
    match value {
        Value::Object(arguments) => Ok(arguments),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("the arguments must be a JSON object".to_owned())
        }
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

/// What the model is told when it calls a tool that was not `offered` to it.
pub(crate) fn not_found<'a>(
    name: &str,
    offered: impl IntoIterator<Item = &'a Arc<ToolSpec>>,
) -> String {
    let names: Vec<&str> = offered.into_iter().map(|spec| spec.name.as_str()).collect();
    match names.as_slice() {
        [] => format!("Tool not found: {name}. There are no tools."),
        names => format!("Tool not found: {name}. There are: {}.", names.join(", ")),
    }
}

/// No arguments at all mean an empty object. Some models leave control tokens such as
/// `<|im_end|>` in what they write; those are dropped if the text makes no sense with them.
fn parse(raw: &str) -> Result<Value, String> {
    let raw = raw.trim();
    if raw.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    serde_json::from_str(raw).or_else(|error| {
        let cleaned = without_control_tokens(raw);
        let text = cleaned.trim();
        if text.len() == raw.len() || text.is_empty() {
            return Err(format!("not valid JSON: {error}"));
        }
        serde_json::from_str(text).map_err(|_| format!("not valid JSON: {error}"))
    })
}

fn without_control_tokens(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<|") {
        kept.push_str(before);
        let Some((_, after_token)) = after.split_once("|>") else {
            kept.push_str("<|");
            rest = after;
            continue;
        };
        rest = after_token;
    }
    kept.push_str(rest);
    kept
}

fn complaint(path: &str, message: &str) -> String {
    if path.is_empty() { message.to_owned() } else { format!("at `{path}`: {message}") }
}

/// Why a tool was not put in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// It has no name.
    #[error("a tool needs a name")]
    NoName,
    /// There is one of that name already.
    #[error("there are two tools named `{0}`; rename one of them")]
    Duplicate(String),
    /// Its schema is not a JSON Schema.
    #[error("the parameters of tool `{name}` are not a valid JSON Schema: {why}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        why: String,
    },
}
