//! What the model is told about the arguments of a function.
//!
//! `schemars` writes the schema for any consumer; a model is a particular one. It reads every
//! word and pays for it, it does not follow references well, and it invents arguments. So the
//! schema is in one piece, without what only a Rust programmer understands, and closed: an
//! argument that does not exist is refused by name instead of being ignored in silence.

use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value};

/// The JSON Schema (draft 2020-12) of `A`, as it is shown to the model.
///
/// An object that should take more than its fields says so itself, with
/// `#[schemars(extend("additionalProperties" = true))]`.
pub fn schema_of<A: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    let root = schema.ensure_object();
    // Providers take nothing but an object, also where the choice between several is inside.
    root.entry("type").or_insert_with(|| "object".into());
    if root.get("type").is_some_and(|kind| kind == "object") && !is_composed(root) {
        root.entry("properties").or_insert_with(|| Map::new().into());
    }
    ForTheModel.transform(&mut schema);
    schema.to_value()
}

/// How Rust names the width of a number; to a model, and to a validator, this says nothing.
const NUMBER_FORMATS: [&str; 14] = [
    "int8", "int16", "int32", "int64", "int128", "int", "uint8", "uint16", "uint32", "uint64",
    "uint128", "uint", "float", "double",
];

/// Set on a part of a composed object until that part is visited.
const PART: &str = "turnwire-part";

/// The changes described above, to a schema and all schemas in it.
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

/// Says that there are no other properties, where this schema alone knows them all.
///
/// The parts of a composed object see each other's properties as foreign, so none of them may
/// be closed; neither may the whole.
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

/// Whether some of its properties are described elsewhere, as by a flattened enum.
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
