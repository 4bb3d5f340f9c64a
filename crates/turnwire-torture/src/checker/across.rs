//! Checks across several runs, and of runs against injected faults.

use std::collections::{BTreeMap, BTreeSet};

use turnwire_contract::{Event, RecordedEvent, RunId};

use super::{Complaints, Kind, Violation, journals::span, stored_results::request_of};
use crate::observations::{Act, Deed, Observations};

/// Metadata field that identifies a request.
pub const KEY_NOTE: &str = "torture_key";

/// The same for `/chat`, whose requests have no metadata: prefix of the name of the open file,
/// which is part of the prompt. The key follows.
pub const KEY_FILE: &str = "torture-key-";

/// How long after a fault of a node its runs may be taken over, in microseconds.
const AFTERMATH: i64 = 10_000_000;

/// The same after a stall of the machine.
const AFTERMATH_OF_A_STALL: i64 = 2_000_000;

/// The data of a run that is compared with other runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    /// Id of the run.
    pub run_id: RunId,
    /// Idempotency key of its request.
    pub key: Option<String>,
    /// Conversation of the run.
    pub conversation: Option<String>,
    /// Times of its start and of its end.
    pub span: (i64, Option<i64>),
}

impl Sketch {
    /// Returns the sketch of a journal, or `None` if it is empty.
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
pub fn check(sketches: &[Sketch], seen: &Observations) -> Vec<Violation> {
    let mut wrong = keys(sketches, seen);
    wrong.extend(conversations(sketches));
    let tally = &seen.tally;
    let told = |kind: Kind, details: &[String]| -> Vec<Violation> {
        let violation = |detail: &String| violation(kind, "", detail.clone());
        details.iter().map(violation).collect()
    };
    wrong.extend(told(Kind::EndTorn, &tally.torn));
    wrong.extend(told(Kind::BadExit, &tally.bad_exits));
    wrong.extend(told(Kind::ServerError, &tally.server_errors));
    wrong.extend(told(Kind::RequestGivenUp, &tally.given_up));
    wrong
}

/// Every key has one run, whether a client saw it or not (C9).
fn keys(sketches: &[Sketch], seen: &Observations) -> Vec<Violation> {
    let mut runs: BTreeMap<&str, BTreeSet<&RunId>> = BTreeMap::new();
    for (key, asked) in &seen.asked {
        runs.entry(key).or_default().extend(&asked.run_ids);
    }
    for sketch in sketches {
        if let Some(key) = &sketch.key {
            runs.entry(key).or_default().insert(&sketch.run_id);
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
fn conversations(sketches: &[Sketch]) -> Vec<Violation> {
    let mut by_conversation: BTreeMap<&str, Vec<&Sketch>> = BTreeMap::new();
    for sketch in sketches {
        if let Some(conversation) = &sketch.conversation {
            by_conversation.entry(conversation).or_default().push(sketch);
        }
    }
    let mut wrong = Vec::new();
    for (conversation, mut runs) in by_conversation {
        runs.sort_by_key(|sketch| sketch.span);
        for (before, after) in runs.iter().zip(runs.iter().skip(1)) {
            let (began, _) = after.span;
            if before.span.1.is_none_or(|ended| ended > began) {
                let (one, other) = (&before.run_id, &after.run_id);
                let detail = format!("{one} and {other} were at work at once in {conversation}");
                wrong.push(violation(Kind::ConversationShared, other.as_str(), detail));
            }
        }
    }
    wrong
}

/// The entries of a run are contiguous in its conversation (C7, C8). `entries` has the conversation
/// and the run of each, in order.
pub fn interleaved(entries: &[(String, String)]) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let mut done: BTreeSet<&(String, String)> = BTreeSet::new();
    let mut last: BTreeMap<&str, &(String, String)> = BTreeMap::new();
    for entry in entries {
        let (conversation, run_id) = entry;
        let before = last.insert(conversation, entry).filter(|before| *before != entry);
        done.extend(before);
        if before.is_some() && done.contains(entry) {
            let detail = format!("its entries in {conversation} are not together");
            wrong.push(violation(Kind::HistoryTorn, run_id, detail));
        }
    }
    wrong
}

fn violation(kind: Kind, run_id: &str, detail: String) -> Violation {
    Violation { kind, run_id: run_id.to_owned(), detail }
}

/// A run is taken over only after a fault of its worker (C21).
pub(super) fn check_takeovers(journal: &[RecordedEvent], acts: &[Act], wrong: &mut Complaints) {
    for recorded in journal {
        let Event::RunTakenOver { attempt } = recorded.event else { continue };
        let at = recorded.at.as_micros();
        let is_cause = |act: &&Act| {
            let aftermath = match act.deed {
                // These need no takeover: notifications are optional, and the result of a commit
                // can be read.
                Deed::RedisFlush | Deed::RedisKill | Deed::RedisNoise | Deed::CutAfterCommit => {
                    return false;
                }
                Deed::Stall => AFTERMATH_OF_A_STALL,
                _ => AFTERMATH,
            };
            act.at <= at && at <= act.until + aftermath
        };
        if !acts.iter().any(|act| is_cause(&act)) {
            let detail = format!("for the {attempt}th time, at {}", recorded.at);
            wrong.add(Kind::NeedlessTakeover, detail);
        }
    }
}
