use turnwire_contract::{CallId, IncompleteReason, ItemId, ToolKind, ToolOutput, ToolRef};

use super::*;
use crate::{
    calls::CallBook,
    story::{Story, failed, succeeded},
};

fn call_id() -> CallId {
    CallId::from("call_1")
}

/// The note of `event` on a call that was started a tenth of a second before.
#[track_caller]
fn check_note(event: Event, expected: Option<&str>) {
    let events = Story::new().turn().calls("call_1", "deploy", "{}").started("call_1").then(event);
    let events = events.events();
    let mut book = CallBook::new();
    for recorded in &events {
        book.note(recorded);
    }
    let last = events.last().unwrap();
    let note = tool_note(book.get(&call_id()).unwrap(), &last.event, last.at);
    assert_eq!(note.as_deref(), expected);
}

fn progressed(progress: f64, total: Option<f64>, message: Option<&str>) -> Event {
    let message = message.map(str::to_owned);
    Event::ToolProgressed { call_id: call_id(), progress, total, message }
}

#[test]
fn progress_is_counted_where_a_person_would_count() {
    check_note(progressed(3.0, Some(5.0), Some("unit tests")), Some("3/5 unit tests"));
    check_note(progressed(3.0, Some(5.0), None), Some("3/5"));
    check_note(progressed(3.0, Some(5.0), Some("")), Some("3/5"));
    check_note(progressed(0.0, Some(999.0), None), Some("0/999"));
    check_note(progressed(250.0, Some(1_000.0), None), Some("25%"));
    check_note(progressed(0.5, Some(2.0), Some("half")), Some("25% half"));
    check_note(progressed(3.0, Some(0.5), None), Some("600%"));
    check_note(progressed(3.5, Some(0.0), None), Some("3.5"));
    check_note(progressed(7.0, None, Some("files")), Some("7 files"));
}

#[test]
fn a_tool_at_work_says_what_it_does() {
    let call_id = call_id();
    let tool = ToolRef { name: "x".to_owned(), kind: ToolKind::Function, server: None };
    let (id, item_id) = (call_id.clone(), ItemId::new("fc_1"));
    check_note(Event::CallAnnounced { call_id: id.clone(), item_id, tool }, Some("preparing"));
    check_note(Event::approval_requested(id.clone()), Some("needs approval"));
    let resolved = |decision| Event::approval_resolved(call_id.clone(), decision);
    check_note(resolved(Decision::Approved), Some("approved"));
    check_note(resolved(Decision::Denied { reason: String::new() }), Some("denied"));
    let started = |attempt| {
        let label = String::new();
        Event::ToolStarted { call_id: call_id.clone(), attempt, label }
    };
    check_note(started(1), Some("running"));
    check_note(started(2), Some("started again (attempt 2)"));
    let phase = "searching\n\u{1b}[31mhard".to_owned();
    check_note(Event::ToolPhase { call_id: id.clone(), phase }, Some("searching hard"));
    let text = "line 1\nline 2\n \n".to_owned();
    check_note(Event::ToolOutputAdded { call_id: id.clone(), text }, Some("line 2"));
    let text = " \n".to_owned();
    check_note(Event::ToolOutputAdded { call_id: id.clone(), text }, None);
    let reason = Failure::new("away", "connection lost");
    check_note(
        Event::ToolRetried { call_id: id, attempt: 2, reason },
        Some("trying again (attempt 2): connection lost"),
    );
    check_note(Event::RunStarted, None);
}

#[test]
fn a_note_has_at_most_100_characters() {
    let phase = |n_chars| Event::ToolPhase { call_id: call_id(), phase: "é".repeat(n_chars) };
    check_note(phase(100), Some(&"é".repeat(100)));
    check_note(phase(101), Some(&format!("{}…", "é".repeat(99))));
}

#[test]
fn silence_is_counted_from_the_last_word_of_the_tool() {
    let silent = |elapsed_ms| Event::ToolStayedSilent { call_id: call_id(), elapsed_ms };
    check_note(silent(15_000), Some("no update for 15s"));

    let mut book = CallBook::new();
    let events = Story::new()
        .turn()
        .calls("call_1", "deploy", "{}")
        .started("call_1")
        .wait_ms(9_900)
        .then(progressed(1.0, None, None))
        .wait_ms(4_900)
        .then(silent(15_000))
        .events();
    for recorded in &events {
        book.note(recorded);
    }
    let last = events.last().unwrap();
    let note = tool_note(book.get(&call_id()).unwrap(), &last.event, last.at);
    assert_eq!(note.as_deref(), Some("no update for 5s"));
}

#[track_caller]
fn check_call_outcome(outcome: ToolOutcome, expected: &str) {
    assert_eq!(call_outcome(&outcome), expected);
}

#[test]
fn every_ending_has_its_word() {
    let text = |text: &str| text.to_owned();
    check_call_outcome(succeeded("20"), "20");
    check_call_outcome(succeeded(""), "(no output)");
    let short = |short: &str| ToolOutcome::Succeeded {
        output: ToolOutput { short: Some(short.to_owned()), ..ToolOutput::text("long text") },
    };
    check_call_outcome(short("6 results"), "6 results");
    check_call_outcome(short(""), "long text");
    check_call_outcome(failed("exit 1"), "failed: exit 1");
    check_call_outcome(ToolOutcome::NotFound { message: text("no `x`") }, "failed: no `x`");
    check_call_outcome(
        ToolOutcome::InvalidArguments { message: text("`a` is missing") },
        "failed: invalid arguments: `a` is missing",
    );
    check_call_outcome(ToolOutcome::TimedOut { after_ms: 60_000 }, "timed out after 60 s");
    check_call_outcome(ToolOutcome::Cancelled, "stopped");
    check_call_outcome(ToolOutcome::Denied { reason: text("") }, "denied");
    check_call_outcome(ToolOutcome::Denied { reason: text("not now") }, "denied: not now");
    check_call_outcome(
        ToolOutcome::Skipped { reason: text("the run failed") },
        "stopped: the run failed",
    );
    check_call_outcome(ToolOutcome::OutcomeUnknown { message: text("") }, "outcome unknown");
    check_call_outcome(
        ToolOutcome::OutcomeUnknown { message: text("no answer\ncame") },
        "outcome unknown: no answer came",
    );
}

#[test]
fn every_run_ending_has_its_words() {
    let incomplete = |reason| run_outcome(&RunOutcome::Incomplete { reason });
    assert_eq!(run_outcome(&RunOutcome::Completed), "done");
    assert_eq!(run_outcome(&RunOutcome::Cancelled), "stopped");
    let failure = Failure::new("model", "the model is not available");
    assert_eq!(run_outcome(&RunOutcome::Failed { failure }), "failed: the model is not available");
    let reasons = [
        (
            IncompleteReason::MaxOutputTokens,
            "incomplete: the answer was cut at its greatest length",
        ),
        (IncompleteReason::MaxOutputBytes, "incomplete: the model said as much as allowed"),
        (IncompleteReason::MaxTurns, "incomplete: the model was asked as often as allowed"),
        (IncompleteReason::MaxToolCalls, "incomplete: as many tools were called as allowed"),
        (IncompleteReason::TimeLimit, "incomplete: the time was up"),
        (IncompleteReason::InsufficientQuota, "incomplete: the budget of the month allows no more"),
        (IncompleteReason::RepeatedCall, "incomplete: the same call came again and again"),
        (IncompleteReason::ContentFilter, "incomplete: the provider withheld the answer"),
    ];
    for (reason, expected) in reasons {
        assert_eq!(incomplete(reason), expected);
    }
}

#[test]
fn times_and_amounts_read_well() {
    let both = |ms| (seconds(ms), seconds_with_tenths(ms));
    let text = |text: &str| text.to_owned();
    assert_eq!(both(0), (text("0s"), text("0.0s")));
    assert_eq!(both(99), (text("0s"), text("0.0s")));
    assert_eq!(both(1_000), (text("1s"), text("1.0s")));
    assert_eq!(both(1_590), (text("1.5s"), text("1.5s")));
    assert_eq!(both(75_250), (text("75.2s"), text("75.2s")));

    assert_eq!(tokens(0), "0 tokens");
    assert_eq!(tokens(1), "1 token");
    assert_eq!(tokens(999), "999 tokens");
    assert_eq!(tokens(1_000), "1.0k tokens");
    assert_eq!(tokens(2_120), "2.1k tokens");
    assert_eq!(tokens(999_999), "999.9k tokens");
    assert_eq!(tokens(1_000_000), "1.0M tokens");
    assert_eq!(tokens(12_345_678), "12.3M tokens");
}
