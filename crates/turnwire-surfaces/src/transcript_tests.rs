use expect_test::{Expect, expect};
use turnwire_contract::{
    CallId, Decision, Failure, Finish, LeftOut, ToolKind, ToolOutput, ToolRef, WhyLeftOut,
};

use super::*;
use crate::story::{Story, failed, succeeded};

/// The answer quoted, the rest as plain lines.
#[track_caller]
fn check(story: Story, expected: Expect) {
    let frames = story.seen_by(&mut Transcript::new());
    let lines: Vec<String> = frames
        .iter()
        .map(|frame| {
            let TranscriptFrame::Text(text) = frame else {
                return frame.plain_line().unwrap_or_else(|| format!("{frame:?}"));
            };
            format!("{text:?}")
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

fn call_id() -> CallId {
    CallId::from("call_1")
}

fn deploying() -> Story {
    let server = Some("ci".to_owned());
    let tool = ToolRef { name: "deploy".to_owned(), kind: ToolKind::Mcp, server };
    Story::new().turn().announced_as("call_1", tool).written("call_1", r#"{"ref":"v0.4"}"#)
}

#[test]
fn a_run_with_a_tool_reads_well() {
    let story = Story::new()
        .turn()
        .says(&["Let me ", "see."])
        .calls("call_1", "multiply", r#"{"a":5,"b":4}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .finished("call_1", succeeded("20"))
        .turn()
        .says(&["It is 20.\n"])
        .turn_done(Finish::Answered)
        .ended(RunOutcome::Completed);
    check(
        story,
        expect![[r#"
        "Let me "
        "see."
        ToolNoted { call_id: call_1, title: "multiply", label: "", note: "preparing" }
        • multiply a=5 b=4  running
        ✓ multiply a=5 b=4  20  0.0s
        "\n"
        "It is 20.\n"
        done · 1.7s · 1 tool · 2.1k tokens"#]],
    );
}

#[test]
fn i10_every_tool_frame_repeats_the_facts() {
    let began = deploying().started("call_1").last_seen_by(&mut Transcript::new());
    let (title, label) = ("ci.deploy".to_owned(), "ref=v0.4".to_owned());
    let (title_again, label_again) = (title.clone(), label.clone());
    assert_eq!(began, [TranscriptFrame::ToolBegan { call_id: call_id(), title, label }]);
    let ended = deploying().started("call_1").finished_after("call_1", failed("no"), 5_830);
    assert_eq!(
        ended.last_seen_by(&mut Transcript::new()),
        [TranscriptFrame::ToolEnded {
            call_id: call_id(),
            title: title_again,
            label: label_again,
            mark: Mark::Failed,
            detail: "failed: no".to_owned(),
            duration_ms: Some(5_830),
        }]
    );
}

#[test]
fn a_tool_at_work_is_heard_of() {
    let progressed = |progress, message: &str| Event::ToolProgressed {
        call_id: call_id(),
        progress,
        total: Some(5.0),
        message: Some(message.to_owned()),
    };
    let story = deploying()
        .then(Event::approval_requested(call_id()))
        .then(Event::approval_resolved(call_id(), Decision::Approved))
        .started("call_1")
        .then(Event::ToolPhase { call_id: call_id(), phase: "building".to_owned() })
        .then(progressed(3.0, "unit tests"))
        .then(Event::ToolOutputAdded { call_id: call_id(), text: "ok 1\nok 2\n".to_owned() })
        .wait_ms(14_900)
        .then(Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 20_000 })
        .then(Event::ToolRetried {
            call_id: call_id(),
            attempt: 2,
            reason: Failure::new("away", "connection lost"),
        })
        .started_with("call_1", 3, "")
        .finished_after("call_1", failed("unit tests: 2 failed (exit 1)"), 5_800)
        .then(progressed(4.0, "too late"))
        .started_with("call_1", 4, "");
    check(
        story,
        expect![[r#"
        ToolNoted { call_id: call_1, title: "ci.deploy", label: "", note: "preparing" }
        ⏸ ci.deploy ref=v0.4  needs approval
        • ci.deploy ref=v0.4  approved
        • ci.deploy ref=v0.4  running
        • ci.deploy ref=v0.4  building
        • ci.deploy ref=v0.4  3/5 unit tests
        • ci.deploy ref=v0.4  ok 2
        • ci.deploy ref=v0.4  no update for 15s
        • ci.deploy ref=v0.4  trying again (attempt 2): connection lost
        • ci.deploy ref=v0.4  started again (attempt 3)
        ✗ ci.deploy ref=v0.4  failed: unit tests: 2 failed (exit 1)  5.8s"#]],
    );
}

#[track_caller]
fn check_ended(outcome: ToolOutcome, mark: Mark, line: &str, n_failed: u32) {
    let mut transcript = Transcript::new();
    let frames =
        deploying().started("call_1").finished("call_1", outcome).last_seen_by(&mut transcript);
    assert!(
        matches!(frames.as_slice(), [TranscriptFrame::ToolEnded { mark: seen, .. }] if *seen == mark)
    );
    assert_eq!(frames[0].plain_line().as_deref(), Some(line));
    assert_eq!((transcript.totals.n_tools, transcript.totals.n_failed), (1, n_failed));
}

#[test]
fn the_four_endings_look_different() {
    let text = |text: &str| text.to_owned();
    let output = ToolOutput { short: Some(text("live")), ..ToolOutput::text("long") };
    check_ended(
        ToolOutcome::Succeeded { output },
        Mark::Done,
        "✓ ci.deploy ref=v0.4  live  0.0s",
        0,
    );
    check_ended(failed("no"), Mark::Failed, "✗ ci.deploy ref=v0.4  failed: no  0.0s", 1);
    check_ended(
        ToolOutcome::TimedOut { after_ms: 5_000 },
        Mark::Failed,
        "✗ ci.deploy ref=v0.4  timed out after 5 s  0.0s",
        1,
    );
    let denied = ToolOutcome::Denied { reason: text("no") };
    check_ended(denied, Mark::Failed, "✗ ci.deploy ref=v0.4  denied: no  0.0s", 1);
    let invalid = ToolOutcome::InvalidArguments { message: text("x") };
    let line = "✗ ci.deploy ref=v0.4  failed: invalid arguments: x  0.0s";
    check_ended(invalid, Mark::Failed, line, 1);
    let missing = ToolOutcome::NotFound { message: text("no such tool") };
    check_ended(missing, Mark::Failed, "✗ ci.deploy ref=v0.4  failed: no such tool  0.0s", 1);
    check_ended(ToolOutcome::Cancelled, Mark::Stopped, "■ ci.deploy ref=v0.4  stopped  0.0s", 0);
    let skipped = ToolOutcome::Skipped { reason: text("limit") };
    check_ended(skipped, Mark::Stopped, "■ ci.deploy ref=v0.4  stopped: limit  0.0s", 0);
    let unknown = ToolOutcome::OutcomeUnknown { message: text("") };
    check_ended(unknown, Mark::Unknown, "⚠ ci.deploy ref=v0.4  outcome unknown  0.0s", 1);
}

#[test]
fn a_tool_that_never_began_begins_and_took_no_time() {
    let story = Story::new().turn().calls("call_1", "x", "{}");
    check(
        story.finished("call_1", ToolOutcome::Cancelled).finished("call_1", succeeded("1")),
        expect![[r#"
        ToolNoted { call_id: call_1, title: "x", label: "", note: "preparing" }
        • x  running
        ■ x  stopped"#]],
    );
}

#[test]
fn a_call_nobody_announced_is_not_shown() {
    let story = Story::new().turn().started("call_1").finished("call_1", succeeded("1"));
    check(story, expect![""]);
}

#[test]
fn what_a_person_would_want_to_know_is_said() {
    let reason = Failure::new("model_unavailable", "model not available");
    let failure = Failure::new("mcp", "connection refused");
    let listed = DiscoveryOutcome::Listed { tools: Vec::new() };
    let mut left_out = LeftOut::default();
    left_out.add("huge\u{202e}", &WhyLeftOut::TooLarge);
    let story = Story::new()
        .then(Event::ToolsDiscovered {
            item_id: "mcpl_0".into(),
            server: "wiki".to_owned(),
            outcome: listed.clone(),
            left_out,
        })
        .then(Event::ToolsDiscovered {
            item_id: "mcpl_1".into(),
            server: "docs".to_owned(),
            outcome: listed,
            left_out: LeftOut::default(),
        })
        .then(Event::ToolsDiscovered {
            item_id: "mcpl_2".into(),
            server: "git\u{1b}[31m".to_owned(),
            outcome: DiscoveryOutcome::Failed { failure },
            left_out: LeftOut::default(),
        })
        .turn()
        .then(Event::TurnRetried { turn: 1, attempt: 2, reason, delay_ms: 1_000 })
        .then(Event::taken_over(2))
        .then(Event::TurnAbandoned { turn: 1 });
    check(
        story,
        expect![[r"
        ◌ tools of wiki not offered: huge\u{202e} (its name, title, description and schema have more than 64 KiB)
        ◌ no tools from git: connection refused
        ◌ model not available, asking again in 1s (attempt 2)
        ◌ another worker goes on with the run (attempt 2)
        ◌ the answer was cut off, what it said so far is superseded"]],
    );
}

#[test]
fn another_turn_begins_on_a_line_of_its_own() {
    let story =
        Story::new().turn().says(&["one\n", "two"]).turn().says(&["\0"]).says(&["three", "\n"]);
    check(
        story.turn().message().refusal("four"),
        expect![[r#"
        "one\n"
        "two"
        "\n"
        "three"
        "\n"
        "four""#]],
    );
}

/// S4-5.
#[test]
fn text_is_clean() {
    let story = Story::new().turn().message().text("\u{1b}]0;x").message().text("a\u{1b}[31mb");
    check(story, expect![[r#""ab""#]]);
}

#[test]
fn the_end_adds_up() {
    let story =
        Story::new().wait_ms(13_000).turn().calls("call_1", "a", "{}").calls("call_2", "b", "{}");
    let story = story.started("call_1").finished("call_1", failed("no"));
    let story = story.finished("call_2", succeeded("1")).ended(RunOutcome::Cancelled);
    let outcome = RunOutcome::Cancelled;
    let totals = Totals { elapsed_ms: 14_100, n_tools: 2, n_failed: 1, n_tokens: 2_120 };
    let ended = story.last_seen_by(&mut Transcript::new());
    let words = "stopped".to_owned();
    assert_eq!(ended, [TranscriptFrame::Ended { outcome, words, totals }]);
    let line = ended[0].plain_line();
    assert_eq!(line.as_deref(), Some("stopped · 14.1s · 2 tools, 1 failed · 2.1k tokens"));
    assert_eq!(Totals::default().words(), "0.0s · 0 tokens");
}

#[test]
fn text_has_no_plain_line() {
    assert_eq!(TranscriptFrame::Text("answer".to_owned()).plain_line(), None);
}
