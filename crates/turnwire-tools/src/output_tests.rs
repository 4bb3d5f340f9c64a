use std::collections::BTreeMap;

use serde_json::json;
use turnwire_contract::{ToolError, ToolOutput};

use super::{IntoToolOutput, Json};

#[track_caller]
fn check(returned: impl IntoToolOutput, expected: Result<ToolOutput, ToolError>) {
    assert_eq!(returned.into_tool_output(), expected);
}

fn text(text: &str) -> ToolOutput {
    ToolOutput::text(text)
}

#[test]
fn text_stays_as_it_is() {
    check("three notes", Ok(text("three notes")));
    check(String::from("drei Notizen – ✓"), Ok(text("drei Notizen – ✓")));
    check("", Ok(text("")));
}

#[test]
fn numbers_are_printed_without_noise() {
    check(20.0_f64, Ok(text("20")));
    check(0.5_f32, Ok(text("0.5")));
    check(-7_i64, Ok(text("-7")));
    check(u64::MAX, Ok(text("18446744073709551615")));
    check(true, Ok(text("true")));
}

#[test]
fn nothing_is_an_empty_result() {
    check((), Ok(ToolOutput::default()));
}

#[test]
fn data_is_kept_as_data_beside_its_text() {
    let value = json!({ "title": "Rust", "notes": [1, 2] });
    check(
        value.clone(),
        Ok(ToolOutput { structured: Some(value), ..text(r#"{"title":"Rust","notes":[1,2]}"#) }),
    );
    check(Json(vec![1, 2]), Ok(ToolOutput { structured: Some(json!([1, 2])), ..text("[1,2]") }));
}

#[test]
fn a_bare_json_string_has_no_quotes_in_the_text() {
    check(
        json!("say \"hello\""),
        Ok(ToolOutput { structured: Some(json!("say \"hello\"")), ..text("say \"hello\"") }),
    );
}

#[test]
fn what_cannot_be_json_is_a_failure() {
    check(
        Json(BTreeMap::from([((1, 2), "a pair is no key")])),
        Err(ToolError::Failed("the result is not valid JSON: key must be a string".to_owned())),
    );
}

#[test]
fn an_error_fails_in_its_own_words() {
    check(Ok::<_, String>(20), Ok(text("20")));
    check(
        Err::<i32, _>("the vault is locked"),
        Err(ToolError::Failed("the vault is locked".to_owned())),
    );
    check("x".parse::<u8>(), Err(ToolError::Failed("invalid digit found in string".to_owned())));
}

#[test]
fn a_tool_error_stays_what_it_is() {
    for error in [
        ToolError::Failed("no".to_owned()),
        ToolError::Transient("not now".to_owned()),
        ToolError::InvalidArguments("not this".to_owned()),
    ] {
        check(Err::<(), _>(error.clone()), Err(error));
    }
}

#[test]
fn a_whole_output_is_passed_on_whole() {
    let output = ToolOutput { short: Some("3 notes".to_owned()), ..text("a\nb\nc") };
    check(output.clone(), Ok(output));
}
