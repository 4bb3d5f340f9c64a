use serde_json::Value;

use super::*;

/// A22: what a person decides on is shown as what it is, whatever is hidden in it.
#[test]
fn nothing_is_invisible_in_an_exact_text() {
    let hidden = [
        0xad, 0x61c, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f, 0x2028, 0x202a, 0x202b,
        0x202c, 0x202d, 0x202e, 0x2060, 0x2066, 0x2067, 0x2068, 0x2069, 0x206f, 0x3164, 0xfe0f,
        0xfeff, 0xe0001, 0xe0041, 0xe0100,
    ];
    for code in hidden {
        let character = char::from_u32(code).unwrap();
        let text = format!("a{character}b");
        assert_eq!(exact(&text), format!("a\\u{{{code:x}}}b"));
        let json = format!("\"{text}\"");
        let escaped = exact_json(&json);
        assert!(escaped.is_ascii(), "{escaped}");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap(), Value::from(text));
    }
    assert_eq!(exact("alice\u{202e}gro.rekcatta"), r"alice\u{202e}gro.rekcatta");
}

/// A22: controls of a terminal are removed, as from any text.
#[test]
fn controls_are_removed() {
    assert_eq!(exact("\u{1b}[31ma\u{200b}\u{7}"), r"a\u{200b}");
    assert_eq!(in_order("\u{1b}[31ma\u{200b}\u{7}"), "a\u{200b}");
}

/// A22: prose in any language is readable, and cannot change the order of what is beside it.
#[test]
fn prose_is_readable() {
    for text in [
        "שלום",
        "می\u{200c}خواهم",
        "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}",
        "abc\u{200f}!",
        "漢字",
        "naïve",
    ] {
        assert!(matches!(in_order(text), Cow::Borrowed(same) if same == text), "{text:?}");
    }
    assert_eq!(in_order("a\u{202e}b\u{202c}"), r"a\u{202e}b\u{202c}");
    assert!(matches!(exact("naïve 漢字 שלום"), Cow::Borrowed(_)));
}
