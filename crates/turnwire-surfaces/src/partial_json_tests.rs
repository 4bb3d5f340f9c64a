use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{preview, story::check_that_size_does_not_matter};

fn read(text: &str) -> PartialJson {
    let mut partial = PartialJson::new();
    partial.push(text);
    partial
}

/// `text` is parsed as `expected`, in one piece and character by character.
#[track_caller]
fn check(text: &str, expected: Value) {
    assert_eq!(Value::Object(read(text).snapshot()), expected, "{text}");
    let mut partial = PartialJson::new();
    for (at, character) in text.char_indices() {
        partial.push(&text[at..at + character.len_utf8()]);
    }
    assert_eq!(Value::Object(partial.snapshot()), expected, "{text}, character by character");
}

/// S4-11: the test vectors of the original implementation.
#[test]
fn what_the_origin_wanted() {
    check("", json!({}));
    check(r#"{"na"#, json!({}));
    check(r#"{"name": "Jo"#, json!({"name": "Jo"}));
    check(r#"{"name": "John", "age": 2"#, json!({"name": "John", "age": 2}));
    check(r#"{"name": "John", "ok": tru"#, json!({"name": "John"}));
    check(r#"{"name": "John", "ok": nul"#, json!({"name": "John"}));
    check(r#"{{{"broken": "json""#, json!({"broken": "json"}));
    check(r#"{"a": true, "b": false, "c": null}"#, json!({"a": true, "b": false, "c": null}));
}

/// S4-11: cases that the regular expressions of the original implementation got wrong.
#[test]
fn what_the_origin_got_wrong() {
    check(r#"{"path": "C:\\new\\dir"#, json!({"path": r"C:\new\dir"}));
    check(r#"{"msg": "He said \"Hi"#, json!({"msg": "He said \"Hi"}));
    check(r#"{"text": "say \"n\": 5 }""#, json!({"text": "say \"n\": 5 }"}));
    check(r#"{"text": "caf\u00e9\tbar"#, json!({"text": "café\tbar"}));
    check(r#"{"list": [1, 2], "deep": {"x": "y"}}"#, json!({"list": [1, 2], "deep": {"x": "y"}}));
}

#[test]
fn an_unfinished_escape_is_held_back() {
    check(r#"{"a": "x\"#, json!({"a": "x"}));
    check(r#"{"a": "x\u12"#, json!({"a": "x"}));
    check(r#"{"a": "x\ud83d"#, json!({"a": "x"}));
    check(r#"{"a": "x\ud83d\ude00"#, json!({"a": "x😀"}));
    check(r#"{"a": "x\ud83d", "b": 1"#, json!({"a": "x\u{fffd}", "b": 1}));
    check(r#"{"k\u0065y": 1"#, json!({"key": 1}));
}

#[test]
fn an_unfinished_number_is_shown_if_it_is_one() {
    check(r#"{"n": -"#, json!({}));
    check(r#"{"n": -1"#, json!({"n": -1}));
    check(r#"{"n": 1."#, json!({}));
    check(r#"{"n": 1.5"#, json!({"n": 1.5}));
    check(r#"{"n": 1.5e"#, json!({}));
    check(r#"{"n": 1.5e+2"#, json!({"n": 150.0}));
    check(r#"{"n": true"#, json!({"n": true}));
}

#[test]
fn nested_values_keep_their_structure() {
    check(r#"{"a":[1,2,{"b":tr"#, json!({"a": [1, 2, {}]}));
    check(r#"{"a":[1,2,{"b":true"#, json!({"a": [1, 2, {"b": true}]}));
    check(r#"{"a":{"b":{"c":"d"#, json!({"a": {"b": {"c": "d"}}}));
    check(r#"{"a":{"b":[]},"c":[[],["#, json!({"a": {"b": []}, "c": [[], []]}));
    check(r#"{"a":["#, json!({"a": []}));
    check(r#"{"a":["x","y"#, json!({"a": ["x", "y"]}));
    check(r#"{"a":{"b":1,"c"#, json!({"a": {"b": 1}}));
}

#[test]
fn the_last_of_two_equal_keys_wins() {
    check(r#"{"a":1,"a":2}"#, json!({"a": 2}));
    check(r#"{"a":1,"a":"#, json!({"a": 1}));
    check(r#"{"a":1,"b":2,"a":"x"#, json!({"a": "x", "b": 2}));
    let partial = read(r#"{"a":1,"b":2,"a":"x"#);
    assert_eq!(partial.get("a"), Some(Entry::Text("x")));
    let scalars: Vec<_> = partial.scalars().collect();
    let two = Entry::Number(2.into());
    assert_eq!(scalars, [("a", Entry::Text("x")), ("b", two)]);
}

#[test]
fn junk_before_the_first_key_is_skipped() {
    check("```json\n{\"a\": 1", json!({"a": 1}));
    check(r#"<|args|> { , x "a" : 1 }"#, json!({"a": 1}));
    check("no object", json!({}));
}

#[test]
fn what_follows_the_object_is_ignored() {
    check(r#"{"a": 1} {"b": 2} junk"#, json!({"a": 1}));
    assert!(read("{}").is_complete());
    assert!(!read("{").is_complete());
    assert!(!read(r#"{"a":{}"#).is_complete());
    assert!(!read("{} }").is_stopped());
}

#[test]
fn small_mistakes_are_forgiven() {
    check(r#"{"a": 1, }"#, json!({"a": 1}));
    check(r#"{"a": [1, ], "b": 2}"#, json!({"a": [1], "b": 2}));
    check(r#"{"a": None, "b": 2}"#, json!({"b": 2}));
    check(r#"{"a": NaN, "b": [undefined, 1]}"#, json!({"b": [1]}));
    check(r#"{"a": 1e999, "b": 2}"#, json!({"b": 2}));
    check(r#"{"a": my_word, "b": 2}"#, json!({"b": 2}));
    check("{\"a\": \"line\nbreak\"}", json!({"a": "line\nbreak"}));
}

#[test]
fn what_makes_no_sense_stops_it_and_keeps_what_is_there() {
    for (text, expected) in [
        (r#"{"a": 1 "b": 2}"#, json!({"a": 1})),
        (r#"{"a" 1, "b": 2}"#, json!({})),
        (r#"{"a": 1, b: 2, "c": 3}"#, json!({"a": 1})),
        (r#"{"a": }, "b": 2}"#, json!({})),
        (r#"{"a": [1}, "b": 2}"#, json!({"a": [1]})),
        (r#"{"a": {"x": 1], "b": 2}"#, json!({"a": {"x": 1}})),
        (r#"{"a": {x": 1}, "b": 2}"#, json!({"a": {}})),
        (r#"{"a": 1], "b": 2}"#, json!({"a": 1})),
        (r#"{"a": [:1], "b": 2}"#, json!({"a": []})),
    ] {
        check(text, expected);
        assert!(read(text).is_stopped(), "{text}");
    }
}

#[test]
fn the_depth_is_limited() {
    let nested = |n_levels: usize| format!("{{\"a\":{}", "[".repeat(n_levels - 1));
    let depth_of = |partial: &PartialJson| {
        let mut value = Value::Object(partial.snapshot())["a"].clone();
        let mut depth = 1;
        while let Value::Array(elements) = &value {
            depth += 1;
            value = elements.first().cloned().unwrap_or(Value::Null);
        }
        depth
    };
    let deepest = read(&nested(64));
    assert_eq!((deepest.is_stopped(), depth_of(&deepest)), (false, 64));
    let too_deep = read(&(nested(65) + "1"));
    assert_eq!((too_deep.is_stopped(), depth_of(&too_deep)), (true, 64));
    assert!(read(&nested(100_000)).is_stopped());
}

#[test]
fn the_size_is_limited() {
    let mut partial = read(r#"{"a": ""#);
    let room = MAX_BYTES - partial.n_bytes();
    partial.push(&"x".repeat(room));
    assert!(!partial.is_stopped());
    partial.push("y");
    assert!(partial.is_stopped());
    partial.push("z\"}");
    assert!(matches!(partial.get("a"), Some(Entry::Text(text)) if text.len() == room));
    assert_eq!(partial.n_bytes(), MAX_BYTES + 4);
    assert!(!partial.is_complete());
    assert!(partial.raw_tail().ends_with("xyz\"}"));
    assert_eq!(MAX_BYTES, 16_777_216);
}

#[test]
fn the_number_of_values_is_limited() {
    let mut partial = read(r#"{"a": ["#);
    partial.push(&"0,".repeat(MAX_VALUES - 1));
    assert!(!partial.is_stopped());
    partial.push("0,0,0]}");
    assert!(partial.is_stopped());
    let elements = partial.snapshot()["a"].as_array().map(Vec::len);
    assert_eq!(elements, Some(MAX_VALUES));
}

#[test]
fn the_length_of_a_number_is_limited() {
    let longest = format!("{{\"a\": 0.{}", "1".repeat(MAX_WORD - 2));
    let partial = read(&longest);
    assert!(!partial.is_stopped());
    assert!(partial.get("a").is_some());
    assert!(!read(&(longest.clone() + "}")).is_stopped());
    assert!(read(&(longest.clone() + "1}")).is_stopped());
    check(&(longest.clone() + "1}"), Value::Object(partial.snapshot()));
}

#[test]
fn entries_are_seen_without_a_copy() {
    let partial =
        read(r#"{"s":"text","n":1.5,"t":true,"f":false,"z":null,"o":{},"l":[],"x":"héllo"#);
    assert_eq!(partial.get("s"), Some(Entry::Text("text")));
    assert_eq!(partial.get("n"), Number::from_f64(1.5).map(Entry::Number));
    assert_eq!(partial.get("t"), Some(Entry::Bool(true)));
    assert_eq!(partial.get("f"), Some(Entry::Bool(false)));
    assert_eq!(partial.get("z"), Some(Entry::Null));
    assert_eq!(partial.get("o"), Some(Entry::Nested));
    assert_eq!(partial.get("l"), Some(Entry::Nested));
    assert_eq!(partial.get("x"), Some(Entry::Text("héllo")));
    assert_eq!(partial.get("missing"), None);
    assert_eq!(partial.str_prefix("x", 2), Some("hé"));
    assert_eq!(partial.str_prefix("x", 99), Some("héllo"));
    assert_eq!(partial.str_prefix("n", 2), None);
    let keys: Vec<&str> = partial.scalars().map(|(key, _)| key).collect();
    assert_eq!(keys, ["s", "n", "t", "f", "z", "x"]);
    assert_eq!(partial.first_scalar(), Some(("s", Entry::Text("text"))));
}

#[test]
fn the_entry_being_written_is_seen_as_far_as_it_is_certain() {
    assert_eq!(read(r#"{"a":"#).get("a"), None);
    assert_eq!(read(r#"{"a":""#).get("a"), Some(Entry::Text("")));
    assert_eq!(read(r#"{"a":5"#).get("a"), Some(Entry::Number(5.into())));
    assert_eq!(read(r#"{"a":true"#).get("a"), Some(Entry::Bool(true)));
    assert_eq!(read(r#"{"a":null"#).get("a"), Some(Entry::Null));
    assert_eq!(read(r#"{"a":fals"#).get("a"), None);
    assert_eq!(read(r#"{"a":{"b":"x"#).get("a"), Some(Entry::Nested));
    assert_eq!(read(r#"{"a":{"b":"x"#).get("b"), None);
    assert_eq!(read(r#"{"a":1,"b"#).get("b"), None);
    assert_eq!(read(r#"{"":"x"#).get(""), Some(Entry::Text("x")));
    assert_eq!(read(r#"{"a":[1"#).first_scalar(), None);
}

#[test]
fn only_the_first_entries_are_looked_at_for_a_scalar() {
    let nested: Vec<String> = (0..63).map(|n| format!("\"{n}\":[]")).collect();
    let nested = nested.join(",");
    assert!(read(&format!("{{{nested},\"x\":1")).first_scalar().is_some());
    assert!(read(&format!("{{{nested},\"y\":[],\"x\":1")).first_scalar().is_none());
}

#[test]
fn the_tail_is_what_was_written_last() {
    assert_eq!(read("").raw_tail(), "");
    assert_eq!(read("short").raw_tail(), "short");
    assert_eq!(read(&"é".repeat(30)).raw_tail(), "é".repeat(30));
    assert_eq!(read(&format!("x{}", "é".repeat(30))).raw_tail(), "é".repeat(30));
    let mut partial = PartialJson::new();
    for n in 0..5_000 {
        partial.push(&format!("{n:04}😀"));
        assert!(partial.tail.len() <= 1_200, "the tail grows to {}", partial.tail.len());
    }
    assert_eq!(partial.raw_tail(), "4994😀4995😀4996😀4997😀4998😀4999😀");
}

fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z\"\\\\\n\u{e9}\u{1f600}\u{0}]{0,8}".prop_map(Value::from),
    ];
    let value = scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-c\"]{0,2}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    });
    prop::collection::vec(("[a-e\u{e9}]{0,3}", value), 0..6)
        .prop_map(|entries| entries.into_iter().collect())
}

/// JSON text of `arguments`, with every possible character written as `\u…`.
fn written(arguments: &Map<String, Value>, pretty: bool, escaped: bool) -> String {
    let text = if pretty {
        serde_json::to_string_pretty(arguments)
    } else {
        serde_json::to_string(arguments)
    };
    let text = text.expect("JSON");
    if !escaped {
        return text;
    }
    let mut units = [0; 2];
    text.chars().fold(String::new(), |mut escaped, character| {
        if character.is_ascii() {
            escaped.push(character);
        } else {
            let units = character.encode_utf16(&mut units);
            escaped.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
        }
        escaped
    })
}

proptest! {
    /// S4-11.
    #[test]
    fn every_beginning_of_an_object_is_a_part_of_it(
        arguments in arguments(), pretty: bool, escaped: bool,
    ) {
        let text = written(&arguments, pretty, escaped);
        let whole: Map<String, Value> = serde_json::from_str(&text).expect("JSON");
        let mut growing = PartialJson::new();
        for (at, character) in text.char_indices() {
            let end = at + character.len_utf8();
            growing.push(&text[at..end]);
            let seen = growing.snapshot();
            prop_assert_eq!(&seen, &read(&text[..end]).snapshot(), "cutting makes no difference");
            let n_complete = seen.len().saturating_sub(1);
            for (nth, (key, value)) in seen.iter().enumerate() {
                prop_assert!(whole.contains_key(key), "{} is made up", key);
                if nth < n_complete {
                    prop_assert_eq!(value, &whole[key]);
                }
                match growing.get(key) {
                    Some(Entry::Nested) => prop_assert!(value.is_array() || value.is_object()),
                    entry => prop_assert_eq!(entry, Some(Entry::of(value))),
                }
            }
            prop_assert!(!growing.is_stopped());
            prop_assert_eq!(growing.is_complete(), end == text.len());
        }
        prop_assert_eq!(growing.snapshot(), whole);
    }

    #[test]
    fn no_text_makes_it_panic(text in "[{}\\[\\],:\"\\\\ua1-9.e\u{e9} \\n]{0,40}", cut in 0_usize..40) {
        let cut = text.floor_char_boundary(cut);
        let mut partial = read(&text[..cut]);
        partial.push(&text[cut..]);
        prop_assert_eq!(partial.snapshot(), read(&text).snapshot());
        preview::label(&[], &partial);
    }
}

/// An unfinished string argument of `n_bytes`.
fn long_string(n_bytes: usize) -> PartialJson {
    read(&format!(r#"{{"content": "{}"#, "x".repeat(n_bytes)))
}

/// S4-8.
#[test]
fn the_cost_of_a_byte_does_not_depend_on_what_came_before() {
    check_that_size_does_not_matter(long_string, |partial| partial.push("x"));
}

/// S4-11.
#[test]
fn the_cost_of_a_label_does_not_depend_on_what_came_before() {
    check_that_size_does_not_matter(long_string, |partial| {
        partial.push("x");
        let label = preview::label(&[], partial);
        assert!(label.starts_with("content=xxx"), "{label}");
    });
}

#[test]
fn a_megabyte_is_the_same_byte_by_byte() {
    let mut partial = long_string(0);
    for _ in 0..1 << 20 {
        partial.push("x");
    }
    partial.push("\"}");
    assert_eq!(
        partial.snapshot(),
        read(&format!(r#"{{"content": "{}"}}"#, "x".repeat(1 << 20))).snapshot()
    );
    assert!(partial.is_complete());
}
