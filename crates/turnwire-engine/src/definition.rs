//! Hash of a tool definition. An approval pins the definition that was approved.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};
use turnwire_contract::{Allowed, RunRequest, ToolSpec};

/// Hashes the name, description and schema of a tool.
pub fn definition_hash(spec: &ToolSpec) -> String {
    hash_of(&[spec.reference().own_name(), &spec.description, &in_order(&spec.parameters)])
}

/// Returns what a person allows for the rest of a conversation: this definition of the tool, of
/// this server. A tool of another server may have the same name and say the same of itself.
pub(crate) fn permission(request: &RunRequest, spec: &ToolSpec) -> Allowed {
    let definition = definition_hash(spec);
    let definition = match &spec.server {
        Some(label) => hash_of(&["server", request.server(label).identity(), &definition]),
        None => definition,
    };
    Allowed { tool: spec.name.clone(), definition }
}

fn hash_of(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        // The length prefix prevents collisions between adjacent parts.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut written = String::new();
    for byte in hasher.finalize() {
        let _ = write!(written, "{byte:02x}");
    }
    written
}

/// Serializes a schema with sorted keys.
fn in_order(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            let field = |(name, value): (&String, &Value)| {
                format!("{}:{}", Value::from(name.as_str()), in_order(value))
            };
            format!("{{{}}}", fields.into_iter().map(field).collect::<Vec<_>>().join(","))
        }
        Value::Array(values) => {
            format!("[{}]", values.iter().map(in_order).collect::<Vec<_>>().join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

/// Removes all prose from a schema and keeps the types. The prose of an untrusted tool could
/// contain a prompt injection.
pub(crate) fn without_words(schema: &Value) -> Value {
    const WORDS: [&str; 6] = ["description", "title", "examples", "default", "$comment", "const"];
    const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !WORDS.contains(&name.as_str()));
            let field = |(name, value): (&String, &Value)| {
                let value = match value.as_object() {
                    // Here the keys are property names, and one may be "description".
                    Some(named) if NAMED.contains(&name.as_str()) => {
                        let each =
                            |(name, value): (&String, &Value)| (name.clone(), without_words(value));
                        Value::Object(named.iter().map(each).collect())
                    }
                    Some(_) | None => without_words(value),
                };
                (name.clone(), value)
            };
            Value::Object(kept.map(field).collect())
        }
        Value::Array(values) => Value::Array(values.iter().map(without_words).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[cfg(test)]
#[path = "definition_tests.rs"]
mod tests;
