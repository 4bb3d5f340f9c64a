//! Checks the stored results of a run: outcome, answer, and entries in the conversation.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;
use turnwire_contract::{
    Completeness, Entry, Event, ItemId, RecordedEvent, RunId, RunOutcome, RunRequest,
};
use turnwire_engine::RunState;
use turnwire_surfaces::{Profile, Projection, Responses};

use super::{GIVES_UP_AFTER, Kind, RunFacts, Violations, n_takeovers, outcome_of};

/// How long after an accepted cancel a run may still end normally, in microseconds.
const MAX_CANCEL_TIME: i64 = 3_000_000;

/// Checks the stored results of an ended run.
pub(super) fn check(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    let Some(outcome) = outcome_of(journal) else { return };
    check_outcome(facts, journal, outcome, violations);
    check_cancel(facts, journal, outcome, violations);
    check_answer(facts, journal, outcome, violations);
    check_response(facts, journal, violations);
    check_entries(facts, journal, violations);
}

fn check_outcome(
    facts: &RunFacts,
    journal: &[RecordedEvent],
    outcome: &RunOutcome,
    violations: &mut Violations,
) {
    let Some(submitted) = &facts.submitted else { return };
    let is_fine = match outcome {
        RunOutcome::Completed => true,
        RunOutcome::Cancelled => submitted.is_cancelled,
        RunOutcome::Failed { .. } => n_takeovers(journal) >= GIVES_UP_AFTER,
        RunOutcome::Incomplete { .. } => false,
    };
    if !is_fine {
        let n_takeovers = n_takeovers(journal);
        let detail = format!("{} ended as {outcome:?}, {n_takeovers} takeovers", submitted.shape);
        violations.add(Kind::RunFailed, detail);
    }
}

fn check_cancel(
    facts: &RunFacts,
    journal: &[RecordedEvent],
    outcome: &RunOutcome,
    violations: &mut Violations,
) {
    let ended_at = journal.last().map(|recorded| recorded.at.as_micros());
    let (Some(cancel), Some(ended_at)) = (&facts.cancel, ended_at) else { return };
    if let Some(refused_at) = cancel.refused_at.filter(|refused_at| *refused_at < ended_at) {
        let early = (ended_at - refused_at) / 1_000;
        let detail = format!("{early} ms before its end there was nothing to cancel");
        violations.add(Kind::CancelIgnored, detail);
    }
    let Some(taken_at) = cancel.taken_at else { return };
    if *outcome != RunOutcome::Cancelled && ended_at > taken_at + MAX_CANCEL_TIME {
        let late = (ended_at - taken_at) / 1_000;
        let detail = format!("{late} ms after its cancel was taken, it ended as {outcome:?}");
        violations.add(Kind::CancelIgnored, detail);
    }
}

/// The last text equals the last text of the script.
fn check_answer(
    facts: &RunFacts,
    journal: &[RecordedEvent],
    outcome: &RunOutcome,
    violations: &mut Violations,
) {
    let Some(submitted) = facts.submitted.as_ref().filter(|_| *outcome == RunOutcome::Completed)
    else {
        return;
    };
    let said = journal.iter().rev().find_map(|recorded| match &recorded.event {
        Event::MessageFinished { text, completeness: Completeness::Complete, .. } => Some(text),
        _ => None,
    });
    if said.map(String::as_str) != Some(submitted.answer.as_str()) {
        let said = said.map_or("nothing", String::as_str);
        let detail =
            format!("`{}` was said in place of `{}`", short(said), short(&submitted.answer));
        violations.add(Kind::WrongAnswer, detail);
    }
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// The response from a node equals the one derived from the journal, and contains nothing
/// withdrawn.
fn check_response(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    let mut projection = Responses::new(Profile::Strict);
    for recorded in journal {
        projection.project(recorded);
    }
    let expected = serde_json::to_value(projection.response()).unwrap_or_default();
    let reported = facts
        .reported
        .as_ref()
        .map(|reported| &reported.response)
        .filter(|reported| !reported.is_null());
    if let Some(reported) = reported.filter(|reported| **reported != expected) {
        let detail = format!("the response is {reported}, and should be {expected}");
        violations.add(Kind::DifferentBytes, detail.chars().take(2_000).collect::<String>());
    }
    let withdrawn = withdrawn(journal);
    let output = reported.unwrap_or(&expected).get("output").and_then(Value::as_array);
    let shown = output.into_iter().flatten();
    let shown = shown.filter_map(|item| item.get("id")?.as_str());
    for id in shown.filter(|id| withdrawn.contains(&ItemId::new(*id))) {
        violations.add(Kind::SupersededShown, format!("{id} was withdrawn, and is in the answer"));
    }
}

/// Returns the items of turns interrupted by a crash.
fn withdrawn(journal: &[RecordedEvent]) -> BTreeSet<ItemId> {
    let (mut withdrawn, mut of_turn) = (BTreeSet::new(), Vec::new());
    for recorded in journal {
        match &recorded.event {
            Event::TurnStarted { .. } => of_turn.clear(),
            Event::MessageStarted { item_id }
            | Event::ReasoningAdded { item_id, .. }
            | Event::CallAnnounced { item_id, .. } => of_turn.push(item_id.clone()),
            Event::TurnAbandoned { .. } => withdrawn.extend(of_turn.drain(..)),
            _ => {}
        }
    }
    withdrawn
}

/// The conversation contains exactly the output of the run, once.
fn check_entries(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    let Some(entries) = &facts.entries else { return };
    let Some(request) = request_of(journal) else { return };
    let expected = expected_entries(violations.run_id(), request, journal);
    if *entries == expected {
        return;
    }
    let names = |entries: &[Entry]| -> Vec<String> {
        entries.iter().map(|entry| entry.id.to_string()).collect()
    };
    let (kept, due) = (names(entries), names(&expected));
    let detail = if kept == due {
        format!("the entries {kept:?} are not what the run said")
    } else {
        format!("the entries are {kept:?}, and should be {due:?}")
    };
    violations.add(Kind::HistoryTorn, detail);
}

/// Returns the entries that a run with this journal adds to its conversation.
pub fn expected_entries(
    run_id: &RunId,
    request: &Arc<RunRequest>,
    journal: &[RecordedEvent],
) -> Vec<Entry> {
    let mut state = RunState::new(run_id, Arc::clone(request), Vec::new());
    for recorded in journal {
        state.apply(&recorded.event);
    }
    state.added().to_vec()
}

pub(super) fn request_of(journal: &[RecordedEvent]) -> Option<&Arc<RunRequest>> {
    journal.iter().find_map(|recorded| match &recorded.event {
        Event::RunQueued { request } => Some(request),
        _ => None,
    })
}
