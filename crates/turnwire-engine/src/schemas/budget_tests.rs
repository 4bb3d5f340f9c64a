//! A19: what a schema may cost is known before it is compiled.

use serde_json::{Value, json};

use super::*;

/// `$defs` in which each one refers to the one before, in the way of `definition`.
fn ladder(steps: usize, last: Value, definition: impl Fn(Value) -> Value) -> Value {
    let reference = |n: usize| json!({ "$ref": format!("#/$defs/d{n}") });
    let mut defs = Map::new();
    defs.insert("d0".to_owned(), last);
    for n in 1..steps {
        defs.insert(format!("d{n}"), definition(reference(n - 1)));
    }
    let x = reference(steps - 1);
    json!({ "type": "object", "properties": { "x": x }, "$defs": defs })
}

fn doubled(keyword: &'static str, steps: usize) -> Value {
    ladder(steps, json!({ "type": "string" }), |one| json!({ keyword: [one, one] }))
}

fn verdict(schema: &Value) -> Option<SchemaTooComplex> {
    check_schema(schema).err()
}

/// A19, A13: each shape at its limit, and one past it.
#[test]
fn shapes_that_grow_are_refused_before_they_are_compiled() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        assert_eq!(verdict(&doubled(keyword, 11)), None, "{keyword}");
        assert_eq!(verdict(&doubled(keyword, 13)), Some(SchemaTooComplex::Expansions), "{keyword}");
        assert_eq!(verdict(&doubled(keyword, 44)), Some(SchemaTooComplex::Expansions), "{keyword}");
    }
    let chain = |steps| ladder(steps, json!({ "type": "integer" }), |one| one);
    assert_eq!(verdict(&chain(64)), None);
    assert_eq!(verdict(&chain(65)), Some(SchemaTooComplex::Chain));
    assert_eq!(verdict(&chain(1_000)), Some(SchemaTooComplex::Chain));
    assert_eq!(verdict(&chain(20_000)), Some(SchemaTooComplex::Bytes));
    let steps = |steps| {
        ladder(steps, json!(true), |one| json!({ "allOf": [{ "allOf": [{ "not": one }] }] }))
    };
    assert_eq!(verdict(&steps(36)), None);
    assert_eq!(verdict(&steps(60)), Some(SchemaTooComplex::Steps));
    let nested = |depth| (0..depth).fold(json!(true), |inner, _| json!({ "not": inner }));
    assert_eq!(verdict(&nested(64)), None);
    assert_eq!(verdict(&nested(65)), Some(SchemaTooComplex::Depth));
    let described = |n_bytes| json!({ "description": "d".repeat(n_bytes - 18) });
    assert_eq!(verdict(&described(MAX_BYTES)), None);
    assert_eq!(verdict(&described(MAX_BYTES + 1)), Some(SchemaTooComplex::Bytes));
    let choices: Vec<String> = (0..100_000).map(|n| format!("v{n}")).collect();
    assert_eq!(verdict(&json!({ "enum": choices })), Some(SchemaTooComplex::Bytes));
}

/// A19: a graph of alternatives has more ways through it than anybody could count.
#[test]
fn alternatives_that_lead_to_each_other_are_refused() {
    let to_all = |n: usize| {
        let others = (0..100).map(|m| json!({ "$ref": format!("#/$defs/n{}", (n + m) % 100) }));
        json!({ "anyOf": others.take(5).collect::<Vec<_>>() })
    };
    let defs: Map<String, Value> = (0..100).map(|n| (format!("n{n}"), to_all(n))).collect();
    let graph = json!({ "$ref": "#/$defs/n0", "$defs": defs });
    assert_eq!(verdict(&graph), Some(SchemaTooComplex::Chain));
}

/// A19: a schema whose compilation grows, or cannot be foreseen, is offered and not compiled.
#[test]
fn what_cannot_be_foreseen_is_not_compiled() {
    let compiled = |schema: &Value| cost_of(schema).unwrap().compiled;
    let unevaluated = |steps| {
        let mut schema = doubled("allOf", steps);
        schema["properties"]["x"]["unevaluatedProperties"] = json!(false);
        schema
    };
    assert!(compiled(&unevaluated(8)).unwrap() < MAX_COMPILED);
    assert_eq!(compiled(&unevaluated(11)), None);
    let inside = |depth| {
        (0..depth)
            .fold(json!({}), |inner, _| json!({ "allOf": [inner], "unevaluatedProperties": false }))
    };
    assert!(compiled(&inside(4)).is_some());
    assert_eq!(compiled(&inside(30)), None);
    // One strict object inside another is nothing special.
    let strict = |depth| {
        (0..depth).fold(
            json!({}),
            |inner, _| json!({ "properties": { "a": inner }, "unevaluatedProperties": false }),
        )
    };
    assert!(compiled(&strict(30)).unwrap() < 200);
    let patterns = |n: usize| {
        let one = |n| json!({ "pattern": format!("^{n}") });
        json!({ "anyOf": (0..n).map(one).collect::<Vec<_>>() })
    };
    assert!(compiled(&patterns(64)).is_some());
    assert_eq!(compiled(&patterns(65)), None);
    assert!(compiled(&json!({ "pattern": "a".repeat(1_024) })).is_some());
    assert_eq!(compiled(&json!({ "pattern": "a".repeat(1_025) })), None);
    for unusual in [
        json!({ "properties": { "x": { "$id": "x" } } }),
        json!({ "properties": { "x": { "$anchor": "x" } } }),
        json!({ "$ref": "https://example.com/schema" }),
        json!({ "$ref": "#/nowhere" }),
        json!({ "$ref": "#/%24defs/x", "$defs": { "x": {} } }),
        json!({ "$dynamicRef": "#x" }),
        json!({ "items": { "$schema": "http://json-schema.org/draft-07/schema#" } }),
        json!({ "$schema": "http://json-schema.org/draft-04/schema#" }),
    ] {
        assert_eq!(compiled(&unusual), None, "{unusual}");
    }
}

/// Words that are keywords elsewhere are names of properties and values here.
#[test]
fn names_and_values_are_no_keywords() {
    let names = ["$ref", "$id", "allOf", "not", "pattern", "unevaluatedProperties", "enum"];
    let text = json!({ "type": "string" });
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), text.clone())).collect();
    let values: Vec<Value> = (0..6_000).map(|n| json!([n])).collect();
    for schema in [
        json!({ "$id": "https://example.com/tool", "properties": properties, "required": names }),
        json!({ "enum": values }),
        json!({ "default": vec![true; 9_000] }),
    ] {
        assert!(cost_of(&schema).unwrap().compiled.is_some(), "{schema}");
    }
}
