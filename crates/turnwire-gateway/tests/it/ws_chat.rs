//! `GET /ws/chat`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use turnwire_contract::{
    ConversationId, ConversationRecord, Effect, Item, ModelError, NewRun, RunId, RunRequest,
    TenantId,
};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeServers, FakeTool};

use crate::world::{Plan, Socket, of_type, types};

fn multiply() -> FakeTool {
    FakeTool::new("multiply", Behaviour::Multiplies)
}

async fn say(socket: &mut Socket, conversation: &Value, content: &str) {
    let message = json!({ "type": "message", "conversation_id": conversation, "content": content });
    socket.send(message).await;
}

fn is_over(message: &Value) -> bool {
    message["type"] == "complete" || (message["type"] == "error" && message["outcome"].is_string())
}

/// S2-X1, S2-I1, S2-8, S2-9, S2-15, S2-16, S2-25, S2-3: multiply 5 and 4, from connect to the
/// saved conversation.
#[tokio::test]
async fn multiply_5_and_4() {
    let turn = Turn::new().text("Let me see. ").call("multiply", json!({ "a": 5, "b": 4 }));
    let world =
        Plan::new([turn, Turn::new().text_in(["It is ", "20."])]).tool(multiply()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "multiply 5 and 4").await;
    let messages = socket.until(is_over).await;
    assert_eq!(
        types(&messages),
        ["token", "tool_start", "tool_complete", "token", "token", "complete"]
    );
    let [_, start, complete, .., end] = messages.as_slice() else { panic!() };
    assert_eq!(start["tool_name"], "multiply");
    let input: Value = serde_json::from_str(start["tool_input"].as_str().unwrap()).unwrap();
    assert_eq!(input, json!({ "a": 5, "b": 4 }));
    assert_eq!(
        (&complete["tool_name"], &complete["tool_result"]),
        (&json!("multiply"), &json!("20"))
    );
    assert_eq!(complete["tool_call_id"], start["tool_call_id"]);
    let times = [start, complete].map(|message| message["timestamp"].as_str().unwrap());
    assert!(times[0] <= times[1], "S2-12: {times:?}");
    assert!(times.iter().all(|time| time.len() == "2026-01-01T00:00:00.000000Z".len()), "S2-12");
    assert_eq!(end["conversation_id"], id);
    let path = format!("/v1/conversations/{}/messages", id.as_str().unwrap());
    let (_, saved) = world.get(&path).await;
    let saved = saved["data"].as_array().unwrap();
    assert!(saved.iter().any(|item| item["id"] == end["message_id"]), "S2-3: {saved:#?}");
    let kinds: Vec<&str> = saved.iter().map(|item| item["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        ["message", "message", "function_call", "function_call_output", "message"],
        "S2-25"
    );
    world.close().await;
}

/// S2-X2, S2-18: no tool, no tool messages.
#[tokio::test]
async fn without_a_tool() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Hello").await;
    assert_eq!(types(&socket.until(is_over).await), ["token", "complete"]);
    world.close().await;
}

/// S2-17, S2-I2: several calls, one pair each, also when they come in one answer.
#[tokio::test]
async fn a_pair_for_each_call() {
    let two = Turn::new()
        .call("multiply", json!({ "a": 2, "b": 3 }))
        .call("multiply", json!({ "a": 4, "b": 5 }));
    let three = Turn::new().call("multiply", json!({ "a": 6, "b": 7 }));
    let world = Plan::new([two, three, Turn::new().text("Done.")]).tool(multiply()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Multiply.").await;
    let messages = socket.until(is_over).await;
    let ids = |kind: &str| {
        let mut ids: Vec<String> =
            of_type(&messages, kind).iter().map(|m| m["tool_call_id"].to_string()).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids("tool_start").len(), 3);
    assert_eq!(ids("tool_start"), ids("tool_complete"));
    world.close().await;
}

/// S2-Q4: what fails for the moment is tried again only where that does no harm; the error of what
/// is not goes to the model, and the turn completes. Only the model's own failure ends a turn.
#[tokio::test]
async fn who_tries_again() {
    let passing = |name: &str, effect| {
        let fails_once = Behaviour::FailsAtFirst(1, "done".to_owned());
        FakeTool::new(name, fails_once).with(|spec| spec.effect = effect)
    };
    let (pure, idempotent) = (passing("pure", Effect::Pure), passing("same", Effect::Idempotent));
    let once = passing("once", Effect::Once);
    let for_good = FakeTool::new("for_good", Behaviour::Fails("no such city".to_owned()));
    let calls = ["pure", "same", "once", "for_good"];
    let call_all = calls.iter().fold(Turn::new(), |turn, name| turn.call(*name, json!({})));
    let rejected = ModelError::Rejected { message: "no".to_owned() };
    let turns = [call_all, Turn::new().text("Two worked."), Turn::fails(rejected)];
    let plan = Plan::new(turns).tool(pure.clone()).tool(idempotent.clone()).tool(once.clone());
    let world = plan.tool(for_good.clone()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go.").await;
    let messages = socket.until(is_over).await;
    let names = |kind: &str| -> Vec<Value> {
        let mut names: Vec<Value> =
            of_type(&messages, kind).iter().map(|message| message["tool_name"].clone()).collect();
        names.sort_by_key(ToString::to_string);
        names
    };
    assert_eq!(names("tool_start"), ["for_good", "once", "pure", "same"]);
    assert_eq!(names("tool_complete"), ["pure", "same"]);
    assert_eq!(names("error"), ["for_good", "once"]);
    let n_calls = [&pure, &idempotent, &once, &for_good].map(FakeTool::n_calls);
    assert_eq!(n_calls, [2, 2, 1, 1], "how often each was called");
    assert_eq!(messages.last().unwrap()["type"], "complete", "no tool ends a turn");
    let told = format!("{:?}", world.model.prompts()[1].items);
    assert!(told.contains("no such city") && told.contains("not this time"), "{told}");
    say(&mut socket, &id, "Again.").await;
    let failed = socket.until(is_over).await;
    assert_eq!((types(&failed), &failed[0]["code"]), (vec!["error"], &json!("LLM_ERROR")));
    world.close().await;
}

/// S2-10, S2-11, S2-23, S2-I4, S2-4: a failing tool and wrong arguments are errors with
/// the tool's name, not ends; the answer comes all the same and the socket stays.
#[tokio::test]
async fn a_failing_tool() {
    let fails = FakeTool::new("weather", Behaviour::Fails("no such city".into()));
    let turns = [
        Turn::new().call("weather", json!({})).call("multiply", json!({ "a": "five" })),
        Turn::new().text("Sorry."),
        Turn::new().text("Still here."),
    ];
    let world = Plan::new(turns).tool(fails).tool(multiply()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Weather?").await;
    let messages = socket.until(is_over).await;
    let errors = of_type(&messages, "error");
    assert_eq!(errors.len(), 2);
    for error in errors {
        assert_eq!((&error["code"], &error["fatal"]), (&json!("TOOL_ERROR"), &json!(false)));
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("weather") || message.contains("multiply"), "{message}");
    }
    assert!(of_type(&messages, "tool_complete").is_empty());
    assert_eq!(of_type(&messages, "token")[0]["content"], "Sorry.");
    assert_eq!(messages.last().unwrap()["type"], "complete");
    say(&mut socket, &id, "Still there?").await;
    assert_eq!(types(&socket.until(is_over).await), ["token", "complete"]);
    world.close().await;
}

/// S2-5: `ping` is answered while a turn is streaming.
#[tokio::test]
async fn ping_is_answered_during_a_turn() {
    let slow = FakeTool::new("slow", Behaviour::WaitsToBeStopped);
    let world = Plan::new([Turn::new().call("slow", json!({})), Turn::new().text("x")])
        .tool(slow)
        .start()
        .await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go").await;
    socket.until(|message| message["type"] == "tool_start").await;
    let asked = Instant::now();
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await.unwrap(), json!({ "type": "pong" }));
    assert!(asked.elapsed() < Duration::from_secs(1));
    world.close().await;
}

/// S2-6, S2-4: what makes no sense is `INVALID_FORMAT`, and the socket stays open.
#[tokio::test]
async fn nonsense_is_answered() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    for nonsense in [
        "not json".to_owned(),
        json!({ "type": "message", "content": "x" }).to_string(),
        json!({ "type": "message", "conversation_id": id, "content": "" }).to_string(),
        json!({ "type": "dance" }).to_string(),
        json!([1]).to_string(),
        json!({ "type": "tool_cancel", "tool_call_id": "call_none" }).to_string(),
    ] {
        socket.send_text(&nonsense).await;
        let error = socket.next().await.unwrap();
        assert_eq!(
            (&error["type"], &error["code"]),
            (&json!("error"), &json!("INVALID_FORMAT")),
            "{nonsense}"
        );
    }
    say(&mut socket, &id, "Hello").await;
    assert_eq!(types(&socket.until(is_over).await), ["token", "complete"]);
    world.close().await;
}

/// S2-7, A1: a conversation that is not there, or somebody else's, is `ACCESS_DENIED`, and the two
/// cannot be told apart; so is a run of somebody else's. The socket stays open.
#[tokio::test]
async fn unknown_conversations_and_those_of_others() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let others = TenantId::from("others");
    let (id, created_at) = (ConversationId::from("conv_theirs"), world.app.runs().now());
    let theirs = ConversationRecord { id: id.clone(), created_at, metadata: BTreeMap::default() };
    let store = world.app.runs().store();
    store.open_conversation(&others, theirs).await.unwrap();
    let mut request = RunRequest::new("default", vec![Item::user("?")]);
    request.tenant = others.clone();
    request.conversation_id = Some(id.clone());
    let run = NewRun::new(RunId::from("run_theirs"), created_at, Arc::new(request));
    store.create(run).await.unwrap();
    assert!(store.conversation(&others, &id).await.is_ok(), "it is there, for them");
    let mut socket = world.socket("/ws/chat").await;
    let mut refusals = Vec::new();
    for id in ["conv_none", "conv_theirs"] {
        say(&mut socket, &json!(id), "Hello").await;
        refusals.push(socket.next().await.unwrap());
    }
    for run_id in ["run_none", "run_theirs"] {
        socket.send(json!({ "type": "resume", "run_id": run_id })).await;
        refusals.push(socket.next().await.unwrap());
    }
    assert!(refusals.iter().all(|refusal| refusal["code"] == "ACCESS_DENIED"), "{refusals:#?}");
    assert_eq!((&refusals[0], &refusals[2]), (&refusals[1], &refusals[3]));
    assert_eq!(store.history(&others, &id).await.unwrap(), [], "nothing was said there");
    let id = world.session().await;
    say(&mut socket, &id, "Hello").await;
    assert_eq!(types(&socket.until(is_over).await), ["token", "complete"]);
    world.close().await;
}

/// S2-4: a model that does not answer is `LLM_ERROR`; the socket stays and the next turn works.
#[tokio::test]
async fn a_broken_model() {
    let broken = ModelError::Rejected { message: "no".to_owned() };
    let world = Plan::new([Turn::fails(broken), Turn::new().text("Back.")]).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Hello").await;
    let messages = socket.until(is_over).await;
    assert_eq!(messages.last().unwrap()["code"], "LLM_ERROR");
    say(&mut socket, &id, "Again").await;
    assert_eq!(types(&socket.until(is_over).await), ["token", "complete"]);
    world.close().await;
}

/// S2-19, S2-20, S2-I3: who asked for nothing gets the eight messages of old and no others.
#[tokio::test]
async fn nothing_new_unless_asked() {
    let reports = Behaviour::Reports(3, Duration::from_millis(5), "x".repeat(100_000));
    let turns = || [Turn::new().call("work", json!({})), Turn::new().text("Done.")];
    let plan = || Plan::new(turns()).tool(FakeTool::new("work", reports.clone()));
    let world = plan().start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go").await;
    let messages = socket.until(is_over).await;
    assert_eq!(types(&messages), ["tool_start", "tool_complete", "token", "complete"]);
    // S2-Q1: a big result is cut, says so, and is there in whole.
    let result = &messages[1];
    assert_eq!((&result["truncated"], &result["result_bytes"]), (&json!(true), &json!(100_000)));
    assert!(result["tool_result"].as_str().unwrap().len() <= 32 * 1024);
    let whole = world.request(reqwest::Method::GET, result["result_ref"].as_str().unwrap());
    assert_eq!(world.text(whole).await.len(), 100_000);
    world.close().await;

    // S2-F1: whoever asks gets the pieces and the progress.
    let world = plan().start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "chunks": true, "progress": true })).await;
    say(&mut socket, &id, "Go").await;
    let messages = socket.until(is_over).await;
    assert!(of_type(&messages, "tool_progress").len() >= 3);
    let chunks = of_type(&messages, "tool_result_chunk");
    let whole: String = chunks.iter().map(|chunk| chunk["content"].as_str().unwrap()).collect();
    assert_eq!(whole.len(), 100_000);
    assert_eq!(of_type(&messages, "tool_result_end")[0]["chunks"], chunks.len());
    world.close().await;
}

/// S2-F3, S2-Q5: one call is cancelled and ends soon; the model goes on. The whole turn can be
/// cancelled too.
#[tokio::test]
async fn a_call_is_cancelled() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let turns = [
        Turn::new().call("wait", json!({})),
        Turn::new().text("Stopped, then."),
        Turn::new().call("wait", json!({})),
    ];
    let world = Plan::new(turns).tool(waits).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Wait").await;
    let start = socket.until(|message| message["type"] == "tool_start").await.pop().unwrap();
    let asked = Instant::now();
    socket.send(json!({ "type": "tool_cancel", "tool_call_id": start["tool_call_id"] })).await;
    let messages = socket.until(is_over).await;
    assert!(asked.elapsed() < Duration::from_secs(1));
    assert_eq!(types(&messages), ["error", "token", "complete"]);
    say(&mut socket, &id, "Wait").await;
    socket.until(|message| message["type"] == "tool_start").await;
    socket.send(json!({ "type": "cancel" })).await;
    let last = socket.until(is_over).await.pop().unwrap();
    assert_eq!(last["outcome"], "cancelled");
    world.close().await;
}

/// S2-F4: a failed call is tried again, in a turn of its own.
#[tokio::test]
async fn a_call_is_tried_again() {
    // Fails twice: the engine itself tries a pure tool a second time.
    let flaky = FakeTool::new("flaky", Behaviour::FailsAtFirst(2, "worked".into()));
    let turns = [
        Turn::new().call("flaky", json!({})),
        Turn::new().text("It did not work."),
        Turn::new().text("Now it did."),
    ];
    let world = Plan::new(turns).tool(flaky).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go").await;
    let messages = socket.until(is_over).await;
    let failed = of_type(&messages, "error")[0]["tool_call_id"].clone();
    socket.send(json!({ "type": "tool_retry", "tool_call_id": failed })).await;
    let messages = socket.until(is_over).await;
    assert_eq!(types(&messages), ["tool_start", "tool_complete", "token", "complete"]);
    assert_eq!(messages[1]["tool_result"], "worked");
    world.close().await;
}

/// S2-F4: a call that failed because of its arguments is tried again with corrected ones, over the
/// socket and over HTTP: the tool gets these, and the model is asked about their result. A body is
/// not needed for a retry that changes nothing.
#[tokio::test]
async fn a_call_is_tried_again_with_corrected_arguments() {
    let turns = [
        Turn::new().call("multiply", json!({ "a": "five", "b": 4 })),
        Turn::new().text("It did not work."),
        Turn::new().text("It is 20."),
        Turn::new().text("It is 24."),
        Turn::new().text("Still not."),
    ];
    let tool = multiply();
    let world = Plan::new(turns).tool(tool.clone()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "5 * 4?").await;
    let messages = socket.until(is_over).await;
    let failed = of_type(&messages, "error")[0]["tool_call_id"].clone();
    assert_eq!(tool.n_calls(), 0, "the arguments do not fit the schema");
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap();
    let path = format!("/v1/runs/{run}/calls/{}/retry", failed.as_str().unwrap());

    let corrected = json!({ "a": 5, "b": 4 });
    socket
        .send(json!({ "type": "tool_retry", "tool_call_id": failed, "arguments": corrected }))
        .await;
    let messages = socket.until(is_over).await;
    assert_eq!(types(&messages), ["tool_start", "tool_complete", "token", "complete"]);
    let input: Value = serde_json::from_str(messages[0]["tool_input"].as_str().unwrap()).unwrap();
    assert_eq!((input, &messages[1]["tool_result"]), (corrected, &json!("20")));

    let ended = async |retried: Value| {
        let run = retried["run_id"].as_str().unwrap();
        world.text(world.request(reqwest::Method::GET, &format!("/v1/runs/{run}/events"))).await;
        world.get(&format!("/v1/runs/{run}")).await.1["calls"][0].clone()
    };
    let (_, retried) = world.post(&path, json!({ "arguments": { "a": 6, "b": 4 } })).await;
    let call = ended(retried).await;
    assert_eq!((&call["arguments"], &call["summary"]), (&json!("{\"a\":6,\"b\":4}"), &json!("24")));
    let unchanged = world.text(world.request(reqwest::Method::POST, &path)).await;
    let call = ended(serde_json::from_str(&unchanged).unwrap()).await;
    assert_eq!((&call["arguments"], tool.n_calls()), (&json!("{\"a\":\"five\",\"b\":4}"), 2));

    let (status, refused) = world.post(&path, json!({ "arguments": "all" })).await;
    assert_eq!(
        (status, &refused["error"]["param"]),
        (reqwest::StatusCode::BAD_REQUEST, &json!("arguments"))
    );
    let large = json!({ "arguments": { "a": "x".repeat(300_000) } });
    let (_, refused) = world.post(&path, large).await;
    assert_eq!(refused["error"]["code"], "arguments_too_large");
    world.close().await;
}

/// S2-F5, S2-Q2: the tools, for those who ask in the address or later.
#[tokio::test]
async fn the_tools_on_request() {
    let world = Plan::new([])
        .tool(multiply())
        .server("m", [FakeTool::new("add", Behaviour::Returns("3".into()))])
        .start()
        .await;
    let names = |message: &Value| -> Vec<String> {
        let tools = message["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut socket = world.socket("/ws/chat?tools=1").await;
    assert_eq!(names(&socket.next().await.unwrap()), ["multiply", "add"]);
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "tools" })).await;
    assert_eq!(names(&socket.next().await.unwrap()), ["multiply", "add"]);
    world.close().await;
}

/// C10, C11: a turn survives its socket, and another socket reads on where it was.
#[tokio::test]
async fn a_turn_is_resumed_on_another_socket() {
    let slow = FakeTool::new("slow", Behaviour::Takes(Duration::from_millis(100), "ok".into()));
    let turns = [Turn::new().text("Well. ").call("slow", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).tool(slow.clone()).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "resume": true })).await;
    say(&mut socket, &id, "Go").await;
    let seen = socket.until(|message| message["type"] == "tool_start").await;
    let run = of_type(&seen, "started")[0]["run_id"].clone();
    let cursor = seen.last().unwrap()["cursor"].clone();
    drop(socket);
    let mut socket = world.socket("/ws/chat").await;
    socket.send(json!({ "type": "hello", "resume": true })).await;
    socket.send(json!({ "type": "resume", "run_id": run, "after": cursor })).await;
    let rest = socket.until(is_over).await;
    assert_eq!(types(&rest), ["tool_complete", "token", "complete"]);
    assert_eq!(slow.n_calls(), 1);
    world.close().await;
}

/// S2-21: whatever a tool returns, the socket stands it.
#[tokio::test]
async fn hostile_results() {
    let hostile = FakeTool::new("evil", Behaviour::Returns("a\0b\u{1b}[31m\u{2028}\r\n\"}".into()));
    let world = Plan::new([Turn::new().call("evil", json!({})), Turn::new().text("Hm.")])
        .tool(hostile)
        .start()
        .await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go").await;
    let messages = socket.until(is_over).await;
    assert_eq!(types(&messages), ["tool_start", "tool_complete", "token", "complete"]);
    assert!(!messages[1]["tool_result"].as_str().unwrap().contains('\u{1b}'));
    world.close().await;
}

/// S2-26, S2-14: messages and their sizes are counted, and big values are strings as small ones
/// are.
#[tokio::test]
async fn messages_are_counted() {
    let big = FakeTool::new("big", Behaviour::Returns("x".repeat(20_000)));
    let turns =
        [Turn::new().call("big", json!({ "q": "y".repeat(20_000) })), Turn::new().text("Ok.")];
    let world = Plan::new(turns).tool(big).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "Go").await;
    let messages = socket.until(is_over).await;
    assert!(messages[0]["tool_input"].as_str().unwrap().len() > 20_000);
    assert_eq!(messages[1]["tool_result"].as_str().unwrap().len(), 20_000);
    let metrics = world.text(world.request(reqwest::Method::GET, "/metrics")).await;
    let value = |line: &str| -> u64 {
        let line = metrics.lines().find_map(|it| it.strip_prefix(line)).expect(&metrics);
        line.trim().parse().unwrap()
    };
    assert_eq!(value("turnwire_ws_messages_total{direction=\"received\"}"), 1);
    let sent = value("turnwire_ws_messages_total{direction=\"sent\"}");
    assert_eq!(sent, messages.len() as u64);
    let small = value("turnwire_ws_message_bytes_bucket{le=\"4096.0\",direction=\"sent\"}");
    assert_eq!(small, sent - 2, "two of them were big");
    world.close().await;
}

/// What is said during a turn waits for it.
#[tokio::test]
async fn messages_wait_their_turn() {
    let turns =
        [Turn::new().pause(Duration::from_millis(100)).text("One."), Turn::new().text("Two.")];
    let world = Plan::new(turns).start().await;
    let id = world.session().await;
    let mut socket = world.socket("/ws/chat").await;
    say(&mut socket, &id, "1").await;
    say(&mut socket, &id, "2").await;
    let first = socket.until(is_over).await;
    let second = socket.until(is_over).await;
    assert_eq!((&first[0]["content"], &second[0]["content"]), (&json!("One."), &json!("Two.")));
    world.close().await;
}

/// S2-F5, S2-5: servers are asked for their tools all at once and beside everything else, and
/// one that does not answer is not waited for.
#[tokio::test]
async fn slow_servers_hold_up_nobody() {
    let add = || FakeTool::new("add", Behaviour::Returns("3".into()));
    let minute = Duration::from_mins(1);
    let servers = ["a", "b", "c"]
        .iter()
        .fold(FakeServers::default(), |servers, label| servers.slow(label, minute, [add()]));
    let world = Plan::new([]).servers(servers.with("m", [add()])).start().await;
    let mut socket = world.socket("/ws/chat?tools=1").await;
    let asked = Instant::now();
    socket.send(json!({ "type": "ping" })).await;
    assert_eq!(socket.next().await.unwrap()["type"], "pong");
    let tools = socket.next().await.unwrap();
    assert_eq!(tools["tools"].as_array().unwrap().len(), 1, "{tools:#}");
    assert!(asked.elapsed() < Duration::from_secs(4), "{:?}", asked.elapsed());
    world.close().await;
}
