use proptest::prelude::*;
use serde_json::{Value, json};

use super::{JsonError, JsonLimits};

const MAX_DEPTH: usize = 64;
const MAX_KEYS: usize = 10_000;
const MAX_VALUES: usize = 100_000;

fn read(body: &[u8]) -> Result<Value, JsonError> {
    super::read(body, &JsonLimits::default())
}

fn code_of(body: &[u8]) -> Option<&'static str> {
    read(body).err().map(|problem| problem.code)
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

fn with_keys(n: usize) -> String {
    let pairs: Vec<String> = (0..n).map(|n| format!("\"{n}\":0")).collect();
    format!("{{{}}}", pairs.join(","))
}

/// A13: the limit itself is allowed, one more is not.
#[test]
fn depth_has_a_limit() {
    assert_eq!(code_of(nested(MAX_DEPTH).as_bytes()), None);
    assert_eq!(code_of(nested(MAX_DEPTH + 1).as_bytes()), Some("json_too_deep"));
    let objects = "{\"a\":".repeat(MAX_DEPTH + 1) + "0" + &"}".repeat(MAX_DEPTH + 1);
    assert_eq!(code_of(objects.as_bytes()), Some("json_too_deep"));
}

/// A13: deeply nested input is refused without being parsed, and without deep recursion.
#[test]
fn a_bomb_is_refused() {
    let bomb = vec![b'['; 4 * 1024 * 1024];
    let problem = read(&bomb).unwrap_err();
    assert_eq!(problem.code, "json_too_deep");
    assert_eq!(problem.message, "The body is nested too deeply; at most 64 levels.");
}

/// A13: the keys of all objects are counted together.
#[test]
fn keys_have_a_limit() {
    assert_eq!(code_of(with_keys(MAX_KEYS).as_bytes()), None);
    let problem = read(with_keys(MAX_KEYS + 1).as_bytes()).unwrap_err();
    assert_eq!(problem.code, "json_too_many_keys");
    assert_eq!(problem.message, "The body has too many keys; at most 10000.");
    let spread = format!("[{},{}]", with_keys(MAX_KEYS / 2), with_keys(MAX_KEYS / 2 + 1));
    assert_eq!(code_of(spread.as_bytes()), Some("json_too_many_keys"));
}

/// A13, C29: the number of values is limited, because small numbers need much more memory than
/// bytes on the wire.
#[test]
fn values_have_a_limit() {
    let list = |n: usize| format!("[{}]", vec!["0"; n].join(","));
    assert_eq!(code_of(list(MAX_VALUES).as_bytes()), None);
    let problem = read(list(MAX_VALUES + 1).as_bytes()).unwrap_err();
    assert_eq!(problem.code, "json_too_many_values");
    assert_eq!(problem.message, "The body has too many values; at most 100000.");
    let text = format!("[\"{}\"]", ",".repeat(2 * MAX_VALUES));
    assert_eq!(code_of(text.as_bytes()), None, "commas in strings do not count");
}

#[test]
fn brackets_and_colons_in_strings_do_not_count() {
    let text = "[{:\\\"".repeat(MAX_KEYS + 1);
    let body = json!({ "a": text, "b\"[": "\\" }).to_string();
    assert_eq!(read(body.as_bytes()).unwrap(), json!({ "a": text, "b\"[": "\\" }));
}

#[test]
fn closed_brackets_are_out_of_the_way() {
    let body = format!("[{}]", vec![nested(MAX_DEPTH - 1); 100].join(","));
    assert_eq!(code_of(body.as_bytes()), None);
}

#[test]
fn what_is_not_json_is_said_to_be_so() {
    let problem = read(b"{\"a\" 1}").unwrap_err();
    assert_eq!(problem.code, "invalid_json");
    assert_eq!(problem.message, "The body is not valid JSON: expected `:` at line 1 column 6.");
    assert_eq!(read(b" \n").unwrap_err().message, "The body is empty; JSON was expected.");
    for body in [&b"\xff"[..], b"\"\xff\"", b"{}{}", b"\"\\ud800\"", b"1e999", b"nul", b"\"", b"}"]
    {
        assert_eq!(code_of(body), Some("invalid_json"), "{body:?}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(".{0,6}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn reads_what_was_written(value in any_json()) {
        prop_assert_eq!(read(value.to_string().as_bytes()).unwrap(), value.clone());
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        prop_assert_eq!(read(&pretty).unwrap(), value);
    }

    /// Within the limits the result is that of the parser, also for invalid input.
    #[test]
    fn agrees_with_the_parser(value in any_json(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut body = value.to_string().into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        prop_assert_eq!(read(&body).ok(), serde_json::from_slice::<Value>(&body).ok());
        body.truncate(at);
        prop_assert_eq!(read(&body).ok(), serde_json::from_slice::<Value>(&body).ok());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let expected = serde_json::from_slice::<Value>(&bytes).ok();
        match read(&bytes) {
            Ok(value) => prop_assert_eq!(Some(value), expected),
            Err(problem) if problem.code == "invalid_json" => prop_assert_eq!(expected, None),
            Err(_) => {}
        }
    }
}
