//! The result of the demo tool is formatted as people write it.

use serde_json::json;

use super::*;

fn check(factors: serde_json::Value, expected: Result<&str, &'static str>) {
    let factors: Factors = serde_json::from_value(factors).unwrap();
    assert_eq!(product(&factors), expected.map(str::to_owned), "{factors:?}");
}

#[test]
fn whole_numbers_stay_whole() {
    check(json!({ "a": 5, "b": 4 }), Ok("20"));
    check(json!({ "a": 5.0, "b": 4 }), Ok("20"));
    check(json!({ "a": -5, "b": 4 }), Ok("-20"));
    check(json!({ "a": i64::MAX, "b": i64::MIN }), Ok("-85070591730234615856620279821087277056"));
}

#[test]
fn fractions_are_multiplied_too() {
    check(json!({ "a": 0.5, "b": 3 }), Ok("1.5"));
}

#[test]
fn a_product_that_is_no_number_is_a_failure() {
    check(json!({ "a": 1e300, "b": 1e300 }), Err(TOO_BIG));
}
