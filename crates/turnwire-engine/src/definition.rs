//! What a tool says of itself, in short: the same for the same definition, and another for any
//! other. Whoever has allowed a tool has allowed what it was then.

use std::fmt::Write;

use serde_json::Value;
use sha2::{Digest, Sha256};
use turnwire_contract::ToolSpec;

/// What stands for the name, the description and the schema of a tool.
pub fn definition_of(spec: &ToolSpec) -> String {
    let mut hasher = Sha256::new();
    for part in [spec.reference().own_name(), &spec.description, &in_order(&spec.parameters)] {
        // With its length, so that no two definitions can be told in the same bytes.
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    let mut written = String::new();
    for byte in hasher.finalize() {
        let _ = write!(written, "{byte:02x}");
    }
    written
}

/// A schema as text, whatever the order in which its server happened to write the keys.
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

/// A schema without the words in it: what kind of values a tool takes, and nothing that could
/// talk to a model.
pub(crate) fn without_words(schema: &Value) -> Value {
    const WORDS: [&str; 6] = ["description", "title", "examples", "default", "$comment", "const"];
    const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !WORDS.contains(&name.as_str()));
            let field = |(name, value): (&String, &Value)| {
                let value = match value.as_object() {
                    // Here the keys are names, and a name may be "description".
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
