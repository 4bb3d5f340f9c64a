use expect_test::expect;
use proptest::prelude::*;
use turnwire_contract::{
    DiscoveryOutcome, Event, Finish, RunRequest, ToolOutcome, ToolRef, WhyLeftOut, tool::ToolOutput,
};

use super::*;
use crate::{
    Answer,
    preview::WIRE_BYTES,
    story::{Story, failed, request, succeeded},
    tests::{tell, turns},
};

fn snapshot(story: Story) -> RunSnapshot {
    RunSnapshot::of(&story.events()).unwrap()
}

fn call_id() -> CallId {
    CallId::from("call_1")
}

fn only_call(story: Story) -> CallSnapshot {
    let snapshot = snapshot(story);
    let [call] = snapshot.calls.as_slice() else { panic!("{snapshot:?}") };
    call.clone()
}

#[test]
fn no_events_are_no_run() {
    assert_eq!(RunSnapshot::of(&[]), None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a snapshot is long")]
fn a_run_under_way_shows_what_it_is_doing() {
    let conversation_id = Some(ConversationId::new("conv_1"));
    let story = Story::of(RunRequest { conversation_id, ..request() })
        .turn()
        .then(Event::ReasoningAdded { item_id: "rs_1".into(), text: "Hm".to_owned() })
        .says(&["Let me see."])
        .announced_as(
            "call_1",
            ToolRef { name: "search".to_owned(), kind: ToolKind::Mcp, server: Some("docs".into()) },
        )
        .writes("call_1", r#"{"q":"#)
        .writes("call_1", r#""x"}"#)
        .written("call_1", r#"{"q":"x"}"#)
        .turn_done(Finish::CalledTools)
        .started("call_1")
        .then(Event::ToolPhase { call_id: call_id(), phase: "reading".to_owned() })
        .then(Event::ToolProgressed {
            call_id: call_id(),
            progress: 1.0,
            total: Some(5.0),
            message: Some("page 1".to_owned()),
        });
    let shown = serde_json::to_string_pretty(&snapshot(story)).unwrap();
    expect![[r#"
        {
          "run_id": "run_1",
          "status": "running",
          "outcome": null,
          "model": "test",
          "conversation_id": "conv_1",
          "continues": null,
          "created_at": "1970-01-01T00:00:00.100000Z",
          "started_at": "1970-01-01T00:00:00.200000Z",
          "finished_at": null,
          "workers": [
            {
              "attempt": 1,
              "since": "1970-01-01T00:00:00.200000Z",
              "taken_over": false
            }
          ],
          "turn": 1,
          "retrying": null,
          "text": "Let me see.",
          "said": [
            {
              "item_id": "rs_1",
              "kind": "reasoning",
              "turn": 1,
              "state": "open",
              "text": "Hm"
            },
            {
              "item_id": "msg_1",
              "kind": "message",
              "turn": 1,
              "state": "complete",
              "text": "Let me see."
            }
          ],
          "calls": [
            {
              "call_id": "call_1",
              "item_id": "fc_call_1",
              "tool": "search",
              "kind": "mcp",
              "server": "docs",
              "turn": 1,
              "state": "running",
              "arguments": "{\"q\":\"x\"}",
              "arguments_complete": true,
              "announced_at": "1970-01-01T00:00:00.800000Z",
              "approval": null,
              "attempts": [
                {
                  "attempt": 1,
                  "at": "1970-01-01T00:00:01.300000Z"
                }
              ],
              "started_at": "1970-01-01T00:00:01.300000Z",
              "finished_at": null,
              "duration_ms": null,
              "progress": {
                "phase": "reading",
                "progress": 1.0,
                "total": 5.0,
                "message": "page 1",
                "heard_at": "1970-01-01T00:00:01.500000Z",
                "silent_at_ms": null
              },
              "summary": null,
              "failure": null,
              "result_bytes": null,
              "result_ref": null
            }
          ],
          "servers": [],
          "usage": {
            "input_tokens": 0,
            "cached_tokens": 0,
            "output_tokens": 0,
            "reasoning_tokens": 0
          },
          "last_seq": 15
        }"#]]
    .assert_eq(&shown);
}

#[test]
fn a_run_that_is_over_says_how_it_ended() {
    let endings = [
        (RunOutcome::Completed, RunWord::Completed),
        (
            RunOutcome::Incomplete { reason: turnwire_contract::IncompleteReason::MaxTurns },
            RunWord::Incomplete,
        ),
        (RunOutcome::Failed { failure: Failure::new("x", "y") }, RunWord::Failed),
        (RunOutcome::Cancelled, RunWord::Cancelled),
    ];
    for (outcome, word) in endings {
        let shown = snapshot(Story::new().turn().says(&["Hi"]).ended(outcome.clone()));
        assert_eq!((shown.status, shown.outcome), (word, Some(outcome)));
        assert_eq!(shown.finished_at, Some(Timestamp::from_micros(700_000)));
        assert_eq!((shown.usage.output_tokens, shown.last_seq), (120, Seq(7)));
    }
    let queued = Event::RunQueued { request: request().into() };
    let shown = snapshot(Story::default().then(queued));
    assert_eq!((shown.status, shown.started_at, shown.workers), (RunWord::Queued, None, vec![]));
}

#[test]
fn a_call_goes_through_its_states() {
    let story = || Story::new().turn().announced("call_1", "x");
    let asked = || story().written("call_1", "{}").then(Event::approval_requested(call_id()));
    let decided = |decision| asked().then(Event::approval_resolved(call_id(), decision));
    let state = |story| only_call(story).state;
    assert_eq!(state(story()), CallState::Preparing);
    assert_eq!(state(story().written("call_1", "{}")), CallState::Preparing);
    assert_eq!(state(asked()), CallState::NeedsApproval);
    assert_eq!(state(decided(Decision::Approved)), CallState::Preparing);
    assert_eq!(state(decided(Decision::Approved).started("call_1")), CallState::Running);
    let denied = decided(Decision::Denied { reason: "no".to_owned() });
    assert_eq!(state(denied), CallState::Denied);
    let unknown = ToolOutcome::OutcomeUnknown { message: "gone".to_owned() };
    assert_eq!(state(story().started("call_1").finished("call_1", unknown)), CallState::Unknown);
}

#[test]
fn the_ledger_has_every_try_and_why_it_was_made() {
    let busy = Failure::new("tool_failed", "busy");
    let story = Story::new()
        .turn()
        .calls("call_1", "x", "{}")
        .started("call_1")
        .then(Event::ToolOutputAdded { call_id: call_id(), text: "half".to_owned() })
        .then(Event::ToolRetried { call_id: call_id(), attempt: 2, reason: busy.clone() });
    let at = Timestamp::from_micros;
    let second = AttemptSnapshot { attempt: 2, at: at(900_000), reason: Some(busy) };
    let expected = vec![AttemptSnapshot { attempt: 1, at: at(700_000), reason: None }, second];
    let call = only_call(story);
    assert_eq!((call.attempts, call.started_at), (expected, Some(at(700_000))));
    assert_eq!((call.output_so_far.as_str(), call.progress), ("", None));
}

/// R16.
#[test]
fn a_call_that_is_over_has_a_summary_and_a_reference_and_does_not_change() {
    let story = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let story = story.finished("call_1", succeeded(&"é".repeat(200)));
    let call = only_call(story);
    assert_eq!(call.summary, Some(format!("{}...", "é".repeat(100))));
    assert_eq!((call.duration_ms, call.result_bytes), (Some(42), Some(400)));
    assert_eq!(call.result_ref.as_deref(), Some("/v1/runs/run_1/calls/call_1/result"));

    let over = || Story::new().turn().calls("call_1", "x", "{}").finished("call_1", failed("no"));
    let late = over()
        .started("call_1")
        .then(Event::ToolPhase { call_id: call_id(), phase: "late".to_owned() })
        .finished("call_1", succeeded("1"));
    assert_eq!(only_call(late), only_call(over()));
    assert_eq!(only_call(over()).failure, Some(Failure::new("tool_failed", "no")));
}

/// R3.
#[test]
fn a_call_for_the_client_is_in_the_clients_hands() {
    let tool = ToolRef { name: "x".to_owned(), kind: ToolKind::Client, server: None };
    let story = Story::new().turn().announced_as("call_1", tool).written("call_1", "{}");
    assert_eq!(only_call(story.ended(RunOutcome::Completed)).state, CallState::Running);
}

#[test]
fn what_the_turns_cost_is_added_up_while_the_run_goes_on() {
    let usage = Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() };
    let turn = |story: Story, turn| {
        story.turn().then(Event::TurnFinished { turn, finish: Finish::CalledTools, usage })
    };
    let shown = snapshot(turn(turn(Story::new(), 1), 2));
    let expected = Usage { input_tokens: 6, output_tokens: 8, ..Usage::default() };
    assert_eq!((shown.usage, shown.turn), (expected, 2));
}

#[test]
fn a_silent_tool_is_seen_to_be_silent_until_it_speaks() {
    let silent = Event::ToolStayedSilent { call_id: call_id(), elapsed_ms: 15_000 };
    let story =
        || Story::new().turn().calls("call_1", "x", "{}").started("call_1").then(silent.clone());
    assert_eq!(only_call(story()).progress.unwrap().silent_at_ms, Some(15_000));
    let spoke = story().then(Event::ToolOutputAdded { call_id: call_id(), text: "a".to_owned() });
    let call = only_call(spoke);
    assert_eq!(call.progress.unwrap().silent_at_ms, None);
    assert_eq!(call.output_so_far, "a");
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let piece = || Event::ToolOutputAdded { call_id: call_id(), text: "é".repeat(1_000) };
    let started = Story::new().turn().calls("call_1", "x", "{}").started("call_1");
    let call = only_call((0..100).fold(started, |story, _| story.then(piece())));
    assert!((WIRE_BYTES - 1..=2 * WIRE_BYTES).contains(&call.output_so_far.len()));
}

#[test]
fn a_turn_that_is_tried_again_says_why_until_the_model_speaks() {
    let reason = Failure::new("model_unavailable", "busy");
    let retried = Event::TurnRetried { turn: 1, attempt: 2, reason: reason.clone(), delay_ms: 500 };
    let story = || Story::new().turn().then(retried.clone());
    let at = Timestamp::from_micros(400_000);
    let expected = Retrying { attempt: 2, reason, delay_ms: 500, at };
    assert_eq!(snapshot(story()).retrying, Some(expected));
    assert_eq!(snapshot(story().message()).retrying, None);
    assert_eq!(snapshot(story().announced("call_1", "x")).retrying, None);
    assert_eq!(snapshot(story().ended(RunOutcome::Cancelled)).retrying, None);
}

/// R20: text of a dead worker is marked as superseded and is not part of the answer.
#[test]
fn a_run_that_was_taken_over_shows_both() {
    let story = Story::new()
        .turn()
        .says(&["It"])
        .then(Event::taken_over(2))
        .then(Event::TurnAbandoned { turn: 1 })
        .then(Event::TurnStarted { turn: 1 })
        .message()
        .text("It is");
    let shown = snapshot(story);
    assert_eq!((shown.workers.len(), shown.text.as_str()), (2, "It is"));
    let states: Vec<TextState> = shown.said.iter().map(|said| said.state).collect();
    assert_eq!(states, [TextState::Superseded, TextState::Open]);
}

/// Every worker of a run is listed with its start, and with its last event before a takeover or the
/// end of the run.
#[test]
fn every_worker_is_in_the_ledger() {
    let taken_over = Event::taken_over;
    let story = || Story::new().turn().then(taken_over(2)).turn().then(taken_over(3));
    let at = |tenths: i64| Timestamp::from_micros(tenths * 100_000);
    let worker = |attempt, since: i64, until: Option<i64>, taken_over| WorkerSnapshot {
        attempt,
        since: at(since),
        until: until.map(at),
        taken_over,
        name: None,
        previous_last_heard: None,
    };
    let before = [worker(1, 2, Some(3), false), worker(2, 4, Some(5), true)];
    let at_work = [before.as_slice(), &[worker(3, 6, None, true)]].concat();
    assert_eq!(snapshot(story()).workers, at_work);
    let over = [before.as_slice(), &[worker(3, 6, Some(7), true)]].concat();
    assert_eq!(snapshot(story().ended(RunOutcome::Completed)).workers, over);
}

#[test]
fn servers_that_were_asked_are_shown() {
    let item_id = || ItemId::from("mcpl_1");
    let asked = |server: &str, item: &str| Event::DiscoveryStarted {
        item_id: item.into(),
        server: server.to_owned(),
    };
    let tools = vec![turnwire_contract::ToolSpec::new("search", "").into()];
    let failure = Failure::new("server_unreachable", "gone");
    let mut left_out = LeftOut::default();
    left_out.add("huge", &WhyLeftOut::TooLarge);
    let story = Story::new()
        .then(asked("docs", "mcpl_1"))
        .then(asked("web", "mcpl_2"))
        .then(asked("slow", "mcpl_3"))
        .then(Event::ToolsDiscovered {
            item_id: item_id(),
            server: "docs".to_owned(),
            outcome: DiscoveryOutcome::Listed { tools },
            left_out: left_out.clone(),
        })
        .then(Event::ToolsDiscovered {
            item_id: "mcpl_2".into(),
            server: "web".to_owned(),
            outcome: DiscoveryOutcome::Failed { failure: failure.clone() },
            left_out: LeftOut::default(),
        });
    let server = |server: &str, item: &str, tools: Option<&str>, failure| ServerSnapshot {
        server: server.to_owned(),
        item_id: item.into(),
        tools: tools.map(|tool| vec![tool.to_owned()]),
        failure,
        left_out: LeftOut::default(),
    };
    let expected = vec![
        ServerSnapshot { left_out, ..server("docs", "mcpl_1", Some("search"), None) },
        server("web", "mcpl_2", None, Some(failure)),
        server("slow", "mcpl_3", None, None),
    ];
    assert_eq!(snapshot(story).servers, expected);
}

#[test]
fn a_result_that_is_a_picture_is_counted() {
    let output = ToolOutput { short: Some("a cat".to_owned()), ..ToolOutput::default() };
    let story = Story::new().turn().calls("call_1", "x", "{}");
    let call = only_call(story.finished("call_1", ToolOutcome::Succeeded { output }));
    assert_eq!((call.summary.as_deref(), call.result_bytes), (Some("(no output)"), Some(0)));
}

proptest! {
    /// S4-19: the snapshot agrees with the other surfaces.
    #[test]
    fn the_snapshot_agrees_with_the_answer(turns in turns()) {
        let events = tell(&turns).events();
        let shown = RunSnapshot::of(&events).unwrap();
        let answer = Answer::of(&events);
        prop_assert_eq!(&shown.text, answer.content());
        prop_assert_eq!(shown.last_seq, Seq(events.len() as u64));
        for call in &shown.calls {
            prop_assert_eq!(call.finished_at.is_some(), call.summary.is_some());
        }
    }
}
