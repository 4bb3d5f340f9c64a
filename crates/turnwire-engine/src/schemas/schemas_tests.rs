//! A19: arguments are checked against schemas of strangers in bounded time and memory.

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

/// Long enough for a machine that is busy with other tests, and far from never.
const SOON: Duration = Duration::from_secs(20);

async fn check(schema: &Value, value: Value) -> Result<Value, String> {
    let began = Instant::now();
    let checked = checked(schema, value).await;
    let shown = prefix(&schema.to_string(), 200).to_owned();
    assert!(began.elapsed() < SOON, "{:?} for {shown}", began.elapsed());
    if let Err(complaint) = &checked {
        assert!(complaint.len() <= MAX_COMPLAINT_BYTES + 3, "{complaint}");
    }
    checked
}

const TOO_MUCH: &str = "the arguments are too large or too deeply nested to be checked against the \
                        schema; send less";

fn items(n: usize, item: Value) -> Value {
    json!({ "x": vec![item; n] })
}

fn of_x(schema: Value) -> Value {
    json!({ "type": "object", "properties": { "x": schema } })
}

/// A19: a schema that reaches one place of the arguments in two ways costs what the arguments make
/// of it. Here it would be 2^100 visits to say what is wrong.
#[tokio::test]
async fn a_schema_that_reaches_itself_ends() {
    let k = json!({ "properties": { "k": { "$ref": "#/$defs/a" } } });
    let cycle = json!({
        "properties": { "x": { "$ref": "#/$defs/a" } },
        "$defs": { "a": { "type": "object", "allOf": [k, k] } },
    });
    let nested = |depth, last| (0..depth).fold(last, |inner, _| json!({ "k": inner }));
    for depth in [4, 20, 100] {
        let wrong = check(&cycle, json!({ "x": nested(depth, json!(1)) })).await.unwrap_err();
        assert!(wrong.starts_with("at `/x/k/k/k/k"), "{wrong}");
        assert!(check(&cycle, json!({ "x": nested(depth, json!({})) })).await.is_ok());
    }
}

/// A19: what is within the limits of a schema is multiplied by the arguments.
#[tokio::test]
async fn schemas_times_arguments_end() {
    let many = |n: usize, one: Value| vec![one; n];
    let looks_at_nothing = of_x(json!({ "items": { "allOf": many(9, json!({
        "allOf": many(1_000, json!(true))
    })) } }));
    let constants: Vec<Value> = (0..1_000).map(|n| json!({ "const": n })).collect();
    let contains = of_x(json!({ "contains": { "anyOf": constants } }));
    let choices: Vec<Value> = (0..6_000).map(|n| json!([n])).collect();
    let choices = of_x(json!({ "items": { "enum": choices } }));
    for schema in [&looks_at_nothing, &contains, &choices] {
        // On a fast machine it may be done in time.
        let _ = check(schema, items(60_000, json!([-1]))).await;
    }
    let names = of_x(json!({ "anyOf": many(1_500, json!({ "additionalProperties": false })) }));
    let long_name = json!({ "x": { "n".repeat(200_000): 1 } });
    assert!(check(&names, long_name).await.is_err());
    let patterns: Map<String, Value> =
        (0..64).map(|n| (format!("k{n}.*x$"), json!({ "type": "integer" }))).collect();
    let properties: Map<String, Value> =
        (0..5_000).map(|n| (format!("k{n}aaaaaaaaaax"), json!("a"))).collect();
    let wrong = check(&json!({ "patternProperties": patterns }), Value::Object(properties)).await;
    assert!(wrong.is_err());
    assert!(check(&of_x(json!({ "uniqueItems": true })), items(2, json!({}))).await.is_err());
}

/// A19: regular expressions take time proportional to the text; one that cannot is not used, and a
/// large one is not applied to a long text.
#[tokio::test]
async fn patterns_end() {
    let mut seed = 1_u32;
    let letters = (0..250_000).map(|_| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if seed >> 31 == 1 { 'a' } else { 'b' }
    });
    let text: String = letters.collect();
    let pattern = |pattern: &str| of_x(json!({ "pattern": pattern }));
    let wrong = check(&pattern("^(a|b|ab)*c$"), json!({ "x": text })).await.unwrap_err();
    assert!(wrong.starts_with("at `/x`: \""), "{wrong}");
    let large = pattern("([ab]*a[ab]{10}){30}x");
    assert_eq!(check(&large, json!({ "x": text })).await, Err(TOO_MUCH.to_owned()));
    assert!(check(&large, json!({ "x": "ab" })).await.is_err());
    for not_linear in ["(a+)\\1", "^(?!a)", "(?<=b)a"] {
        assert!(check(&pattern(not_linear), json!({ "x": text })).await.is_ok());
    }
    let hard: Vec<Value> = (0..64)
        .map(|n| json!({ "not": { "pattern": format!("([ab]*a[ab]{{{}}}){{2}}x", 6 + n % 4) } }))
        .collect();
    let _ = check(&of_x(json!({ "allOf": hard })), json!({ "x": text })).await;
    let formats = ["regex", "email", "idn-hostname", "uri-template", "json-pointer", "duration"];
    for format in formats {
        let schema = json!({
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": { "x": { "format": format } },
        });
        for text in ["(", "a.", "[a-z", "{a}", "ü", "(a{1,999}){1,999}"] {
            let _ = check(&schema, json!({ "x": text.repeat(200_000 / text.len()) })).await;
        }
    }
}

/// A19: a run of an earlier version has schemas in its journal that nobody looked at.
#[tokio::test]
async fn a_schema_that_is_too_complex_fails_its_call() {
    let reference = |n: usize| json!({ "$ref": format!("#/$defs/d{n}") });
    let mut defs = Map::new();
    defs.insert("d0".to_owned(), json!({ "type": "string" }));
    for n in 1..44 {
        defs.insert(format!("d{n}"), json!({ "allOf": [reference(n - 1), reference(n - 1)] }));
    }
    let bomb = json!({ "properties": { "x": reference(43) }, "$defs": defs });
    let wrong = check(&bomb, json!({ "x": "yes" })).await.unwrap_err();
    assert_eq!(wrong, SchemaTooComplex::Expansions.to_string());
}

/// Schemas as real servers write them are used as before.
#[tokio::test]
async fn schemas_of_real_servers_are_checked() {
    let tree = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": { "root": { "$ref": "#/definitions/node" } },
        "required": ["root"],
        "definitions": { "node": {
            "type": "object",
            "properties": {
                "value": { "type": "number" },
                "left": { "$ref": "#/definitions/node" },
                "right": { "anyOf": [{ "$ref": "#/definitions/node" }, { "type": "null" }] },
            },
            "required": ["value"],
            "additionalProperties": false,
        } },
    });
    let full = |depth| {
        (0..depth).fold(
            json!({ "value": 1 }),
            |node, _| json!({ "value": 1, "left": node, "right": node }),
        )
    };
    assert!(check(&tree, json!({ "root": full(9) })).await.is_ok());
    let wrong = check(&tree, json!({ "root": { "value": 1, "left": {} } })).await;
    assert_eq!(wrong, Err("at `/root/left`: \"value\" is a required property".to_owned()));

    let filter = json!({
        "properties": { "filter": { "$ref": "#/$defs/filter" } },
        "$defs": {
            "filter": { "oneOf": [
                { "$ref": "#/$defs/and" }, { "$ref": "#/$defs/or" }, { "$ref": "#/$defs/is" },
            ] },
            "and": { "properties": {
                "op": { "const": "and" }, "of": { "items": { "$ref": "#/$defs/filter" } },
            }, "required": ["op", "of"] },
            "or": { "properties": {
                "op": { "const": "or" }, "of": { "items": { "$ref": "#/$defs/filter" } },
            }, "required": ["op", "of"] },
            "is": { "properties": { "is": { "type": "string", "pattern": "^[a-z_]{1,64}$" } },
                "required": ["is"] },
        },
    });
    let is = json!({ "is": "open" });
    let both = json!({ "op": "and", "of": [{ "op": "or", "of": [is, is] }, is] });
    assert!(check(&filter, json!({ "filter": both })).await.is_ok());
    assert!(check(&filter, json!({ "filter": { "op": "xor", "of": [] } })).await.is_err());

    let issue = json!({
        "type": "object",
        "properties": {
            "owner": { "type": "string", "description": "Repository owner" },
            "labels": { "type": "array", "items": { "type": "string" }, "uniqueItems": true },
            "state": { "type": "string", "enum": ["open", "closed", "all"] },
            "per_page": { "type": "number", "minimum": 1, "maximum": 100 },
            "since": { "type": "string", "format": "date-time" },
        },
        "required": ["owner"],
    });
    let fits = json!({ "owner": "o", "labels": ["a", "b"], "state": "all", "per_page": 100 });
    assert!(check(&issue, fits).await.is_ok());
    let wrong = check(&issue, json!({ "state": "new", "per_page": 101 })).await.unwrap_err();
    assert_eq!(wrong.split("; ").count(), 3, "{wrong}");

    let form = json!({
        "type": "object",
        "properties": { "fields": { "type": "array", "items": {
            "type": "object",
            "properties": { "name": { "type": "string" }, "ref": { "type": "string" } },
            "required": ["name", "ref"], "additionalProperties": false,
        } } },
        "additionalProperties": false,
        "$schema": "http://json-schema.org/draft-07/schema#",
    });
    let field = json!({ "name": "n", "ref": "e1" });
    assert!(check(&form, json!({ "fields": vec![field; 2_000] })).await.is_ok());
    let write = of_x(json!({ "type": "string", "minLength": 1 }));
    assert!(check(&write, json!({ "x": "x".repeat(250_000) })).await.is_ok());
    assert!(
        check(&of_x(json!({ "items": { "type": "number" } })), items(60_000, json!(5)))
            .await
            .is_ok()
    );
}

/// A19: what is compiled is kept, and no more of it than there is room for.
#[tokio::test]
async fn a_schema_is_compiled_once() {
    let schema = json!({ "title": "once", "properties": { "x": { "type": "string" } } });
    let (first, second) = (compiled(&schema).await.unwrap(), compiled(&schema).await.unwrap());
    assert!(Arc::ptr_eq(&first, &second));
    let mut kept = KeptSchemas::default();
    let cost = SchemaCost { bytes: 1_000, patterns: 8, compiled: Some(100) };
    for n in 0..100_u8 {
        kept.keep([n; 32], Arc::clone(&first), cost);
    }
    assert!(kept.get(&[99; 32]).is_some() && kept.get(&[0; 32]).is_none());
    assert!(kept.n_bytes <= MAX_KEPT_BYTES && kept.by_hash.len() == kept.order.len());
}

/// Any schema of a stranger: parts that refer to each other at random.
fn foreign_schema() -> impl Strategy<Value = Value> {
    const N_DEFS: usize = 12;
    let target = (0..N_DEFS).prop_map(|n| json!({ "$ref": format!("#/$defs/d{n}") }));
    let leaf = prop_oneof![
        4 => target,
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({ "type": "string", "pattern": "([ab]+)*c" })),
        1 => Just(json!({ "type": "object" })),
        1 => Just(json!({ "uniqueItems": true })),
    ];
    let part = leaf.prop_recursive(3, 12, 4, |inner| {
        let several = proptest::collection::vec(inner.clone(), 1..4);
        let keyword = prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf")];
        prop_oneof![
            (keyword, several).prop_map(|(keyword, schemas)| json!({ keyword: schemas })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "properties": { "k": a }, "additionalProperties": b
            })),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({
                "allOf": [a], "unevaluatedProperties": b
            })),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({ "if": a, "then": b, "else": c })),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({ "dependentSchemas": { "k": a }, "not": b })),
            (inner.clone(), inner).prop_map(|(a, b)| json!({ "items": a, "contains": b })),
        ]
    });
    proptest::collection::vec(part, N_DEFS).prop_map(|parts| {
        let named = parts.into_iter().enumerate().map(|(n, part)| (format!("d{n}"), part));
        json!({ "$ref": "#/$defs/d0", "$defs": named.collect::<Map<_, _>>() })
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    (0..60_usize, 0..400_usize).prop_map(|(depth, width)| {
        let nested = (0..depth).fold(json!("ab"), |inner, _| json!({ "k": inner, "l": 1 }));
        let items: Vec<Value> = (0..width).map(|n| json!({ "k": n })).collect();
        json!({ "k": nested, "m": items })
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// A19: whatever the schema and the arguments, looking at it, compiling it and checking with it
    /// ends soon, in one of three ways.
    #[test]
    fn every_schema_ends(schema in foreign_schema(), arguments in arguments()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let _ = check(&schema, arguments).await;
        });
    }
}
