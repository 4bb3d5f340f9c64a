//! Custom tools: their input is plain text, and the client runs them.

use serde_json::{Value, json};
use turnwire_contract::{CallId, InputFormat, Item, ModelPart, ToolKind};
use turnwire_models::Turn;

use crate::world::{Plan, of_type, types};

const PATCH: &str = "*** Begin Patch\n+\"quoted\"\n*** End Patch\n";

/// A turn that calls the custom tool `name` with `pieces`.
fn calls(name: &str, pieces: &[&str]) -> Turn {
    let started = ModelPart::CallStarted { key: 0, id: Some("call_1".into()), name: name.into() };
    pieces.iter().fold(Turn::new().part(started), |turn, piece| {
        turn.part(ModelPart::CallArguments { key: 0, text: (*piece).to_owned() })
    })
}

fn apply_patch() -> Value {
    let format = json!({ "type": "grammar", "syntax": "lark", "definition": "start: /.+/" });
    json!({ "type": "custom", "name": "apply_patch", "description": "Edits.", "format": format })
}

/// The whole round: the input comes in pieces, the response ends with the call, and the result
/// comes with the next request.
#[tokio::test]
async fn a_custom_tool_is_called_and_answered() {
    let turns = [calls("apply_patch", &[&PATCH[..7], &PATCH[7..]]), Turn::new().text("Done.")];
    let world = Plan::new(turns).start().await;
    let events = world.stream(json!({ "input": "go", "tools": [apply_patch()] })).await;
    assert_eq!(
        types(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    let deltas = of_type(&events, "response.custom_tool_call_input.delta");
    let written: String = deltas.iter().map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(written, PATCH);
    let done = of_type(&events, "response.custom_tool_call_input.done")[0];
    assert_eq!(done["input"], PATCH);
    assert_eq!(done.get("arguments"), None);
    let item = &of_type(&events, "response.output_item.done")[0]["item"];
    let expected = json!({
        "type": "custom_tool_call",
        "id": done["item_id"],
        "status": "completed",
        "call_id": "call_1",
        "input": PATCH,
        "name": "apply_patch",
    });
    assert_eq!(*item, expected);
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["output"], json!([expected]));
    assert_eq!(response["tools"][0], apply_patch());

    let told = &world.model.prompts()[0].tools[0];
    assert_eq!(told.kind, ToolKind::Custom);
    let definition = "start: /.+/".to_owned();
    assert_eq!(told.format, Some(InputFormat::Grammar { syntax: "lark".into(), definition }));

    let output = json!({ "type": "custom_tool_call_output", "call_id": "call_1", "output": "ok" });
    let body = json!({
        "input": [output],
        "previous_response_id": response["id"],
        "tools": [apply_patch()],
    });
    let second = world.respond(body).await;
    assert_eq!(second["output"][0]["content"][0]["text"], "Done.");
    let items = &world.model.prompts()[1].items;
    let call = Item::Call {
        call_id: CallId::new("call_1"),
        name: "apply_patch".into(),
        arguments: PATCH.into(),
        kind: ToolKind::Custom,
        server: None,
    };
    assert_eq!(*items[1], call, "as it was written, not as JSON");
    let path = format!("/v1/responses/{}/input_items", second["id"].as_str().unwrap());
    let listed = world.get(&path).await.1;
    assert_eq!(listed["data"][0]["type"], "custom_tool_call_output");
    assert_eq!(listed["data"][0]["output"], "ok");
    world.close().await;
}

/// A client that keeps its history itself sends it all, and so does one with a conversation.
#[tokio::test]
async fn custom_calls_in_a_history() {
    let world = Plan::new([Turn::new().text("Done.")]).start().await;
    let call = json!({
        "type": "custom_tool_call", "call_id": "call_1", "name": "apply_patch", "input": PATCH,
        "id": "ctc_1", "status": "completed",
    });
    let output = json!({
        "type": "custom_tool_call_output", "call_id": "call_1",
        "output": [{ "type": "input_text", "text": "ok" }],
    });
    let question = json!({ "role": "user", "content": "go" });
    let items = json!([question, call, output]);
    let (_, conversation) = world.post("/v1/conversations", json!({ "items": items })).await;
    let path = format!("/v1/conversations/{}/items", conversation["id"].as_str().unwrap());
    let listed = world.get(&format!("{path}?order=asc")).await.1;
    assert_eq!(listed["data"][1]["type"], "custom_tool_call", "{listed:#}");
    assert_eq!(listed["data"][1]["input"], PATCH);
    assert_eq!(listed["data"][2]["type"], "custom_tool_call_output");
    let body = json!({ "input": "and now?", "conversation": conversation["id"] });
    let response = world.respond(body).await;
    assert_eq!(response["output"][0]["content"][0]["text"], "Done.");
    let told = &world.model.prompts()[0].items;
    assert!(matches!(&*told[1], Item::Call { kind: ToolKind::Custom, .. }), "{told:#?}");

    let lonely = json!({ "input": [question, call] });
    let (status, refused) = world.post("/v1/responses", lonely).await;
    assert_eq!((status.as_u16(), &refused["error"]["code"]), (400, &json!("no_tool_output_found")));
    world.close().await;
}

/// Tools in a namespace keep it on the way to the client and back, and two tools of one name in two
/// namespaces are told apart.
#[tokio::test]
async fn tools_in_namespaces_keep_their_names() {
    let turns = [
        calls("exec", &["1+1"]),
        Turn::new().call("b__run", json!({ "x": 1 })),
        Turn::new().text("Done."),
    ];
    let world = Plan::new(turns).start().await;
    let exec = json!({ "type": "custom", "name": "exec" });
    let run = json!({ "type": "function", "name": "run" });
    let namespace = |name: &str, tools: Value| json!({ "type": "namespace", "name": name, "description": "Things.", "tools": tools });
    let spaces = json!([namespace("a", json!([exec, run])), namespace("b", json!([run]))]);
    let tools = json!({ "type": "additional_tools", "role": "developer", "tools": spaces });
    let question = json!({ "role": "user", "content": "go" });
    let body = json!({ "input": [tools, question], "store": false });
    let first = world.respond(body).await;
    let call = &first["output"][0];
    assert_eq!((&call["name"], &call["namespace"]), (&json!("exec"), &json!("a")), "{call:#}");

    let output =
        json!({ "type": "custom_tool_call_output", "call_id": call["call_id"], "output": "2" });
    let body = json!({ "input": [tools, question, call, output], "store": false });
    let second = world.respond(body).await;
    let call = &second["output"][0];
    assert_eq!(call["type"], "function_call");
    assert_eq!((&call["name"], &call["namespace"]), (&json!("run"), &json!("b")), "{call:#}");

    let output =
        json!({ "type": "function_call_output", "call_id": call["call_id"], "output": "2" });
    let body = json!({ "input": [tools, question, call, output], "store": false });
    let third = world.respond(body).await;
    assert_eq!(third["output"][0]["content"][0]["text"], "Done.");
    let told = &world.model.prompts()[2];
    let names: Vec<&str> = told.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["exec", "run", "b__run"]);
    let Item::Call { name, .. } = &*told.items[1] else { panic!("{:?}", told.items) };
    assert_eq!(name, "b__run", "the name that the model knows");
    world.close().await;
}
