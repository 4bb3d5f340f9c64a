//! Optional request fields, and those that the two APIs of OpenAI share.

use std::borrow::Cow;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Map, Value, json};
use turnwire_contract::Generation;

/// Returns those of the fields that are not null.
pub(crate) fn set_fields(fields: Value) -> Map<String, Value> {
    let fields = match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    fields.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

/// Returns an object of those fields that are not null, if there are any.
pub(crate) fn set_object(fields: Value) -> Option<Map<String, Value>> {
    Some(set_fields(fields)).filter(|fields| !fields.is_empty())
}

/// Fields that are the same in Chat Completions and Responses.
pub(crate) fn shared_fields(generation: &Generation) -> Map<String, Value> {
    set_fields(json!({
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "prompt_cache_key": generation.prompt_cache_key,
        "prompt_cache_retention": generation.prompt_cache_retention,
        "safety_identifier": generation.safety_identifier,
        "user": generation.user,
        "service_tier": generation.service_tier,
    }))
}

/// The fields of the format of the answer, if it has a schema.
pub(crate) fn schema_fields(generation: &Generation) -> Option<Map<String, Value>> {
    let schema = generation.answer_schema.as_ref()?;
    Some(set_fields(json!({
        "name": generation.schema_name.as_deref().unwrap_or("answer"),
        "description": generation.schema_description,
        "strict": generation.schema_strict.unwrap_or(true),
        "schema": schema,
    })))
}

/// Returns the text in a `data:` URL of a text.
pub(crate) fn text_in(url: &str) -> Option<String> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    let text = BASE64_STANDARD.decode(data).ok().filter(|_| media_type.starts_with("text/"))?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

/// Whether this is a model of OpenAI that takes no temperature, because it thinks.
pub(crate) fn refuses_sampling(model: &str, effort: Option<&str>) -> bool {
    let thinks = ["o1", "o3", "o4", "gpt-5", "gpt-6"].iter().any(|name| model.starts_with(name));
    let is_off = effort == Some("none") && model.starts_with("gpt-5.");
    thinks && !is_off && !model.starts_with("gpt-5-chat")
}

/// Fields that such models do not take.
pub(crate) const SAMPLING: [&str; 5] = ["temperature", "top_p", "logprobs", "top_logprobs", "stop"];

/// Keywords that OpenAI and Anthropic reject at the top of the schema of a tool.
const NOT_AT_THE_TOP: [&str; 5] = ["oneOf", "anyOf", "allOf", "enum", "not"];

/// Returns the schema of a tool's arguments as a plain object, which is all that some providers
/// take: the properties of all alternatives are its own. The engine validates by the whole schema.
pub(crate) fn plain_object(schema: &Value) -> Cow<'_, Value> {
    let Value::Object(fields) = schema else { return Cow::Borrowed(schema) };
    let is_plain = fields.get("type").is_some_and(|kind| kind == "object")
        && NOT_AT_THE_TOP.iter().all(|keyword| !fields.contains_key(*keyword));
    if is_plain {
        return Cow::Borrowed(schema);
    }
    let mut fields = fields.clone();
    let parts = NOT_AT_THE_TOP.map(|keyword| (keyword, fields.shift_remove(keyword)));
    let mut properties = match fields.shift_remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    for (keyword, part) in parts {
        for alternative in part.iter().filter_map(Value::as_array).flatten() {
            let others = alternative.get("properties").and_then(Value::as_object);
            for (name, property) in others.into_iter().flatten() {
                properties.entry(name).or_insert_with(|| property.clone());
            }
            if keyword == "allOf"
                && let Some(Value::Array(more)) = alternative.get("required")
                && let Value::Array(required) = fields.entry("required").or_insert(json!([]))
            {
                required.extend(more.iter().cloned());
            }
        }
    }
    fields.insert("type".to_owned(), json!("object"));
    fields.insert("properties".to_owned(), Value::Object(properties));
    Cow::Owned(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_of_a_tool_become_its_properties() {
        let plain = json!({ "type": "object", "properties": { "a": {} } });
        assert!(matches!(plain_object(&plain), Cow::Borrowed(_)));
        let either = json!({
            "properties": { "a": { "type": "string" } },
            "anyOf": [{ "properties": { "b": {} }, "required": ["b"] }, { "$ref": "#/$defs/c" }],
            "allOf": [{ "properties": { "a": {}, "d": {} }, "required": ["d"] }],
            "$defs": { "c": {} },
        });
        assert_eq!(
            *plain_object(&either),
            json!({
                "$defs": { "c": {} },
                "required": ["d"],
                "type": "object",
                "properties": { "a": { "type": "string" }, "b": {}, "d": {} },
            })
        );
        assert_eq!(*plain_object(&json!({})), json!({ "type": "object", "properties": {} }));
    }
}
