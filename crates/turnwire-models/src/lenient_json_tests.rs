use proptest::prelude::*;
use serde_json::Value;

use super::from_str;

fn check(text: &str, expected: &str) {
    assert_eq!(from_str::<String>(text).unwrap(), expected, "{text}");
}

/// S4-5: a lone surrogate becomes U+FFFD.
#[test]
fn a_lone_surrogate_is_replaced() {
    check(r#""a\ud83d""#, "a\u{fffd}");
    check(r#""\ude00b""#, "\u{fffd}b");
    check(r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀");
    check(r#""\ud83dA\u0041""#, "\u{fffd}AA");
    check(r#""\ud83d\n""#, "\u{fffd}\n");
}

#[test]
fn an_escaped_backslash_starts_no_escape() {
    check(r#""\\ud83d \ud83d""#, "\\ud83d \u{fffd}");
    check(r#""\\\ud83d""#, "\\\u{fffd}");
}

/// S4-5: raw control characters in a string are removed; line breaks between tokens are kept.
#[test]
fn raw_control_characters_are_dropped() {
    check("\n\"a\0b\u{1}c\"", "abc");
}

#[test]
fn what_is_not_json_stays_not_json() {
    for text in ["", "{", r#"{"a":"#, r#""\ud83d"#, r#""\u00"#, r#""\"#, "1e999", "nope"] {
        assert!(from_str::<Value>(text).is_err(), "{text}");
    }
}

proptest! {
    /// Valid JSON is not changed, and the repair never panics.
    #[test]
    fn json_is_not_changed(text: String) {
        let json = serde_json::to_string(&text).unwrap();
        prop_assert_eq!(from_str::<String>(&json).unwrap(), text.clone());
        let _ = from_str::<Value>(&text);
        let _ = super::repaired(&text);
    }

    /// Any sequence of escapes in a string can be parsed after the repair.
    #[test]
    fn any_surrogates_are_repaired(units in prop::collection::vec(0xD7F0..0xE010_u16, 0..12)) {
        let escapes: Vec<_> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
        let text = from_str::<String>(&format!("\"{}\"", escapes.concat())).unwrap();
        prop_assert_eq!(text, String::from_utf16_lossy(&units));
    }
}
