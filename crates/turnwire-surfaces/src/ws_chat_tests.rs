use std::collections::HashSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::Value;
use turnwire_contract::{
    CallId, Failure, Finish, Image, Item, RunRequest, ToolKind, ToolRef, tool::BlobRef,
};

use super::*;
use crate::{
    story::{Story, failed, request, succeeded},
    tests::{tell, turns},
};

const EVERYTHING: WsOptions = WsOptions {
    chunks: true,
    progress: true,
    tools: true,
    approvals: true,
    inputs: true,
    output: true,
    resume: true,
};

fn in_conversation() -> Story {
    let conversation_id = Some(ConversationId::new("conv_1"));
    Story::of(RunRequest { conversation_id, ..request() })
}

fn messages(story: Story, options: WsOptions) -> Vec<WsMessage> {
    story.seen_by(&mut WsChat::new(options)).into_iter().map(|placed| placed.frame).collect()
}

#[track_caller]
fn check(story: Story, expected: Expect) {
    check_with(story, WsOptions::default(), expected);
}

#[track_caller]
fn check_with(story: Story, options: WsOptions, expected: Expect) {
    let frames = story.seen_by(&mut WsChat::new(options));
    let lines: Vec<String> = frames.iter().map(|frame| options.wire_text(frame)).collect();
    expected.assert_eq(&lines.join("\n"));
}

/// S2-8, S2-9, S2-15, S2-16.
#[test]
fn a_tool_comes_between_the_words_before_and_after_it() {
    let story = in_conversation()
        .turn()
        .says(&["Let me ", "see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is ", "", "20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
            {"type":"token","content":"Let me "}
            {"type":"token","content":"see."}
            {"type":"tool_start","tool_call_id":"call_1","tool_name":"multiply","tool_input":"{\"a\":5,\"b\":4}","timestamp":"1970-01-01T00:00:01.200000Z","kind":"function"}
            {"type":"tool_complete","tool_call_id":"call_1","tool_name":"multiply","tool_result":"20","timestamp":"1970-01-01T00:00:01.300000Z","kind":"function","duration_ms":42}
            {"type":"token","content":"It is "}
            {"type":"token","content":"20."}
            {"type":"complete","message_id":"msg_2","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
}

/// S2-2, S2-18.
#[test]
fn a_turn_without_tools_is_words_and_the_end() {
    let story = in_conversation().turn().says(&["Hi", "\0", "\u{1b}[31", "m!"]);
    let story = story.turn_done(Finish::Answered).ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
        {"type":"token","content":"Hi"}
        {"type":"token","content":"!"}
        {"type":"complete","message_id":"msg_1","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
}

/// S2-2.
#[test]
fn a_refusal_is_shown_like_any_text() {
    let story = in_conversation().turn().message().refusal("No.");
    let story = story.message_done(Completeness::Complete).turn_done(Finish::Answered);
    check(
        story.ended(RunOutcome::Completed),
        expect![[r#"
        {"type":"token","content":"No."}
        {"type":"complete","message_id":"msg_1","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
}

/// S2-10, S2-11.
#[test]
fn a_failing_tool_is_an_error_and_the_answer_still_comes() {
    let story = in_conversation()
        .turn()
        .calls("call_1", "divide", r#"{"a":5,"b":0}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", failed("division by zero"))
        .turn()
        .says(&["That cannot be divided."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
            {"type":"tool_start","tool_call_id":"call_1","tool_name":"divide","tool_input":"{\"a\":5,\"b\":0}","timestamp":"1970-01-01T00:00:00.800000Z","kind":"function"}
            {"type":"error","message":"divide: division by zero","code":"TOOL_ERROR","fatal":false,"failure":"tool_failed","tool_call_id":"call_1","tool_name":"divide","kind":"function","state":"failed","duration_ms":42,"timestamp":"1970-01-01T00:00:00.900000Z"}
            {"type":"token","content":"That cannot be divided."}
            {"type":"complete","message_id":"msg_1","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
}

/// S2-10, S2-23, S2-28: calls that never started have a start too, and only a success has a
/// `tool_complete`.
#[test]
fn every_way_to_fail_is_a_tool_error_after_its_start() {
    let text = || "why".to_owned();
    let endings = [
        (failed("why"), "failed"),
        (ToolOutcome::InvalidArguments { message: text() }, "failed"),
        (ToolOutcome::NotFound { message: text() }, "failed"),
        (ToolOutcome::TimedOut { after_ms: 1_500 }, "timed out"),
        (ToolOutcome::Cancelled, "stopped"),
        (ToolOutcome::Skipped { reason: text() }, "stopped"),
        (ToolOutcome::Denied { reason: text() }, "denied"),
        (ToolOutcome::OutcomeUnknown { message: text() }, "unknown"),
    ];
    for (outcome, state) in endings {
        for starts in [false, true] {
            let story = Story::new().turn().calls("call_1", "lookup", "");
            let story = if starts { story.started("call_1") } else { story };
            let seen = messages(story.finished("call_1", outcome.clone()), WsOptions::default());
            let [WsMessage::ToolStart(start), WsMessage::Error(error)] = seen.as_slice() else {
                panic!("{outcome:?}: {seen:?}");
            };
            let call = error.call.as_ref().unwrap();
            assert_eq!(
                (&start.tool_call_id, start.tool_name.as_str()),
                (&call.tool_call_id, "lookup")
            );
            assert_eq!((error.code, error.fatal), (Some(ErrorCode::ToolError), false));
            assert_eq!((error.outcome, call.state.as_str()), (None, state));
            assert!(error.message.starts_with("lookup: "), "{}", error.message);
        }
    }
}

/// S2-17, S2-24.
#[test]
fn parallel_calls_of_one_tool_are_told_apart() {
    let story = Story::new()
        .turn()
        .calls("call_1", "multiply", r#"{"a":1}"#)
        .calls("call_2", "multiply", r#"{"a":2}"#)
        .started("call_1")
        .started("call_2")
        .finished("call_2", succeeded("2"))
        .finished("call_1", succeeded("1"));
    let mut told: Vec<(String, String)> = Vec::new();
    for message in messages(story, WsOptions::default()) {
        if let WsMessage::ToolStart(start) = message {
            told.push((start.tool_call_id.to_string(), start.tool_input));
        } else if let WsMessage::ToolComplete(end) = message {
            told.push((end.tool_call_id.to_string(), end.tool_result));
        }
    }
    let told: Vec<(&str, &str)> = told.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    let expected =
        [("call_1", r#"{"a":1}"#), ("call_2", r#"{"a":2}"#), ("call_2", "2"), ("call_1", "1")];
    assert_eq!(told, expected);
}

/// S2-28.
#[test]
fn a_call_that_is_tried_again_has_one_start() {
    let reason = Failure::new("tool_failed", "busy");
    let story = Story::new()
        .turn()
        .calls("call_1", "x", "{}")
        .started("call_1")
        .then(Event::ToolRetried { call_id: CallId::from("call_1"), attempt: 2, reason })
        .started_with("call_1", 2, "")
        .finished("call_1", succeeded("1"))
        .finished("call_1", failed("late"));
    let seen = messages(story, WsOptions::default());
    assert!(matches!(seen.as_slice(), [WsMessage::ToolStart(_), WsMessage::ToolComplete(_)]));
}

/// S2-12.
#[test]
fn times_are_utc_and_those_of_the_events() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1").wait_ms(2_400);
    let seen = messages(story.finished("call_1", succeeded("1")), WsOptions::default());
    let times: Vec<String> = seen
        .iter()
        .map(|message| serde_json::to_value(message).unwrap()["timestamp"].as_str().unwrap().into())
        .collect();
    assert_eq!(times, ["1970-01-01T00:00:00.700000Z", "1970-01-01T00:00:03.200000Z"]);
}

/// S2-8, S2-13, S2-14: an input is always the text of a JSON object.
#[test]
fn whatever_the_model_writes_the_input_is_json() {
    let inputs = [
        ("", "{}"),
        ("  ", "{}"),
        (r#" {"a": 1e400, "n": 123456789012345678901234567890} "#, ""),
        ("{\"q\": \"a\u{9b}31m\u{7f}\u{2028}\"}", r#"{"q": "a\u009b31m\u007f\u2028"}"#),
        ("[1]", r#"{"invalid_arguments":"[1]"}"#),
        ("{a", r#"{"invalid_arguments":"{a"}"#),
        ("\u{1b}[2J", r#"{"invalid_arguments":"\u001b[2J"}"#),
    ];
    for (raw, expected) in inputs {
        let story = Story::new().turn().calls("call_1", "x", raw).started("call_1");
        let seen = messages(story, WsOptions::default());
        let [WsMessage::ToolStart(start)] = seen.as_slice() else { panic!("{seen:?}") };
        assert!(!start.tool_input.contains(char::is_control), "{raw:?}");
        if !expected.is_empty() {
            assert_eq!(start.tool_input, expected);
            assert!(serde_json::from_str::<Value>(&start.tool_input).unwrap().is_object());
        }
    }
    let exact = r#"{"n": 123456789012345678901234567890}"#;
    let story = Story::new().turn().calls("call_1", "x", exact).started("call_1");
    let seen = messages(story, WsOptions::default());
    assert!(matches!(&seen[..], [WsMessage::ToolStart(start)] if start.tool_input == exact));
}

/// S2-13, R19.
#[test]
fn a_tool_that_returns_nothing_says_so() {
    for nothing in ["", "\0\u{1b}[0m"] {
        let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
        let seen = messages(story.finished("call_1", succeeded(nothing)), WsOptions::default());
        let [_, WsMessage::ToolComplete(end)] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!((end.tool_result.as_str(), end.empty), ("(no output)", true));
    }
    let image = Image { media_type: "image/png".to_owned(), base64: "AA==".to_owned() };
    let output = ToolOutput { images: vec![image], ..ToolOutput::default() };
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let story = story.finished("call_1", ToolOutcome::Succeeded { output });
    let seen = messages(story, WsOptions::default());
    let [_, WsMessage::ToolComplete(end)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((end.tool_result.as_str(), end.empty), ("(1 image)", false));
}

/// S2-13.
#[test]
fn a_call_without_a_name_gets_one() {
    let story = Story::new().turn().calls("call_1", "\0", "{}");
    let story = story.finished("call_1", ToolOutcome::NotFound { message: "no".to_owned() });
    let seen = messages(story, WsOptions::default());
    assert!(
        matches!(&seen[..], [WsMessage::ToolStart(start), _] if start.tool_name == "(unnamed)")
    );
}

/// S2-21.
#[test]
fn hostile_text_arrives_clean_and_never_breaks_a_message() {
    let hostile = "a\0b\u{1b}]0;title\u{7}c\u{9b}31md\u{85}e\u{2028}f\r\n\tg";
    let story = Story::new().turn().says(&[hostile]).calls("call_1", "x\u{1b}[1m", "{}");
    let story =
        story.started("call_1").finished("call_1", succeeded(hostile)).calls("call_2", "y", "");
    let story = story.finished("call_2", failed(hostile));
    for placed in story.seen_by(&mut WsChat::new(WsOptions::default())) {
        let text = WsOptions::default().wire_text(&placed);
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{2028}'), "{text:?}");
        let Value::Object(message) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        for value in message.values().filter_map(Value::as_str) {
            let kept = ['\r', '\n', '\t'];
            assert!(!value.contains(|c: char| c.is_control() && !kept.contains(&c)), "{value:?}");
        }
    }
}

/// S2-21.
#[test]
fn an_escape_that_is_never_closed_ends_with_its_message() {
    let story = Story::new().turn().says(&["a\u{1b}]0;title"]).says(&["b"]);
    let token = |content: &str| WsMessage::Token(Token { content: content.to_owned() });
    assert_eq!(messages(story, WsOptions::default()), [token("a"), token("b")]);
}

/// Longer than the limit by one character of two bytes, so that a cut by bytes would split it.
fn big_text() -> String {
    format!("x{}", "é".repeat(WIRE_BYTES))
}

/// S2-Q1, R17.
#[test]
fn a_big_result_is_cut_at_a_character_and_says_where_the_rest_is() {
    let text = big_text();
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let seen = messages(story.finished("call_1", succeeded(&text)), WsOptions::default());
    let [_, WsMessage::ToolComplete(end)] = seen.as_slice() else {
        panic!("{} messages", seen.len())
    };
    assert_eq!(end.tool_result.len(), WIRE_BYTES - 1);
    assert!(text.starts_with(&end.tool_result) && end.truncated);
    assert_eq!(end.result_bytes, Some(text.len() as u64));
    assert_eq!(end.result_ref.as_deref(), Some("/v1/runs/run_1/calls/call_1/result"));
}

/// S2-Q1, R17.
#[test]
fn a_result_that_just_fits_is_not_cut() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let story = story.finished("call_1", succeeded(&"x".repeat(WIRE_BYTES)));
    let seen = messages(story, EVERYTHING);
    let [_, _, WsMessage::ToolComplete(end)] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!((end.tool_result.len(), end.truncated), (WIRE_BYTES, false));
    assert_eq!((end.result_bytes, &end.result_ref), (None, &None));
}

/// S2-Q1: R17: also if the part in the journal would fit, but is not all.
#[test]
fn a_result_kept_aside_is_never_cut_in_silence() {
    let rest = Some(BlobRef { blob: "blob_1".into(), bytes: 5_000_000 });
    let output = ToolOutput { text: "begin".to_owned(), rest, ..ToolOutput::default() };
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    check_with(
        story.finished("call_1", ToolOutcome::Succeeded { output }),
        WsOptions { chunks: true, ..WsOptions::default() },
        expect![[r#"
            {"type":"tool_start","tool_call_id":"call_1","tool_name":"x","tool_input":"{}","timestamp":"1970-01-01T00:00:00.700000Z","kind":"function"}
            {"type":"tool_result_chunk","tool_call_id":"call_1","index":0,"content":"begin"}
            {"type":"tool_result_end","tool_call_id":"call_1","chunks":1,"bytes":5,"result_bytes":5000000,"result_ref":"/v1/runs/run_1/calls/call_1/result"}
            {"type":"tool_complete","tool_call_id":"call_1","tool_name":"x","tool_result":"begin","timestamp":"1970-01-01T00:00:00.800000Z","kind":"function","duration_ms":42,"truncated":true,"result_bytes":5000000,"result_ref":"/v1/runs/run_1/calls/call_1/result"}"#]],
    );
}

/// S2-F1.
#[test]
fn a_big_result_comes_in_pieces_that_add_up() {
    let text = big_text();
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let options = WsOptions { chunks: true, ..WsOptions::default() };
    let seen = messages(story.finished("call_1", succeeded(&text)), options);
    let mut together = String::new();
    for (n, message) in seen.iter().skip(1).take(3).enumerate() {
        let WsMessage::ToolResultChunk(chunk) = message else { panic!("{n} is no chunk") };
        assert_eq!(usize::try_from(chunk.index).unwrap(), n);
        assert!(chunk.content.len() <= WIRE_BYTES);
        together.push_str(&chunk.content);
    }
    assert!(together == text);
    let [.., WsMessage::ToolResultEnd(end), WsMessage::ToolComplete(complete)] = seen.as_slice()
    else {
        panic!("{} messages", seen.len())
    };
    let bytes = text.len() as u64;
    assert_eq!((end.chunks, end.bytes, end.result_bytes), (3, bytes, bytes));
    assert!(complete.truncated);
    assert_eq!(seen.len(), 6);
}

/// S2-3.
#[test]
fn the_last_message_that_is_kept_is_named() {
    let said_then_silent = in_conversation()
        .turn()
        .says(&["Let me see."])
        .calls("call_1", "x", "{}")
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("1"))
        .turn()
        .says(&[""])
        .turn_done(Finish::Answered);
    assert_eq!(completed(said_then_silent), "msg_1");

    let withdrawn = in_conversation()
        .turn()
        .says(&["First"])
        .turn_done(Finish::CalledTools)
        .turn()
        .message()
        .text("Second")
        .message_done(Completeness::Superseded)
        .then(Event::TurnAbandoned { turn: 2 })
        .turn()
        .turn_done(Finish::Answered);
    assert_eq!(completed(withdrawn), "msg_1");

    let withdrawn_after_its_end = in_conversation()
        .turn()
        .says(&["First"])
        .turn_done(Finish::CalledTools)
        .turn()
        .says(&["Second"])
        .then(Event::TurnAbandoned { turn: 2 })
        .turn()
        .turn_done(Finish::Answered);
    assert_eq!(completed(withdrawn_after_its_end), "msg_1");

    let superseded = in_conversation()
        .turn()
        .says(&["First"])
        .message()
        .text("Second")
        .message_done(Completeness::Superseded)
        .turn_done(Finish::Answered);
    assert_eq!(completed(superseded), "msg_1");

    let never_spoke = in_conversation().turn().turn_done(Finish::Answered);
    let asked = request().entries(&RunId::new("run_1")).pop().unwrap();
    assert_eq!(completed(never_spoke), asked.id.as_str());
}

fn completed(story: Story) -> String {
    let mut seen = messages(story.ended(RunOutcome::Completed), WsOptions::default());
    let Some(WsMessage::Complete(complete)) = seen.pop() else { panic!("{seen:?}") };
    assert!(!seen.iter().any(|message| matches!(message, WsMessage::Complete(_))));
    complete.message_id
}

/// S2-3.
#[test]
fn a_turn_that_stopped_at_a_limit_is_complete_and_says_so() {
    let story = in_conversation().turn().message().text("Half").message_done(Completeness::Cut);
    let outcome = RunOutcome::Incomplete { reason: IncompleteReason::MaxOutputTokens };
    let story = story.turn_done(Finish::Length).ended(outcome);
    check(
        story,
        expect![[r#"
        {"type":"token","content":"Half"}
        {"type":"complete","message_id":"msg_1","conversation_id":"conv_1","outcome":"incomplete","reason":"max_output_tokens"}"#]],
    );
}

/// S2-4.
#[test]
fn a_turn_that_fails_ends_with_an_error_and_has_no_complete() {
    let ended = |code, message| {
        let failure = Failure::new(code, message);
        in_conversation().turn().says(&["Half"]).ended(RunOutcome::Failed { failure })
    };
    check(
        ended("model_broke_off", "the model's answer broke off"),
        expect![[r#"
        {"type":"token","content":"Half"}
        {"type":"error","message":"the model's answer broke off","code":"LLM_ERROR","fatal":false,"outcome":"failed","failure":"model_broke_off"}"#]],
    );
    check(
        ended("engine_failed", "the engine failed"),
        expect![[r#"
        {"type":"token","content":"Half"}
        {"type":"error","message":"the engine failed","code":"INTERNAL_ERROR","fatal":false,"outcome":"failed","failure":"engine_failed"}"#]],
    );
}

/// S2-4.
#[test]
fn a_turn_that_somebody_stopped_says_so_without_a_code() {
    check(
        in_conversation().turn().ended(RunOutcome::Cancelled),
        expect![[r#"
        {"type":"error","message":"cancelled","fatal":false,"outcome":"cancelled"}"#]],
    );
}

/// S2-22.
#[test]
fn a_broken_piece_from_the_model_is_told_and_the_stream_goes_on() {
    let broke_off = Failure::new("model_broke_off", "the model's answer broke off");
    let reason = Failure::new("model_unreadable", "a part could not be read");
    let story = in_conversation()
        .turn()
        .then(Event::TurnRetried { turn: 1, attempt: 2, reason: broke_off, delay_ms: 500 })
        .then(Event::PartSkipped { turn: 1, bytes: 40, reason })
        .says(&["Hi"])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
        {"type":"error","message":"the model's answer broke off; trying again","code":"LLM_ERROR","fatal":false,"failure":"model_broke_off"}
        {"type":"error","message":"a part could not be read","code":"LLM_ERROR","fatal":false,"failure":"model_unreadable"}
        {"type":"token","content":"Hi"}
        {"type":"complete","message_id":"msg_1","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
}

/// S2-22: C6: never silently retracted or repeated.
#[test]
fn an_answer_that_begins_again_says_so() {
    let story = in_conversation()
        .turn()
        .message()
        .text("It")
        .message_done(Completeness::Superseded)
        .then(Event::taken_over(2))
        .then(Event::TurnAbandoned { turn: 1 })
        .turn()
        .says(&["It is 20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
        {"type":"token","content":"It"}
        {"type":"error","message":"the answer was interrupted and begins again","code":"INTERNAL_ERROR","fatal":false}
        {"type":"token","content":"It is 20."}
        {"type":"complete","message_id":"msg_2","conversation_id":"conv_1","outcome":"completed"}"#]],
    );
    let unheard = in_conversation().turn().says(&["Hi"]).turn_done(Finish::CalledTools).turn();
    let unheard = unheard.then(Event::TurnAbandoned { turn: 2 });
    assert_eq!(unheard.last_seen_by(&mut WsChat::default()), []);
}

#[test]
fn what_was_asked_for_comes_and_each_message_says_its_place() {
    let call_id = || CallId::from("call_1");
    let tool =
        ToolRef { name: "search".to_owned(), kind: ToolKind::Mcp, server: Some("docs".to_owned()) };
    let reason = Failure::new("tool_failed", "busy");
    let story = in_conversation()
        .turn()
        .announced_as("call_1", tool)
        .written("call_1", r#"{"q":"x"}"#)
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(call_id()))
        .then(Event::approval_resolved(call_id(), turnwire_contract::Decision::Approved))
        .started("call_1")
        .then(Event::ToolPhase { call_id: call_id(), phase: "reading".to_owned() })
        .then(Event::ToolProgressed {
            call_id: call_id(),
            progress: 1.0,
            total: Some(5.0),
            message: Some("page\u{1b}[1m 1".to_owned()),
        })
        .then(Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 15_000 })
        .then(Event::ToolRetried { call_id: call_id(), attempt: 2, reason })
        .finished("call_1", ToolOutcome::Cancelled)
        .then(Event::ToolPhase { call_id: call_id(), phase: "late".to_owned() })
        .then(Event::approval_requested(call_id()));
    check_with(
        story,
        EVERYTHING,
        expect![[r#"
            {"type":"started","run_id":"run_1","conversation_id":"conv_1","cursor":"1.0"}
            {"type":"approval_request","tool_call_id":"call_1","tool_name":"search","tool_input":"{\"q\":\"x\"}","timestamp":"1970-01-01T00:00:00.700000Z","kind":"mcp","server":"docs","cursor":"7.0"}
            {"type":"tool_start","tool_call_id":"call_1","tool_name":"search","tool_input":"{\"q\":\"x\"}","timestamp":"1970-01-01T00:00:00.900000Z","kind":"mcp","server":"docs","cursor":"9.0"}
            {"type":"tool_progress","tool_call_id":"call_1","tool_name":"search","progress":null,"total":null,"message":"reading","timestamp":"1970-01-01T00:00:01.000000Z","kind":"mcp","server":"docs","cursor":"10.0"}
            {"type":"tool_progress","tool_call_id":"call_1","tool_name":"search","progress":1.0,"total":5.0,"message":"page 1","timestamp":"1970-01-01T00:00:01.100000Z","kind":"mcp","server":"docs","cursor":"11.0"}
            {"type":"tool_progress","tool_call_id":"call_1","tool_name":"search","progress":null,"total":null,"message":"no update for 0.1s","timestamp":"1970-01-01T00:00:01.200000Z","kind":"mcp","server":"docs","cursor":"12.0"}
            {"type":"tool_progress","tool_call_id":"call_1","tool_name":"search","progress":null,"total":null,"message":"trying again (attempt 2): busy","timestamp":"1970-01-01T00:00:01.300000Z","kind":"mcp","server":"docs","cursor":"13.0"}
            {"type":"error","message":"search: cancelled","code":"TOOL_ERROR","fatal":false,"tool_call_id":"call_1","tool_name":"search","kind":"mcp","server":"docs","state":"stopped","duration_ms":42,"timestamp":"1970-01-01T00:00:01.400000Z","cursor":"14.0"}"#]],
    );
}

/// S2-20, R12.
#[test]
fn who_asks_for_nothing_gets_only_the_messages_of_old() {
    let call_id = || CallId::from("call_1");
    let story = in_conversation()
        .turn()
        .calls("call_1", "x", "{}")
        .then(Event::approval_requested(call_id()))
        .started("call_1")
        .then(Event::ToolPhase { call_id: call_id(), phase: "reading".to_owned() })
        .finished("call_1", succeeded(&big_text()))
        .ended(RunOutcome::Completed);
    let types: Vec<String> = messages(story, WsOptions::default())
        .iter()
        .map(|message| serde_json::to_value(message).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(types, ["tool_start", "tool_complete", "complete"]);
}

/// Messages can be deserialized: a client in Rust gets what was sent.
#[test]
fn every_message_reads_as_it_was_written() {
    let story = in_conversation()
        .turn()
        .says(&["Hi"])
        .calls("call_1", "x", "{}")
        .started("call_1")
        .finished("call_1", succeeded(&big_text()))
        .calls("call_2", "x", "{}")
        .finished("call_2", ToolOutcome::Cancelled)
        .ended(RunOutcome::Cancelled);
    for placed in story.seen_by(&mut WsChat::new(EVERYTHING)) {
        let text = EVERYTHING.wire_text(&placed);
        let read = WsMessage::read(&text, Timestamp::from_micros(0));
        assert_eq!(read, Ok(placed.frame));
    }
}

#[test]
fn a_message_of_the_person_is_named_when_several_were_sent() {
    let input = vec![Item::user("a"), Item::user("b")];
    let asked = RunRequest { input, ..request() };
    let last = asked.entries(&RunId::new("run_1")).pop().unwrap();
    assert_eq!(completed(Story::of(asked).turn()), last.id.as_str());
}

proptest! {
    /// S2-2, S2-10, S2-17, S2-24, S2-28 over random turns.
    #[test]
    fn whatever_happens_tools_pair_and_words_add_up(turns in turns()) {
        let mut words = String::new();
        let (mut begun, mut over) = (HashSet::new(), HashSet::new());
        let mut n_complete = 0;
        for message in messages(tell(&turns), WsOptions::default()) {
            prop_assert_eq!(n_complete, 0, "something after the end");
            let ended = match message {
                WsMessage::Token(token) => {
                    prop_assert!(!token.content.is_empty());
                    words.push_str(&token.content);
                    None
                }
                WsMessage::ToolStart(start) => {
                    prop_assert!(begun.insert(start.tool_call_id), "two starts");
                    None
                }
                WsMessage::ToolComplete(end) => Some(end.tool_call_id),
                WsMessage::Error(error) => error.call.map(|call| call.tool_call_id),
                WsMessage::Complete(_) => {
                    n_complete += 1;
                    None
                }
                WsMessage::Pong
                | WsMessage::Started(_)
                | WsMessage::ToolProgress(_)
                | WsMessage::ToolResultChunk(_)
                | WsMessage::ToolResultEnd(_)
                | WsMessage::ApprovalRequest(_)
                | WsMessage::InputRequest(_)
                | WsMessage::ToolOutput(_)
                | WsMessage::Tools(_) => {
                    return Err(TestCaseError::fail(format!("not asked for: {message:?}")));
                }
            };
            if let Some(call_id) = ended {
                prop_assert!(begun.contains(&call_id), "an end without a start");
                prop_assert!(over.insert(call_id), "two ends");
            }
        }
        prop_assert_eq!(n_complete, 1);
        prop_assert_eq!(&begun, &over);
        let n_calls: usize =
            turns.iter().filter(|turn| !turn.is_abandoned).map(|turn| turn.fates.len()).sum();
        prop_assert_eq!(over.len(), n_calls);
        let said: String = turns.iter().map(|turn| turn.text.replace('\0', "")).collect();
        prop_assert_eq!(words, said);
    }

    /// I6, I8, C11: the frames of a prefix are a prefix; a client that resumes gets exactly the
    /// rest; and a cursor means the same with any options.
    #[test]
    fn who_comes_back_gets_exactly_what_is_missing(turns in turns(), cut in any::<prop::sample::Index>()) {
        let whole = tell(&turns).seen_by(&mut WsChat::new(EVERYTHING));
        let events = tell(&turns).events();
        let n_events = cut.index(events.len() + 1);
        let mut chat = WsChat::new(EVERYTHING);
        let part: Vec<_> =
            events.iter().take(n_events).flat_map(|event| chat.project(event)).collect();
        prop_assert!(whole.starts_with(&part));

        prop_assert!(whole.is_sorted_by(|a, b| b.cursor.is_after(a.cursor)));
        let seen = cut.index(whole.len());
        let rest: Vec<_> =
            whole.iter().filter(|placed| placed.cursor.is_after(whole[seen].cursor)).collect();
        prop_assert_eq!(rest, whole.iter().skip(seen + 1).collect::<Vec<_>>());

        let plain = tell(&turns).seen_by(&mut WsChat::new(WsOptions::default()));
        prop_assert!(plain.iter().all(|placed| whole.contains(placed)));
    }
}

/// S2-F1: C11: also in the middle of the pieces of a large result.
#[test]
fn places_do_not_depend_on_what_was_asked_for() {
    let story = || {
        let story = Story::new().turn().calls("call_1", "x", "{}");
        story.finished("call_1", succeeded(&big_text()))
    };
    let plain = story().seen_by(&mut WsChat::new(WsOptions::default()));
    let places: Vec<String> = plain.iter().map(|placed| placed.cursor.to_string()).collect();
    assert_eq!(places, ["7.0", "7.5"]);
    let all = story().seen_by(&mut WsChat::new(EVERYTHING));
    assert!(plain.iter().all(|placed| all.contains(placed)));
}
