//! Every surface says why a person is asked about a budget.

use serde_json::{Value, json};
use turnwire_contract::{
    Approvals, BudgetScope, CallId, Event, Finish, Limits, RunOutcome, RunRequest,
};

use super::*;
use crate::{
    AgUi, AiSdk, AiSdkFrame, ChatStream, ChatStreamOptions, Profile, Responses, SnapshotFold,
    Transcript, WsChat, WsOptions,
    ai_sdk::{Dialect, Span},
    redacted,
    story::{Story, request},
    words,
};

const WORDS: &str = "The run has used 0.80 of its budget of 1.00. Continue?";

fn budget() -> BudgetUse {
    BudgetUse {
        scope: BudgetScope::Run,
        used_nanos: 800_000_000,
        ask_nanos: 750_000_000,
        max_nanos: Some(1_000_000_000),
    }
}

fn asks() -> Event {
    let mut asks = Event::approval_requested(CallId::from("call_1"));
    if let Event::ApprovalRequested { budget, .. } = &mut asks {
        *budget = Some(Box::new(self::budget()));
    }
    asks
}

/// A run that may ask about its budget, up to the question.
fn story(approvals: Approvals) -> Story {
    let limits = Limits { ask_cost_nanos: Some(750_000_000), ..Limits::default() };
    Story::of(RunRequest { approvals, limits, ..request() })
        .turn()
        .calls("call_1", "look", r#"{"q":"x"}"#)
        .turn_done(Finish::CalledTools)
        .then(asks())
}

fn expected() -> Value {
    json!({ "scope": "run", "used_nanos": 800_000_000, "ask_nanos": 750_000_000,
            "max_nanos": 1_000_000_000, "message": WORDS })
}

/// The frame in which the words are.
fn telling<T: serde::Serialize>(frames: &[T]) -> Value {
    let frames = frames.iter().map(|frame| serde_json::to_value(frame).unwrap());
    let mut telling = frames.filter(|frame| frame.to_string().contains(WORDS));
    telling.next().expect("no frame says why")
}

#[test]
fn every_amount_reads_well() {
    let asked = |scope, used_nanos, max_nanos| {
        words::budget_question(&BudgetUse { scope, used_nanos, max_nanos, ..budget() })
    };
    assert_eq!(words::budget_question(&budget()), WORDS);
    assert_eq!(
        asked(BudgetScope::Key, 12_345_678_901, Some(20_000_000_000)),
        "The key has used 12.34 of its budget of 20.00 for this month. Continue?"
    );
    assert_eq!(
        asked(BudgetScope::Tenant, 2_500_000, Some(3_000)),
        "The tenant has used 0.0025 of its budget of 0.000003 for this month. Continue?"
    );
    assert_eq!(
        asked(BudgetScope::Run, 800_000_000, None),
        "The run has used 0.80 and asks from 0.75 on. Continue?"
    );
}

#[test]
fn every_surface_that_asks_says_why() {
    let options = ChatStreamOptions { approvals: true, ..ChatStreamOptions::default() };
    let asked = || story(Approvals::Wait);
    assert_eq!(telling(&asked().seen_by(&mut ChatStream::new(options)))["budget"], expected());
    let options = WsOptions { approvals: true, ..WsOptions::default() };
    let messages = asked().seen_by(&mut WsChat::new(options));
    let messages: Vec<_> = messages.into_iter().map(|placed| placed.frame).collect();
    assert_eq!(telling(&messages)["budget"], expected());
    let chunks = asked().seen_by(&mut AiSdk::new(Dialect::V6, Span::default()));
    let chunks = chunks.into_iter().filter_map(|frame| match frame {
        AiSdkFrame::Chunk(chunk) => Some(chunk),
        AiSdkFrame::AwaitsPeople(_) => None,
    });
    let chunks: Vec<_> = chunks.collect();
    assert_eq!(telling(&chunks)["data"]["budget"], expected());
    let mut ag_ui = AgUi::new();
    asked().seen_by(&mut ag_ui);
    let pause = serde_json::to_value(&ag_ui.pause().unwrap().event).unwrap();
    let interrupt = &pause["outcome"]["interrupts"][0];
    assert_eq!(interrupt["message"], WORDS);
    assert_eq!(interrupt["metadata"]["turnwire"]["budget"], expected());
    let lines: Vec<String> = asked()
        .seen_by(&mut Transcript::default())
        .iter()
        .filter_map(crate::TranscriptFrame::plain_line)
        .collect();
    assert!(lines.iter().any(|line| line.starts_with('⏸') && line.contains(WORDS)), "{lines:?}");
    let mut fold = SnapshotFold::default();
    for recorded in asked().events() {
        fold.note(&recorded);
    }
    let snapshot = serde_json::to_value(fold.snapshot().unwrap()).unwrap();
    assert!(snapshot.to_string().contains(WORDS), "{snapshot}");
}

/// All calls of the turn wait for the answer, so surfaces whose stream ends when only people are
/// awaited end it, also beside calls that nobody is asked about; a call that needs an approval
/// anyway is asked about with it.
#[test]
fn a_budget_is_awaited_alone() {
    let story = || {
        Story::new()
            .turn()
            .calls("call_1", "look", "{}")
            .calls("call_2", "look", "{}")
            .calls("call_3", "drop", "{}")
            .turn_done(Finish::CalledTools)
            .then(asks())
            .then(Event::approval_requested(CallId::from("call_3")))
    };
    let frames = story().seen_by(&mut AiSdk::new(Dialect::V6, Span::default()));
    let is_end = |frame: &AiSdkFrame| matches!(frame, AiSdkFrame::AwaitsPeople(_));
    assert!(frames.last().is_some_and(is_end), "{frames:?}");
    let mut ag_ui = AgUi::new();
    let frames = story().seen_by(&mut ag_ui);
    let text = format!("{frames:?}");
    assert!(!text.contains("RunFinished"), "{text}");
    let pause = serde_json::to_value(&ag_ui.pause().unwrap().event).unwrap();
    let interrupts = pause["outcome"]["interrupts"].as_array().unwrap();
    let asked: Vec<&Value> = interrupts.iter().map(|one| &one["toolCallId"]).collect();
    assert_eq!(asked, ["call_1", "call_3"]);
}

/// The Responses API hands the question back as an item that says why, without an item for the
/// call: what a budget may stop is not shown before it starts.
#[test]
fn a_response_hands_the_question_back() {
    let mut responses = Responses::new(Profile::Extended);
    let frames = story(Approvals::HandBack).ended(RunOutcome::Completed).seen_by(&mut responses);
    let own = frames.iter().map(|frame| serde_json::to_value(frame).unwrap());
    let own: Vec<Value> =
        own.filter(|frame| frame["type"] == "turnwire:approval_requested").collect();
    assert_eq!(own[0]["budget"], expected());
    let last = serde_json::to_value(frames.last().unwrap()).unwrap();
    let output = &last["response"]["output"];
    assert_eq!(output.as_array().unwrap().len(), 1, "{output:#}");
    assert_eq!(output[0]["type"], "mcp_approval_request");
    assert_eq!(output[0]["turnwire"]["budget"], expected());
    assert!(output[0]["id"].as_str().unwrap().starts_with("mcpr_run_"), "{output}");
}

/// A call that was allowed in the end is shown when it starts, in the official order.
#[test]
fn a_call_that_nobody_asks_about_is_shown_when_it_starts() {
    let limits = Limits { ask_month_percent: Some(80), ..Limits::default() };
    let request = RunRequest { approvals: Approvals::HandBack, limits, ..request() };
    let story = Story::of(request).turn().calls("call_1", "look", "{}");
    let story = story.turn_done(Finish::CalledTools);
    assert_eq!(story.seen_by(&mut Responses::new(Profile::Strict)).len(), 2);
}

/// Amounts are not shown to who has a share link.
#[test]
fn a_share_link_shows_no_amounts() {
    let events = story(Approvals::Wait).events();
    let text = serde_json::to_string(&redacted(events.last().unwrap())).unwrap();
    assert!(!text.contains("budget"), "{text}");
}
