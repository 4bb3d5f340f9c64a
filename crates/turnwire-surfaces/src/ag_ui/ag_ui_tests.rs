use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::{Map, Value, json};
use turnwire_contract::{
    Annotation, Approvals, CallId, Completeness, Decision, Effect, Event, Failure, Finish,
    IncompleteReason, InputId, ItemId, RecordedEvent, Reply, RunOutcome, RunRequest, ToolClaims,
    ToolKind, ToolOutcome, ToolRef, Usage,
};

use super::*;
use crate::{
    Projection,
    story::{Story, failed, request, succeeded},
};

fn origin() -> Origin {
    Origin {
        thread_id: "thread-1".to_owned(),
        run_id: "run-a".to_owned(),
        is_v1: true,
        messages: vec![json!({ "id": "u1", "role": "user", "content": "?" })],
        ..Origin::default()
    }
}

fn from_a_client() -> Story {
    Story::of(RunRequest { surface_data: origin().surface_data(), ..request() })
}

fn call_id() -> CallId {
    CallId::from("call_1")
}

fn asks() -> Event {
    Event::approval_requested(call_id())
}

fn answers(decision: Decision, by: &str) -> Event {
    let (arguments, by) = (None, Some(by.to_owned()));
    Event::ApprovalResolved {
        call_id: call_id(),
        decision,
        arguments,
        remember: false,
        by,
        actor: None,
    }
}

/// Frames without their times and our own metadata, one per line.
fn brief(frames: &[AgUiFrame]) -> String {
    let line = |frame: &AgUiFrame| {
        let mut value = serde_json::to_value(frame).unwrap();
        let fields = value.as_object_mut().unwrap();
        let kind = fields.shift_remove("type").unwrap();
        for name in ["timestamp", "protocolVersion", "metadata", "threadId", "usage"] {
            fields.shift_remove(name);
        }
        format!("{} {} {value}", frame.number, kind.as_str().unwrap())
    };
    frames.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(story: Story, expected: Expect) {
    expected.assert_eq(&brief(&story.seen_by(&mut AgUi::new())));
}

fn values(frames: &[AgUiFrame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::to_value(frame).unwrap()).collect()
}

fn of_type(frames: &[AgUiFrame], kind: &str) -> Vec<Value> {
    values(frames).into_iter().filter(|frame| frame["type"] == kind).collect()
}

fn asked() -> Story {
    from_a_client()
        .turn()
        .says(&["May I?"])
        .calls("call_1", "delete", r#"{"path":"old"}"#)
        .turn_done(Finish::CalledTools)
        .then(asks())
}

/// AG-UI 2.3, 2.4: a run with text, a tool and an answer.
#[test]
fn a_tool_call_is_one_to_one() {
    let story = from_a_client()
        .turn()
        .says(&["Let me ", "see."])
        .announced("call_1", "multiply")
        .writes("call_1", r#"{"a":5,"#)
        .writes("call_1", r#""b":4}"#)
        .written("call_1", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is 20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
            1 RUN_STARTED {"runId":"run-a"}
            2 STEP_STARTED {"stepName":"turn-1"}
            3 TEXT_MESSAGE_START {"messageId":"msg_1","role":"assistant"}
            4 TEXT_MESSAGE_CONTENT {"messageId":"msg_1","delta":"Let me "}
            5 TEXT_MESSAGE_CONTENT {"messageId":"msg_1","delta":"see."}
            6 TEXT_MESSAGE_END {"messageId":"msg_1"}
            7 TOOL_CALL_START {"toolCallId":"call_1","toolCallName":"multiply","parentMessageId":"msg_1"}
            8 TOOL_CALL_ARGS {"toolCallId":"call_1","delta":"{\"a\":5,"}
            9 TOOL_CALL_ARGS {"toolCallId":"call_1","delta":"\"b\":4}"}
            10 TOOL_CALL_END {"toolCallId":"call_1"}
            11 STEP_FINISHED {"stepName":"turn-1"}
            12 TOOL_CALL_RESULT {"messageId":"fco_call_1","toolCallId":"call_1","content":"20","role":"tool"}
            13 STEP_STARTED {"stepName":"turn-2"}
            14 TEXT_MESSAGE_START {"messageId":"msg_2","role":"assistant"}
            15 TEXT_MESSAGE_CONTENT {"messageId":"msg_2","delta":"It is 20."}
            16 TEXT_MESSAGE_END {"messageId":"msg_2"}
            17 STEP_FINISHED {"stepName":"turn-2"}
            18 RUN_FINISHED {"runId":"run-a","outcome":{"type":"success"}}"#]],
    );
}

/// AG-UI 2.4, I10: how a call ended is in its metadata, and an unknown outcome is no failure.
#[test]
fn every_outcome_keeps_its_state() {
    let unknown = ToolOutcome::OutcomeUnknown { message: "the server stopped".to_owned() };
    let denied = ToolOutcome::Denied { reason: "no".to_owned() };
    for (outcome, state, content) in [
        (succeeded(""), "done", "(no output)"),
        (failed("broken"), "failed", "Error: broken"),
        (ToolOutcome::TimedOut { after_ms: 1500 }, "timed out", "Error: timed out after 1.5 s"),
        (denied, "denied", "Error: denied by the user: no"),
        (ToolOutcome::Cancelled, "stopped", "Error: cancelled"),
        (unknown, "unknown", "Error: outcome unknown: the server stopped"),
    ] {
        let tool =
            ToolRef { name: "x".to_owned(), kind: ToolKind::Mcp, server: Some("files".to_owned()) };
        let story = from_a_client().turn().announced_as("call_1", tool).written("call_1", "{}");
        let story = story.turn_done(Finish::CalledTools).started("call_1");
        let frames = story.finished("call_1", outcome).last_seen_by(&mut AgUi::new());
        let [result] = values(&frames).try_into().unwrap();
        assert_eq!(result["content"], content);
        let facts = &result["metadata"]["turnwire"];
        let expected = json!({ "state": state, "kind": "mcp", "server": "files", "tool": "x" });
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&facts[name], value, "{result}");
        }
    }
}

/// AG-UI 2.4, R17: a large result is cut, and says where the whole is.
#[test]
fn a_large_result_is_a_beginning_and_a_reference() {
    let story = from_a_client().turn().calls("call_1", "x", "{}").turn_done(Finish::CalledTools);
    let story = story.started("call_1").finished("call_1", succeeded(&"é".repeat(40_000)));
    let frames = story.last_seen_by(&mut AgUi::new());
    let [result] = values(&frames).try_into().unwrap();
    assert_eq!(result["content"].as_str().unwrap().len(), 32 * 1024);
    let facts = &result["metadata"]["turnwire"];
    assert_eq!((&facts["truncated"], &facts["result_bytes"]), (&json!(true), &json!(80_000)));
    assert_eq!(facts["result_ref"], "/v1/runs/run_1/calls/call_1/result");
}

/// AG-UI 2.4: reasoning has a span and a message, with the same ID.
#[test]
fn reasoning_has_a_span_and_a_message() {
    let item_id = ItemId::from("rs_1");
    let added = Event::ReasoningAdded { item_id: item_id.clone(), text: "Hm.".to_owned() };
    let (text, encrypted_content, completeness) = ("Hm.".to_owned(), None, Completeness::Complete);
    let finished = Event::ReasoningFinished { item_id, text, encrypted_content, completeness };
    let frames = from_a_client().turn().then(added).then(finished).seen_by(&mut AgUi::new());
    expect![[r#"
        3 REASONING_START {"messageId":"rs_1"}
        4 REASONING_MESSAGE_START {"messageId":"rs_1","role":"reasoning"}
        5 REASONING_MESSAGE_CONTENT {"messageId":"rs_1","delta":"Hm."}
        6 REASONING_MESSAGE_END {"messageId":"rs_1"}
        7 REASONING_END {"messageId":"rs_1"}"#]]
    .assert_eq(&brief(&frames[2..]));
}

/// AG-UI 2.4: citations go with the end of their message.
#[test]
fn citations_are_at_the_end_of_their_message() {
    let annotation = Annotation { kind: "url_citation".to_owned(), source: json!({ "url": "u" }) };
    let added = Event::AnnotationAdded { item_id: ItemId::from("msg_1"), annotation };
    let story = from_a_client().turn().message().text("x").then(added);
    let frames = story.message_done(Completeness::Cut).last_seen_by(&mut AgUi::new());
    let [end] = values(&frames).try_into().unwrap();
    let expected = json!({ "state": "cut", "annotations": [
        { "kind": "url_citation", "source": { "url": "u" } },
    ] });
    assert_eq!(end["metadata"]["turnwire"], expected);
}

/// AG-UI 2.4: progress is one activity per call: a snapshot, then what changes, then its end.
#[test]
fn progress_is_an_activity() {
    let progressed = |progress, message: Option<&str>| Event::ToolProgressed {
        call_id: call_id(),
        progress,
        total: Some(2.0),
        message: message.map(str::to_owned),
    };
    let silent = Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 15_000 };
    let story = from_a_client().turn().calls("call_1", "work", r#"{"path":"a"}"#);
    let story = story
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .then(progressed(1.0, Some("half")))
        .then(silent)
        .then(Event::ToolPhase { call_id: call_id(), phase: "writing".to_owned() })
        .then(progressed(f64::NAN, None))
        .finished("call_1", succeeded("ok"));
    let frames = story.seen_by(&mut AgUi::new());
    let activities: Vec<AgUiFrame> =
        frames.into_iter().filter(|frame| frame.data().contains("turnwire.tool")).collect();
    expect![[r#"
        7 ACTIVITY_SNAPSHOT {"messageId":"progress_call_1","activityType":"turnwire.tool","content":{"call_id":"call_1","tool":"work","kind":"function","label":"a","state":"running","note":"1/2 half","progress":1.0,"total":2.0,"message":"half"}}
        8 ACTIVITY_DELTA {"messageId":"progress_call_1","activityType":"turnwire.tool","patch":[{"op":"add","path":"/note","value":"no update for 0.1s"},{"op":"add","path":"/silent_ms","value":100}]}
        9 ACTIVITY_DELTA {"messageId":"progress_call_1","activityType":"turnwire.tool","patch":[{"op":"remove","path":"/silent_ms"},{"op":"add","path":"/note","value":"writing"},{"op":"add","path":"/phase","value":"writing"}]}
        10 ACTIVITY_DELTA {"messageId":"progress_call_1","activityType":"turnwire.tool","patch":[{"op":"remove","path":"/progress"},{"op":"remove","path":"/message"},{"op":"add","path":"/note","value":"NaN%"}]}
        11 ACTIVITY_DELTA {"messageId":"progress_call_1","activityType":"turnwire.tool","patch":[{"op":"add","path":"/state","value":"done"},{"op":"add","path":"/note","value":"ok"}]}"#]]
    .assert_eq(&brief(&activities));
}

/// AG-UI 2.4: when only people are awaited, the run of the protocol ends with interrupts, and the
/// one that answers goes on.
#[test]
fn an_approval_is_an_interrupt_and_then_another_run() {
    let story = asked()
        .then(answers(Decision::Approved, &origin::source("run-b")))
        .started("call_1")
        .finished("call_1", succeeded("deleted"))
        .turn()
        .says(&["Gone."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    let frames = story.seen_by(&mut AgUi::new());
    let started = of_type(&frames, "RUN_STARTED");
    assert_eq!(
        (&started[1]["runId"], &started[1]["parentRunId"]),
        (&json!("run-b"), &json!("run-a"))
    );
    assert_eq!(started[1]["metadata"], started[0]["metadata"], "it is the same run of ours");
    let finished = of_type(&frames, "RUN_FINISHED");
    let interrupt = &finished[0]["outcome"]["interrupts"][0];
    assert_eq!(interrupt["id"], "approval:run_1:call_1");
    assert_eq!(
        (&interrupt["reason"], &interrupt["toolCallId"]),
        (&json!("tool_call"), &json!("call_1"))
    );
    assert_eq!(interrupt["responseSchema"]["required"], json!(["approved"]));
    assert_eq!(interrupt["metadata"]["turnwire"]["arguments"], json!({ "path": "old" }));
    assert_eq!((&finished[0]["runId"], &finished[1]["runId"]), (&json!("run-a"), &json!("run-b")));
    let numbers: Vec<u64> = frames.iter().map(|frame| frame.number).collect();
    assert_eq!(numbers, (1..=frames.len() as u64).collect::<Vec<_>>());
}

/// What the server of a tool claims about it is beside the effect class, and only if it claims
/// something.
#[test]
fn an_interrupt_has_the_claims_of_the_server() {
    let claims = ToolClaims { destructive: Some(true), ..ToolClaims::default() };
    let claimed = Event::ApprovalRequested {
        call_id: call_id(),
        expires_at: None,
        changed: None,
        effect: Some(Effect::Once),
        server_claims: Some(claims),
        budget: None,
    };
    let facts_of = |asks: Event| {
        let story = from_a_client().turn().calls("call_1", "delete", "{}");
        let story = story.turn_done(Finish::CalledTools).then(asks);
        let story = story.then(answers(Decision::Approved, "terminal"));
        let finished = of_type(&story.seen_by(&mut AgUi::new()), "RUN_FINISHED");
        finished[0]["outcome"]["interrupts"][0]["metadata"]["turnwire"].clone()
    };
    let facts = facts_of(claimed);
    assert_eq!(
        (&facts["effect"], &facts["server_claims"]),
        (&json!("once"), &json!({ "destructive": true }))
    );
    let facts = facts_of(asks());
    assert!(facts.get("effect").is_none() && facts.get("server_claims").is_none(), "{facts}");
}

/// AG-UI 2.4: a reader that finds nothing after the question sends the end of the run, which has
/// the same number and bytes for one that comes later.
#[test]
fn a_pause_is_the_next_frame_for_every_reader() {
    let mut live = AgUi::new();
    let events = asked().then(answers(Decision::Approved, "/ws/chat")).events();
    let (answer, before) = events.split_last().unwrap();
    for recorded in before {
        live.project(recorded);
    }
    let pause = live.pause().cloned().unwrap();
    let after = live.project(answer);
    assert_eq!(after[0], pause);
    assert!(matches!(after[1].event, AgUiEvent::RunStarted { .. }), "{after:?}");
    assert_eq!(of_type(&after, "RUN_STARTED")[0]["runId"], "run-a:2", "nobody named it");
}

/// AG-UI 2.4: what is answered in the same moment is no pause, but takes its number.
#[test]
fn an_answer_at_once_is_no_pause() {
    for by in ["conversation", "nobody"] {
        let story = asked().then(answers(Decision::Approved, by)).started("call_1");
        let frames = story.finished("call_1", succeeded("x")).seen_by(&mut AgUi::new());
        assert_eq!(of_type(&frames, "RUN_FINISHED"), Vec::<Value>::new());
        let [.., before, result] = frames.as_slice() else { panic!("{frames:?}") };
        assert_eq!(result.number, before.number + 2);
    }
}

/// AG-UI 2.4: several answers of one request do not end its run in between.
#[test]
fn one_request_answers_several_questions_in_one_run() {
    let (first, second) = (CallId::from("call_1"), CallId::from("call_2"));
    let no = |call: &CallId| Event::ApprovalResolved {
        call_id: call.clone(),
        decision: Decision::Denied { reason: String::new() },
        arguments: None,
        remember: false,
        by: Some(origin::source("run-b")),
        actor: None,
    };
    let denied = || ToolOutcome::Denied { reason: String::new() };
    let story = from_a_client()
        .turn()
        .calls("call_1", "x", "{}")
        .calls("call_2", "x", "{}")
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(first.clone()))
        .then(Event::approval_requested(second.clone()))
        .then(no(&first))
        .finished("call_1", denied())
        .then(no(&second))
        .finished("call_2", denied())
        .ended(RunOutcome::Completed);
    let frames = story.seen_by(&mut AgUi::new());
    let finished = of_type(&frames, "RUN_FINISHED");
    assert_eq!(finished.len(), 2, "{finished:?}");
    assert_eq!(finished[0]["outcome"]["interrupts"].as_array().unwrap().len(), 2);
    assert_eq!(finished[1]["outcome"], json!({ "type": "success" }));
}

/// AG-UI 2.4: while one tool works, people are not the only ones awaited.
#[test]
fn no_pause_while_a_tool_works() {
    let story = from_a_client()
        .turn()
        .calls("call_1", "delete", "{}")
        .calls("call_2", "work", "{}")
        .turn_done(Finish::CalledTools)
        .then(asks())
        .started("call_2");
    let mut surface = AgUi::new();
    let events = story.finished("call_2", succeeded("ok")).events();
    let pauses = events.iter().map(|recorded| {
        surface.project(recorded);
        surface.pause().is_some()
    });
    let pauses: Vec<bool> = pauses.collect();
    assert_eq!(pauses.iter().position(|is_paused| *is_paused), Some(pauses.len() - 1));
}

/// AG-UI 2.4: a tool's question is an interrupt too; what happens while it waits is silent.
#[test]
fn a_question_of_a_tool_is_an_interrupt() {
    let input_id = InputId::from("inp_1");
    let asked = Event::InputRequested {
        call_id: CallId::from("call:1"),
        input_id: input_id.clone(),
        message: "Which one?".to_owned(),
        schema: json!({ "type": "object" }),
        expires_at: None,
        unknown_outcome: false,
    };
    let answered = Event::InputResolved {
        call_id: CallId::from("call:1"),
        input_id,
        reply: Reply::Accepted { content: Map::new() },
        by: Some(origin::source("run-b")),
    };
    let silent = Event::ToolStayedSilent { call_id: CallId::from("call:1"), elapsed_ms: 15_000 };
    let story = from_a_client()
        .turn()
        .calls("call:1", "pick", "{}")
        .turn_done(Finish::CalledTools)
        .started("call:1")
        .then(asked)
        .then(silent)
        .then(Event::taken_over(2))
        .then(answered);
    let frames = story.last_seen_by(&mut AgUi::new());
    let interrupt = &of_type(&frames, "RUN_FINISHED")[0]["outcome"]["interrupts"][0];
    assert_eq!(
        (&interrupt["reason"], &interrupt["message"]),
        (&json!("input_required"), &json!("Which one?"))
    );
    let id: InterruptId = interrupt["id"].as_str().unwrap().parse().unwrap();
    let target = InterruptTarget::Input(CallId::from("call:1"), InputId::from("inp_1"));
    assert_eq!(id.target, target);
    assert_eq!(of_type(&frames, "RUN_STARTED")[0]["runId"], "run-b");
    assert_eq!("approval:run_1".parse::<InterruptId>(), Err(pause::ParseInterruptIdError));
}

/// AG-UI 2.4: a run of another surface that hands its approvals back ends with the interrupt.
#[test]
fn a_run_that_is_handed_back_ends_with_its_questions() {
    let request = RunRequest { approvals: Approvals::HandBack, ..request() };
    let story = Story::of(request).turn().calls("call_1", "x", "{}");
    let story = story.turn_done(Finish::CalledTools).then(asks()).ended(RunOutcome::Completed);
    let frames = story.last_seen_by(&mut AgUi::new());
    let [end] = values(&frames).try_into().unwrap();
    assert_eq!(end["outcome"]["type"], "interrupt");
}

/// AG-UI 2.4: calls of the client are pending, in the words of the client's version.
#[test]
fn calls_of_the_client_are_pending() {
    let tool = ToolRef { name: "locate".to_owned(), kind: ToolKind::Client, server: None };
    let story = || {
        let story = from_a_client().turn().announced_as("call_1", tool.clone());
        let story = story.written("call_1", "{}").turn_done(Finish::CalledTools);
        story.ended(RunOutcome::Completed)
    };
    let frames = values(&story().last_seen_by(&mut AgUi::new()));
    let pending = json!({ "type": "success", "pendingToolCallIds": ["call_1"] });
    assert_eq!(frames[0]["outcome"], pending);
    let frames = story().last_seen_by(&mut AgUi::for_version(ProtocolVersion::Before1));
    let frames = values(&frames);
    assert_eq!(frames[0]["outcome"], json!({ "type": "success" }));
    assert_eq!(frames[0]["result"], json!({ "pendingToolCallIds": ["call_1"] }));
}

/// AG-UI 2.3: how a run ends, in the words of the client's version.
#[test]
fn every_end_of_a_run_has_its_event() {
    let end = |outcome: RunOutcome, version| {
        let frames = from_a_client().ended(outcome).last_seen_by(&mut AgUi::for_version(version));
        let [end] = values(&frames).try_into().unwrap();
        end
    };
    let failure = Failure::new("model_unavailable", "not \u{1b}[1mthere");
    let error = end(RunOutcome::Failed { failure }, ProtocolVersion::V1);
    assert_eq!(error["type"], "RUN_ERROR");
    assert_eq!(
        (&error["message"], &error["code"]),
        (&json!("not there"), &json!("model_unavailable"))
    );
    assert_eq!(error["usage"][0]["totalTokens"], 2120);

    let cut = RunOutcome::Incomplete { reason: IncompleteReason::MaxTurns };
    let cut = end(cut, ProtocolVersion::V1);
    assert_eq!(cut["outcome"], json!({ "type": "success" }));
    assert_eq!(cut["result"], json!({ "status": "incomplete", "reason": "max_turns" }));

    let stopped = end(RunOutcome::Cancelled, ProtocolVersion::V1);
    assert_eq!(stopped["outcome"], json!({ "type": "cancelled" }));
    let stopped = end(RunOutcome::Cancelled, ProtocolVersion::Before1);
    assert_eq!(
        (stopped.get("outcome"), &stopped["result"]),
        (None, &json!({ "status": "cancelled" }))
    );
}

/// AG-UI 2.4, R20: after a superseded turn the client gets all messages but those of the turn.
#[test]
fn a_withdrawn_turn_is_followed_by_all_other_messages() {
    let skipped = ToolOutcome::Skipped { reason: "the answer was withdrawn".to_owned() };
    let story = from_a_client()
        .turn()
        .says(&["First."])
        .calls("call_1", "x", "{}")
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("one"))
        .turn()
        .message()
        .text("Half an ans")
        .then(Event::taken_over(2))
        .message_done(Completeness::Superseded)
        .announced("call_2", "x")
        .finished("call_2", skipped)
        .then(Event::TurnAbandoned { turn: 2 });
    let frames = story.seen_by(&mut AgUi::new());
    let taken_over = of_type(&frames, "CUSTOM");
    assert_eq!(
        (&taken_over[0]["name"], &taken_over[0]["value"]),
        (&json!("turnwire.taken_over"), &json!({ "attempt": 2 }))
    );
    let all = values(&frames);
    let [.., finished, snapshot] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(finished["type"], "STEP_FINISHED");
    let mut messages = snapshot["messages"].clone();
    messages[2].as_object_mut().unwrap().remove("metadata");
    assert_eq!(
        messages,
        json!([
            { "id": "u1", "role": "user", "content": "?" },
            { "id": "msg_1", "role": "assistant", "content": "First.", "toolCalls": [
                { "id": "call_1", "type": "function", "function": { "name": "x", "arguments": "{}" } },
            ] },
            { "id": "fco_call_1", "role": "tool", "content": "one", "toolCallId": "call_1" },
        ])
    );
    let nothing = from_a_client().turn().then(Event::TurnAbandoned { turn: 1 });
    let frames = nothing.last_seen_by(&mut AgUi::new());
    assert_eq!(of_type(&frames, "MESSAGES_SNAPSHOT"), Vec::<Value>::new(), "nothing was shown");
}

/// AG-UI 2.3, C28: a run whose journal has lost events still closes all that it opened.
#[test]
fn what_a_broken_journal_left_open_is_closed() {
    let failure = Failure::journal_unreadable();
    let added = Event::ReasoningAdded { item_id: ItemId::from("rs_1"), text: "Hm".to_owned() };
    let story = from_a_client()
        .turn()
        .then(added)
        .message()
        .text("Half")
        .announced("call_1", "x")
        .writes("call_1", "{")
        .then(Event::unreadable())
        .ended(RunOutcome::Failed { failure });
    let frames = story.last_seen_by(&mut AgUi::new());
    let kinds: Vec<Value> = values(&frames).iter().map(|frame| frame["type"].clone()).collect();
    let expected = json!([
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_END",
        "STEP_FINISHED",
        "RUN_ERROR",
    ]);
    assert_eq!(Value::Array(kinds), expected);
}

/// AG-UI 2.4: each run of the protocol reports its own tokens.
#[test]
fn tokens_are_reported_once() {
    let usage = Usage { input_tokens: 500, output_tokens: 20, ..Usage::default() };
    let story = from_a_client().turn().calls("call_1", "x", "{}");
    let finish = Finish::CalledTools;
    let story = story
        .then(Event::TurnFinished { turn: 1, finish, usage })
        .then(asks())
        .then(answers(Decision::Approved, "/ws/chat"))
        .finished("call_1", succeeded("x"))
        .ended(RunOutcome::Completed);
    let frames = story.seen_by(&mut AgUi::new());
    let input: Vec<Value> = of_type(&frames, "RUN_FINISHED")
        .iter()
        .map(|end| end["usage"][0]["inputTokens"].clone())
        .collect();
    assert_eq!(input, [json!(500), json!(1500)]);
}

/// A run of another surface is shown under its own names.
#[test]
fn a_run_of_another_surface_has_names_too() {
    let conversation_id = Some(turnwire_contract::ConversationId::from("conv_1"));
    let frames = Story::of(RunRequest { conversation_id, ..request() }).seen_by(&mut AgUi::new());
    let started = values(&frames).remove(0);
    assert_eq!((&started["threadId"], &started["runId"]), (&json!("conv_1"), &json!("run_1")));
}

/// AG-UI 2.1: a frame is one line for every reader, and has no `null`.
#[test]
fn a_frame_is_one_line() {
    let hostile = "a\u{85}b\u{2028}c\nd\r\u{c}e\u{1b}[1m";
    let story = from_a_client().turn().says(&[hostile]).calls("call_1", hostile, "{\u{85}");
    let story = story.finished("call_1", failed(hostile)).ended(RunOutcome::Completed);
    for frame in story.seen_by(&mut AgUi::new()) {
        let data = frame.data();
        assert!(
            !data.contains(|c: char| c.is_control() || "\u{2028}\u{2029}".contains(c)),
            "{data}"
        );
        assert!(!data.contains("null"), "{data}");
    }
}

/// I8: two readers of one journal see the same.
#[test]
fn it_is_pure() {
    let events: Vec<Arc<RecordedEvent>> = asked().events().into_iter().map(Arc::new).collect();
    let read = || {
        let mut surface = AgUi::new();
        events.iter().flat_map(|recorded| surface.project(recorded)).collect::<Vec<_>>()
    };
    assert_eq!(read(), read());
}
