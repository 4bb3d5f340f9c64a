//! A19: the validator finds the same as without a meter, and ends when the budget does.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn validator(schema: &Value) -> jsonschema::Validator<Metered> {
    jsonschema::options_for::<Metered>().build(schema).unwrap()
}

fn used(schema: &Value, value: &Value) -> usize {
    let validator = validator(schema);
    let mut left = 0;
    within(Budget::UNLIMITED, || {
        let _ = validator.is_valid(MeteredValue(value));
        left = METER.get().unwrap().left;
    });
    usize::MAX - left
}

/// A19: exactly what is used is enough, and one less is not.
#[test]
fn a_validation_ends_with_its_budget() {
    let schema = json!({ "items": { "enum": [1, "two", [3]] }, "uniqueItems": true });
    let value = json!(["two", [3], 1]);
    let n_units = used(&schema, &value);
    let within_units = |units| {
        let budget = Budget { units, ..Budget::UNLIMITED };
        within(budget, || validator(&schema).is_valid(MeteredValue(&value)))
    };
    assert_eq!(within_units(n_units), Some(true));
    assert_eq!(within_units(n_units - 1), None);
    let pattern = validator(&json!({ "pattern": "a" }));
    let within_text = |text| {
        let budget = Budget { text, ..Budget::UNLIMITED };
        within(budget, || pattern.is_valid(MeteredValue(&json!("abc"))))
    };
    assert_eq!((within_text(3), within_text(2)), (Some(true), None));
    let over = Budget { deadline: Some(Instant::now()), ..Budget::UNLIMITED };
    let (unique, long) = (validator(&json!({ "uniqueItems": true })), (0..1_000).collect());
    assert_eq!(within(over, || unique.is_valid(MeteredValue(&long))), None);
    // The budget of one validation is not the next one's.
    assert_eq!(within_units(n_units), Some(true));
}

/// A19: a validation that would overflow the stack ends before.
#[test]
fn a_validation_ends_with_its_stack() {
    let step = (0..28).fold(
        json!({ "properties": { "k": { "$ref": "#" } } }),
        |inner, _| json!({ "anyOf": [inner, { "minProperties": 2 }] }),
    );
    let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!({ "k": inner }));
    let validator = validator(&step);
    assert_eq!(
        within(Budget::UNLIMITED, || validator.is_valid(MeteredValue(&nested(3)))),
        Some(true)
    );
    // A thousand levels: no parser reads so many, but the meter does not know that.
    let deep = nested(1_000);
    assert_eq!(within(Budget::UNLIMITED, || validator.is_valid(MeteredValue(&deep))), None);
}

/// A19: the cost of a look at many values grows with their number, not with its square.
#[test]
fn unique_items_are_found_in_one_pass() {
    let schema = json!({ "uniqueItems": true });
    // All of these have one hash if brackets do not count.
    let brackets = |n_bits: u32| -> Value {
        let item = |bits: u32| {
            (0..n_bits).fold(json!([]), |inner, n| {
                if bits >> n & 1 == 1 { json!([inner, 1]) } else { json!([[inner], 1]) }
            })
        };
        (0..1 << n_bits).map(item).collect()
    };
    let (few, many) = (used(&schema, &brackets(8)), used(&schema, &brackets(11)));
    assert!(many < 12 * few, "{few} units for 256, {many} for 2,048");
}

#[test]
fn a_panic_is_no_answer() {
    assert_eq!(within(Budget::UNLIMITED, || panic!("on purpose")), None::<()>);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..4_i64).prop_map(Value::from),
        prop_oneof![Just(-0.0), Just(1.0), Just(2.5), Just(1e19), Just(1e300)]
            .prop_map(Value::from),
        Just(json!(u64::MAX)),
        "[ab\"]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec(("[abc]", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just("null"), Just("integer"), Just("number"), Just("string"), Just("array")]
            .prop_map(|name| json!({ "type": name })),
        value().prop_map(|value| json!({ "const": value })),
        proptest::collection::vec(value(), 1..4).prop_map(|values| json!({ "enum": values })),
        Just(json!({ "uniqueItems": true })),
        Just(json!({ "pattern": "a+$" })),
        Just(json!({ "maxLength": 2 })),
        Just(json!({ "minimum": 1, "multipleOf": 0.5 })),
        Just(json!({ "required": ["a"] })),
        Just(json!({ "propertyNames": { "pattern": "^[ab]$" } })),
        Just(json!({ "$ref": "#/$defs/other" })),
        Just(json!({ "$ref": "#" })),
    ];
    let inner = leaf.prop_recursive(3, 24, 3, |inner| {
        let several = proptest::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            several.clone().prop_map(|schemas| json!({ "allOf": schemas })),
            several.clone().prop_map(|schemas| json!({ "anyOf": schemas })),
            several.clone().prop_map(|schemas| json!({ "oneOf": schemas })),
            several.prop_map(|schemas| json!({ "prefixItems": schemas, "items": false })),
            inner.clone().prop_map(|schema| json!({ "not": schema })),
            inner.clone().prop_map(|schema| json!({ "items": schema })),
            inner.clone().prop_map(|schema| json!({ "contains": schema })),
            inner.clone().prop_map(|schema| json!({ "properties": { "a": schema, "b": true } })),
            inner.clone().prop_map(|schema| json!({
                "patternProperties": { "^a": schema }, "unevaluatedProperties": false
            })),
            inner.prop_map(|schema| json!({
                "properties": { "a": true }, "additionalProperties": schema
            })),
        ]
    });
    (inner.clone(), inner).prop_map(|(schema, other)| {
        json!({ "allOf": [schema], "unevaluatedItems": true, "$defs": { "other": other } })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A19: whatever the schema and the value, the meter changes nothing.
    #[test]
    fn the_meter_changes_no_result(schema in schema(), value in value()) {
        let plain = jsonschema::validator_for(&schema).unwrap();
        let metered = validator(&schema);
        let found = within(Budget::UNLIMITED, || {
            let errors = metered.iter_errors(MeteredValue(&value));
            (metered.is_valid(MeteredValue(&value)), errors.map(|e| e.to_string()).collect())
        });
        let errors: Vec<String> = plain.iter_errors(&value).map(|e| e.to_string()).collect();
        prop_assert_eq!(found, Some((plain.is_valid(&value), errors)));
    }
}
