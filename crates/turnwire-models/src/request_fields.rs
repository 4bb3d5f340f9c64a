//! Optional request fields, and those that the two APIs of OpenAI share.

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
