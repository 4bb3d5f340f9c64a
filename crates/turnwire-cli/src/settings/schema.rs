//! The JSON Schema of `turnwire.toml`, derived from the types that the file is read into.
//!
//! A key is written once, as a field: its name, its type, its range, its default and what it means
//! come from there. The file is checked against the same schema (`shape`), `turnwire config schema`
//! prints it for editors, and `turnwire config print` reads the defaults from it.
//!
//! Beside the keywords of JSON Schema, a field can have [`REQUIRED`] and [`VARIABLE`]. Secrets are
//! `writeOnly`.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{Transform, transform_subschemas},
};
use serde_json::{Map, Value, json};

/// Marks a key that its table must have. In the schema it is in `required` of the table: all
/// fields are optional for serde, so that a missing one does not hide other mistakes.
const REQUIRED: &str = "x-required";
/// Environment variable that overrides a key.
pub(super) const VARIABLE: &str = "x-turnwire-variable";

/// The schema of a table or a value.
pub(super) type TableSchema = Map<String, Value>;

/// The schema below a keyword, such as `properties` or `items`.
pub(super) fn below<'a>(schema: &'a TableSchema, keyword: &str) -> Option<&'a TableSchema> {
    schema.get(keyword).and_then(Value::as_object)
}

/// The schema of one table, without references to others. It is made once, because a file may have
/// thousands of such tables.
pub(super) fn schema_of<T: JsonSchema>() -> Arc<TableSchema> {
    static MADE: Mutex<BTreeMap<Cow<'static, str>, Arc<TableSchema>>> = Mutex::new(BTreeMap::new());
    let mut schemas = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || match generated::<T>().to_value() {
        Value::Object(schema) => Arc::new(schema),
        _ => Arc::default(),
    };
    Arc::clone(schemas.entry(T::schema_id()).or_insert_with(make))
}

fn generated<T: JsonSchema>() -> Schema {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.with_transform(AsToml).into_generator().into_root_schema_for::<T>()
}

/// Words of a closed set, for `enum`.
pub(super) fn words_of<T>(words: &[(&str, T)]) -> Vec<String> {
    words.iter().map(|(word, _)| (*word).to_owned()).collect()
}

/// Makes a schema of JSON one of TOML, which has no `null`, and whose integers have 64 bits.
#[derive(Debug, Clone, Copy)]
struct AsToml;

impl Transform for AsToml {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        let Some(schema) = schema.as_object_mut() else { return };
        without_null(schema);
        lift_required(schema);
        set_maximum(schema);
    }
}

fn without_null(schema: &mut Map<String, Value>) {
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if let Some(Value::Array(ways)) = schema.get_mut("anyOf") {
        ways.retain(|way| way != &json!({ "type": "null" }));
        if let [Value::Object(only)] = ways.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            // What is said about the field is more exact than what is said about its type.
            for (key, value) in only {
                schema.entry(key).or_insert(value);
            }
        }
    }
}

fn lift_required(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    let mut required = Vec::new();
    for (key, property) in properties {
        let marked = property.as_object_mut().and_then(|property| property.remove(REQUIRED));
        if marked.is_some() {
            required.push(Value::from(key.as_str()));
        }
    }
    if !required.is_empty() {
        schema.insert("required".to_owned(), required.into());
    }
}

/// Replaces the formats of Rust's numbers, which other programs do not know, by their ranges.
fn set_maximum(schema: &mut Map<String, Value>) {
    let format = schema.get("format").and_then(Value::as_str);
    let maximum = match format {
        Some("uint32") => Some(i64::from(u32::MAX)),
        // The largest number that a file can have.
        Some("uint64" | "uint") => Some(i64::MAX),
        Some("uint16" | "double") => None,
        _ => return,
    };
    schema.remove("format");
    if let Some(maximum) = maximum {
        schema.entry("maximum").or_insert_with(|| maximum.into());
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
