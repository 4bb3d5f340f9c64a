use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, CallLink, Effect, RunId, TenantId, Tool, ToolContext, ToolError, ToolKind, ToolNote,
    ToolOutput, ToolRequest, ToolSpec,
};

use super::{FunctionTool, NoArguments};
use crate::Json;

#[derive(Deserialize, JsonSchema)]
struct Multiply {
    a: f64,
    b: f64,
}

fn multiply() -> FunctionTool<Multiply> {
    FunctionTool::new("multiply", "Multiplies two numbers.", |numbers: Multiply| async move {
        numbers.a * numbers.b
    })
}

/// Calls `tool` with `arguments`, and returns the result and the notes.
async fn call(tool: &dyn Tool, arguments: Value) -> (Result<ToolOutput, ToolError>, Vec<ToolNote>) {
    let link = Arc::new(NoteBook::default());
    let context = ToolContext::new(
        RunId::new("run_1"),
        CallId::new("call_1"),
        2,
        Duration::from_secs(5),
        link.clone(),
    );
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: object(arguments),
        idempotency_key: "key_1".to_owned(),
        settings: serde_json::Value::Null,
    };
    let result = tool.call(request, context).await;
    let notes = link.notes.lock().expect("nobody panicked").clone();
    (result, notes)
}

fn object(arguments: Value) -> Map<String, Value> {
    match arguments {
        Value::Object(arguments) => arguments,
        other => panic!("arguments are an object, not {other}"),
    }
}

#[derive(Default)]
struct NoteBook {
    notes: Mutex<Vec<ToolNote>>,
}

impl CallLink for NoteBook {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        self.notes.lock().expect("nobody panicked").push(note);
        std::future::ready(()).boxed()
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}

/// S1-O4: a function without progress needs no context.
#[tokio::test]
async fn a_function_gets_its_arguments_typed() {
    let (result, notes) = call(&multiply(), json!({ "a": 5, "b": 4 })).await;
    assert_eq!(result, Ok(ToolOutput::text("20")));
    assert_eq!(notes, []);
}

#[tokio::test]
async fn a_function_without_arguments_takes_none() {
    let tool = FunctionTool::new("moon", "Tells the phase of the moon.", |_: NoArguments| async {
        "full"
    });
    let (result, _) = call(&tool, json!({})).await;
    assert_eq!(result, Ok(ToolOutput::text("full")));
}

#[tokio::test]
async fn a_failing_function_is_a_failed_tool() {
    let tool = FunctionTool::new("open", "Opens the vault.", |_: NoArguments| async {
        Err::<String, _>("the vault is locked")
    });
    let (result, _) = call(&tool, json!({})).await;
    assert_eq!(result, Err(ToolError::Failed("the vault is locked".to_owned())));
}

#[tokio::test]
async fn a_function_may_return_data() {
    let tool = FunctionTool::new("pair", "Gives a pair.", |_: NoArguments| async { Json((1, 2)) });
    let (result, _) = call(&tool, json!({})).await;
    let expected = ToolOutput { structured: Some(json!([1, 2])), ..ToolOutput::text("[1,2]") };
    assert_eq!(result, Ok(expected));
}

#[tokio::test]
async fn a_missing_argument_is_named() {
    let (result, _) = call(&multiply(), json!({ "a": 5 })).await;
    assert_eq!(result, Err(ToolError::InvalidArguments("missing field `b`".to_owned())));
}

#[derive(Deserialize, JsonSchema)]
struct Basket {
    #[expect(dead_code, reason = "only read by serde")]
    items: Vec<Multiply>,
}

#[tokio::test]
async fn a_wrong_argument_is_named_with_its_place() {
    let tool = FunctionTool::new("buy", "Buys.", |_: Basket| async { "bought" });
    let arguments = json!({ "items": [{ "a": 1, "b": 2 }, { "a": "one", "b": 2 }] });
    let (result, _) = call(&tool, arguments).await;
    assert_eq!(
        result,
        Err(ToolError::InvalidArguments(
            "items[1].a: invalid type: string \"one\", expected f64".to_owned()
        ))
    );
}

/// S1-O4: a function with a context can report progress.
#[tokio::test]
async fn a_function_with_context_tells_how_it_is_going() {
    let tool = FunctionTool::with_context(
        "crawl",
        "Reads pages.",
        |_: NoArguments, context: ToolContext| async move {
            context.phase("connecting").await;
            context.progress(1.0, 3.0).await;
            context.output("first page").await;
            format!("{} {} {}", context.run_id, context.call_id, context.attempt)
        },
    );
    let (result, notes) = call(&tool, json!({})).await;
    assert_eq!(result, Ok(ToolOutput::text("run_1 call_1 2")));
    assert_eq!(
        notes,
        [
            ToolNote::Phase("connecting".to_owned()),
            ToolNote::Progress { progress: 1.0, total: Some(3.0), message: None },
            ToolNote::Output("first page".to_owned()),
        ]
    );
}

#[tokio::test]
async fn a_function_with_a_key_gets_the_key_and_may_be_called_again() {
    let tool = FunctionTool::with_key(
        "order",
        "Orders lunch.",
        |_: NoArguments, key: String, _: ToolContext| async move { key },
    );
    assert_eq!(tool.spec().effect, Effect::Idempotent);
    let (result, _) = call(&tool, json!({})).await;
    assert_eq!(result, Ok(ToolOutput::text("key_1")));
}

#[test]
fn a_tool_is_careful_until_told_otherwise() {
    let expected = ToolSpec {
        name: "multiply".to_owned(),
        description: "Multiplies two numbers.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
            "required": ["a", "b"],
            "additionalProperties": false,
        }),
        kind: ToolKind::Function,
        strict: None,
        format: None,
        own_name: None,
        server: None,
        namespace_description: String::new(),
        effect: Effect::Once,
        parallel: false,
        needs_approval: false,
        exempt: false,
        approval_expiry: None,
        changed: None,
        timeout: None,
        deadline: None,
        most_at_once: None,
        server_most_at_once: None,
        telling_arguments: Vec::new(),
        title: None,
        claims: None,
        settings: Value::Null,
    };
    assert_eq!(multiply().spec(), &expected);
}

#[test]
fn every_setting_reaches_the_spec() {
    let tool = multiply()
        .effect(Effect::Pure)
        .parallel()
        .needs_approval()
        .timeout(Duration::from_secs(5))
        .telling(["b", "a"]);
    let expected = ToolSpec {
        effect: Effect::Pure,
        parallel: true,
        needs_approval: true,
        timeout: Some(Duration::from_secs(5)),
        telling_arguments: vec!["b".to_owned(), "a".to_owned()],
        ..multiply().spec().clone()
    };
    assert_eq!(tool.spec(), &expected);
}

#[test]
fn hooks_word_arguments_and_results() {
    let tool = multiply()
        .label(|numbers| format!("{} × {}", numbers.a, numbers.b))
        .short_result(|output| format!("= {}", output.text));
    let label = |arguments| Tool::label(&tool, &object(arguments));
    assert_eq!(label(json!({ "a": 5, "b": 4 })), Some("5 × 4".to_owned()));
    assert_eq!(label(json!({ "a": 5 })), None);
    let short = Tool::short_result(&tool, &ToolOutput::text("20"));
    assert_eq!(short, Some("= 20".to_owned()));
}

#[test]
fn without_hooks_the_usual_rule_applies() {
    let tool = multiply();
    assert_eq!(Tool::label(&tool, &object(json!({ "a": 5, "b": 4 }))), None);
    assert_eq!(Tool::short_result(&tool, &ToolOutput::text("20")), None);
}

#[test]
fn tools_of_all_types_share_a_box_and_can_be_printed() {
    let tools: [Arc<dyn Tool>; 2] = [
        Arc::new(multiply()),
        Arc::new(FunctionTool::new("moon", "The moon.", |_: NoArguments| async {})),
    ];
    let names = tools.iter().map(|tool| tool.spec().name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["multiply", "moon"]);
    assert!(
        format!("{:?}", multiply())
            .starts_with("FunctionTool { spec: ToolSpec { name: \"multiply\"")
    );
}
