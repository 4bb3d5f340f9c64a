//! Derives the schema of a function's arguments, for the model.
//!
//! The schema of `schemars` is adapted for models: it is inlined, because models do not follow
//! references well; Rust-specific details are removed, because every word costs tokens; and it is
//! closed, so that an unknown argument is an error with its name instead of being ignored.

use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value};

/// Returns the JSON Schema (draft 2020-12) of `A` for the model.
///
/// An object that accepts additional properties needs `#[schemars(extend("additionalProperties" =
/// true))]`.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    let root = schema.ensure_object();
    // Providers require an object at the top level, even for an enum.
    root.entry("type").or_insert_with(|| "object".into());
    if root.get("type").is_some_and(|kind| kind == "object") && !is_composed(root) {
        root.entry("properties").or_insert_with(|| Map::new().into());
    }
    ForTheModel.transform(&mut schema);
    schema.to_value()
}

/// Number formats of `schemars`, which are meaningless to models and validators.
const NUMBER_FORMATS: [&str; 14] = [
    "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64",
    "uint128", "uint", "float", "double",
];

/// Marks a part of a composed object until that part is visited.
const PART: &str = "turnwire-part";

/// The changes described above, applied to a schema and all its subschemas.
struct ForTheModel;

impl Transform for ForTheModel {
    fn transform(&mut self, schema: &mut Schema) {
        schema.remove("title");
        let format = schema.get("format").and_then(Value::as_str);
        if format.is_some_and(|format| NUMBER_FORMATS.contains(&format)) {
            schema.remove("format");
        }
        if let Some(object) = schema.as_object_mut() {
            close(object);
        }
        transform_subschemas(self, schema);
    }
}

/// Forbids additional properties, if this schema alone defines all properties.
///
/// The parts of a composed object do not know each other's properties. So neither the parts nor the
/// whole can be closed.
fn close(object: &mut Map<String, Value>) {
    let is_part = object.remove(PART).is_some();
    let has_properties = object.contains_key("properties");
    if is_composed(object) {
        mark_parts(object, "allOf");
        if is_part || has_properties {
            mark_parts(object, "anyOf");
            mark_parts(object, "oneOf");
        }
    } else if has_properties && !is_part {
        object.entry("additionalProperties").or_insert(Value::Bool(false));
    }
}

/// Whether some properties are defined elsewhere, as in a flattened enum.
fn is_composed(object: &Map<String, Value>) -> bool {
    ["$ref", "allOf", "anyOf", "oneOf", "if", "unevaluatedProperties"]
        .iter()
        .any(|keyword| object.contains_key(*keyword))
}

fn mark_parts(object: &mut Map<String, Value>, keyword: &str) {
    let parts = object.get_mut(keyword).and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
        part.insert(PART.to_owned(), Value::Bool(true));
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
