//! Tests of the checker: a valid run, broken in every way.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::json;
use turnwire_contract::{
    CallId, Completeness, Decision, Event, Failure, Finish, Item, ItemId, RecordedEvent, RunId,
    RunOutcome, RunRequest, Seq, Timestamp, ToolKind, ToolOutcome, ToolOutput, ToolRef, Usage,
};
use turnwire_surfaces::{Profile, Projection, Responses};
use turnwire_testkit::scenarios;

use super::{
    Kind, Record, RunFacts,
    across::{self, RunSummary},
    check_run,
    stored_results::expected_entries,
    views::frames,
};
use crate::{
    journal::Row,
    observations::{
        Approval, Cancel, FaultKind, FrameId, InjectedFault, Observations, ReportedRun,
        SubmittedRequest, Surface, View, fingerprint,
    },
    tool_log::{ToolAction, ToolLogEntry},
};

const RUN: &str = "run_1";
const SECOND: i64 = 1_000_000;

fn run_id() -> RunId {
    RunId::new(RUN)
}

/// The events of a call of `tool`, up to its arguments.
fn call_of(tool: &str) -> Vec<Event> {
    let call_id = CallId::new("call_1");
    let tool =
        ToolRef { name: tool.to_owned(), kind: ToolKind::Mcp, server: Some("tools".to_owned()) };
    vec![
        Event::TurnStarted { turn: 1 },
        Event::CallAnnounced { call_id: call_id.clone(), item_id: ItemId::new("mcp_1"), tool },
        Event::ArgumentsAdded { call_id: call_id.clone(), text: "{}".to_owned() },
        Event::ArgumentsFinished {
            call_id,
            arguments: "{}".to_owned(),
            completeness: Completeness::Complete,
        },
        Event::TurnFinished { turn: 1, finish: Finish::CalledTools, usage: Usage::default() },
    ]
}

fn started() -> Event {
    Event::ToolStarted { call_id: CallId::new("call_1"), attempt: 1, label: String::new() }
}

fn finished(outcome: ToolOutcome) -> Event {
    Event::ToolFinished { call_id: CallId::new("call_1"), outcome, duration_ms: 5 }
}

fn worked() -> ToolOutcome {
    ToolOutcome::Succeeded { output: ToolOutput::text("done") }
}

fn unknown() -> ToolOutcome {
    ToolOutcome::OutcomeUnknown { message: "nobody knows".to_owned() }
}

fn answer(turn: u32, item: &str) -> Vec<Event> {
    let item_id = ItemId::new(item);
    let added = |text: &str| Event::TextAdded { item_id: item_id.clone(), text: text.to_owned() };
    vec![
        Event::TurnStarted { turn },
        Event::MessageStarted { item_id: item_id.clone() },
        added("Hello "),
        added("you"),
        Event::MessageFinished {
            item_id: item_id.clone(),
            text: "Hello you".to_owned(),
            refusal: String::new(),
            completeness: Completeness::Complete,
        },
        Event::TurnFinished { turn, finish: Finish::Answered, usage: Usage::default() },
    ]
}

fn over(outcome: RunOutcome) -> Event {
    Event::RunFinished { outcome, usage: Usage::default() }
}

/// A run with these events, one per second.
fn journal_with(middle: Vec<Event>) -> Vec<RecordedEvent> {
    let mut request = RunRequest::new("m", vec![Item::user("Hi")]);
    request.conversation_id = Some("conv_1".into());
    request.metadata.insert(across::KEY_NOTE.to_owned(), "key_1".to_owned());
    let mut events = vec![Event::RunQueued { request: Arc::new(request) }, Event::RunStarted];
    events.extend(middle);
    numbered(events)
}

fn numbered(events: Vec<Event>) -> Vec<RecordedEvent> {
    let numbered = (1..).zip(events);
    numbered
        .map(|(n, event)| {
            let at = Timestamp::from_micros(n * SECOND);
            RecordedEvent { run_id: run_id(), seq: Seq(n.unsigned_abs()), at, event }
        })
        .collect()
}

/// A run with one tool.
fn good_journal(tool: &str) -> Vec<RecordedEvent> {
    let mut middle = call_of(tool);
    middle.extend([started(), finished(worked())]);
    middle.extend(answer(2, "msg_1"));
    middle.push(over(RunOutcome::Completed));
    journal_with(middle)
}

fn rows_of(journal: &[RecordedEvent]) -> Vec<Row> {
    let row = |recorded: &RecordedEvent| Row {
        first_seq: recorded.seq.0,
        last_seq: recorded.seq.0,
        kind: "event".to_owned(),
        call_id: None,
        body: serde_json::to_string(&[(recorded.at.as_micros(), &recorded.event)]).unwrap(),
    };
    journal.iter().map(row).collect()
}

fn line(what: ToolAction, tool: &str, at: i64) -> ToolLogEntry {
    let (tool, key) = (tool.to_owned(), format!("{RUN}:call_1"));
    ToolLogEntry { what, tool, key, at }
}

/// Consistent facts about a run with this journal.
fn facts_of(journal: Vec<RecordedEvent>, tool: &str) -> RunFacts {
    let view = |surface| View {
        seen: frames(surface, &journal),
        ended: true,
        n_connections: 1,
        ..View::new(run_id(), surface)
    };
    let views = Surface::ALL.map(view).to_vec();
    let mut projection = Responses::new(Profile::Strict);
    let mut request = None;
    for recorded in &journal {
        projection.project(recorded);
        if let Event::RunQueued { request: submitted } = &recorded.event {
            request = Some(Arc::clone(submitted));
        }
    }
    let outcome = super::outcome_of(&journal).map(|outcome| json!(outcome));
    let started_at = journal
        .iter()
        .find(|recorded| matches!(recorded.event, Event::ToolStarted { .. }))
        .map(|recorded| recorded.at.as_micros());
    let tool_log = started_at.map(|at| {
        vec![line(ToolAction::Started, tool, at + 10), line(ToolAction::Effect, tool, at + 20)]
    });
    RunFacts {
        rows: Some(rows_of(&journal)),
        entries: request.map(|request| expected_entries(&run_id(), &request, &journal)),
        reported: Some(ReportedRun { response: json!(projection.response()), journal }),
        record: Some(Record { state: "finished".to_owned(), outcome }),
        views,
        tool_log: tool_log.unwrap_or_default(),
        submitted: Some(SubmittedRequest {
            shape: "good",
            answer: "Hello you".to_owned(),
            ..SubmittedRequest::default()
        }),
        cancel: None,
        approvals: Vec::new(),
    }
}

fn good(tool: &str) -> RunFacts {
    facts_of(good_journal(tool), tool)
}

fn kinds(facts: &RunFacts, faults: &[InjectedFault]) -> BTreeSet<Kind> {
    check_run(&run_id(), facts, faults).into_iter().map(|violation| violation.kind).collect()
}

/// Returns the violations in a valid run of `tool` after `break_it`.
fn broken(tool: &str, break_it: impl FnOnce(&mut RunFacts)) -> BTreeSet<Kind> {
    let mut facts = good(tool);
    break_it(&mut facts);
    kinds(&facts, &[])
}

/// Returns the facts and violations of a run with other events.
fn story(tool: &str, middle: Vec<Event>) -> (RunFacts, BTreeSet<Kind>) {
    let facts = facts_of(journal_with(middle), tool);
    let kinds = kinds(&facts, &[kill_at(0)]);
    (facts, kinds)
}

fn kill_at(at: i64) -> InjectedFault {
    InjectedFault {
        kind: FaultKind::Kill,
        node: Some(0),
        at,
        until: at + 100 * SECOND,
        owned: vec![run_id()],
    }
}

#[track_caller]
fn assert_finds(found: &BTreeSet<Kind>, wanted: Kind) {
    assert!(found.contains(&wanted), "{wanted:?} is not among {found:?}");
}

#[test]
fn a_good_run_is_good() {
    for tool in ["look", "deposit", "send", "sly"] {
        let violations = check_run(&run_id(), &good(tool), &[]);
        assert_eq!(violations, [], "{tool}");
    }
}

/// No false positives: every recorded scenario is valid, on every surface.
#[tokio::test(start_paused = true)]
async fn every_scenario_is_good() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal: Vec<RecordedEvent> =
            scenario.play().await.iter().map(|recorded| RecordedEvent::clone(recorded)).collect();
        let run_id = journal[0].run_id.clone();
        let view = |surface| View {
            seen: frames(surface, &journal),
            ended: true,
            ..View::new(run_id.clone(), surface)
        };
        let views = Surface::ALL.map(view).to_vec();
        let reported = Some(ReportedRun { journal: journal.clone(), ..ReportedRun::default() });
        let facts =
            RunFacts { reported, views, rows: Some(rows_of(&journal)), ..RunFacts::default() };
        assert_eq!(check_run(&run_id, &facts, &[kill_at(0)]), [], "{name}");
    }
}

/// C2: journals.
#[test]
fn gaps_duplicates_and_reorderings_of_a_journal() {
    let rows = |facts: &mut RunFacts, change: fn(&mut Vec<Row>)| {
        change(facts.rows.as_mut().unwrap());
    };
    let gap = broken("look", |facts| rows(facts, |rows| drop(rows.remove(11))));
    assert_finds(&gap, Kind::JournalGap);
    let twice = broken("look", |facts| rows(facts, |rows| rows.insert(11, rows[11].clone())));
    assert_finds(&twice, Kind::JournalDuplicate);
    let back = broken("look", |facts| rows(facts, |rows| rows.swap(3, 5)));
    assert_finds(&back, Kind::JournalOrder);
    let violations = broken("look", |facts| rows(facts, |rows| rows[3].body = "?".to_owned()));
    assert_finds(&violations, Kind::JournalUnreadable);
    let other = broken("look", |facts| {
        facts.reported.as_mut().unwrap().journal[11].at = Timestamp::from_micros(1);
    });
    assert_finds(&other, Kind::JournalsDisagree);
    let short = broken("look", |facts| drop(facts.reported.as_mut().unwrap().journal.pop()));
    assert_finds(&short, Kind::JournalsDisagree);
}

/// I11: violated invariants of a journal are reported.
#[test]
fn i11_a_text_that_is_not_the_sum_of_its_parts() {
    let mut journal = good_journal("look");
    journal.remove(12);
    let events = journal.into_iter().map(|recorded| recorded.event).collect();
    assert_finds(&kinds(&facts_of(numbered(events), "look"), &[]), Kind::InvariantBroken);
}

/// C3: one end, as the last event, and the row of the run agrees.
#[test]
fn ends() {
    let (_, none) = story("look", answer(1, "msg_1"));
    assert_finds(&none, Kind::NoEnd);
    let mut twice = answer(1, "msg_1");
    twice.extend([over(RunOutcome::Completed), over(RunOutcome::Cancelled)]);
    let (_, twice) = story("look", twice);
    assert_finds(&twice, Kind::SeveralEnds);
    assert_finds(&twice, Kind::AfterTheEnd);
    let mut after = vec![over(RunOutcome::Completed)];
    after.extend(answer(1, "msg_1"));
    let (_, after) = story("look", after);
    assert_finds(&after, Kind::AfterTheEnd);
    let active = broken("look", |facts| {
        facts.record = Some(Record { state: "active".to_owned(), outcome: None });
    });
    assert_finds(&active, Kind::StatusDiffers);
    let other = broken("look", |facts| {
        facts.record.as_mut().unwrap().outcome = Some(json!({ "status": "cancelled" }));
    });
    assert_finds(&other, Kind::StatusDiffers);
}

/// C1, C2, C11: readers.
#[test]
fn every_mistake_of_a_stream() {
    for n in 0..3 {
        let view = |change: fn(&mut View)| broken("look", |facts| change(&mut facts.views[n]));
        assert_finds(&view(|view| _ = view.seen.remove(2)), Kind::ViewGap);
        assert_finds(&view(|view| view.seen.insert(2, view.seen[2])), Kind::ViewDuplicate);
        assert_finds(&view(|view| view.seen.swap(1, 2)), Kind::ViewOrder);
        assert_finds(&view(|view| _ = view.seen.pop()), Kind::ViewGap);
        assert_finds(&view(|view| view.ended = false), Kind::ViewUnfinished);
        let unheard = view(|view| {
            let frame = view.seen[2];
            let frame_id = FrameId { seq: frame.frame_id.seq + 1_000, index: 0 };
            view.seen.push(crate::observations::ReceivedFrame { frame_id, ..frame });
        });
        assert_finds(&unheard, Kind::SeenNotRecorded);
        let other = view(|view| view.seen[2].fingerprint = fingerprint("something else"));
        assert_finds(&other, Kind::DifferentBytes);
    }
}

/// C11: two readers saw different bytes of one frame, and there is no journal.
#[test]
fn two_versions_of_a_frame() {
    let found = broken("look", |facts| {
        let mut other = facts.views[0].clone();
        other.seen[2].fingerprint = fingerprint("something else");
        facts.views = vec![facts.views[0].clone(), other];
        facts.rows = None;
        facts.reported = None;
    });
    assert_finds(&found, Kind::DifferentBytes);
}

/// C4: starts and ends.
#[test]
fn unpaired_tools() {
    let with = |events: Vec<Event>| {
        let mut middle = call_of("look");
        middle.extend(events);
        middle.push(over(RunOutcome::Completed));
        story("look", middle).1
    };
    assert_finds(&with(vec![started()]), Kind::ToolUnpaired);
    let twice = with(vec![started(), finished(worked()), finished(worked())]);
    assert_finds(&twice, Kind::ToolTwice);
    let twice = with(vec![started(), started(), finished(worked())]);
    assert_finds(&twice, Kind::ToolTwice);
}

/// C5: real effects.
#[test]
fn effects() {
    let twice = |tool| broken(tool, |facts| facts.tool_log.push(facts.tool_log[0].clone()));
    assert_finds(&twice("send"), Kind::ExecutedTwice);
    assert_finds(&twice("sly"), Kind::ExecutedTwice);
    assert_eq!(twice("look"), BTreeSet::new());
    assert_eq!(twice("deposit"), BTreeSet::new());
    let acted_twice = broken("deposit", |facts| {
        facts.tool_log.push(facts.tool_log[1].clone());
    });
    assert_finds(&acted_twice, Kind::EffectDoubled);
    for tool in ["deposit", "send"] {
        let idle = broken(tool, |facts| drop(facts.tool_log.pop()));
        assert_finds(&idle, Kind::EffectMissing);
    }
}

/// I3: a start is recorded before the tool acts.
#[test]
fn i3_executed_before_or_without_a_start() {
    let early = broken("send", |facts| facts.tool_log[0].at -= 2 * SECOND);
    assert_finds(&early, Kind::ExecutedWithoutStart);
    let (mut facts, _) =
        story("send", [answer(1, "msg_1"), vec![over(RunOutcome::Completed)]].concat());
    facts.tool_log = vec![line(ToolAction::Started, "send", 9 * SECOND)];
    assert_finds(&kinds(&facts, &[]), Kind::ExecutedWithoutStart);
}

/// C5: every execution is in the journal.
#[test]
fn an_execution_that_the_journal_denies() {
    let mut middle = call_of("send");
    middle.push(finished(ToolOutcome::Skipped { reason: "so".to_owned() }));
    middle.push(over(RunOutcome::Completed));
    let (mut facts, _) = story("send", middle);
    facts.tool_log = vec![line(ToolAction::Started, "send", 9 * SECOND)];
    assert_finds(&kinds(&facts, &[]), Kind::ExecutionDenied);
}

/// C5: a worker died during a tool of effect class "once".
#[test]
fn an_unknown_outcome_is_reported() {
    let ended_as = |tool: &str, outcome: ToolOutcome| {
        let mut middle = call_of(tool);
        middle.extend([started(), Event::taken_over(2), finished(outcome)]);
        middle.extend(answer(2, "msg_1"));
        middle.push(over(RunOutcome::Completed));
        story(tool, middle).1
    };
    assert_finds(&ended_as("send", worked()), Kind::UnknownNotReported);
    assert_eq!(ended_as("send", unknown()), BTreeSet::new());
    assert_eq!(ended_as("deposit", worked()), BTreeSet::new());
}

/// C15: approval answers.
#[test]
fn answers_that_are_lost_or_count_twice() {
    let call_id = CallId::new("call_1");
    let answered = |n: usize| {
        let mut middle = call_of("send");
        middle.push(Event::approval_requested(call_id.clone()));
        let decision = Decision::Approved;
        let resolved = Event::approval_resolved(call_id.clone(), decision);
        middle.extend(vec![resolved; n]);
        middle.extend([started(), finished(worked())]);
        middle.extend(answer(2, "msg_1"));
        middle.push(over(RunOutcome::Completed));
        let (mut facts, _) = story("send", middle);
        let call_id = call_id.clone();
        facts.approvals = vec![Approval { run_id: run_id(), call_id, taken: true }];
        kinds(&facts, &[])
    };
    assert_eq!(answered(1), BTreeSet::new());
    assert_finds(&answered(2), Kind::ApprovalDoubled);
    assert_finds(&answered(0), Kind::ApprovalLost);
}

/// C14: an accepted cancel takes effect, and a cancel is accepted while the run is active.
#[test]
fn a_cancel_that_is_ignored() {
    let cancelled = |taken_at: Option<i64>, refused_at: Option<i64>| {
        broken("look", |facts| {
            facts.submitted.as_mut().unwrap().is_cancelled = true;
            facts.cancel = Some(Cancel { run_id: run_id(), asked_at: 0, taken_at, refused_at });
        })
    };
    assert_finds(&cancelled(Some(5 * SECOND), None), Kind::CancelIgnored);
    assert_eq!(cancelled(Some(15 * SECOND), None), BTreeSet::new());
    assert_finds(&cancelled(None, Some(SECOND)), Kind::CancelIgnored);
    assert_eq!(cancelled(None, Some(60 * SECOND)), BTreeSet::new());
}

/// C7: all entries of a run or none.
#[test]
fn torn_histories() {
    let entries = |change: fn(&mut Vec<turnwire_contract::Entry>)| {
        broken("look", |facts| change(facts.entries.as_mut().unwrap()))
    };
    assert_finds(&entries(|entries| drop(entries.pop())), Kind::HistoryTorn);
    assert_finds(&entries(Vec::clear), Kind::HistoryTorn);
    assert_finds(&entries(|entries| entries.push(entries[0].clone())), Kind::HistoryTorn);
    let other = entries(|entries| entries[0].item = Arc::new(Item::user("Something else")));
    assert_finds(&other, Kind::HistoryTorn);
}

/// C6: withdrawn items are not part of the answer.
#[test]
fn a_superseded_item_in_the_answer() {
    let item_id = ItemId::new("msg_0");
    let middle = [
        vec![
            Event::TurnStarted { turn: 1 },
            Event::MessageStarted { item_id: item_id.clone() },
            Event::TextAdded { item_id: item_id.clone(), text: "Hel".to_owned() },
            Event::taken_over(2),
            Event::MessageFinished {
                item_id,
                text: "Hel".to_owned(),
                refusal: String::new(),
                completeness: Completeness::Superseded,
            },
            Event::TurnAbandoned { turn: 1 },
        ],
        answer(1, "msg_1"),
        vec![over(RunOutcome::Completed)],
    ];
    let (mut facts, found) = story("look", middle.concat());
    assert_eq!(found, BTreeSet::new());
    let output = facts.reported.as_mut().unwrap().response["output"].as_array_mut().unwrap();
    output.push(json!({ "id": "msg_0", "status": "completed" }));
    assert_finds(&kinds(&facts, &[kill_at(0)]), Kind::SupersededShown);
}

/// C12: the response from a node equals the one from the journal.
#[test]
fn another_response() {
    let found = broken("look", |facts| {
        facts.reported.as_mut().unwrap().response["status"] = json!("failed");
    });
    assert_finds(&found, Kind::DifferentBytes);
}

/// C18: no run fails unless intended, except after repeated worker deaths (C22).
#[test]
fn failed_runs_and_wrong_answers() {
    let failed = |n_takeovers: u32| {
        let failure = Failure::new("x", "so");
        let mut middle: Vec<Event> = (0..n_takeovers).map(|n| Event::taken_over(n + 2)).collect();
        middle.push(over(RunOutcome::Failed { failure }));
        story("look", middle).1
    };
    assert_finds(&failed(0), Kind::RunFailed);
    assert_eq!(failed(5), BTreeSet::new());
    let (_, cancelled) = story("look", vec![over(RunOutcome::Cancelled)]);
    assert_finds(&cancelled, Kind::RunFailed);
    let other =
        broken("look", |facts| "Bye".clone_into(&mut facts.submitted.as_mut().unwrap().answer));
    assert_finds(&other, Kind::WrongAnswer);
}

/// C21: a takeover without a fault.
#[test]
fn a_needless_takeover() {
    let mut middle = vec![Event::taken_over(2)];
    middle.extend(answer(1, "msg_1"));
    middle.push(over(RunOutcome::Completed));
    let facts = facts_of(journal_with(middle), "look");
    assert_finds(&kinds(&facts, &[]), Kind::NeedlessTakeover);
    for kind in [FaultKind::RedisFlush, FaultKind::CutAfterCommit] {
        let harmless = InjectedFault { kind, ..kill_at(2 * SECOND) };
        assert_finds(&kinds(&facts, &[harmless]), Kind::NeedlessTakeover);
    }
    assert_eq!(kinds(&facts, &[kill_at(2 * SECOND)]), BTreeSet::new());
    assert_finds(&kinds(&facts, &[kill_at(4 * SECOND)]), Kind::NeedlessTakeover);
    let stalled = |at| InjectedFault { kind: FaultKind::Stall, until: at, ..kill_at(at) };
    assert_eq!(kinds(&facts, &[stalled(2 * SECOND)]), BTreeSet::new());
    assert_finds(&kinds(&facts, &[stalled(-SECOND)]), Kind::NeedlessTakeover);
}

fn summary(name: &str, key: &str, span: (i64, Option<i64>)) -> RunSummary {
    let conversation = Some("conv_1".to_owned());
    RunSummary { run_id: RunId::new(name), key: Some(key.to_owned()), conversation, span }
}

fn across_kinds(summaries: &[RunSummary], seen: &Observations) -> BTreeSet<Kind> {
    across::check(summaries, seen).into_iter().map(|violation| violation.kind).collect()
}

/// C9: one key, one run; also if no client saw the second one.
#[test]
fn two_runs_for_one_key() {
    let one = summary("run_1", "key_1", (1, Some(2)));
    let other = summary("run_2", "key_1", (3, Some(4)));
    let nothing = Observations::default();
    assert_eq!(across_kinds(std::slice::from_ref(&one), &nothing), BTreeSet::new());
    assert_finds(&across_kinds(&[one.clone(), other], &nothing), Kind::KeyWithSeveralRuns);
    let mut seen = Observations::default();
    let run_ids = ["run_1", "run_2"].map(RunId::from).into();
    seen.submitted
        .insert("key_1".to_owned(), SubmittedRequest { run_ids, ..SubmittedRequest::default() });
    assert_finds(&across_kinds(&[], &seen), Kind::KeyWithSeveralRuns);
}

/// C8: one after the other.
#[test]
fn two_runs_in_one_conversation() {
    let nothing = Observations::default();
    let of = |first, second| {
        across_kinds(&[summary("run_1", "a", first), summary("run_2", "b", second)], &nothing)
    };
    assert_eq!(of((1, Some(5)), (5, Some(9))), BTreeSet::new());
    assert_eq!(of((6, Some(9)), (1, Some(5))), BTreeSet::new());
    assert_finds(&of((1, Some(5)), (4, Some(9))), Kind::ConversationShared);
    assert_finds(&of((1, None), (4, Some(9))), Kind::ConversationShared);
}

/// C7: the entries of two runs do not mix.
#[test]
fn entries_that_are_mixed_up() {
    let entries = |text: &str| -> Vec<(String, String)> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('/'));
        pairs.map(|(conversation, run)| (conversation.to_owned(), run.to_owned())).collect()
    };
    let good = entries("x/1 x/1 y/3 x/1 x/2 y/3 x/2 y/4");
    assert_eq!(across::interleaved(&good), []);
    let mixed = across::interleaved(&entries("x/1 x/2 x/1"));
    assert_eq!(mixed.len(), 1, "{mixed:?}");
    assert_eq!((mixed[0].kind, mixed[0].run_id.as_str()), (Kind::HistoryTorn, "1"));
}

/// Violations noticed during the test are reported.
#[test]
fn what_was_noticed_on_the_way() {
    let mut seen = Observations::default();
    let note = || vec!["something".to_owned()];
    seen.tally.torn = note();
    seen.tally.bad_exits = note();
    seen.tally.server_errors = note();
    seen.tally.given_up = note();
    let expected =
        BTreeSet::from([Kind::EndTorn, Kind::BadExit, Kind::ServerError, Kind::RequestGivenUp]);
    assert_eq!(across_kinds(&[], &seen), expected);
}

/// A summary has what is needed to compare a run with others.
#[test]
fn a_summary_of_a_run() {
    let journal = good_journal("look");
    let end = journal.last().unwrap().at.as_micros();
    let expected = RunSummary {
        run_id: run_id(),
        key: Some("key_1".to_owned()),
        conversation: Some("conv_1".to_owned()),
        span: (3 * SECOND, Some(end)),
    };
    assert_eq!(RunSummary::of(&run_id(), &journal), Some(expected));
    assert_eq!(RunSummary::of(&run_id(), &[]), None);
}
