use proptest::prelude::*;
use serde_json::json;

use super::*;

/// S3-8.
#[test]
fn no_reader_sees_a_line_end_inside_a_frame() {
    let text = wire_json(&json!({ "a": "x\u{85}y\u{2028}z\n\u{9b}31m\u{7f}é" }));
    assert_eq!(text, r#"{"a":"x\u0085y\u2028z\n\u009b31m\u007fé"}"#);
    assert_eq!(wire_json(&json!("plain but for \u{7f}")), r#""plain but for \u007f""#);
    let pretty = wire_json_pretty(&json!({ "a": "x\u{2029}" }));
    assert_eq!(pretty, "{\n  \"a\": \"x\\u2029\"\n}");
}

#[test]
fn ordinary_text_is_not_copied() {
    assert!(matches!(escaped("{\"a\":\"é\u{a0}\"}"), Cow::Borrowed(_)));
}

proptest! {
    #[test]
    fn the_value_is_the_same(text in any::<String>(), odd in "[\u{7f}-\u{9f}\u{2028}\u{2029}\"]{0,4}") {
        let value = json!({ "text": text + &odd });
        let written = wire_json(&value);
        let has_unwelcome = written.contains(|c: char| c.is_control() || is_unwelcome(c));
        prop_assert!(!has_unwelcome);
        prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&written).unwrap(), value);
    }
}
