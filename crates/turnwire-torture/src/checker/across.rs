//! What only shows when several runs are laid side by side, or a run beside the damage done.

use std::collections::{BTreeMap, BTreeSet};

use turnwire_contract::{Event, RecordedEvent, RunId};

use super::{Complaints, Kind, Violation, journals::span, stored_results::request_of};
use crate::observations::{Act, Deed, Observations};

/// The note in a request by which it is known again.
pub const KEY_NOTE: &str = "torture_key";

/// The same on `/chat`, whose requests have no notes: what the name of the file begins with that the
/// person looks at, which the model is told. The key follows.
pub const KEY_FILE: &str = "torture-key-";

/// For how long after something was done to a node its runs may change hands, in microseconds.
const AFTERMATH: i64 = 10_000_000;

/// The same after a moment in which the machine stood still.
const AFTERMATH_OF_A_STALL: i64 = 2_000_000;

/// What has to be remembered of a run to compare it with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    /// The run.
    pub run_id: RunId,
    /// The key it was asked for with.
    pub key: Option<String>,
    /// The conversation it is in.
    pub conversation: Option<String>,
    /// When it began, and when it ended.
    pub span: (i64, Option<i64>),
}

impl Sketch {
    /// Of the run with this journal; nothing if it is empty.
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

/// What is wrong with all runs together.
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

/// Every key made one run, whether a client heard of it or not (C9).
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

/// No two runs of a conversation were at work at once (C8).
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

/// The entries of a run stand together in its conversation: nothing of another one is between
/// them (C7, C8). `entries` is the conversation and the run of each, in their order.
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

/// A run only changes hands when something was done to its worker (C21).
pub(super) fn check_takeovers(journal: &[RecordedEvent], acts: &[Act], wrong: &mut Complaints) {
    for recorded in journal {
        let Event::RunTakenOver { attempt } = recorded.event else { continue };
        let at = recorded.at.as_micros();
        let is_cause = |act: &&Act| {
            let aftermath = match act.deed {
                // Neither news nor the answer to a commit is needed: who wrote can be read.
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
