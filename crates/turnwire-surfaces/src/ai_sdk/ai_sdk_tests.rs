use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::Value;
use turnwire_contract::{
    ApprovalAnswer, Approvals, Completeness, Decision, Effect, Event, Failure, Finish, ItemId,
    RecordedEvent, RunOutcome, RunRequest, ToolClaims, ToolKind, ToolOutcome, ToolRef,
};

use super::*;
use crate::{
    Projection,
    story::{Story, failed, request, succeeded},
    tests::{tell, turns},
};

/// The chunks of a span, and whether its end is still pending at the end of the story.
fn chunks(events: &[RecordedEvent], dialect: Dialect, span: Span) -> Vec<UiChunk> {
    let mut projection = AiSdk::new(dialect, span);
    let frames = events.iter().flat_map(|recorded| projection.project(recorded));
    let mut shown = Vec::new();
    let mut pending = Vec::new();
    for frame in frames {
        match frame {
            AiSdkFrame::Chunk(chunk) => {
                pending.clear();
                shown.push(chunk);
            }
            AiSdkFrame::AwaitsPeople(closing) => pending = closing,
        }
    }
    shown.extend(pending);
    shown
}

fn lines(chunks: &[UiChunk]) -> String {
    chunks.iter().map(UiChunk::data).collect::<Vec<_>>().join("\n")
}

/// Only the types, on one line.
fn types(chunks: &[UiChunk]) -> String {
    let kind = |chunk: &UiChunk| {
        let value: Value = serde_json::from_str(&chunk.data()).unwrap();
        value["type"].as_str().unwrap().to_owned()
    };
    chunks.iter().map(kind).collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn check(story: Story, dialect: Dialect, expected: Expect) {
    expected.assert_eq(&lines(&chunks(&story.events(), dialect, Span::default())));
}

#[track_caller]
fn check_types(story: Story, dialect: Dialect, span: Span, expected: &str) {
    assert_eq!(types(&chunks(&story.events(), dialect, span)), expected);
}

fn call_id(id: &str) -> CallId {
    CallId::from(id)
}

fn multiplies() -> Story {
    Story::new()
        .turn()
        .says(&["Let me see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is ", "20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed)
}

/// Two calls that need approvals; the first is approved, the second denied.
fn asks_twice() -> Story {
    asks_first()
        .then(Event::approval_resolved(call_id("call_1"), Decision::Approved))
        .started("call_1")
        .finished("call_1", succeeded("gone"))
        .then(Event::approval_resolved(call_id("call_2"), denied()))
        .finished("call_2", ToolOutcome::Denied { reason: "no".to_owned() })
        .turn()
        .says(&["One."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed)
}

fn denied() -> Decision {
    Decision::Denied { reason: "no".to_owned() }
}

fn asks_first() -> Story {
    Story::new()
        .turn()
        .calls("call_1", "delete", r#"{"path":"a"}"#)
        .calls("call_2", "delete", r#"{"path":"b"}"#)
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(call_id("call_1")))
        .then(Event::approval_requested(call_id("call_2")))
}

/// What the server of a tool claims about it is beside the effect class, in every version.
#[test]
fn an_approval_has_the_claims_of_the_server() {
    let server_claims = Some(ToolClaims { destructive: Some(true), ..ToolClaims::default() });
    let asks = Event::ApprovalRequested {
        call_id: call_id("call_1"),
        expires_at: None,
        changed: None,
        effect: Some(Effect::Once),
        server_claims,
        budget: None,
    };
    let story = Story::new().turn().calls("call_1", "delete", "{}");
    let events = story.turn_done(Finish::CalledTools).then(asks).events();
    for dialect in [Dialect::V5, Dialect::V6, Dialect::V7] {
        let text = lines(&chunks(&events, dialect, Span::default()));
        let claims = r#""effect":"once","server_claims":{"destructive":true}"#;
        assert!(text.contains(claims), "{dialect:?}: {text}");
    }
}

/// A turn and its tools are one step, and every server-side call is `providerExecuted`.
#[test]
fn a_tool_is_part_of_the_step_that_called_it() {
    check(
        multiplies(),
        Dialect::V6,
        expect![[r#"
            {"type":"start","messageId":"run_1","messageMetadata":{"run_id":"run_1","model":"test"}}
            {"type":"start-step"}
            {"type":"text-start","id":"msg_1"}
            {"type":"text-delta","id":"msg_1","delta":"Let me see."}
            {"type":"text-end","id":"msg_1"}
            {"type":"tool-input-start","toolCallId":"call_1","toolName":"multiply","dynamic":true,"providerExecuted":true,"title":"multiply","toolMetadata":{"kind":"function"}}
            {"type":"tool-input-delta","toolCallId":"call_1","inputTextDelta":"{\"a\":5,\"b\":4}"}
            {"type":"tool-input-available","toolCallId":"call_1","toolName":"multiply","dynamic":true,"providerExecuted":true,"title":"multiply: a=5 b=4","toolMetadata":{"kind":"function"},"input":{"a":5,"b":4}}
            {"type":"tool-output-available","toolCallId":"call_1","dynamic":true,"providerExecuted":true,"output":"20","toolMetadata":{"kind":"function","state":"done","duration_ms":42}}
            {"type":"finish-step"}
            {"type":"start-step"}
            {"type":"text-start","id":"msg_2"}
            {"type":"text-delta","id":"msg_2","delta":"It is "}
            {"type":"text-delta","id":"msg_2","delta":"20."}
            {"type":"text-end","id":"msg_2"}
            {"type":"finish-step"}
            {"type":"finish","finishReason":"stop","messageMetadata":{"outcome":{"status":"completed"},"usage":{"input_tokens":2000,"cached_tokens":0,"output_tokens":120,"reasoning_tokens":0}}}"#]],
    );
}

/// When only people are awaited the stream finishes, and what comes after the answer is the next
/// segment with the same message ID.
#[test]
fn the_stream_finishes_when_only_people_are_awaited() {
    let first = "start start-step tool-input-start tool-input-delta tool-input-available \
                 tool-input-start tool-input-delta tool-input-available tool-approval-request \
                 data-approval tool-approval-request data-approval finish-step finish";
    check_types(asks_first(), Dialect::V6, Span::only(0), first);
    check_types(asks_twice(), Dialect::V6, Span::only(0), first);
    check_types(
        asks_twice(),
        Dialect::V6,
        Span::only(1),
        "start data-approval tool-input-available tool-output-available finish",
    );
    check_types(
        asks_twice(),
        Dialect::V6,
        Span::only(2),
        "start data-approval tool-output-denied start-step text-start text-delta text-end \
         finish-step finish",
    );
    let ids = |segment| {
        let shown = chunks(&asks_twice().events(), Dialect::V6, Span::only(segment));
        shown.first().cloned()
    };
    assert_eq!(ids(0), ids(1));
    assert_eq!(ids(3), None, "there is no fourth segment");
}

/// Version 7 has a chunk for the answer, version 5 has no approvals at all.
#[test]
fn versions_differ_in_what_they_say_of_approvals() {
    check_types(
        asks_twice(),
        Dialect::V7,
        Span::only(1),
        "start tool-approval-response data-approval tool-output-available finish",
    );
    let calls = "tool-input-start tool-input-delta tool-input-available";
    check_types(
        asks_twice(),
        Dialect::V5,
        Span::only(0),
        &format!(
            "start start-step {calls} {calls} data-approval data-approval data-approval \
             tool-output-available data-approval tool-output-error finish-step start-step \
             text-start text-delta text-end finish-step finish"
        ),
    );
}

/// An approval that was given for the whole conversation asks nobody, so the stream goes on.
#[test]
fn a_remembered_approval_does_not_finish_the_stream() {
    let yes = ApprovalAnswer::from(Decision::Approved).by("conversation");
    let story = Story::new()
        .turn()
        .calls("call_1", "delete", "{}")
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(call_id("call_1")))
        .then(Event::approval_resolved(call_id("call_1"), yes))
        .started("call_1")
        .finished("call_1", succeeded("gone"))
        .turn()
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    let chunks = chunks(&story.events(), Dialect::V6, Span::only(0));
    let finishes = chunks.iter().filter(|chunk| chunk.is_last()).count();
    assert_eq!(finishes, 1, "{}", types(&chunks));
    assert!(types(&chunks).contains("tool-output-available"));
}

/// A tool at work beside the question keeps the stream open; one that has to wait for its turn does
/// not.
#[test]
fn a_tool_at_work_keeps_the_stream_open() {
    let story = |parallel_tool_calls| {
        Story::of(RunRequest { parallel_tool_calls, ..request() })
            .turn()
            .calls("call_1", "delete", "{}")
            .calls("call_2", "search", "{}")
            .turn_done(Finish::CalledTools)
            .then(Event::approval_requested(call_id("call_1")))
    };
    let last = |story: Story| chunks(&story.events(), Dialect::V6, Span::default()).pop().unwrap();
    assert!(!last(story(true)).is_last());
    assert!(last(story(false)).is_last());
    let over = story(true).started("call_2").finished("call_2", succeeded("found"));
    assert!(last(over).is_last());
}

/// A run that hands approvals back, or denies them, waits for nobody.
#[test]
fn a_run_that_does_not_wait_has_one_segment() {
    let story = Story::of(RunRequest { approvals: Approvals::HandBack, ..request() })
        .turn()
        .calls("call_1", "delete", "{}")
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(call_id("call_1")))
        .ended(RunOutcome::Completed);
    let chunks = chunks(&story.events(), Dialect::V6, Span::only(0));
    let last = chunks.last().unwrap().data();
    assert!(last.contains(r#""finishReason":"tool-calls""#), "{last}");
    assert_eq!(chunks.iter().filter(|chunk| chunk.is_last()).count(), 1);
}

/// Edited arguments reach the page when the tool starts with them.
#[test]
fn a_page_sees_the_arguments_that_are_used() {
    let arguments = Some(r#"{"path":"c"}"#.to_owned());
    let answer = ApprovalAnswer { arguments, ..Decision::Approved.into() };
    let story =
        asks_first().then(Event::approval_resolved(call_id("call_1"), answer)).started("call_1");
    let events = story.events();
    for dialect in Dialect::ALL {
        let text = lines(&chunks(&events, dialect, Span::up_to(1)));
        let last = text.lines().last().unwrap();
        assert!(last.contains(r#""input":{"path":"c"}"#), "{dialect}: {last}");
    }
}

/// The worker died in the middle of a text: version 7 removes it, the others mark it.
#[test]
fn a_superseded_turn_is_withdrawn_or_marked() {
    let story = || {
        Story::new()
            .turn()
            .message()
            .text("Hel")
            .then(Event::taken_over(2))
            .message_done(Completeness::Superseded)
            .then(Event::TurnAbandoned { turn: 1 })
            .then(Event::TurnStarted { turn: 1 })
            .says(&["Hello."])
            .turn_done(Finish::Answered)
            .ended(RunOutcome::Completed)
    };
    let text = "text-start text-delta text-end";
    check_types(
        story(),
        Dialect::V7,
        Span::default(),
        &format!("start start-step {text} reset-step {text} finish-step finish"),
    );
    for dialect in [Dialect::V5, Dialect::V6] {
        check_types(
            story(),
            dialect,
            Span::default(),
            &format!(
                "start start-step {text} data-superseded finish-step start-step {text} \
                 finish-step finish"
            ),
        );
    }
}

/// Failures keep their state; an unknown outcome is said twice.
#[test]
fn failures_are_never_flattened() {
    let check = |outcome: ToolOutcome, expected: Expect| {
        let story = Story::new()
            .turn()
            .calls("call_1", "deploy", "{}")
            .turn_done(Finish::CalledTools)
            .started("call_1")
            .finished("call_1", outcome);
        let shown = chunks(&story.events(), Dialect::V6, Span::default());
        expected.assert_eq(&lines(shown.get(5..).unwrap()));
    };
    check(
        failed("disk is full"),
        expect![[
            r#"{"type":"tool-output-error","toolCallId":"call_1","dynamic":true,"providerExecuted":true,"errorText":"failed: disk is full","toolMetadata":{"kind":"function","state":"failed","code":"tool_failed","duration_ms":42}}"#
        ]],
    );
    check(
        ToolOutcome::TimedOut { after_ms: 5_000 },
        expect![[
            r#"{"type":"tool-output-error","toolCallId":"call_1","dynamic":true,"providerExecuted":true,"errorText":"timed out after 5 s","toolMetadata":{"kind":"function","state":"timed out","duration_ms":42}}"#
        ]],
    );
    check(
        ToolOutcome::OutcomeUnknown { message: "whether it was done is not known".to_owned() },
        expect![[r#"
        {"type":"tool-output-error","toolCallId":"call_1","dynamic":true,"providerExecuted":true,"errorText":"unknown: whether it was done is not known","toolMetadata":{"kind":"function","state":"unknown","code":"outcome_unknown","duration_ms":42}}
        {"type":"data-tool-outcome","id":"call_1","data":{"call_id":"call_1","tool":"deploy","state":"unknown","message":"whether it was done is not known"}}"#]],
    );
}

/// Every end has a `finish`, whatever came before it.
#[test]
fn every_run_ends_with_finish() {
    let check = |outcome, expected: Expect| {
        let story = Story::new().turn().message().text("Hel").ended(outcome);
        let shown = chunks(&story.events(), Dialect::V6, Span::default());
        expected.assert_eq(&lines(shown.get(4..).unwrap()));
    };
    let failure = Failure::new("model_unavailable", "the model does not answer");
    check(
        RunOutcome::Failed { failure },
        expect![[r#"
        {"type":"text-end","id":"msg_1"}
        {"type":"finish-step"}
        {"type":"error","errorText":"the model does not answer","code":"model_unavailable"}
        {"type":"finish","finishReason":"error","messageMetadata":{"outcome":{"status":"failed","failure":{"code":"model_unavailable","message":"the model does not answer"}},"usage":{"input_tokens":2000,"cached_tokens":0,"output_tokens":120,"reasoning_tokens":0}}}"#]],
    );
    check(
        RunOutcome::Cancelled,
        expect![[r#"
        {"type":"text-end","id":"msg_1"}
        {"type":"finish-step"}
        {"type":"abort","reason":"cancelled"}
        {"type":"finish","finishReason":"other","messageMetadata":{"outcome":{"status":"cancelled"},"usage":{"input_tokens":2000,"cached_tokens":0,"output_tokens":120,"reasoning_tokens":0}}}"#]],
    );
}

/// Output that comes early replaces itself, and only its end is sent again and again.
#[test]
fn early_output_is_preliminary_and_bounded() {
    let mut story = Story::new().turn().calls("call_1", "build", "{}").started("call_1");
    for _ in 0..1_000 {
        let (call_id, text) = (call_id("call_1"), "ä line of output\n".to_owned());
        story = story.then(Event::ToolOutputAdded { call_id, text });
    }
    let shown = chunks(&story.events(), Dialect::V6, Span::default());
    let last = shown.last().unwrap().data();
    assert!(last.contains(r#""preliminary":true"#) && last.len() < 5_000, "{}", last.len());
    let UiChunk::ToolOutputAvailable(end) = &shown[5] else { panic!("{:?}", shown[5]) };
    assert_eq!(end.output, Some(Value::String("ä line of output\n".to_owned())));
}

/// A custom tool has text, not JSON; a client's call is not the server's.
#[test]
fn a_client_tool_is_left_to_the_client() {
    let tool = ToolRef { name: "sh".to_owned(), kind: ToolKind::Custom, server: None };
    let story = Story::new()
        .turn()
        .announced_as("call_1", tool)
        .writes("call_1", "ls")
        .written("call_1", "ls")
        .turn_done(Finish::CalledTools)
        .ended(RunOutcome::Completed);
    let text = lines(&chunks(&story.events(), Dialect::V6, Span::default()));
    assert!(!text.contains("providerExecuted"), "{text}");
    assert!(text.contains(r#""input":"ls""#) && text.contains(r#""inputEncoding":"text""#));
    assert!(text.ends_with(r#""cached_tokens":0,"output_tokens":120,"reasoning_tokens":0}}}"#));
    assert!(text.contains(r#""finishReason":"tool-calls""#), "{text}");
}

/// An answer that came with the request belongs to no request of this message.
#[test]
fn an_answer_from_before_is_no_response() {
    let story = Story::new()
        .announced("call_1", "delete")
        .written("call_1", "{}")
        .then(Event::approval_resolved(call_id("call_1"), Decision::Approved))
        .started("call_1")
        .finished("call_1", succeeded("gone"));
    let events = story.events();
    for dialect in Dialect::ALL {
        let shown = chunks(&events, dialect, Span::default());
        let expected = "start start-step tool-input-start tool-input-available data-approval \
                        tool-output-available";
        assert_eq!(types(&shown), expected);
    }
}

/// A citation is a source part, and the text that has it says so at its end; one without an address
/// is left out.
#[test]
fn citations_are_sources() {
    let cite = |kind: &str, source| Event::AnnotationAdded {
        item_id: ItemId::from("msg_1"),
        annotation: turnwire_contract::Annotation { kind: kind.to_owned(), source },
    };
    let page = serde_json::json!({
        "url": "https://example.com", "title": "One", "start_index": 2, "end_index": 5
    });
    let file = serde_json::json!({ "file_id": "file-1", "filename": "a.pdf", "index": 3 });
    let story = Story::new()
        .turn()
        .message()
        .then(cite("url_citation", page))
        .then(cite("file_citation", file))
        .then(cite("other", Value::Null))
        .message_done(Completeness::Complete);
    let shown = chunks(&story.events(), Dialect::V6, Span::default());
    let expected = expect![[r#"
        {"type":"source-url","sourceId":"source_1","url":"https://example.com","title":"One"}
        {"type":"source-document","sourceId":"source_2","mediaType":"application/octet-stream","title":"a.pdf","filename":"a.pdf"}
        {"type":"text-end","id":"msg_1","citations":[{"source":{"sourceType":"url","type":"source","id":"source_1","url":"https://example.com","title":"One"},"startIndex":2,"endIndex":5},{"source":{"sourceType":"document","type":"source","id":"source_2","mediaType":"application/octet-stream","title":"a.pdf","filename":"a.pdf"}}]}"#]];
    expected.assert_eq(&lines(shown.get(3..).unwrap()));
}

/// A name leads back to its stream.
#[test]
fn stream_names_are_read_as_they_are_written() {
    for dialect in Dialect::ALL {
        for span in [Span::default(), Span::only(2), Span { first: 1, last: 3 }] {
            let name = StreamName { run_id: RunId::from("run_a.b"), dialect, span };
            assert_eq!(StreamName::read(&name.to_string(), Dialect::V6), name);
        }
    }
    assert_eq!(
        StreamName::read("run_1", Dialect::V7),
        StreamName { run_id: RunId::from("run_1"), dialect: Dialect::V7, span: Span::default() }
    );
    for odd in ["run_1.8.0-0", "run_1.6.2-1", "run_1.6.x-1", "run_1.6", ""] {
        assert_eq!(StreamName::read(odd, Dialect::V6).run_id, RunId::from(odd));
    }
}

/// What a client of any version checks: starts before deltas and ends, inputs before outputs, one
/// `finish` at the end, no `null`.
#[track_caller]
fn check_promises(shown: &[UiChunk]) {
    let mut open = std::collections::HashSet::new();
    let mut calls = std::collections::HashSet::new();
    for (place, chunk) in shown.iter().enumerate() {
        let text = chunk.data();
        let value: Value = serde_json::from_str(&text).unwrap();
        let top = value.as_object().unwrap();
        assert!(top.values().all(|field| !field.is_null()), "{text}");
        let kind = top["type"].as_str().unwrap();
        let id = top.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
        match kind {
            "text-start" | "reasoning-start" => assert!(open.insert(id), "{text}"),
            "text-delta" | "reasoning-delta" => assert!(open.contains(&id), "{text}"),
            "text-end" | "reasoning-end" => assert!(open.remove(&id), "{text}"),
            "tool-input-start" => assert!(calls.insert(top["toolCallId"].to_string()), "{text}"),
            _ if top.contains_key("toolCallId") => {
                assert!(calls.contains(&top["toolCallId"].to_string()), "{text}");
            }
            _ => {}
        }
        assert_eq!(kind == "start", place == 0, "{text}");
        assert_eq!(chunk.is_last(), place + 1 == shown.len(), "{text}");
        assert!(!kind.starts_with("finish") || open.is_empty(), "{text}");
    }
}

proptest! {
    /// Random runs keep what the clients check, in every dialect; and a stream that is cut anywhere
    /// and resumed is the whole stream.
    #[test]
    fn every_stream_is_what_clients_accept(turns in turns()) {
        let events = tell(&turns).events();
        for dialect in Dialect::ALL {
            let mut projection = AiSdk::new(dialect, Span::default());
            for recorded in &events {
                projection.project(recorded);
            }
            let whole = chunks(&events, dialect, Span::up_to(projection.segment()));
            check_promises(&whole);
        }
    }
}

/// The segments, one after another, are the whole run but for the inner starts and finishes.
#[test]
fn segments_add_up_to_the_whole() {
    let events = asks_twice().events();
    let parts = (0..3).flat_map(|segment| chunks(&events, Dialect::V6, Span::only(segment)));
    let (first, last) = (
        UiChunk::Start {
            message_id: "run_1".to_owned(),
            message_metadata: chunk::StartMetadata {
                run_id: RunId::from("run_1"),
                conversation_id: None,
                model: Some("test".to_owned()),
            },
        },
        chunks(&events, Dialect::V6, Span::only(2)).pop().unwrap(),
    );
    let inner = parts.filter(|chunk| *chunk != first && (!chunk.is_last() || *chunk == last));
    let added: Vec<UiChunk> = std::iter::once(first.clone()).chain(inner).collect();
    assert_eq!(added, chunks(&events, Dialect::V6, Span::up_to(2)));
}
