//! `POST /v1/responses`.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{ModelError, ToolKind};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeServers, FakeTool};

use crate::world::{Plan, World, events_of, of_type, types};

fn returns(name: &str, text: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Returns(text.to_owned()))
}

fn takes(name: &str, ms: u64) -> FakeTool {
    FakeTool::new(name, Behaviour::Takes(Duration::from_millis(ms), format!("{name} done")))
}

fn built_in(kind: ToolKind, name: &str, behaviour: Behaviour) -> FakeTool {
    FakeTool::new(name, behaviour).with(|spec| spec.kind = kind)
}

fn mcp(label: &str) -> Value {
    json!({ "type": "mcp", "server_label": label, "require_approval": "never" })
}

/// Numbers from 0 without gaps, items announced before anything is said about them, indexes
/// without gaps: S1-FR-008, R4.
fn check_order(events: &[Value]) {
    let numbers: Vec<u64> =
        events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let mut known: Vec<&str> = Vec::new();
    for event in events {
        if event["type"] == "response.output_item.added" {
            assert_eq!(event["output_index"], known.len());
            known.push(event["item"]["id"].as_str().unwrap());
        } else if let Some(index) = event["output_index"].as_u64() {
            let index = usize::try_from(index).unwrap();
            let id = event["item_id"].as_str().or(event["item"]["id"].as_str()).unwrap();
            assert_eq!(known.get(index), Some(&id), "{event:#}");
        }
    }
}

/// S1-US1-AS4, S1-FR-010, S1-FR-008: a stream without tools, to the letter.
#[tokio::test]
async fn a_stream_without_tools() {
    let world = Plan::new([Turn::new().text_in(["Hel", "lo."])]).start().await;
    let events = world.stream(json!({ "model": "default", "input": "Hi" })).await;
    assert_eq!(
        types(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
    );
    check_order(&events);
    let response = &events.last().unwrap()["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello.");
    assert_eq!(response["status"], "completed");
    world.close().await;
}

/// S1-E3, S1-FR-009: a plain request gets one JSON body, which is what the stream adds up to;
/// all 31 keys are there.
#[tokio::test]
async fn the_plain_answer_is_the_fold_of_the_stream() {
    let turns = || [Turn::new().call("add", json!({})), Turn::new().text("Three.")];
    let body = || json!({ "input": "1 + 2", "tools": [mcp("math")], "metadata": { "a": "b" } });
    let made = || Plan::new(turns()).server("math", [returns("add", "3")]);
    let (plain, streamed) = (made().start().await, made().start().await);
    let response = plain.respond(body()).await;
    let events = streamed.stream(body()).await;
    let blank = |mut response: Value| {
        for key in ["id", "created_at", "completed_at"] {
            response[key] = Value::Null;
        }
        for item in response["output"].as_array_mut().unwrap() {
            item["id"] = Value::Null;
            item["call_id"] = Value::Null;
            item["turnwire"] = Value::Null;
        }
        response
    };
    assert_eq!(blank(response.clone()), blank(events.last().unwrap()["response"].clone()));
    for key in [
        "id",
        "object",
        "created_at",
        "completed_at",
        "status",
        "incomplete_details",
        "model",
        "previous_response_id",
        "instructions",
        "output",
        "error",
        "tools",
        "tool_choice",
        "truncation",
        "parallel_tool_calls",
        "text",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "top_logprobs",
        "temperature",
        "reasoning",
        "usage",
        "max_output_tokens",
        "max_tool_calls",
        "store",
        "background",
        "service_tier",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
    ] {
        assert!(response.get(key).is_some(), "{key} is missing");
    }
    // S1-O5: its events can be read later all the same.
    let id = response["id"].as_str().unwrap();
    let later = plain.request(Method::GET, &format!("/v1/responses/{id}?stream=true"));
    let later = events_of(&plain.text(later).await);
    assert!(!of_type(&later, "response.mcp_call.completed").is_empty());
    assert_eq!(later.last().unwrap()["response"], response);
    plain.close().await;
    streamed.close().await;
}

/// S1-US3-AS1, S1-FR-002, S1-FR-005, S1-FR-011, S1-O1, S1-O2: the life of an MCP call, beside
/// its output items and with the tool's name on every event.
#[tokio::test]
async fn an_mcp_call() {
    let turn = Turn::new().call_raw("add", ["{\"a\":", "1}"]);
    let plan = Plan::new([turn, Turn::new().text("Done.")]).server("math", [returns("add", "3")]);
    let world = plan.start().await;
    let events = world.stream(json!({ "input": "1 + 2", "tools": [mcp("math")] })).await;
    check_order(&events);
    let about_tools: Vec<&str> =
        types(&events).into_iter().filter(|kind| kind.contains("mcp")).collect();
    let life: Vec<&str> = {
        let mut life = about_tools.clone();
        life.dedup();
        life
    };
    assert_eq!(
        life,
        [
            "response.mcp_list_tools.in_progress",
            "response.mcp_list_tools.completed",
            "response.mcp_call.in_progress",
            "response.mcp_call_arguments.delta",
            "response.mcp_call_arguments.done",
            "response.mcp_call.in_progress",
            "response.mcp_call.completed",
        ]
    );
    for event in events.iter().filter(|e| e["type"].as_str().unwrap().contains("mcp_call.")) {
        assert_eq!(event["name"], "add", "S1-FR-005: {event:#}");
        assert!(event["output_index"].is_u64(), "S1-FR-005: {event:#}");
        assert_eq!(event["server_label"], "math");
    }
    let item = &of_type(&events, "response.output_item.done")[1]["item"];
    assert_eq!((&item["type"], &item["status"]), (&json!("mcp_call"), &json!("completed")));
    assert_eq!((&item["output"], &item["error"]), (&json!("3"), &Value::Null));
    assert_eq!(item["arguments"], "{\"a\":1}");
    world.close().await;
}

/// S1-US1-AS3, S1-US3-AS2, R7: however a call fails, it ends once with `failed`, never with
/// `completed`; the model is told and the run goes on.
#[tokio::test]
async fn a_failed_mcp_call() {
    let strict = FakeTool::new("strict", Behaviour::Multiplies);
    let slow = FakeTool::new("slow", Behaviour::Hangs)
        .with(|spec| spec.timeout = Some(Duration::from_millis(50)));
    let fails = FakeTool::new("fails", Behaviour::Fails("no such city".to_owned()));
    let crashes = FakeTool::new("crashes", Behaviour::Panics);
    let said = json!([{ "type": "text", "text": "no such city" }]);
    for (prop, kind, field, value) in [
        (fails, "mcp_tool_execution_error", "content", said),
        (slow, "mcp_protocol_error", "code", json!(-32001)),
        (strict, "mcp_protocol_error", "code", json!(-32602)),
        (crashes, "mcp_protocol_error", "code", json!(-32603)),
    ] {
        let name = turnwire_contract::Tool::spec(&prop).name.clone();
        let turns =
            [Turn::new().call(name.as_str(), json!({ "x": 1 })), Turn::new().text("Sorry.")];
        let world = Plan::new(turns).server("m", [prop]).start().await;
        let events = world.stream(json!({ "input": "go", "tools": [mcp("m")] })).await;
        check_order(&events);
        assert_eq!(of_type(&events, "response.mcp_call.failed").len(), 1, "{name}");
        assert_eq!(of_type(&events, "response.mcp_call.completed").len(), 0, "{name}");
        let item = &of_type(&events, "response.output_item.done")[1]["item"];
        assert_eq!(item["status"], "failed");
        let error = &item["error"];
        assert_eq!((&error["type"], &error[field]), (&json!(kind), &value), "{name}: {item:#}");
        assert_eq!(events.last().unwrap()["type"], "response.completed");
        world.close().await;
    }
}

/// S1-US2-AS1, S1-US2-AS2, S1-FR-003, S1-FR-004, S1-A3: searches are in progress, searching,
/// completed, in that order, and searching comes at once.
#[tokio::test]
async fn s1_us2_searches() {
    let turns =
        |name: &str, arguments| [Turn::new().call(name, arguments), Turn::new().text("Yes.")];
    let slow = Behaviour::Takes(Duration::from_millis(300), "1. Found it".to_owned());
    let web = built_in(ToolKind::WebSearch, "web_search", slow);
    let world = Plan::new(turns("web_search", json!({ "query": "rust" }))).tool(web).start().await;
    let item = one_search(&world, "web_search", json!({ "type": "web_search" })).await;
    assert_eq!((&item["status"], &item["action"]["query"]), (&json!("completed"), &json!("rust")));
    world.close().await;
    // The search in files is the real one: every server has it.
    let world = Plan::new(turns("file_search", json!({ "queries": ["rust"] }))).start().await;
    let store = world.post("/v1/vector_stores", json!({})).await.1["id"].clone();
    let settings = json!({ "type": "file_search", "vector_store_ids": [store] });
    let item = one_search(&world, "file_search", settings).await;
    assert_eq!((&item["status"], &item["queries"]), (&json!("completed"), &json!(["rust"])));
    world.close().await;
}

/// The item of the only search of a response. Its life must be as it should.
async fn one_search(world: &World, name: &str, settings: Value) -> Value {
    let events = world.stream(json!({ "input": "?", "tools": [settings] })).await;
    check_order(&events);
    let prefix = format!("response.{name}_call.");
    let life: Vec<&str> =
        types(&events).into_iter().filter_map(|kind| kind.strip_prefix(&prefix)).collect();
    assert_eq!(life, ["in_progress", "searching", "completed"], "{name}");
    of_type(&events, "response.output_item.done")[0]["item"].clone()
}

/// R6: a failed search has no `completed`, and no event of its own in the strict profile.
#[tokio::test]
async fn a_failed_search() {
    let broken = Behaviour::Fails("the search engine is away".to_owned());
    let turns =
        || [Turn::new().call("web_search", json!({ "query": "x" })), Turn::new().text("Hm.")];
    let plan =
        || Plan::new(turns()).tool(built_in(ToolKind::WebSearch, "web_search", broken.clone()));
    let body = json!({ "input": "?", "tools": [{ "type": "web_search" }], "stream": true });
    let world = plan().start().await;
    let events = world.stream(body.clone()).await;
    assert!(of_type(&events, "response.web_search_call.completed").is_empty());
    assert!(of_type(&events, "response.web_search_call.failed").is_empty());
    let item = &of_type(&events, "response.output_item.done")[0]["item"];
    assert_eq!(item["status"], "failed");
    world.close().await;
    // R1: whoever asks for more gets it, by header or in the address.
    for asked_by_header in [true, false] {
        let world = plan().start().await;
        let path = if asked_by_header { "/v1/responses" } else { "/v1/responses?profile=extended" };
        let mut request = world.request(Method::POST, path).json(&body);
        if asked_by_header {
            request = request.header("Turnwire-Profile", "extended");
        }
        let events = events_of(&world.text(request).await);
        check_order(&events);
        assert_eq!(of_type(&events, "response.web_search_call.failed").len(), 1);
        assert!(types(&events).iter().any(|kind| kind.starts_with("turnwire:")));
        world.close().await;
    }
}

/// S1-A1: a function of the client named `web_search` stays a function, and an MCP tool of that
/// name is an MCP tool. S1-E4: functions have output items and arguments only.
#[tokio::test]
async fn the_kind_decides_not_the_name() {
    let function = json!({ "type": "function", "name": "web_search", "parameters": null });
    let world = Plan::new([Turn::new().call("web_search", json!({}))]).start().await;
    let events = world.stream(json!({ "input": "?", "tools": [function] })).await;
    let kinds: Vec<&str> = types(&events);
    assert!(kinds.contains(&"response.function_call_arguments.done"));
    assert!(!kinds.iter().any(|kind| kind.contains("web_search")), "{kinds:?}");
    let item = &events.last().unwrap()["response"]["output"][0];
    assert_eq!((&item["type"], &item["status"]), (&json!("function_call"), &json!("completed")));
    world.close().await;

    let turns = [Turn::new().call("web_search", json!({})), Turn::new().text("ok")];
    let world = Plan::new(turns).server("m", [returns("web_search", "x")]).start().await;
    let events = world.stream(json!({ "input": "?", "tools": [mcp("m")] })).await;
    assert_eq!(of_type(&events, "response.mcp_call.completed").len(), 1);
    world.close().await;
}

/// R3: a client's function ends the response; its result comes with the next request, and the
/// model sees both.
#[tokio::test]
async fn a_function_round_trip() {
    let function =
        json!({ "type": "function", "name": "locate", "parameters": { "type": "object" } });
    let turns =
        [Turn::new().call_with_id("call_1", "locate", json!({})), Turn::new().text("Rome.")];
    let world = Plan::new(turns).start().await;
    let first = world.respond(json!({ "input": "Where?", "tools": [function.clone()] })).await;
    assert_eq!(first["output"][0]["call_id"], "call_1");
    let second = world
        .respond(json!({
            "previous_response_id": first["id"],
            "tools": [function],
            "input": [{ "type": "function_call_output", "call_id": "call_1", "output": "41.9,12.5" }],
        }))
        .await;
    assert_eq!(second["output"][0]["content"][0]["text"], "Rome.");
    assert_eq!(second["previous_response_id"], first["id"]);
    assert_eq!(world.model.prompts()[1].items.len(), 3);
    // An output for a call that never was.
    let (status, error) = world
        .post(
            "/v1/responses",
            json!({
                "previous_response_id": first["id"],
                "input": [{ "type": "function_call_output", "call_id": "call_x", "output": "1" }],
            }),
        )
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(error["error"]["code"], "no_tool_call_found");
    world.close().await;
}

/// R3, S1-A1: a function that is only named is this server's, if it has one of that name; whoever
/// describes a function means their own.
#[tokio::test]
async fn a_function_that_is_only_named_is_the_servers() {
    let plan = || {
        let turns = [Turn::new().call("weather", json!({})), Turn::new().text("Sunny.")];
        Plan::new(turns).tool(returns("weather", "22 degrees"))
    };
    let kinds = |events: &[Value]| -> Vec<String> {
        let done = events.iter().filter(|event| event["type"] == "response.output_item.done");
        done.map(|event| event["item"]["type"].as_str().unwrap().to_owned()).collect()
    };
    let world = plan().start().await;
    let bare = json!({ "type": "function", "name": "weather", "parameters": null, "strict": true });
    let events = world.stream(json!({ "input": "?", "tools": [bare] })).await;
    assert_eq!(kinds(&events), ["function_call", "function_call_output", "message"]);
    let offered = &world.model.prompts()[0].tools[0];
    assert_eq!(offered.kind, ToolKind::Function);
    assert_eq!(offered.description, "A prop.", "the model reads the operator's words");
    world.close().await;

    let world = plan().start().await;
    let own = json!({ "type": "function", "name": "weather", "description": "Mine." });
    let events = world.stream(json!({ "input": "?", "tools": [own] })).await;
    assert_eq!(kinds(&events), ["function_call"], "the client runs it");
    world.close().await;

    let world = plan().start().await;
    let events = world.stream(json!({ "input": "?", "tools": [] })).await;
    assert_eq!(world.model.prompts()[0].tools, [], "nothing is offered that was not asked for");
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    world.close().await;
}

/// S1-E1: three tools side by side have events and items of their own, and none waits for its
/// siblings.
#[tokio::test]
async fn three_tools_side_by_side() {
    let turn =
        Turn::new().call("slow", json!({})).call("quick", json!({})).call("middle", json!({}));
    let world = Plan::new([turn, Turn::new().text("All.")])
        .server("m", [takes("slow", 600), takes("quick", 50), takes("middle", 300)])
        .start()
        .await;
    let events = world.stream(json!({ "input": "?", "tools": [mcp("m")] })).await;
    check_order(&events);
    let ends = of_type(&events, "response.mcp_call.completed");
    let names: Vec<&str> = ends.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["quick", "middle", "slow"]);
    let mut ids: Vec<&str> = ends.iter().map(|event| event["item_id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    world.close().await;
}

/// S1-E2: with `parallel_tool_calls: false` the second begins after the first has ended.
#[tokio::test]
async fn one_after_the_other() {
    let turn = Turn::new().call("one", json!({})).call("two", json!({}));
    let world = Plan::new([turn, Turn::new().text("Both.")])
        .server("m", [takes("one", 100), takes("two", 10)])
        .start()
        .await;
    let body = json!({ "input": "?", "tools": [mcp("m")], "parallel_tool_calls": false });
    let events = world.stream(body).await;
    // What is at work says so with its attempt; the ends are in order.
    let at_work = |event: &&Value| {
        let kind = event["type"].as_str().unwrap();
        kind == "response.mcp_call.completed"
            || (kind == "response.mcp_call.in_progress" && event["turnwire"]["attempt"].is_u64())
    };
    let order: Vec<(&str, &str)> = events
        .iter()
        .filter(at_work)
        .map(|event| {
            let kind = event["type"].as_str().unwrap().rsplit('.').next().unwrap();
            (event["name"].as_str().unwrap(), kind)
        })
        .collect();
    assert_eq!(
        order,
        [
            ("one", "in_progress"),
            ("one", "completed"),
            ("two", "in_progress"),
            ("two", "completed")
        ]
    );
    world.close().await;
}

/// R5: what a tool reports is on the wire while it works, on the official event.
#[tokio::test]
async fn progress_is_on_the_wire() {
    let reports = Behaviour::Reports(3, Duration::from_millis(20), "done".to_owned());
    let turns = [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).server("m", [FakeTool::new("work", reports)]).start().await;
    let events = world.stream(json!({ "input": "?", "tools": [mcp("m")] })).await;
    let progress: Vec<(f64, f64, &str)> = of_type(&events, "response.mcp_call.in_progress")
        .into_iter()
        .filter_map(|event| {
            let note = &event["turnwire"];
            Some((note["progress"].as_f64()?, note["total"].as_f64()?, note["message"].as_str()?))
        })
        .collect();
    assert_eq!(progress, [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]);
    world.close().await;
}

/// S1-D: a cut answer is incomplete with its reason, a refusal has its own events, and a model
/// that cannot be reached is an error and then a failed response (R9).
#[tokio::test]
async fn how_responses_end() {
    let world = Plan::new([Turn::new().text("Once upon a").length_cut()]).start().await;
    let events = world.stream(json!({ "input": "?" })).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.incomplete");
    assert_eq!(last["response"]["incomplete_details"]["reason"], "max_output_tokens");
    world.close().await;

    let world = Plan::new([Turn::new().refusal("I would rather not.")]).start().await;
    let events = world.stream(json!({ "input": "?" })).await;
    assert_eq!(of_type(&events, "response.refusal.done")[0]["refusal"], "I would rather not.");
    world.close().await;

    let rejected = ModelError::Rejected { message: "bad key".to_owned() };
    let world = Plan::new([Turn::new().ends_with(rejected)]).start().await;
    let events = world.stream(json!({ "input": "?" })).await;
    let [.., error, failed] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(error["type"], "error");
    assert_eq!(error["message"], error["error"]["message"]);
    assert_eq!(failed["type"], "response.failed");
    assert_eq!(failed["response"]["status"], "failed");
    world.close().await;
}

/// `allowed_tools` is a hard constraint: what is left out is neither offered nor carried out.
#[tokio::test]
async fn allowed_tools_is_a_hard_constraint() {
    let turns = [Turn::new().call("drop", json!({})), Turn::new().text("No.")];
    let drop = returns("drop", "dropped");
    let world = Plan::new(turns).server("m", [returns("read", "r"), drop.clone()]).start().await;
    let server = json!({
        "type": "mcp", "server_label": "m", "require_approval": "never", "allowed_tools": ["read"],
    });
    let response = world.respond(json!({ "input": "?", "tools": [server] })).await;
    assert_eq!(response["status"], "completed");
    assert_eq!(drop.n_calls(), 0);
    let offered: Vec<String> =
        world.model.prompts()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(offered, ["read"]);
    world.close().await;
}

/// C15: an approval is handed back as `mcp_approval_request`, and answered by the next request.
#[tokio::test]
async fn an_approval_round_trip() {
    let turns = [Turn::new().call("drop", json!({ "n": 1 })), Turn::new().text("Gone.")];
    let drop = returns("drop", "dropped");
    let world = Plan::new(turns).server("m", [drop.clone()]).start().await;
    let server = json!({ "type": "mcp", "server_label": "m", "require_approval": "always" });
    let first = world.respond(json!({ "input": "?", "tools": [server.clone()] })).await;
    assert_eq!(first["status"], "completed");
    let asked = first["output"].as_array().unwrap().last().unwrap();
    assert_eq!((&asked["type"], &asked["name"]), (&json!("mcp_approval_request"), &json!("drop")));
    assert_eq!(drop.n_calls(), 0);
    let answer = json!({
        "type": "mcp_approval_response", "approval_request_id": asked["id"], "approve": true,
    });
    let body = json!({
        "previous_response_id": first["id"], "tools": [server], "input": [answer],
    });
    let second = world.respond(body.clone()).await;
    let items = second["output"].as_array().unwrap();
    let call = items.iter().find(|item| item["type"] == "mcp_call").unwrap();
    assert_eq!((&call["status"], &call["output"]), (&json!("completed"), &json!("dropped")));
    assert_eq!(call["approval_request_id"], asked["id"]);
    assert_eq!(items.last().unwrap()["content"][0]["text"], "Gone.");
    assert_eq!(drop.n_calls(), 1);
    world.close().await;
}

/// A server that does not answer costs its tools and not the response.
#[tokio::test]
async fn a_dead_server_is_told_and_not_fatal() {
    let servers = FakeServers::default().dead("m", "connection refused");
    let world = Plan::new([Turn::new().text("Without.")]).servers(servers).start().await;
    let events = world.stream(json!({ "input": "?", "tools": [mcp("m")] })).await;
    check_order(&events);
    assert_eq!(of_type(&events, "response.mcp_list_tools.failed").len(), 1);
    let item = &of_type(&events, "response.output_item.done")[0]["item"];
    assert!(item["error"].as_str().unwrap().contains("connection refused"));
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    world.close().await;
}

/// Items of any stored response can be named in the input of another, as the Vercel AI SDK does.
#[tokio::test]
async fn items_are_named_in_the_input() {
    let turns = [
        Turn::new().text("Hm. ").call("add", json!({})),
        Turn::new().text("Three."),
        Turn::new().text("As I said."),
    ];
    let world = Plan::new(turns).server("m", [returns("add", "3")]).start().await;
    let first = world.respond(json!({ "input": "1 + 2", "tools": [mcp("m")] })).await;
    let mut input = vec![json!({ "role": "user", "content": "1 + 2" })];
    let output = first["output"].as_array().unwrap().iter();
    let output = output.filter(|item| item["type"] != "mcp_list_tools");
    input.extend(output.map(|item| json!({ "type": "item_reference", "id": item["id"] })));
    input.push(json!({ "role": "user", "content": "Sure?" }));
    world.respond(json!({ "input": input })).await;
    // The question, the words, the call, its result, the answer, the new question.
    assert_eq!(world.model.prompts()[2].items.len(), 6);
    let unknown = json!({ "input": [{ "type": "item_reference", "id": "msg_none" }] });
    let (status, error) = world.post("/v1/responses", unknown).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("item_not_found"))
    );
    world.close().await;
}

/// A13: what is named often is not copied without end.
#[tokio::test]
async fn mentions_are_counted() {
    let world = Plan::new([Turn::new().text("x".repeat(200_000))]).start().await;
    let first = world.respond(json!({ "input": "Talk." })).await;
    let named = json!({ "type": "item_reference", "id": first["output"][0]["id"] });
    let input: Vec<&Value> = std::iter::repeat_n(&named, 500).collect();
    let (status, error) = world.post("/v1/responses", json!({ "input": input })).await;
    assert_eq!((status.as_u16(), &error["error"]["code"]), (413, &json!("input_too_large")));
    let input: Vec<&Value> = std::iter::repeat_n(&named, 1_001).collect();
    let (status, _) = world.post("/v1/responses", json!({ "input": input })).await;
    assert_eq!(status.as_u16(), 413);
    world.close().await;
}

/// Errors are in OpenAI's shape, with a stable code and the field they are about.
#[tokio::test]
async fn refusals_say_what_to_repair() {
    let world = Plan::new([]).start().await;
    let cases = [
        (json!({ "input": "x", "model": "gpt-none" }), 404, "model_not_found", Some("model")),
        (json!({}), 400, "missing_required_parameter", Some("input")),
        (json!({ "input": "x", "temperature": 3 }), 400, "invalid_value", Some("temperature")),
        (
            json!({ "input": "x", "previous_response_id": "resp_none" }),
            400,
            "previous_response_not_found",
            Some("previous_response_id"),
        ),
        (
            json!({ "input": "x", "conversation": "conv_none" }),
            404,
            "not_found",
            Some("conversation"),
        ),
        (
            json!({ "input": "x", "tools": [{ "type": "mcp", "server_label": "none" }] }),
            400,
            "mcp_server_not_found",
            Some("tools[0].server_label"),
        ),
        (
            json!({ "input": "x", "tools": [
                { "type": "mcp", "server_label": "none", "server_url": "https://h.example/mcp" },
            ] }),
            400,
            "mcp_server_not_found",
            Some("tools[0].server_url"),
        ),
        (
            json!({ "input": "x", "tools": [{ "type": "code_interpreter", "container": "auto" }] }),
            400,
            "unsupported_tool",
            Some("tools[0].type"),
        ),
    ];
    for (body, status, code, param) in cases {
        let (got, error) = world.post("/v1/responses", body.clone()).await;
        assert_eq!(got.as_u16(), status, "{body} {error}");
        assert_eq!(error["error"]["code"], code, "{body} {error}");
        assert_eq!(error["error"]["param"].as_str(), param, "{body}");
        assert_eq!(error["error"]["type"], "invalid_request_error");
    }
    world.close().await;
}
