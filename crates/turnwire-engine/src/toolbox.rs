//! Tools by name, and validation of call arguments.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde_json::{Map, Value};
use turnwire_contract::{Tool, ToolSpec};

use crate::schemas::{self, CompiledSchema};

/// Tools by name.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<Entry>>,
}

struct Entry {
    tool: Arc<dyn Tool>,
    /// Shared by every run that offers the tool.
    spec: Arc<ToolSpec>,
    schema: Arc<CompiledSchema>,
}

impl Toolbox {
    /// Adds `tool`. Fails if its name is empty or taken, or its schema is invalid.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolboxError> {
        let name = tool.spec().name.clone();
        if name.is_empty() {
            return Err(ToolboxError::NoName);
        }
        if self.tools.contains_key(&name) {
            return Err(ToolboxError::Duplicate(name));
        }
        let schema = CompiledSchema::own(&tool.spec().parameters)
            .map_err(|why| ToolboxError::Schema { name: name.clone(), why })?;
        let spec = Arc::new(tool.spec().clone());
        self.tools.insert(name, Arc::new(Entry { tool, spec, schema }));
        Ok(())
    }

    /// Returns the tool with this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(name).map(|entry| &entry.tool)
    }

    /// Returns the specs of all tools, sorted by name.
    pub fn specs(&self) -> Vec<Arc<ToolSpec>> {
        self.tools.values().map(|entry| Arc::clone(&entry.spec)).collect()
    }

    /// Parses and validates `raw` as arguments of the tool `name`, or returns the errors.
    pub async fn read_arguments(
        &self,
        name: &str,
        raw: &str,
    ) -> Result<Map<String, Value>, String> {
        let Some(entry) = self.tools.get(name) else { return Err(not_found(name, [])) };
        as_object(schemas::checked_by(&entry.schema, parse(raw)?).await?)
    }
}

/// Parses `raw` and checks it against the schema of `spec`, which a server wrote, or returns what is
/// wrong.
pub(crate) async fn read_arguments_for(
    spec: &ToolSpec,
    raw: &str,
) -> Result<Map<String, Value>, String> {
    as_object(schemas::checked(&spec.parameters, parse(raw)?).await?)
}

fn as_object(value: Value) -> Result<Map<String, Value>, String> {
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

/// Returns the message for a call of a tool that was not `offered`.
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

/// Empty arguments mean an empty object. Some models emit control tokens such as `<|im_end|>`;
/// these are removed if the text does not parse with them.
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

/// Why a tool was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolboxError {
    /// The name is empty.
    #[error("a tool needs a name")]
    NoName,
    /// A tool with this name exists.
    #[error("there are two tools named `{0}`; rename one of them")]
    Duplicate(String),
    /// The schema is not a valid JSON Schema.
    #[error("the parameters of tool `{name}` are not a valid JSON Schema: {why}")]
    Schema {
        /// Name of the tool.
        name: String,
        /// The validation error.
        why: String,
    },
}
