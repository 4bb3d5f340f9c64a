use serde_json::{Map, Value, json};

use super::{Comparison, Filter};

fn attributes() -> Map<String, Value> {
    let Value::Object(attributes) = json!({ "year": 2024, "lang": "en", "draft": false }) else {
        unreachable!("it is an object")
    };
    attributes
}

fn passes(key: &str, comparison: Comparison, value: Value) -> bool {
    Filter::Compare { key: key.to_owned(), comparison, value }.passes(&attributes())
}

#[test]
fn an_attribute_is_compared() {
    use Comparison::{Equal, Greater, GreaterOrEqual, In, Less, LessOrEqual, NotEqual, NotIn};
    let cases = [
        ("year", Equal, json!(2024.0), true),
        ("year", Equal, json!("2024"), false),
        ("year", NotEqual, json!(2023), true),
        ("year", Greater, json!(2023), true),
        ("year", Greater, json!(2024), false),
        ("year", GreaterOrEqual, json!(2024), true),
        ("year", Less, json!(2024), false),
        ("year", Less, json!(2025), true),
        ("year", LessOrEqual, json!(2024), true),
        ("year", Less, json!("x"), false),
        ("lang", Equal, json!("en"), true),
        ("lang", Greater, json!("de"), true),
        ("lang", In, json!(["de", "en"]), true),
        ("lang", In, json!("en"), false),
        ("lang", NotIn, json!(["de"]), true),
        ("lang", NotIn, json!(["en"]), false),
        ("lang", NotIn, json!("de"), false),
        ("draft", Equal, json!(false), true),
        ("missing", NotEqual, json!(1), false),
    ];
    for (key, comparison, value, expected) in cases {
        let found = passes(key, comparison, value.clone());
        assert_eq!(found, expected, "{key} {comparison:?} {value}");
    }
}

#[test]
fn filters_are_joined() {
    let compare = |key: &str, value: Value| Filter::Compare {
        key: key.to_owned(),
        comparison: Comparison::Equal,
        value,
    };
    let (right, wrong) = (compare("lang", json!("en")), compare("year", json!(1999)));
    assert!(Filter::Any(vec![wrong.clone(), right.clone()]).passes(&attributes()));
    assert!(!Filter::All(vec![right.clone(), wrong.clone()]).passes(&attributes()));
    assert!(Filter::All(vec![right.clone(), right]).passes(&attributes()));
    assert!(!Filter::Any(vec![wrong]).passes(&attributes()));
}

fn compare(key: &str, comparison: Comparison, value: Value) -> Filter {
    Filter::Compare { key: key.to_owned(), comparison, value }
}

#[test]
fn every_comparison_has_its_word() {
    let words = [
        ("eq", Comparison::Equal),
        ("ne", Comparison::NotEqual),
        ("gt", Comparison::Greater),
        ("gte", Comparison::GreaterOrEqual),
        ("lt", Comparison::Less),
        ("lte", Comparison::LessOrEqual),
    ];
    for (word, comparison) in words {
        for value in [json!(1), json!("a"), json!(true)] {
            let written = json!({ "type": word, "key": "a", "value": value });
            assert_eq!(Filter::read(&written, "filters"), Ok(compare("a", comparison, value)));
        }
    }
    for (word, comparison) in [("in", Comparison::In), ("nin", Comparison::NotIn)] {
        let written = json!({ "type": word, "key": "a", "value": [1, "b"] });
        assert_eq!(
            Filter::read(&written, "filters"),
            Ok(compare("a", comparison, json!([1, "b"])))
        );
    }
}

#[test]
fn filters_are_joined_as_deep_as_one_likes() {
    let is = |value: i32| json!({ "type": "eq", "key": "a", "value": value });
    let either = json!({ "type": "or", "filters": [is(2), is(3)] });
    let written = json!({ "type": "and", "filters": [is(1), either] });
    let equal = |value: i32| compare("a", Comparison::Equal, json!(value));
    let filter = Filter::All(vec![equal(1), Filter::Any(vec![equal(2), equal(3)])]);
    assert_eq!(Filter::read(&written, "filters"), Ok(filter));
}

#[test]
fn a_filter_that_makes_no_sense_is_refused_with_its_place() {
    let wrong = [
        (json!("a"), "filters"),
        (json!({}), "filters.type"),
        (json!({ "type": "like", "key": "a", "value": 1 }), "filters.type"),
        (json!({ "type": 1, "key": "a", "value": 1 }), "filters.type"),
        (json!({ "type": "eq", "value": 1 }), "filters.key"),
        (json!({ "type": "eq", "key": "a" }), "filters.value"),
        (json!({ "type": "eq", "key": "a", "value": [1] }), "filters.value"),
        (json!({ "type": "in", "key": "a", "value": 1 }), "filters.value"),
        (json!({ "type": "in", "key": "a", "value": [{}] }), "filters.value"),
        (json!({ "type": "and" }), "filters.filters"),
        (json!({ "type": "and", "filters": [] }), "filters.filters"),
        (
            json!({ "type": "or", "filters": [{ "type": "or", "filters": [7] }] }),
            "filters.filters[0].filters[0]",
        ),
    ];
    for (written, path) in wrong {
        let error = Filter::read(&written, "filters").unwrap_err();
        assert_eq!(error.path, path, "{written}");
        assert!(error.to_string().starts_with(&format!("`{path}` must be ")), "{error}");
    }
}
