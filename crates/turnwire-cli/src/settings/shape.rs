//! Checks the shape of a table against its schema: which keys there are, and what type and range
//! their values have.
//!
//! What is wrong is reported and taken out, so that the rest can be read and checked further. A
//! text is never quoted here: a value under the wrong key may be a secret.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::{
    schema::{TableSchema, below},
    words::{MOST_TOLD, child, did_you_mean},
};

/// Checks the keys of a table and everything below, and leaves what is right.
pub(super) fn check_table(
    path: &str,
    table: &mut Table,
    schema: &TableSchema,
    told: &mut Vec<String>,
) {
    let known = below(schema, "properties");
    let others = schema.get("additionalProperties").and_then(Json::as_object);
    let mut wrong = Vec::new();
    for (key, value) in table.iter_mut() {
        if told.len() > MOST_TOLD {
            // The rest is not checked, so it must not be read.
            wrong.push(key.clone());
            continue;
        }
        let at = child(path, key);
        let is_right = match (known.and_then(|known| known.get(key)), others) {
            (Some(schema), _) => is_right(&at, value, schema, told),
            (None, Some(schema)) => is_right_by(&at, value, schema, told),
            (None, None) => {
                let Some(known) = known else { continue };
                let known: Vec<&str> = known.keys().map(String::as_str).collect();
                let advice = did_you_mean(key, &known);
                told.push(format!("{at}: there is no such setting; {advice}"));
                false
            }
        };
        if !is_right {
            wrong.push(key.clone());
        }
    }
    for key in wrong {
        table.remove(&key);
    }
}

fn is_right(path: &str, value: &mut Value, schema: &Json, told: &mut Vec<String>) -> bool {
    // `true` allows everything.
    schema.as_object().is_none_or(|schema| is_right_by(path, value, schema, told))
}

/// Whether a value can be used, perhaps without some of its keys.
fn is_right_by(
    path: &str,
    value: &mut Value,
    schema: &TableSchema,
    told: &mut Vec<String>,
) -> bool {
    let ways = schema.get("anyOf").and_then(Json::as_array);
    let Some(ways) = ways else { return is_of_type(path, value, schema, told) };
    let mut ways = ways.iter().filter_map(Json::as_object);
    if let Some(way) = ways.clone().find(|way| fits(value, type_of(way))) {
        return is_of_type(path, value, way, told);
    }
    let names: Vec<String> = ways.by_ref().map(|way| name_of(path, way)).collect();
    // How to write one of them is no advice on all.
    let names: Vec<&str> = names.iter().filter_map(|name| name.split(';').next()).collect();
    told.push(format!("{path}: not {}", names.join(" or ")));
    false
}

fn is_of_type(path: &str, value: &mut Value, schema: &TableSchema, told: &mut Vec<String>) -> bool {
    if !fits(value, type_of(schema)) {
        told.push(format!("{path}: not {}", name_of(path, schema)));
        return false;
    }
    match value {
        Value::Integer(number) => {
            // The ranges of other numbers are checked where they are read.
            let is_whole = type_of(schema) == Some("integer");
            let range = range_of(schema).filter(|_| is_whole);
            let Some((least, most)) = range else { return true };
            let is_inside = (least..=most).contains(number);
            if !is_inside && *number > most {
                told.push(format!("{path}: {number} is not a whole number from {least} to {most}"));
            } else if !is_inside {
                told.push(format!("{path}: {number} is not {}", name_of(path, schema)));
            }
            is_inside
        }
        Value::Array(list) => {
            let Some(schema) = schema.get("items") else { return true };
            // All are checked, and a list without one of its members would mean something else.
            let wrong = list.iter_mut().enumerate();
            let wrong = wrong.filter_map(|(n, value)| {
                (!is_right(&format!("{path}[{n}]"), value, schema, told)).then_some(n)
            });
            wrong.count() == 0
        }
        Value::Table(table) => {
            check_table(path, table, schema, told);
            true
        }
        Value::String(_) | Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) => true,
    }
}

fn type_of(schema: &TableSchema) -> Option<&str> {
    schema.get("type").and_then(Json::as_str)
}

fn fits(value: &Value, wanted: Option<&str>) -> bool {
    match wanted {
        Some("string") => value.is_str(),
        Some("integer") => value.is_integer(),
        Some("number") => value.is_integer() || value.is_float(),
        Some("boolean") => value.is_bool(),
        Some("array") => value.is_array(),
        Some("object") => value.is_table(),
        _ => true,
    }
}

fn range_of(schema: &TableSchema) -> Option<(i64, i64)> {
    let bound = |key: &str| schema.get(key).and_then(Json::as_i64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    (least.is_some() || most.is_some())
        .then(|| (least.unwrap_or(i64::MIN), most.unwrap_or(i64::MAX)))
}

/// Describes what a value should be, after "not".
fn name_of(path: &str, schema: &TableSchema) -> String {
    match type_of(schema) {
        Some("string") => "a text; put it in quotes".to_owned(),
        Some("integer") => match range_of(schema) {
            None => "a whole number".to_owned(),
            // Nobody reaches the bounds of the types.
            Some((least, most)) if most >= i64::from(u32::MAX) => {
                format!("a whole number from {least} on")
            }
            Some((least, most)) => format!("a whole number from {least} to {most}"),
        },
        Some("number") => "a number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => match below(schema, "items").and_then(type_of) {
            Some("string") => "a list of texts".to_owned(),
            Some("object") => format!("a list of tables; write [[{path}]] above each"),
            Some("integer") => "a list of numbers".to_owned(),
            _ => "a list".to_owned(),
        },
        Some("object") => format!("a table; write [{path}] above its settings"),
        _ => "a value that is known here".to_owned(),
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
