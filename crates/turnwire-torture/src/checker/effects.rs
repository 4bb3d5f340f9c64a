//! Compares real effects of tools with the journal.

use std::collections::BTreeMap;

use turnwire_contract::{CallId, Effect, Event, RecordedEvent, ToolOutcome};
use turnwire_testkit::mcp_ledger::Ledger;

use super::{Kind, RunFacts, Violations};
use crate::tool_log::{ToolAction, ToolLogEntry};

/// Tolerance between two clock readings, in microseconds.
const CLOCK_TOLERANCE: i64 = 1_000;

/// Returns the configured effect class of a tool of the tool server.
pub fn effect_of(tool: &str) -> Effect {
    match tool {
        "look" => Effect::Pure,
        "deposit" => Effect::Idempotent,
        _ => Effect::Once,
    }
}

#[derive(Debug, Default)]
struct Call<'a> {
    tool: Option<&'a str>,
    n_starts: u32,
    started_at: Option<i64>,
    /// Whether a worker died between start and end.
    was_orphaned: bool,
    outcomes: Vec<&'a ToolOutcome>,
    n_answers: u32,
    executions: Vec<&'a ToolLogEntry>,
    n_effects: usize,
}

/// Checks every call of the run.
pub(super) fn check(facts: &RunFacts, journal: &[RecordedEvent], violations: &mut Violations) {
    let mut calls = calls_in(journal);
    for line in &facts.tool_log {
        let call_id = line.key.split_once(':').map_or("", |(_, call_id)| call_id);
        let call = calls.entry(CallId::new(call_id)).or_default();
        match line.what {
            ToolAction::Started => call.executions.push(line),
            ToolAction::Effect => call.n_effects += 1,
            ToolAction::Other => {}
        }
    }
    for (call_id, call) in &calls {
        check_pairs(call_id, call, violations);
        check_executions(call_id, call, violations);
        check_outcome(call_id, call, violations);
    }
    check_answers(facts, &calls, violations);
}

fn calls_in(journal: &[RecordedEvent]) -> BTreeMap<CallId, Call<'_>> {
    let mut calls: BTreeMap<CallId, Call<'_>> = BTreeMap::new();
    for recorded in journal {
        if let Event::RunTakenOver { .. } = recorded.event {
            let at_work = |call: &&mut Call<'_>| call.n_starts > 0 && call.outcomes.is_empty();
            calls.values_mut().filter(at_work).for_each(|call| call.was_orphaned = true);
        }
        let Some(call_id) = recorded.event.call_id() else { continue };
        let call = calls.entry(call_id.clone()).or_default();
        match &recorded.event {
            Event::CallAnnounced { tool, .. } => call.tool = Some(tool.own_name()),
            Event::ToolStarted { .. } => {
                call.n_starts += 1;
                call.started_at.get_or_insert(recorded.at.as_micros());
            }
            Event::ToolFinished { outcome, .. } => call.outcomes.push(outcome),
            Event::ApprovalResolved { .. } => call.n_answers += 1,
            _ => {}
        }
    }
    calls
}

fn check_pairs(call_id: &CallId, call: &Call<'_>, violations: &mut Violations) {
    let n_ends = call.outcomes.len();
    if call.n_starts > 0 && n_ends == 0 {
        violations.add(Kind::ToolUnpaired, format!("{call_id} was started and has no end"));
    }
    if call.n_starts > 1 || n_ends > 1 {
        let detail = format!("{call_id} has {} starts and {n_ends} ends", call.n_starts);
        violations.add(Kind::ToolTwice, detail);
    }
}

fn check_executions(call_id: &CallId, call: &Call<'_>, violations: &mut Violations) {
    let Some(first) = call.executions.first() else { return };
    let (tool, n_executions) = (first.tool.as_str(), call.executions.len());
    match call.started_at {
        None => {
            let detail = format!("{call_id} ({tool}) was executed, and has no start");
            violations.add(Kind::ExecutedWithoutStart, detail);
        }
        Some(started_at) if first.at + CLOCK_TOLERANCE < started_at => {
            let early = started_at - first.at;
            let detail = format!("{call_id} ({tool}) was executed {early} µs before its start");
            violations.add(Kind::ExecutedWithoutStart, detail);
        }
        Some(_) => {}
    }
    if effect_of(tool) == Effect::Once && n_executions > 1 {
        let detail = format!("{call_id} ({tool}) was executed {n_executions} times");
        violations.add(Kind::ExecutedTwice, detail);
    }
    let denies = |outcome: &&ToolOutcome| {
        matches!(
            outcome,
            ToolOutcome::Skipped { .. } | ToolOutcome::Denied { .. } | ToolOutcome::NotFound { .. }
        )
    };
    if call.outcomes.iter().copied().any(|outcome| denies(&outcome)) {
        let detail = format!("{call_id} ({tool}) was executed, but ended as {:?}", call.outcomes);
        violations.add(Kind::ExecutionDenied, detail);
    }
}

fn check_outcome(call_id: &CallId, call: &Call<'_>, violations: &mut Violations) {
    // Other tools do not log their effects.
    let Some(tool) = call.tool.filter(|tool| Ledger::knows(tool)) else { return };
    let effect = effect_of(tool);
    if effect == Effect::Idempotent && call.n_effects > 1 {
        let detail = format!("{call_id} ({tool}) acted {} times for one key", call.n_effects);
        violations.add(Kind::EffectDoubled, detail);
    }
    for outcome in &call.outcomes {
        let needs_effect = outcome.is_success() && effect != Effect::Pure;
        if needs_effect && call.n_effects == 0 {
            let detail = format!("{call_id} ({tool}) is said to have worked, and did nothing");
            violations.add(Kind::EffectMissing, detail);
        }
        let is_honest = matches!(outcome, ToolOutcome::OutcomeUnknown { .. });
        if effect == Effect::Once && call.was_orphaned && !is_honest {
            let detail = format!("{call_id} ({tool}) lost its worker and ended as {outcome:?}");
            violations.add(Kind::UnknownNotReported, detail);
        }
    }
}

fn check_answers(
    facts: &RunFacts,
    calls: &BTreeMap<CallId, Call<'_>>,
    violations: &mut Violations,
) {
    for (call_id, call) in calls.iter().filter(|(_, call)| call.n_answers > 1) {
        let detail = format!("{call_id} was answered {} times", call.n_answers);
        violations.add(Kind::ApprovalDoubled, detail);
    }
    let was_cancelled = facts.submitted.as_ref().is_some_and(|submitted| submitted.is_cancelled);
    for approval in facts.approvals.iter().filter(|approval| approval.taken && !was_cancelled) {
        let call = calls.get(&approval.call_id);
        if call.is_none_or(|call| call.n_answers == 0) {
            let detail = format!("the answer about {} was taken and lost", approval.call_id);
            violations.add(Kind::ApprovalLost, detail);
        }
    }
}
