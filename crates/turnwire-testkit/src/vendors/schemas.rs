//! Which JSON schemas vendors refuse.

use serde_json::Value;

/// Keywords that no vendor takes at the top of a function's parameters.
const UNIONS: &[&str] = &["oneOf", "anyOf", "allOf"];

/// Returns what is wrong at the top of a function's parameters.
pub(super) fn flaw_at_top(schema: &Value, refused: &[&str]) -> Option<String> {
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Some("schema must have type 'object'".to_owned());
    }
    let found = UNIONS.iter().chain(refused).find(|keyword| schema.get(**keyword).is_some())?;
    Some(format!("schema must not have '{found}' at the top level"))
}

/// Returns the first keyword of `refused` anywhere in the schema.
pub(super) fn keyword_in(schema: &Value, refused: &[&str]) -> Option<String> {
    let below = |value: &Value| keyword_in(value, refused);
    match schema {
        Value::Object(fields) => {
            let found = fields.keys().find(|name| refused.contains(&name.as_str())).cloned();
            found.or_else(|| {
                fields.iter().find_map(|(name, value)| match (name.as_str(), value) {
                    // These are names, not keywords.
                    ("properties" | "$defs", Value::Object(named)) => {
                        named.values().find_map(below)
                    }
                    (_, value) => below(value),
                })
            })
        }
        Value::Array(values) => values.iter().find_map(below),
        _ => None,
    }
}

/// Returns what is not strict in the schema: an object that is open, or a property that is not
/// required.
pub(super) fn looseness(schema: &Value) -> Option<String> {
    let Value::Object(fields) = schema else {
        return schema.as_array()?.iter().find_map(looseness);
    };
    if let Some(Value::Object(properties)) = fields.get("properties") {
        if fields.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Some(
                "'additionalProperties' is required to be supplied and to be false".into(),
            );
        }
        let required = fields.get("required").and_then(Value::as_array);
        let is_required =
            |name: &String| required.is_some_and(|all| all.iter().any(|it| it == name.as_str()));
        if let Some(name) = properties.keys().find(|name| !is_required(name)) {
            return Some(format!("'required' is missing '{name}'"));
        }
        return properties.values().find_map(looseness);
    }
    fields.values().find_map(looseness)
}

/// Returns an object of the schema that takes other properties as well.
pub(super) fn openness(schema: &Value) -> Option<&Value> {
    match schema {
        Value::Object(fields) => {
            let is_object = fields.get("type").and_then(Value::as_str) == Some("object");
            let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
            if is_object && !is_closed {
                return Some(schema);
            }
            fields.values().find_map(openness)
        }
        Value::Array(values) => values.iter().find_map(openness),
        _ => None,
    }
}
