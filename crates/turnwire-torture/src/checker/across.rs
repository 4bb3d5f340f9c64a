//! Checks across several runs, and of runs against injected faults.

use std::collections::{BTreeMap, BTreeSet};

use turnwire_contract::{Event, RecordedEvent, RunId};

use super::{Kind, Violation, Violations, journals::span, stored_results::request_of};
use crate::observations::{FaultKind, InjectedFault, Observations};

/// Metadata field that identifies a request.
pub const KEY_NOTE: &str = "torture_key";

/// The same for `/chat`, whose requests have no metadata: prefix of the name of the open file,
/// which is part of the prompt. The key follows.
pub const KEY_FILE: &str = "torture-key-";

/// How long after a fault of a node its runs may be taken over, in microseconds.
const TAKEOVER_WINDOW: i64 = 10_000_000;

/// The same after a stall of the machine.
const TAKEOVER_WINDOW_AFTER_STALL: i64 = 2_000_000;

/// The data of a run that is compared with other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    pub run_id: RunId,
    /// Idempotency key of its request.
    pub key: Option<String>,
    pub conversation: Option<String>,
    /// Times of its start and of its end.
    pub span: (i64, Option<i64>),
}

impl RunSummary {
    /// Returns the summary of a journal, or `None` if it is empty.
    pub fn of(run_id: &RunId, journal: &[RecordedEvent]) -> Option<Self> {
        let request = request_of(journal)?;
        let conversation = request.conversation_id.as_ref().map(ToString::to_string);
        let of_file = request.instructions.as_ref().and_then(|text| text.split_once(KEY_FILE));
        let of_file = of_file.and_then(|(_, rest)| Some(rest.split_once('`')?.0.to_owned()));
        Some(Self {
            run_id: run_id.clone(),
            key: request.metadata.get(KEY_NOTE).cloned().or(of_file),
            conversation,
            span: span(journal)?,
        })
    }
}

/// Returns the violations across all runs.
pub fn check(summaries: &[RunSummary], seen: &Observations) -> Vec<Violation> {
    let mut violations = keys(summaries, seen);
    violations.extend(conversations(summaries));
    let tally = &seen.tally;
    let violations_of = |kind: Kind, details: &[String]| -> Vec<Violation> {
        let violation = |detail: &String| violation(kind, "", detail.clone());
        details.iter().map(violation).collect()
    };
    violations.extend(violations_of(Kind::EndTorn, &tally.torn));
    violations.extend(violations_of(Kind::BadExit, &tally.bad_exits));
    violations.extend(violations_of(Kind::ServerError, &tally.server_errors));
    violations.extend(violations_of(Kind::RequestGivenUp, &tally.given_up));
    violations
}

/// Every key has one run, whether a client saw it or not (C9).
fn keys(summaries: &[RunSummary], seen: &Observations) -> Vec<Violation> {
    let mut runs: BTreeMap<&str, BTreeSet<&RunId>> = BTreeMap::new();
    for (key, submitted) in &seen.submitted {
        runs.entry(key).or_default().extend(&submitted.run_ids);
    }
    for summary in summaries {
        if let Some(key) = &summary.key {
            runs.entry(key).or_default().insert(&summary.run_id);
        }
    }
    let several = runs.into_iter().filter(|(_, run_ids)| run_ids.len() > 1);
    several
        .map(|(key, run_ids)| {
            let detail = format!("the key {key} made {run_ids:?}");
            violation(Kind::KeyWithSeveralRuns, "", detail)
        })
        .collect()
}

/// No two runs of a conversation were active at once (C8).
fn conversations(summaries: &[RunSummary]) -> Vec<Violation> {
    let mut by_conversation: BTreeMap<&str, Vec<&RunSummary>> = BTreeMap::new();
    for summary in summaries {
        if let Some(conversation) = &summary.conversation {
            by_conversation.entry(conversation).or_default().push(summary);
        }
    }
    let mut violations = Vec::new();
    for (conversation, mut runs) in by_conversation {
        runs.sort_by_key(|summary| summary.span);
        for (before, after) in runs.iter().zip(runs.iter().skip(1)) {
            let (began, _) = after.span;
            if before.span.1.is_none_or(|ended| ended > began) {
                let (one, other) = (&before.run_id, &after.run_id);
                let detail = format!("{one} and {other} were at work at once in {conversation}");
                violations.push(violation(Kind::ConversationShared, other.as_str(), detail));
            }
        }
    }
    violations
}

/// The entries of a run are contiguous in its conversation (C7, C8). `entries` has the conversation
/// and the run of each, in order.
pub fn interleaved(entries: &[(String, String)]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut done: BTreeSet<&(String, String)> = BTreeSet::new();
    let mut last: BTreeMap<&str, &(String, String)> = BTreeMap::new();
    for entry in entries {
        let (conversation, run_id) = entry;
        let before = last.insert(conversation, entry).filter(|before| *before != entry);
        done.extend(before);
        if before.is_some() && done.contains(entry) {
            let detail = format!("its entries in {conversation} are not together");
            violations.push(violation(Kind::HistoryTorn, run_id, detail));
        }
    }
    violations
}

fn violation(kind: Kind, run_id: &str, detail: String) -> Violation {
    Violation { kind, run_id: run_id.to_owned(), detail }
}

/// A run is taken over only after a fault of its worker (C21).
pub(super) fn check_takeovers(
    journal: &[RecordedEvent],
    faults: &[InjectedFault],
    violations: &mut Violations,
) {
    for recorded in journal {
        let Event::RunTakenOver { attempt, .. } = recorded.event else { continue };
        let at = recorded.at.as_micros();
        let is_cause = |fault: &&InjectedFault| {
            let aftermath = match fault.kind {
                // These need no takeover: notifications are optional, and the result of a commit
                // can be read.
                FaultKind::RedisFlush
                | FaultKind::RedisKill
                | FaultKind::RedisNoise
                | FaultKind::CutAfterCommit => {
                    return false;
                }
                FaultKind::Stall => TAKEOVER_WINDOW_AFTER_STALL,
                _ => TAKEOVER_WINDOW,
            };
            fault.at <= at && at <= fault.until + aftermath
        };
        if !faults.iter().any(|fault| is_cause(&fault)) {
            let detail = format!("for the {attempt}th time, at {}", recorded.at);
            violations.add(Kind::NeedlessTakeover, detail);
        }
    }
}
