//! AG-UI: runs, interrupts, tools of the client, resuming and cancelling.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{Item, Question, RunRequest, TenantId};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool, ag_ui_order};

use crate::world::{Plan, World, data_of, of_type, types};

fn user(text: &str) -> Value {
    json!({ "id": format!("u-{text}"), "role": "user", "content": text })
}

fn input(run: &str, messages: &[Value]) -> Value {
    json!({ "threadId": "t", "runId": run, "protocolVersion": "1.0", "messages": messages })
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

impl World {
    async fn ag_ui_text(&self, body: &Value) -> String {
        let request = self.request(Method::POST, "/ag-ui").json(body);
        tokio::time::timeout(Duration::from_secs(20), self.text(request)).await.expect("it ends")
    }

    /// The events of a run, which must be in order.
    async fn ag_ui(&self, body: &Value) -> Vec<Value> {
        let events = data_of(&self.ag_ui_text(body).await);
        assert_eq!(ag_ui_order::violations(&events), Vec::<String>::new());
        events
    }

    async fn ag_ui_after(&self, run: &str, after: &str) -> String {
        let path = format!("/ag-ui/runs/{run}?after={after}");
        self.text(self.request(Method::GET, &path)).await
    }

    /// What the model was told last, in short.
    fn told(&self) -> Vec<String> {
        let prompts = self.model.prompts();
        let items = &prompts.last().unwrap().items;
        items.iter().map(|item| short(item)).collect()
    }
}

fn short(item: &Item) -> String {
    match item {
        Item::Message { role, content } => format!("{role:?} {content:?}"),
        Item::Call { name, .. } => format!("call {name}"),
        Item::CallResult { output, failed, .. } => format!("result {output} {failed}"),
        Item::Reasoning { .. } => "reasoning".to_owned(),
    }
}

fn run_of(events: &[Value]) -> String {
    events[0]["metadata"]["turnwire"]["run_id"].as_str().unwrap().to_owned()
}

fn interrupts(events: &[Value]) -> Vec<Value> {
    events.last().unwrap()["outcome"]["interrupts"].as_array().unwrap().clone()
}

fn resume(interrupt: &Value, payload: Value) -> Value {
    json!({ "interruptId": interrupt["id"], "status": "resolved", "payload": payload })
}

fn risky() -> FakeTool {
    let risky = FakeTool::new("risky", Behaviour::Returns("done".into()));
    risky.with(|spec| spec.needs_approval = true)
}

fn asks_first() -> [Turn; 2] {
    [Turn::new().text("May I?").call("risky", json!({ "n": 1 })), Turn::new().text("As you wish.")]
}

/// AG-UI 2.1, 2.3, 2.4: text, a tool and an answer, as server-sent events with numbers.
#[tokio::test]
async fn a_run_with_a_tool() {
    let turns = [
        Turn::new().text("Let me see.").call("multiply", json!({ "a": 5, "b": 4 })),
        Turn::new().text("It is 20."),
    ];
    let multiply = FakeTool::new("multiply", Behaviour::Multiplies);
    let world = Plan::new(turns).tool(multiply).start().await;
    let body = with(
        input("r", &[user("5 * 4?")]),
        "context",
        json!([{ "description": "page", "value": "/home" }]),
    );
    let response = world.request(Method::POST, "/ag-ui").json(&body).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let text = response.text().await.unwrap();
    assert!(!text.contains('\r') && !text.contains("null"), "{text}");
    let events = data_of(&text);
    assert_eq!(ag_ui_order::violations(&events), Vec::<String>::new());
    let ids: Vec<String> =
        text.lines().filter_map(|line| line.strip_prefix("id: ")).map(str::to_owned).collect();
    let numbers: Vec<String> = (1..=events.len()).map(|n| n.to_string()).collect();
    assert_eq!(ids, numbers);
    assert_eq!((&events[0]["threadId"], &events[0]["runId"]), (&json!("t"), &json!("r")));
    let result = of_type(&events, "TOOL_CALL_RESULT")[0];
    assert_eq!(
        (&result["content"], &result["metadata"]["turnwire"]["state"]),
        (&json!("20"), &json!("done"))
    );
    assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "success" }));
    assert!(world.model.prompts()[0].instructions.as_deref().unwrap().contains("page: /home"));
    world.close().await;
}

/// AG-UI 2.4: a failing tool is a result that says so; the run goes on.
#[tokio::test]
async fn a_failing_tool() {
    let turns = [Turn::new().call("fails", json!({})), Turn::new().text("Sorry.")];
    let fails = FakeTool::new("fails", Behaviour::Fails("no luck".into()));
    let world = Plan::new(turns).tool(fails).start().await;
    let events = world.ag_ui(&input("r", &[user("?")])).await;
    let result = of_type(&events, "TOOL_CALL_RESULT")[0];
    assert_eq!(
        (&result["content"], &result["metadata"]["turnwire"]["state"]),
        (&json!("Error: no luck"), &json!("failed"))
    );
    assert_eq!(types(&events).last(), Some(&"RUN_FINISHED"));
    world.close().await;
}

/// AG-UI 2.4: progress is an activity of its call.
#[tokio::test]
async fn a_tool_reports() {
    let turns = [Turn::new().call("slow", json!({})), Turn::new().text("Done.")];
    let reports = Behaviour::Reports(3, Duration::from_millis(5), "ok".into());
    let world = Plan::new(turns).tool(FakeTool::new("slow", reports)).start().await;
    let events = world.ag_ui(&input("r", &[user("?")])).await;
    let call = of_type(&events, "TOOL_CALL_START")[0]["toolCallId"].as_str().unwrap();
    let snapshot = of_type(&events, "ACTIVITY_SNAPSHOT")[0];
    assert_eq!(snapshot["messageId"], format!("progress_{call}"));
    assert_eq!(snapshot["activityType"], "turnwire.tool");
    let changes = of_type(&events, "ACTIVITY_DELTA");
    let last = changes.last().unwrap()["patch"].as_array().unwrap();
    assert!(last.contains(&json!({ "op": "add", "path": "/state", "value": "done" })), "{last:?}");
    world.close().await;
}

/// AG-UI 2.4, C15: an approval is an interrupt; the answer goes on under a new run of the protocol,
/// over the same run. Both parts together are what a later reader gets, to the byte.
#[tokio::test]
async fn an_approval_is_granted_through_an_interrupt() {
    let risky = risky();
    let world = Plan::new(asks_first()).tool(risky.clone()).start().await;
    let first = world.ag_ui_text(&input("r1", &[user("Go.")])).await;
    let events = data_of(&first);
    let [asked] = interrupts(&events).try_into().unwrap();
    assert_eq!(
        (&asked["reason"], &asked["metadata"]["turnwire"]["arguments"]),
        (&json!("tool_call"), &json!({ "n": 1 }))
    );
    assert_eq!(risky.n_calls(), 0);
    let run = run_of(&events);
    assert_eq!(world.ag_ui_after(&run, "0").await, first, "a reload shows the open question");

    let answer = resume(&asked, json!({ "approved": true }));
    let body = with(input("r2", &[user("Go.")]), "resume", json!([answer]));
    let second = world.ag_ui_text(&body).await;
    let events = data_of(&second);
    assert_eq!(ag_ui_order::violations(&events), Vec::<String>::new());
    let started = &events[0];
    assert_eq!((&started["runId"], &started["parentRunId"]), (&json!("r2"), &json!("r1")));
    assert_eq!(run_of(&events), run);
    assert_eq!(of_type(&events, "TOOL_CALL_RESULT")[0]["content"], "done");
    assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "success" }));
    assert_eq!(world.ag_ui_text(&body).await, second, "the same request changes nothing");
    assert_eq!(risky.n_calls(), 1);
    assert_eq!(first + &second, world.ag_ui_after(&run, "0").await);
    world.close().await;
}

/// AG-UI 2.4, C15: a denial, in so many words or by dismissing the question.
#[tokio::test]
async fn an_approval_is_denied_through_an_interrupt() {
    for (answer, told) in [
        (
            json!({ "status": "resolved", "payload": { "approved": false, "reason": "not now" } }),
            "not now",
        ),
        (json!({ "status": "cancelled" }), "denied"),
    ] {
        let risky = risky();
        let world = Plan::new(asks_first()).tool(risky.clone()).start().await;
        let asked = interrupts(&world.ag_ui(&input("r1", &[user("Go.")])).await).remove(0);
        let answer = with(answer, "interruptId", asked["id"].clone());
        let body = with(input("r2", &[user("Go.")]), "resume", json!([answer]));
        let events = world.ag_ui(&body).await;
        let result = of_type(&events, "TOOL_CALL_RESULT")[0];
        assert_eq!(result["metadata"]["turnwire"]["state"], "denied");
        assert!(result["content"].as_str().unwrap().contains(told), "{result}");
        assert_eq!(risky.n_calls(), 0);
        world.close().await;
    }
}

/// AG-UI 2.4: one request answers all questions, in one run of the protocol; and an answer for the
/// conversation is not asked for again.
#[tokio::test]
async fn several_answers_at_once() {
    let twice = || Turn::new().call("risky", json!({ "n": 1 })).call("risky", json!({ "n": 2 }));
    let turns = [twice(), Turn::new().text("One."), twice(), Turn::new().text("Two.")];
    let risky = risky();
    let world = Plan::new(turns).tool(risky.clone()).start().await;
    let asked = interrupts(&world.ag_ui(&input("r1", &[user("Go.")])).await);
    assert_eq!(asked.len(), 2);
    let no = json!({ "approved": false });
    let answers = json!([resume(&asked[0], no.clone()), resume(&asked[1], no)]);
    let events = world.ag_ui(&with(input("r2", &[]), "resume", answers)).await;
    assert_eq!(of_type(&events, "TOOL_CALL_RESULT").len(), 2);
    assert_eq!(of_type(&events, "RUN_FINISHED").len(), 1, "{events:?}");

    let asked = interrupts(&world.ag_ui(&input("r3", &[user("Again.")])).await);
    let yes = json!({ "approved": true, "remember": true });
    let events = world
        .ag_ui(&with(input("r4", &[]), "resume", json!([resume(&asked[0], yes.clone())])))
        .await;
    let [left] = interrupts(&events).try_into().unwrap();
    assert_eq!(left["id"], asked[1]["id"], "the other one is still asked");
    world.ag_ui(&with(input("r5", &[]), "resume", json!([resume(&left, yes)]))).await;
    assert_eq!(risky.n_calls(), 2);
    world.close().await;

    let turns = [twice(), Turn::new().text("One."), twice(), Turn::new().text("Two.")];
    let world = Plan::new(turns).tool(risky.clone()).start().await;
    let asked = interrupts(&world.ag_ui(&input("r1", &[user("Go.")])).await);
    let yes = |asked: &Value| resume(asked, json!({ "approved": true, "remember": true }));
    let answers = json!([yes(&asked[0]), yes(&asked[1])]);
    world.ag_ui(&with(input("r2", &[]), "resume", answers)).await;
    let events = world.ag_ui(&input("r3", &[user("Again.")])).await;
    assert_eq!(of_type(&events, "RUN_FINISHED").len(), 1, "nobody is asked");
    assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "success" }));
    world.close().await;
}

/// AG-UI 2.4: what a tool asks is an interrupt with the tool's own schema.
#[tokio::test]
async fn a_tool_asks_a_person() {
    let schema = json!({
        "type": "object", "properties": { "seat": { "type": "string" } }, "required": ["seat"],
    });
    let question = Question { message: "Window or aisle?".to_owned(), schema: schema.clone() };
    let turns = [Turn::new().call("book", json!({})), Turn::new().text("Booked.")];
    let world =
        Plan::new(turns).tool(FakeTool::new("book", Behaviour::Asks(question))).start().await;
    let asked = interrupts(&world.ag_ui(&input("r1", &[user("Book.")])).await).remove(0);
    assert_eq!((&asked["reason"], &asked["responseSchema"]), (&json!("input_required"), &schema));
    let wrong = with(input("r2", &[]), "resume", json!([resume(&asked, json!({}))]));
    let (status, error) = world.post("/ag-ui", wrong).await;
    assert_eq!(
        (status, &error["error"]["param"]),
        (StatusCode::BAD_REQUEST, &json!("resume[0].payload"))
    );
    let right = resume(&asked, json!({ "seat": "window" }));
    let events = world.ag_ui(&with(input("r2", &[]), "resume", json!([right]))).await;
    assert_eq!(of_type(&events, "TOOL_CALL_RESULT")[0]["content"], "told: {\"seat\":\"window\"}");
    world.close().await;
}

/// AG-UI 2.4: answers that do not belong are refused before the stream begins.
#[tokio::test]
async fn answers_that_do_not_belong() {
    let world = Plan::new(asks_first()).tool(risky()).start().await;
    let asked = interrupts(&world.ag_ui(&input("r1", &[user("Go.")])).await).remove(0);
    let yes = resume(&asked, json!({ "approved": true }));
    let elsewhere = with(yes.clone(), "interruptId", json!("approval:run_0:call_1"));
    let other_call = format!("{}x", asked["id"].as_str().unwrap());
    let other_call = with(yes.clone(), "interruptId", json!(other_call));
    let answered = |run: &str, entry: &Value| with(input(run, &[]), "resume", json!([entry]));
    for (body, status, code) in [
        (answered("r2", &elsewhere), StatusCode::NOT_FOUND, "interrupt_not_found"),
        (answered("r2", &other_call), StatusCode::NOT_FOUND, "interrupt_not_found"),
        (
            with(answered("r2", &yes), "threadId", json!("u")),
            StatusCode::NOT_FOUND,
            "interrupt_not_found",
        ),
        (answered("r1", &yes), StatusCode::BAD_REQUEST, "invalid_value"),
        (
            answered("r2", &resume(&asked, json!({}))),
            StatusCode::BAD_REQUEST,
            "missing_required_parameter",
        ),
        (
            answered("r2", &resume(&asked, json!({ "approved": "yes" }))),
            StatusCode::BAD_REQUEST,
            "invalid_type",
        ),
        (input("r2", &[user("Something else.")]), StatusCode::CONFLICT, "conversation_locked"),
    ] {
        let (got, error) = world.post("/ag-ui", body.clone()).await;
        assert_eq!((got, &error["error"]["code"]), (status, &json!(code)), "{body} {error}");
    }
    world.ag_ui(&answered("r2", &yes)).await;
    let no = resume(&asked, json!({ "approved": false }));
    let (status, error) = world.post("/ag-ui", answered("r3", &no)).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::CONFLICT, &json!("already_answered"))
    );
    world.close().await;
}

/// AG-UI 2.4: a call of the client is pending at the end of the run; its result comes as a message,
/// and the model has everything once.
#[tokio::test]
async fn a_tool_of_the_client() {
    let turns = [
        Turn::new().text("Where are you?").call_with_id("call_a", "locate", json!({})),
        Turn::new().text("In Bern."),
    ];
    let world = Plan::new(turns).start().await;
    let tools = json!([{ "name": "locate", "description": "Where the user is.", "parameters": { "type": "object" } }]);
    let body = with(input("r1", &[user("Where am I?")]), "tools", tools.clone());
    let events = world.ag_ui(&body).await;
    let pending = json!({ "type": "success", "pendingToolCallIds": ["call_a"] });
    assert_eq!(events.last().unwrap()["outcome"], pending);
    let start = of_type(&events, "TOOL_CALL_START")[0];
    let answer = json!({
        "id": start["parentMessageId"], "role": "assistant", "content": "Where are you?",
        "toolCalls": [{ "id": "call_a", "type": "function", "function": { "name": "locate", "arguments": "{}" } }],
    });
    let result = json!({ "id": "x", "role": "tool", "toolCallId": "call_a", "content": "Bern" });
    let body = with(input("r2", &[user("Where am I?"), answer, result]), "tools", tools);
    let events = world.ag_ui(&body).await;
    assert_eq!(of_type(&events, "TEXT_MESSAGE_CONTENT")[0]["delta"], "In Bern.");
    let told = world.told();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(&told[2..], ["call locate", "result Bern false"]);
    world.close().await;
}

/// AG-UI 2.3: what a client before 1.0 refuses is said in other words.
#[tokio::test]
async fn an_earlier_client_gets_what_it_reads() {
    let world = Plan::new([Turn::new().call_with_id("call_a", "locate", json!({}))]).start().await;
    let tools = json!([{ "name": "locate", "description": "" }]);
    let mut body = with(input("r1", &[user("?")]), "tools", tools);
    body.as_object_mut().unwrap().remove("protocolVersion");
    let end = world.ag_ui(&body).await.pop().unwrap();
    assert_eq!(end["outcome"], json!({ "type": "success" }));
    assert_eq!(end["result"], json!({ "pendingToolCallIds": ["call_a"] }));
    world.close().await;
}

/// AG-UI 2.2: the thread is a conversation that other surfaces share, whether a client sends all of
/// it or only what is new.
#[tokio::test]
async fn a_thread_is_a_conversation() {
    let world = Plan::with_model(Scripted::new([Turn::new().text("Aha.")]).looping()).start().await;
    let first = world.ag_ui(&input("r1", &[user("One")])).await;
    let id = of_type(&first, "TEXT_MESSAGE_START")[0]["messageId"].clone();
    let answer = json!({ "id": id, "role": "assistant", "content": "Aha." });
    world.ag_ui(&input("r2", &[user("One"), answer, user("Two")])).await;
    assert_eq!(world.told().len(), 3, "{:?}", world.told());
    world.ag_ui(&input("r3", &[user("Three")])).await;
    assert_eq!(world.told().len(), 5, "{:?}", world.told());
    let conversation = first[0]["metadata"]["turnwire"]["conversation_id"].as_str().unwrap();
    let chat = json!({ "message": "Four", "session_id": conversation });
    assert_eq!(world.post("/chat", chat).await.0, StatusCode::OK);
    assert_eq!(world.told().len(), 7);
    let by_name = with(input("r4", &[user("Five")]), "threadId", json!(conversation));
    let events = world.ag_ui(&by_name).await;
    assert_eq!(world.told().len(), 9, "the conversation by its own ID");
    assert_eq!(events[0]["threadId"], conversation);
    world.close().await;
}

/// AG-UI 2.1: cancelling, by our name of the run or the client's.
#[tokio::test]
async fn a_run_is_cancelled() {
    for by_theirs in [false, true] {
        let world = Plan::new([Turn::new().text("Let me ").wait_forever()]).start().await;
        let request = world.request(Method::POST, "/ag-ui").json(&input("mine", &[user("?")]));
        let mut response = request.send().await.unwrap();
        let mut text = String::new();
        while !text.contains("Let me") {
            text.push_str(std::str::from_utf8(&response.chunk().await.unwrap().unwrap()).unwrap());
        }
        let run = run_of(&data_of(text.rsplit_once("\n\n").unwrap().0));
        let named = if by_theirs { "mine" } else { &run };
        let (status, done) = world.post(&format!("/ag-ui/runs/{named}/cancel"), json!({})).await;
        assert_eq!((status, done), (StatusCode::OK, json!({ "run_id": run, "done": true })));
        text.push_str(&response.text().await.unwrap());
        let events = data_of(&text);
        assert_eq!(ag_ui_order::violations(&events), Vec::<String>::new());
        assert_eq!(events.last().unwrap()["outcome"], json!({ "type": "cancelled" }));
        world.close().await;
    }
}

/// AG-UI 2.1, R10: a client that goes away leaves the run going, unless it said otherwise.
#[tokio::test]
async fn a_client_may_cancel_by_going_away() {
    let world = Plan::new([Turn::new().text("Let me ").wait_forever()]).start().await;
    let props = json!({ "turnwire": { "on_disconnect": "cancel" } });
    let body = with(input("r", &[user("?")]), "forwardedProps", props);
    let mut response = world.request(Method::POST, "/ag-ui").json(&body).send().await.unwrap();
    assert!(response.chunk().await.unwrap().is_some());
    drop(response);
    let rest = world.ag_ui_after("r", "0");
    let rest = tokio::time::timeout(Duration::from_secs(20), rest).await.expect("it is cancelled");
    assert_eq!(data_of(&rest).last().unwrap()["outcome"], json!({ "type": "cancelled" }));
    world.close().await;
}

/// AG-UI 2.1, C11: a stream is resumed after any of its events, by query or by header.
#[tokio::test]
async fn a_stream_is_resumed() {
    let world = Plan::new([Turn::new().text_in(["One ", "two."])]).start().await;
    let whole = world.ag_ui_text(&input("r", &[user("?")])).await;
    let run = run_of(&data_of(&whole));
    let frames: Vec<&str> = whole.split_inclusive("\n\n").collect();
    for n in 0..frames.len() {
        let rest = frames[n..].concat();
        assert_eq!(world.ag_ui_after(&run, &n.to_string()).await, rest);
        let path = format!("/ag-ui/runs/{run}?after=99");
        let by_header = world.request(Method::GET, &path).header("Last-Event-ID", n.to_string());
        assert_eq!(world.text(by_header).await, rest, "the header takes precedence");
    }
    let at_end = world.request(Method::GET, &format!("/ag-ui/runs/{run}"));
    let at_end = at_end.header("Last-Event-ID", frames.len().to_string()).send().await.unwrap();
    assert_eq!(at_end.status(), StatusCode::NO_CONTENT);
    for after in ["99", "x", "-1"] {
        let (status, _) = world.get(&format!("/ag-ui/runs/{run}?after={after}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{after}");
    }
    assert_eq!(world.get("/ag-ui/runs/run_x").await.0, StatusCode::NOT_FOUND);
    world.close().await;
}

/// AG-UI 2.1, C9: the same request is the same run; another one with the same name is another run.
#[tokio::test]
async fn a_request_that_is_sent_again() {
    let world = Plan::new([Turn::new().text("One."), Turn::new().text("Two.")]).start().await;
    let body = input("r", &[user("?")]);
    let first = world.ag_ui_text(&body).await;
    assert_eq!(world.ag_ui_text(&body).await, first);
    let other = world.ag_ui(&input("r", &[user("Other.")])).await;
    assert_eq!(of_type(&other, "TEXT_MESSAGE_CONTENT")[0]["delta"], "Two.");
    assert_ne!(run_of(&other), run_of(&data_of(&first)));
    world.close().await;
}

/// A1: no run, interrupt or conversation of another tenant can be reached.
#[tokio::test]
async fn another_tenant_is_out_of_reach() {
    let world = Plan::with_model(Scripted::new(asks_first()).looping()).tool(risky()).start().await;
    let mut theirs = RunRequest::new("default", vec![Item::user("A secret.")]);
    theirs.tenant = TenantId::from("other");
    theirs.conversation_id = Some("conv_theirs".into());
    theirs.tools = world.app.runs().tools().specs();
    let theirs = world.app.runs().start(theirs).await.unwrap();
    let run = theirs.id();
    assert_eq!(world.get(&format!("/ag-ui/runs/{run}")).await.0, StatusCode::NOT_FOUND);
    let cancelled = world.post(&format!("/ag-ui/runs/{run}/cancel"), json!({})).await;
    assert_eq!(cancelled.0, StatusCode::NOT_FOUND);
    let entry = json!({ "interruptId": format!("approval:{run}:call_1"), "status": "cancelled" });
    let (status, error) =
        world.post("/ag-ui", with(input("r", &[]), "resume", json!([entry]))).await;
    assert_eq!(
        (status, &error["error"]["code"]),
        (StatusCode::NOT_FOUND, &json!("interrupt_not_found"))
    );
    let body = with(input("r", &[user("?")]), "threadId", json!("conv_theirs"));
    let events = world.ag_ui(&body).await;
    assert_ne!(events[0]["metadata"]["turnwire"]["conversation_id"], "conv_theirs");
    assert!(!world.told().concat().contains("A secret."), "{:?}", world.told());
    let tenant = TenantId::from("other");
    world.app.runs().cancel(&tenant, run).await.unwrap();
    world.close().await;
}

/// AG-UI 2.2: what is wrong is refused before the stream begins, in the gateway's words.
#[tokio::test]
async fn a_request_that_is_wrong() {
    let world =
        Plan::new([]).tool(FakeTool::new("work", Behaviour::Returns("x".into()))).start().await;
    let message = || [user("?")];
    for (body, status, param) in [
        (json!({}), StatusCode::BAD_REQUEST, "threadId"),
        (json!([]), StatusCode::BAD_REQUEST, ""),
        (input("", &message()), StatusCode::BAD_REQUEST, "runId"),
        (input("r", &[]), StatusCode::BAD_REQUEST, "messages"),
        (input("r", &[json!({ "role": "robot" })]), StatusCode::BAD_REQUEST, "messages[0].role"),
        (
            with(input("r", &message()), "tools", json!([{ "name": "work", "description": "x" }])),
            StatusCode::BAD_REQUEST,
            "tools[0]",
        ),
        (
            with(input("r", &message()), "forwardedProps", json!({ "turnwire": { "model": "x" } })),
            StatusCode::NOT_FOUND,
            "model",
        ),
    ] {
        let (got, error) = world.post("/ag-ui", body.clone()).await;
        let named = error["error"]["param"].as_str().unwrap_or_default();
        assert_eq!((got, named), (status, param), "{body} {error}");
    }
    world.close().await;
}
