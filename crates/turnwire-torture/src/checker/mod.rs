//! Says what is wrong with what was seen. Pure: everything it knows is handed to it.
//!
//! [`check_run`] looks at one run: its journal ([`journals`]), what readers saw of it
//! ([`views`]), what its tools really did ([`effects`]), and what it left behind ([`stored_results`]).
//! [`across`] looks at what only shows when several runs are laid side by side.

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
    observations::{Act, Approval, Asked, Cancel, Told, View},
    tool_log::ToolLine,
};

/// Everything that is known about one run.
#[derive(Debug, Clone, Default)]
pub struct RunFacts {
    /// Its journal in the database, in the order of the places; nothing where there is none.
    pub rows: Option<Vec<Row>>,
    /// The run as a node tells of it.
    pub told: Option<Told>,
    /// Where the database says that it stands.
    pub record: Option<Record>,
    /// What it added to its conversation, in the database.
    pub entries: Option<Vec<Entry>>,
    /// What readers saw.
    pub views: Vec<View>,
    /// What its tools did.
    pub tool_lines: Vec<ToolLine>,
    /// What was asked for.
    pub asked: Option<Asked>,
    /// The cancel, if there was one.
    pub cancel: Option<Cancel>,
    /// What people said about its calls.
    pub approvals: Vec<Approval>,
}

/// Where a run stands, by its own row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Record {
    /// `active`, `finished` or `hidden`.
    pub state: String,
    /// How it ended.
    pub outcome: Option<Value>,
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Of which kind.
    pub kind: Kind,
    /// In which run; empty if in none.
    pub run_id: String,
    /// What exactly.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}: {}", self.kind, self.run_id, self.detail)
    }
}

/// What can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A place of a journal is empty (C2).
    JournalGap,
    /// A place of a journal is there twice (C2).
    JournalDuplicate,
    /// A journal goes back (C2).
    JournalOrder,
    /// A row cannot be read.
    JournalUnreadable,
    /// The database and a node tell different stories (C12).
    JournalsDisagree,
    /// One of the invariants I1 to I14 does not hold.
    InvariantBroken,
    /// A run has no end (C3).
    NoEnd,
    /// A run has several ends (C3).
    SeveralEnds,
    /// Something follows the end (C3).
    AfterTheEnd,
    /// The row of a run says something else than its journal (C3).
    StatusDiffers,
    /// The end of a run was visible without what belongs to it (C7).
    EndTorn,
    /// A reader saw what is not in the journal (C1).
    SeenNotRecorded,
    /// The same frame had different bytes (C11).
    DifferentBytes,
    /// A reader missed something (C2).
    ViewGap,
    /// A reader saw something twice (C2).
    ViewDuplicate,
    /// A reader was sent back (C2).
    ViewOrder,
    /// A reader never saw the end.
    ViewUnfinished,
    /// A started tool has no end (C4).
    ToolUnpaired,
    /// A tool has two starts or two ends (C4).
    ToolTwice,
    /// A tool that acts once was executed twice (C5).
    ExecutedTwice,
    /// A tool was executed before its start was recorded, or without (I3).
    ExecutedWithoutStart,
    /// A tool was executed, and the journal denies it (C5).
    ExecutionDenied,
    /// A tool is said to have worked, and did nothing (C5).
    EffectMissing,
    /// A tool that acts once for each key acted twice (C5).
    EffectDoubled,
    /// A worker died over a tool that acts once, and nobody was told (C5).
    UnknownNotReported,
    /// A person's answer was lost (C15).
    ApprovalLost,
    /// A person's answer counted twice (C15).
    ApprovalDoubled,
    /// A cancel was taken and not carried out (C14).
    CancelIgnored,
    /// What a run left behind is not what it said (C7).
    HistoryTorn,
    /// A withdrawn item is part of the final answer (C6).
    SupersededShown,
    /// The answer is not what the model said.
    WrongAnswer,
    /// A run failed that nobody wanted to fail (C18).
    RunFailed,
    /// One key made several runs (C9).
    KeyWithSeveralRuns,
    /// Two runs of one conversation were at work at once (C8).
    ConversationShared,
    /// A run was taken from a worker that nobody had disturbed (C21).
    NeedlessTakeover,
    /// A node did not go when it was asked to (C20).
    BadExit,
    /// A server fell over instead of asking to come back.
    ServerError,
    /// Nobody took a request for a long time.
    RequestGivenUp,
}

/// After how many takeovers a run may be given up (C22).
pub const GIVES_UP_AFTER: usize = 5;

/// What is wrong with one run. `acts` is what was done to the nodes meanwhile.
pub fn check_run(run_id: &RunId, facts: &RunFacts, acts: &[Act]) -> Vec<Violation> {
    let mut wrong = Complaints::new(run_id);
    let journal = journals::check(facts, &mut wrong);
    views::check(facts, &journal, &mut wrong);
    effects::check(facts, &journal, &mut wrong);
    stored_results::check(facts, &journal, &mut wrong);
    across::check_takeovers(&journal, acts, &mut wrong);
    wrong.violations
}

/// The journal to judge by: the database's if there is one, a node's if not.
pub fn journal_of(run_id: &RunId, facts: &RunFacts) -> Vec<RecordedEvent> {
    journals::check(facts, &mut Complaints::new(run_id))
}

/// How the run ended.
pub fn outcome_of(journal: &[RecordedEvent]) -> Option<&RunOutcome> {
    journal.iter().rev().find_map(|recorded| match &recorded.event {
        Event::RunFinished { outcome, .. } => Some(outcome),
        _ => None,
    })
}

/// How often the run changed hands.
pub fn n_takeovers(journal: &[RecordedEvent]) -> usize {
    let taken = |recorded: &&RecordedEvent| matches!(recorded.event, Event::RunTakenOver { .. });
    journal.iter().filter(taken).count()
}

/// The violations of one run, while they are being found.
#[derive(Debug)]
pub struct Complaints {
    run_id: RunId,
    /// What was found so far.
    pub violations: Vec<Violation>,
}

impl Complaints {
    /// None yet.
    pub fn new(run_id: &RunId) -> Self {
        Self { run_id: run_id.clone(), violations: Vec::new() }
    }

    /// The run they are about.
    pub fn run_id(&self) -> &RunId {
        &self.run_id
    }

    /// One more.
    pub fn add(&mut self, kind: Kind, detail: impl Into<String>) {
        let run_id = self.run_id.to_string();
        self.violations.push(Violation { kind, run_id, detail: detail.into() });
    }
}

#[cfg(test)]
#[path = "checker_tests.rs"]
mod tests;
