//! Checks the observations. Pure: all input is passed in.
//!
//! [`check_run`] checks one run: its journal ([`journals`]), what readers saw ([`views`]), the
//! effects of its tools ([`effects`]), and its stored results ([`stored_results`]). [`across`]
//! compares several runs.

pub mod across;
pub mod effects;
pub mod journals;
pub mod stored_results;
pub mod views;

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{Entry, Event, RecordedEvent, RunId, RunOutcome};

use crate::{
    journal::Row,
    observations::{Approval, Cancel, InjectedFault, ReportedRun, SubmittedRequest, View},
    tool_log::ToolLogEntry,
};

/// Everything known about one run.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// Its journal rows in the database, by seq; `None` without a database.
    pub rows: Option<Vec<Row>>,
    /// The run as reported by a node.
    pub reported: Option<ReportedRun>,
    /// The run's row in the database.
    pub record: Option<Record>,
    /// Its entries in the conversation, in the database.
    pub entries: Option<Vec<Entry>>,
    pub views: Vec<View>,
    pub tool_log: Vec<ToolLogEntry>,
    pub submitted: Option<SubmittedRequest>,
    pub cancel: Option<Cancel>,
    /// Approval answers to its calls.
    pub approvals: Vec<Approval>,
}

/// The state in the run's own row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// `active`, `finished` or `hidden`.
    pub state: String,
    pub outcome: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub kind: Kind,
    /// The run; empty if it concerns none.
    pub run_id: String,
    /// Description for the report.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.kind, self.run_id, self.detail)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A seq is missing in a journal (C2).
    JournalGap,
    /// A seq occurs twice in a journal (C2).
    JournalDuplicate,
    /// A journal is not in seq order (C2).
    JournalOrder,
    /// A journal row cannot be decoded.
    JournalUnreadable,
    /// The journals from the database and from a node differ (C12).
    JournalsDisagree,
    /// One of the invariants I1 to I14 is violated.
    InvariantBroken,
    /// A run has no end (C3).
    NoEnd,
    /// A run has several ends (C3).
    SeveralEnds,
    /// An event follows the end (C3).
    AfterTheEnd,
    /// The row of a run differs from its journal (C3).
    StatusDiffers,
    /// The end of a run was visible without its stored results (C7).
    EndTorn,
    /// A reader saw an event that is not in the journal (C1).
    SeenNotRecorded,
    /// The same frame had different bytes (C11).
    DifferentBytes,
    /// A reader missed a frame (C2).
    ViewGap,
    /// A reader saw a frame twice (C2).
    ViewDuplicate,
    /// A reader saw frames out of order (C2).
    ViewOrder,
    /// A reader never saw the end.
    ViewUnfinished,
    /// A started tool has no end (C4).
    ToolUnpaired,
    /// A tool has two starts or two ends (C4).
    ToolTwice,
    /// A tool of effect class "once" was executed twice (C5).
    ExecutedTwice,
    /// A tool was executed before its start was recorded, or without one (I3).
    ExecutedWithoutStart,
    /// A tool was executed although the journal says it was not (C5).
    ExecutionDenied,
    /// A tool succeeded in the journal but had no effect (C5).
    EffectMissing,
    /// An idempotent tool acted twice for one key (C5).
    EffectDoubled,
    /// A worker died during a tool of effect class "once", and the outcome was not reported as
    /// unknown (C5).
    UnknownNotReported,
    /// An approval answer was lost (C15).
    ApprovalLost,
    /// An approval answer counted twice (C15).
    ApprovalDoubled,
    /// An accepted cancel had no effect (C14).
    CancelIgnored,
    /// The stored entries of a run differ from its output (C7).
    HistoryTorn,
    /// A withdrawn item is part of the final answer (C6).
    SupersededShown,
    /// The answer differs from the model's output.
    WrongAnswer,
    /// A run failed unintentionally (C18).
    RunFailed,
    /// One key has several runs (C9).
    KeyWithSeveralRuns,
    /// Two runs of one conversation were active at once (C8).
    ConversationShared,
    /// A run was taken over from a worker without a fault (C21).
    NeedlessTakeover,
    /// A node did not exit properly on SIGTERM (C20).
    BadExit,
    /// A server returned an error other than "retry later".
    ServerError,
    /// No node accepted a request for a long time.
    RequestGivenUp,
}

/// Number of takeovers after which a run may be given up (C22).
pub const GIVES_UP_AFTER: usize = 5;

/// Returns the violations of one run. `faults` are the faults injected meanwhile.
pub fn check_run(run_id: &RunId, facts: &RunFacts, faults: &[InjectedFault]) -> Vec<Violation> {
    let mut violations = Violations::new(run_id);
    let journal = journals::check(facts, &mut violations);
    views::check(facts, &journal, &mut violations);
    effects::check(facts, &journal, &mut violations);
    stored_results::check(facts, &journal, &mut violations);
    across::check_takeovers(&journal, faults, &mut violations);
    violations.list
}

/// Returns the journal to check: from the database if available, else from a node.
pub fn journal_of(run_id: &RunId, facts: &RunFacts) -> Vec<RecordedEvent> {
    journals::check(facts, &mut Violations::new(run_id))
}

pub fn outcome_of(journal: &[RecordedEvent]) -> Option<&RunOutcome> {
    journal.iter().rev().find_map(|recorded| match &recorded.event {
        Event::RunFinished { outcome, .. } => Some(outcome),
        _ => None,
    })
}

/// Returns the number of takeovers.
pub fn n_takeovers(journal: &[RecordedEvent]) -> usize {
    let taken = |recorded: &&RecordedEvent| matches!(recorded.event, Event::RunTakenOver { .. });
    journal.iter().filter(taken).count()
}

/// Collects the violations of one run.
#[derive(Debug)]
pub struct Violations {
    run_id: RunId,
    /// The violations so far.
    pub list: Vec<Violation>,
}

impl Violations {
    /// Creates an empty list.
    pub fn new(run_id: &RunId) -> Self {
        Self { run_id: run_id.clone(), list: Vec::new() }
    }

    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    pub fn add(&mut self, kind: Kind, detail: impl Into<String>) {
        let run_id = self.run_id.to_string();
        self.list.push(Violation { kind, run_id, detail: detail.into() });
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
