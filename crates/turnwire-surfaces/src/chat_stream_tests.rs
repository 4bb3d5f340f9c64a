use expect_test::{Expect, expect};
use proptest::prelude::*;
use turnwire_contract::{Completeness, Failure, Finish, IncompleteReason, RunOutcome, RunRequest};

use super::*;
use crate::{
    WithCursors,
    cursor::Cursor,
    story::{Story, failed, request, succeeded},
    tests::{tell, turns},
};

const EVERYTHING: ChatStreamOptions =
    ChatStreamOptions { tokens: true, approvals: true, inputs: true };

fn session() -> ConversationId {
    ConversationId::new("conv_1")
}

fn in_session() -> Story {
    Story::of(RunRequest { conversation_id: Some(session()), ..request() })
}

fn multiplies() -> Story {
    in_session()
        .turn()
        .says(&["Let me see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .then(Event::approval_requested(CallId::from("call_1")))
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is ", "20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed)
}

/// A frame as a server-sent event, with its cursor.
fn sse_text(placed: &crate::FrameAt<ChatStreamFrame>) -> String {
    format!("id: {}\ndata: {}\n\n", placed.cursor, placed.frame.data())
}

#[track_caller]
fn check(story: Story, options: ChatStreamOptions, expected: Expect) {
    let frames = story.seen_by(&mut WithCursors::new(ChatStream::new(options)));
    let stream: String = frames.iter().map(sse_text).collect();
    expected.assert_eq(stream.trim_end());
}

/// S3-3, S3-4, S3-5, S3-7, S3-8, S3-17, R11.
#[test]
fn five_frames_and_no_tokens_unless_asked() {
    check(
        multiplies(),
        ChatStreamOptions::default(),
        expect![[r#"
            id: 12.0
            data: {"type":"tool_call","tool":"multiply","args":{"a":5,"b":4},"call_id":"call_1"}

            id: 13.0
            data: {"type":"tool_result","tool":"multiply","success":true,"call_id":"call_1","summary":"20","duration_ms":42}

            id: 20.0
            data: {"type":"response","content":"It is 20."}

            id: 20.1
            data: {"type":"done","session_id":"conv_1"}"#]],
    );
}

/// S3-17, R11.
#[test]
fn tokens_and_approvals_come_when_asked_for() {
    check(
        multiplies(),
        EVERYTHING,
        expect![[r#"
            id: 5.0
            data: {"type":"token","content":"Let me see."}

            id: 11.0
            data: {"type":"approval_request","tool":"multiply","args":{"a":5,"b":4},"call_id":"call_1"}

            id: 12.0
            data: {"type":"tool_call","tool":"multiply","args":{"a":5,"b":4},"call_id":"call_1"}

            id: 13.0
            data: {"type":"tool_result","tool":"multiply","success":true,"call_id":"call_1","summary":"20","duration_ms":42}

            id: 16.0
            data: {"type":"token","content":"It is "}

            id: 17.0
            data: {"type":"token","content":"20."}

            id: 20.0
            data: {"type":"response","content":"It is 20."}

            id: 20.1
            data: {"type":"done","session_id":"conv_1"}"#]],
    );
}

/// S3-4, R16.
#[test]
fn a_failing_tool_says_so_in_a_summary() {
    let story = Story::new().turn().calls("call_1", "x", "").started("call_1");
    let long = format!("no\n{}", "é".repeat(200));
    let frames = story.finished("call_1", failed(&long)).seen_by(&mut ChatStream::default());
    let [_, ChatStreamFrame::ToolResult { success, summary, .. }] = frames.as_slice() else {
        panic!("{frames:?}");
    };
    assert_eq!((*success, summary.as_str()), (false, &*format!("Error: no {}...", "é".repeat(90))));
}

/// S3-6, S3-7, S3-13.
#[test]
fn a_failed_turn_is_an_error_and_then_done() {
    let failure = Failure::new("model_unavailable", "the model is not \u{1b}[1mavailable");
    let story = in_session().turn().says(&["Half"]).ended(RunOutcome::Failed { failure });
    check(
        story,
        ChatStreamOptions::default(),
        expect![[r#"
        id: 7.0
        data: {"type":"error","error":"the model is not available"}

        id: 7.1
        data: {"type":"done","session_id":"conv_1"}"#]],
    );
}

/// S3-8.
#[test]
fn a_frame_is_one_line_for_every_reader() {
    let hostile = "a\u{85}b\u{2028}c\nd\r\u{c}e\u{1b}[1m";
    let story = in_session().turn().says(&[hostile]).calls("call_1", hostile, "{\u{85}");
    let story = story.finished("call_1", failed(hostile)).ended(RunOutcome::Completed);
    for placed in story.seen_by(&mut WithCursors::new(ChatStream::new(EVERYTHING))) {
        let text = sse_text(&placed);
        let lines: Vec<&str> =
            text.split(|c: char| c.is_control() || "\u{2028}\u{2029}".contains(c)).collect();
        let [id, data, "", ""] = lines.as_slice() else { panic!("{text:?}") };
        assert_eq!(id.strip_prefix("id: ").unwrap().parse(), Ok(placed.cursor));
        let json = data.strip_prefix("data: ").unwrap();
        assert!(serde_json::from_str::<Value>(json).unwrap().is_object());
    }
}

#[test]
fn an_escape_that_is_never_closed_ends_with_its_message() {
    let story = Story::new().turn().says(&["a\u{1b}]0;title"]).says(&["b"]);
    let token = |content: &str| ChatStreamFrame::Token { content: content.to_owned() };
    assert_eq!(story.seen_by(&mut ChatStream::new(EVERYTHING)), [token("a"), token("b")]);
}

#[test]
fn a_call_that_is_over_is_not_asked_about() {
    let asked = || Event::approval_requested(CallId::from("call_1"));
    let story = Story::new().turn().calls("call_1", "x", "").finished("call_1", failed("no"));
    assert_eq!(story.then(asked()).last_seen_by(&mut ChatStream::new(EVERYTHING)), []);
    let unknown = Story::new().then(asked());
    assert_eq!(unknown.last_seen_by(&mut ChatStream::new(EVERYTHING)), []);
}

/// S3-10: `/chat` has the same text as the `response` of the stream.
#[test]
fn the_plain_answer_is_the_response_of_the_stream() {
    let answer = Answer::of(&multiplies().events());
    let answer = ChatAnswer::of(&answer, session()).unwrap();
    let written = serde_json::to_string(&answer).unwrap();
    assert_eq!(written, r#"{"response":"It is 20.","session_id":"conv_1"}"#);

    let reason = IncompleteReason::MaxOutputTokens;
    let cut = in_session().turn().message().text("Half").message_done(Completeness::Cut);
    let cut = Answer::of(&cut.ended(RunOutcome::Incomplete { reason }).events());
    assert_eq!(ChatAnswer::of(&cut, session()).unwrap().response, "Half");

    let failure = Failure::new("model_unavailable", "not \0available");
    for (outcome, error) in
        [(RunOutcome::Failed { failure }, "not available"), (RunOutcome::Cancelled, "cancelled")]
    {
        let answer = Answer::of(&in_session().turn().says(&["Half"]).ended(outcome).events());
        assert_eq!(ChatAnswer::of(&answer, session()), Err(error.to_owned()));
    }
}

proptest! {
    /// R11, C11: `Last-Event-ID` returns exactly the remaining frames, also with other options.
    #[test]
    fn who_comes_back_gets_exactly_what_is_missing(turns in turns(), at in any::<prop::sample::Index>()) {
        let whole = tell(&turns).seen_by(&mut WithCursors::new(ChatStream::new(EVERYTHING)));
        let seen: Cursor = whole[at.index(whole.len())].cursor.to_string().parse().unwrap();
        let rest: Vec<_> = whole.iter().filter(|placed| placed.cursor.is_after(seen)).collect();
        prop_assert_eq!(rest, whole.iter().skip(at.index(whole.len()) + 1).collect::<Vec<_>>());

        let plain = tell(&turns).seen_by(&mut WithCursors::new(ChatStream::default()));
        prop_assert!(plain.iter().all(|placed| whole.contains(placed)));
    }

    /// S3-5, S3-7, S3-17: one `response` or `error`, then `done`, and no frames that were not
    /// enabled.
    #[test]
    fn a_stream_has_one_last_word_and_ends_with_done(turns in turns()) {
        let frames = tell(&turns).seen_by(&mut ChatStream::default());
        let types: Vec<&'static str> = frames.iter().map(|frame| match frame {
            ChatStreamFrame::ToolCall { .. } | ChatStreamFrame::ToolResult { .. } => "tool",
            ChatStreamFrame::Response { .. } | ChatStreamFrame::Error { .. } => "last word",
            ChatStreamFrame::Done { .. } => "done",
            ChatStreamFrame::Token { .. }
            | ChatStreamFrame::ApprovalRequest { .. }
            | ChatStreamFrame::InputRequest { .. } => "unasked",
        }).collect();
        prop_assert!(types.ends_with(&["last word", "done"]));
        prop_assert!(types.iter().rev().skip(2).all(|word| *word == "tool"));

        let mut tokens = String::new();
        for frame in tell(&turns).seen_by(&mut ChatStream::new(EVERYTHING)) {
            if let ChatStreamFrame::Token { content } = frame {
                tokens.push_str(&content);
            }
        }
        let said: String = turns.iter().map(|turn| turn.text.replace('\0', "")).collect();
        prop_assert_eq!(tokens, said);
    }
}
