use expect_test::{Expect, expect};
use turnwire_contract::{Finish, RunOutcome, ToolKind, ToolRef};

use super::*;
use crate::story::{Story, failed, succeeded};

const NEITHER: ToolCallbacks = ToolCallbacks { start: false, end: false };
const START: ToolCallbacks = ToolCallbacks { start: true, end: false };
const END: ToolCallbacks = ToolCallbacks { start: false, end: true };
const BOTH: ToolCallbacks = ToolCallbacks { start: true, end: true };

/// One line per callback.
#[track_caller]
fn check(told: ToolCallbacks, story: Story, expected: Expect) {
    let frames = story.seen_by(&mut Callbacks::new(told));
    let lines: Vec<String> = frames
        .iter()
        .map(|frame| match frame {
            CallbackFrame::Token(text) => format!("token {text:?}"),
            CallbackFrame::ToolStart { name } => format!("start {name}"),
            CallbackFrame::ToolEnd { name, summary } => format!("end {name} {summary:?}"),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

fn one_tool() -> Story {
    Story::new()
        .turn()
        .says(&["Let me ", "see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is ", "20."])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed)
}

fn result_of(told: ToolCallbacks, outcome: ToolOutcome) -> Vec<CallbackFrame> {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    story.finished("call_1", outcome).last_seen_by(&mut Callbacks::new(told))
}

/// S0-9: text only.
#[test]
fn text_alone_is_only_tokens() {
    let story = || Story::new().turn().says(&["Hel", "lo"]).ended(RunOutcome::Completed);
    for told in [NEITHER, START, END, BOTH] {
        check(
            told,
            story(),
            expect![[r#"
            token "Hel"
            token "lo""#]],
        );
    }
}

/// S0-3 and S0-9: one tool, byte for byte.
#[test]
fn without_callbacks_a_tool_is_bracketed_text() {
    check(
        NEITHER,
        one_tool(),
        expect![[r#"
        token "Let me "
        token "see."
        token "\n"
        token "[Executing tool: multiply]\n"
        token "[Tool result: 20]\n"
        token "\n"
        token "It is "
        token "20.""#]],
    );
}

/// S0-4 and S0-10: every delta arrives, and nothing else.
#[test]
fn with_both_callbacks_no_token_is_about_tools() {
    check(
        BOTH,
        one_tool(),
        expect![[r#"
        token "Let me "
        token "see."
        start multiply
        end multiply "20"
        token "It is "
        token "20.""#]],
    );
}

/// S0-5a.
#[test]
fn only_the_start_is_given() {
    check(
        START,
        one_tool(),
        expect![[r#"
        token "Let me "
        token "see."
        token "\n"
        start multiply
        token "[Tool result: 20]\n"
        token "\n"
        token "It is "
        token "20.""#]],
    );
}

/// S0-5b.
#[test]
fn only_the_end_is_given() {
    check(
        END,
        one_tool(),
        expect![[r#"
        token "Let me "
        token "see."
        token "\n"
        token "[Executing tool: multiply]\n"
        end multiply "20"
        token "\n"
        token "It is "
        token "20.""#]],
    );
}

/// S0-9: two tools in one turn, one after the other and side by side.
#[test]
fn the_line_breaks_are_around_all_tools_of_a_turn() {
    let two = || {
        let story = Story::new().turn().calls("call_1", "a", "{}").calls("call_2", "b", "{}");
        story.turn_done(Finish::CalledTools)
    };
    let one_by_one = two().started("call_1").finished("call_1", succeeded("1"));
    let one_by_one = one_by_one.started("call_2").finished("call_2", succeeded("2"));
    check(
        NEITHER,
        one_by_one,
        expect![[r#"
        token "\n"
        token "[Executing tool: a]\n"
        token "[Tool result: 1]\n"
        token "[Executing tool: b]\n"
        token "[Tool result: 2]\n"
        token "\n""#]],
    );
    let at_once = two().started("call_1").started("call_2");
    let at_once = at_once.finished("call_2", succeeded("2")).finished("call_1", succeeded("1"));
    check(
        NEITHER,
        at_once,
        expect![[r#"
        token "\n"
        token "[Executing tool: a]\n"
        token "[Executing tool: b]\n"
        token "[Tool result: 2]\n"
        token "[Tool result: 1]\n"
        token "\n""#]],
    );
}

/// S0-9.
#[test]
fn each_turn_has_its_own_line_breaks() {
    let turn = |story: Story, call: &str| {
        let story = story.turn().calls(call, "a", "{}").turn_done(Finish::CalledTools);
        story.started(call).finished(call, succeeded("1"))
    };
    let story = turn(turn(Story::new(), "call_1"), "call_2").ended(RunOutcome::Completed);
    check(
        NEITHER,
        story,
        expect![[r#"
        token "\n"
        token "[Executing tool: a]\n"
        token "[Tool result: 1]\n"
        token "\n"
        token "\n"
        token "[Executing tool: a]\n"
        token "[Tool result: 1]\n"
        token "\n""#]],
    );
}

/// S0-9.
#[test]
fn a_result_has_100_characters() {
    let token = |told, outcome| match result_of(told, outcome).first() {
        Some(CallbackFrame::Token(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    let hundred = "é".repeat(100);
    assert_eq!(token(NEITHER, succeeded(&hundred)), format!("[Tool result: {hundred}]\n"));
    let cut = format!("[Tool result: {hundred}...]\n");
    assert_eq!(token(NEITHER, succeeded(&format!("{hundred}é"))), cut);
    assert_eq!(token(NEITHER, succeeded("a\n b")), "[Tool result: a\n b]\n");
    assert_eq!(token(START, failed("no disk")), "[Tool result: Error: no disk]\n");
}

/// S0-2 with R16: the summary is on one line.
#[test]
fn the_summary_is_not_the_whole_result() {
    let ended = result_of(BOTH, succeeded(&format!("a\n{}", "b".repeat(5_000))));
    let summary = format!("a {}...", "b".repeat(98));
    assert_eq!(ended, [CallbackFrame::ToolEnd { name: "x".to_owned(), summary }]);
}

/// S0-12: a tool that never started still has a start and an end.
#[test]
fn every_end_has_a_start() {
    let unknown = || {
        let outcome = ToolOutcome::NotFound { message: "there is no tool `x`".to_owned() };
        Story::new().turn().calls("call_1", "x", "{}").finished("call_1", outcome)
    };
    check(
        NEITHER,
        unknown(),
        expect![[r#"
        token "\n"
        token "[Executing tool: x]\n"
        token "[Tool result: Error: there is no tool `x`]\n"
        token "\n""#]],
    );
    check(
        BOTH,
        unknown(),
        expect![[r#"
        start x
        end x "Error: there is no tool `x`""#]],
    );
}

/// S0-1.
#[test]
fn a_tool_that_is_tried_again_starts_once() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let story = story.started_with("call_1", 2, "").finished("call_1", succeeded("1"));
    check(
        BOTH,
        story.finished("call_1", succeeded("2")),
        expect![[r#"
        start x
        end x "1""#]],
    );
}

#[test]
fn a_call_nobody_announced_has_no_name_and_no_frames() {
    let story = Story::new().turn().started("call_1").finished("call_1", succeeded("1"));
    check(NEITHER, story, expect![""]);
}

#[test]
fn a_call_for_the_client_does_not_keep_the_tools_open() {
    let client = ToolRef { name: "ask".to_owned(), kind: ToolKind::Client, server: None };
    let story = Story::new().turn().announced_as("call_1", client).calls("call_2", "x", "{}");
    let story = story.started("call_2").finished("call_2", succeeded("1"));
    check(
        NEITHER,
        story.ended(RunOutcome::Completed),
        expect![[r#"
        token "\n"
        token "[Executing tool: x]\n"
        token "[Tool result: 1]\n"
        token "\n""#]],
    );
}

#[test]
fn the_end_of_the_run_ends_the_tools() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    check(
        NEITHER,
        story.ended(RunOutcome::Cancelled),
        expect![[r#"
        token "\n"
        token "[Executing tool: x]\n"
        token "\n""#]],
    );
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    check(
        NEITHER,
        story.turn(),
        expect![[r#"
        token "\n"
        token "[Executing tool: x]\n"
        token "\n""#]],
    );
}

#[test]
fn a_refusal_is_shown() {
    check(BOTH, Story::new().turn().message().refusal("No."), expect![[r#"token "No.""#]]);
}

/// S4-5: a delta that contains only a color sequence is not a token.
#[test]
fn tokens_are_clean() {
    let story = Story::new().turn().message().text("a\u{1b}[3").text("1m").text("red\0");
    check(
        BOTH,
        story,
        expect![[r#"
        token "a"
        token "red""#]],
    );
    let story = Story::new().turn().message().text("\u{1b}]0;").message().text("shown");
    check(BOTH, story, expect![[r#"token "shown""#]]);
}
