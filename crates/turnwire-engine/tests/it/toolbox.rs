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

async fn check(name: &str, raw: &str, expected: &Result<serde_json::Value, String>) {
    let read = toolbox().read_arguments(name, raw).await.map(serde_json::Value::Object);
    assert_eq!(read, *expected, "{raw}");
}

/// S2-23: arguments are read, or the model is told what is wrong with them.
#[tokio::test]
async fn arguments_are_checked_against_the_schema() {
    check("multiply", "{\"a\": 5, \"b\": 4}", &Ok(json!({ "a": 5, "b": 4 }))).await;
    check("multiply", "{\"a\": 5}", &Err("\"b\" is a required property".into())).await;
    let both = "at `/a`: \"x\" is not of type \"number\"; at `/b`: null is not of type \"number\"";
    check("multiply", "{\"a\": \"x\", \"b\": null}", &Err(both.into())).await;
    check("any", "", &Ok(json!({}))).await;
    check("any", "  \n", &Ok(json!({}))).await;
    check("any", "null", &Err("null is not of type \"object\"".into())).await;
    check("nobody", "{}", &Err("Tool not found: nobody. There are no tools.".into())).await;
}

/// A schema that allows everything still gets an object.
#[tokio::test]
async fn arguments_are_always_an_object() {
    let mut tools = Toolbox::default();
    tools.add(Arc::new(returns("t", "x").with(|spec| spec.parameters = json!(true)))).unwrap();
    let read = tools.read_arguments("t", "[1]").await;
    assert_eq!(read, Err("the arguments must be a JSON object".to_owned()));
}

/// Lesson 1.8: control tokens of the model are dropped where they break the JSON, only there.
#[tokio::test]
async fn control_tokens_are_dropped_if_they_break_the_arguments() {
    check("any", "{\"a\": 1}<|im_end|>", &Ok(json!({ "a": 1 }))).await;
    check("any", "<|call|>{\"a\": 1}<|end|>", &Ok(json!({ "a": 1 }))).await;
    check("any", "{\"a\": \"<|x|>\"}", &Ok(json!({ "a": "<|x|>" }))).await;
    for broken in ["{\"a\": 1", "{\"a\": <| 1}", "<|only|>", "{\"a\": 1<|x|>"] {
        let error = toolbox().read_arguments("any", broken).await.unwrap_err();
        assert!(error.starts_with("not valid JSON: "), "{error}");
    }
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
