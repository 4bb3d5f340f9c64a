//! Tools by name, and arguments checked before anything is called.

use std::sync::Arc;

use serde_json::json;
use turnwire_engine::{Toolbox, ToolboxError};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::returns;

fn toolbox() -> Toolbox {
    let mut tools = Toolbox::default();
    tools.add(Arc::new(FakeTool::new("multiply", Behaviour::Multiplies))).unwrap();
    tools.add(Arc::new(returns("any", "x"))).unwrap();
    tools
}

fn check(name: &str, raw: &str, expected: &Result<serde_json::Value, String>) {
    let read = toolbox().read_arguments(name, raw).map(serde_json::Value::Object);
    assert_eq!(read, *expected, "{raw}");
}

/// S2-23: arguments are read, or the model is told what is wrong with them.
#[test]
fn arguments_are_checked_against_the_schema() {
    check("multiply", "{\"a\": 5, \"b\": 4}", &Ok(json!({ "a": 5, "b": 4 })));
    check("multiply", "{\"a\": 5}", &Err("\"b\" is a required property".into()));
    let both = "at `/a`: \"x\" is not of type \"number\"; at `/b`: null is not of type \"number\"";
    check("multiply", "{\"a\": \"x\", \"b\": null}", &Err(both.into()));
    check("any", "", &Ok(json!({})));
    check("any", "  \n", &Ok(json!({})));
    check("any", "null", &Err("null is not of type \"object\"".into()));
    check("nobody", "{}", &Err("Tool not found: nobody. There are no tools.".into()));
}

/// A schema that allows everything still gets an object.
#[test]
fn arguments_are_always_an_object() {
    let mut tools = Toolbox::default();
    tools.add(Arc::new(returns("t", "x").with(|spec| spec.parameters = json!(true)))).unwrap();
    let read = tools.read_arguments("t", "[1]");
    assert_eq!(read, Err("the arguments must be a JSON object".to_owned()));
}

/// Lesson 1.8: control tokens of the model are dropped where they break the JSON, only there.
#[test]
fn control_tokens_are_dropped_if_they_break_the_arguments() {
    check("any", "{\"a\": 1}<|im_end|>", &Ok(json!({ "a": 1 })));
    check("any", "<|call|>{\"a\": 1}<|end|>", &Ok(json!({ "a": 1 })));
    check("any", "{\"a\": \"<|x|>\"}", &Ok(json!({ "a": "<|x|>" })));
    let broken = |text: &str| toolbox().read_arguments("any", text).unwrap_err();
    assert!(broken("{\"a\": 1").starts_with("not valid JSON: "), "{}", broken("{\"a\": 1"));
    assert!(broken("{\"a\": <| 1}").starts_with("not valid JSON: "));
    assert!(broken("<|only|>").starts_with("not valid JSON: "));
    assert!(broken("{\"a\": 1<|x|>").starts_with("not valid JSON: "));
}

/// What does not fit is refused when the agent is made, not in the middle of a run.
#[test]
fn a_tool_that_does_not_fit_is_refused() {
    let mut tools = toolbox();
    let twice = tools.add(Arc::new(returns("any", "x"))).unwrap_err();
    assert_eq!(twice, ToolboxError::Duplicate("any".into()));
    assert_eq!(twice.to_string(), "there are two tools named `any`; rename one of them");
    assert_eq!(tools.add(Arc::new(returns("", "x"))).unwrap_err(), ToolboxError::NoName);
    let bad = returns("bad", "x").with(|spec| spec.parameters = json!({ "type": "objekt" }));
    assert!(matches!(tools.add(Arc::new(bad)).unwrap_err(), ToolboxError::Schema { .. }));
    assert!(tools.get("bad").is_none());
    assert_eq!(format!("{tools:?}"), "{\"any\", \"multiply\"}");
}
