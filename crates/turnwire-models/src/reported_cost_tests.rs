use serde_json::json;

use super::*;

fn nanos(usage: &str) -> Option<u64> {
    serde_json::from_str::<ReportedCost>(usage).unwrap().nanos()
}

/// A cost is kept to the last digit, however it is written.
#[test]
fn costs_are_exact() {
    for (cost, expected) in [
        ("0", 0),
        ("0.0", 0),
        ("1", 1_000_000_000),
        ("0.1", 100_000_000),
        ("0.3", 300_000_000),
        ("0.00014", 140_000),
        ("1.4e-4", 140_000),
        ("1.4E-7", 140),
        ("0.000000001", 1),
        ("0.95", 950_000_000),
        ("12.345678912", 12_345_678_912),
        ("999999.999999999", 999_999_999_999_999),
        ("1e6", 1_000_000_000_000_000),
        // Rounded to a billionth.
        ("0.0000000014", 1),
        ("0.0000000015", 2),
        ("4e-10", 0),
        ("1e-300", 0),
        ("0.000012345678912345", 12_346),
    ] {
        assert_eq!(nanos(&format!(r#"{{"cost":{cost}}}"#)), Some(expected), "{cost}");
    }
}

/// What cannot be a cost is as if nothing was said, and does not make the answer unreadable.
#[test]
fn absurd_costs_are_ignored() {
    for cost in
        ["-0.1", "-0.0", "-1", "1000000.1", "1e300", "1e18", "null", "\"0.1\"", "true", "{}"]
    {
        assert_eq!(nanos(&format!(r#"{{"cost":{cost}}}"#)), None, "{cost}");
    }
    assert_eq!(nanos("{}"), None);
    assert_eq!(decimal_nanos("NaN"), None);
    assert_eq!(decimal_nanos("inf"), None);
    assert_eq!(decimal_nanos("1e99999999999999999999"), None);
}

/// With a key of the operator, the gateway's fee is charged beside what the provider behind it
/// charges.
#[test]
fn both_charges_of_an_own_key_are_counted() {
    let usage = |is_byok: Value| {
        json!({ "cost": 0.95, "is_byok": is_byok,
            "cost_details": { "upstream_inference_cost": 19 } })
        .to_string()
    };
    assert_eq!(nanos(&usage(json!(true))), Some(19_950_000_000));
    // Otherwise the details say what the charge is made of.
    assert_eq!(nanos(&usage(json!(false))), Some(950_000_000));
    assert_eq!(nanos(&usage(json!(null))), Some(950_000_000));
    let without = r#"{"cost":0.95,"is_byok":true,"cost_details":null}"#;
    assert_eq!(nanos(without), Some(950_000_000));
}
