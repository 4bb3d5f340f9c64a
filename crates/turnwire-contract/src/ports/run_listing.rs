//! Lists of runs: what a line of a list says, and which runs are listed.
//!
//! A line is made from a small summary that the store writes together with the events. No journal
//! is read to list runs.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    CallId, Content, ConversationId, Event, InputId, Item, RecordedEvent, Role, RunId, RunOutcome,
    RunRecord, RunRequest, RunStatus, Timestamp, ToolOutcome, any_event, words,
};

/// Maximum number of characters of a title.
const TITLE_CHARS: usize = 120;

/// Maximum number of characters of the input that a store keeps for searching.
const TEXT_CHARS: usize = 1_000;

/// Maximum number of tools that a summary names.
const MAX_TOOLS: usize = 64;

words! {
    /// Status of a run in a list.
    #[derive(
        Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
    )]
    pub enum ListedStatus {
        /// In progress.
        Active = "active",
        /// In progress, and waiting for a person: an approval, or the answer to a question of a
        /// tool.
        NeedsInput = "needs_input",
        /// Not finished, and no worker has the model, server or tool it needs.
        Stalled = "stalled",
        /// The model gave its answer, or the run ended with calls for the client.
        Completed = "completed",
        /// It stopped at a limit.
        Incomplete = "incomplete",
        /// The model or the engine failed.
        Failed = "failed",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl ListedStatus {
    /// Returns the status with this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }

    /// Returns the status of a run with this outcome.
    pub fn at_end(outcome: &RunOutcome) -> Self {
        match outcome {
            RunOutcome::Completed => Self::Completed,
            RunOutcome::Incomplete { .. } => Self::Incomplete,
            RunOutcome::Failed { .. } => Self::Failed,
            RunOutcome::Cancelled => Self::Cancelled,
        }
    }
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// ID of the run.
    pub run_id: RunId,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Name of the model.
    pub model: String,
    /// Conversation of the run.
    pub conversation_id: Option<ConversationId>,
    /// Status of the run.
    pub status: ListedStatus,
    /// If stalled: what the workers that declined the run lack.
    pub stalled: Option<String>,
    /// Beginning of the person's text.
    pub text: String,
    /// Names of the tools that were called, in the order of their first call.
    pub tools: Vec<String>,
    /// Number of calls.
    pub n_calls: u32,
    /// Number of calls that failed.
    pub n_failed_calls: u32,
    /// Time at which the run ended.
    pub ended_at: Option<Timestamp>,
}

impl RunSummary {
    /// Returns the first 120 characters of the person's text, on one line.
    pub fn title(&self) -> String {
        let words: Vec<&str> = self.text.split_whitespace().collect();
        words.join(" ").chars().take(TITLE_CHARS).collect()
    }

    /// Summarizes a stored run and what is known of its events.
    pub fn of(record: RunRecord, progress: &RunProgress) -> Self {
        let RunRecord { run_id, created_at, request, status, stalled } = record;
        let status = match status {
            RunStatus::Finished { outcome } => ListedStatus::at_end(&outcome),
            RunStatus::Active if stalled.is_some() => ListedStatus::Stalled,
            RunStatus::Active if progress.needs_input() => ListedStatus::NeedsInput,
            RunStatus::Active => ListedStatus::Active,
        };
        Self {
            run_id,
            created_at,
            model: request.model.clone(),
            conversation_id: request.conversation_id.clone(),
            status,
            stalled,
            text: Self::text_of(&request),
            tools: progress.tools.clone(),
            n_calls: progress.n_calls,
            n_failed_calls: progress.n_failed_calls,
            ended_at: progress.ended_at,
        }
    }

    /// Returns the beginning of the person's text in `request`: their last message.
    pub fn text_of(request: &RunRequest) -> String {
        let said = |item: &Item| match item {
            Item::Message { role: Role::User, content } => {
                let texts = content.iter().filter_map(|part| match part {
                    Content::Text { text } => Some(text.as_str()),
                    Content::Refusal { .. } | Content::Image { .. } | Content::File { .. } => None,
                });
                Some(texts.collect::<Vec<_>>().join("\n"))
            }
            Item::Message { .. }
            | Item::Reasoning { .. }
            | Item::Call { .. }
            | Item::CallResult { .. } => None,
        };
        let text = request.input.iter().rev().find_map(said).unwrap_or_default();
        // PostgreSQL stores no NUL characters.
        text.chars().filter(|char| *char != '\0').take(TEXT_CHARS).collect()
    }
}

/// What a list says about the events of a run: a fold over them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// Names of the tools that were called, in the order of their first call; at most 64.
    pub tools: Vec<String>,
    /// Number of calls, without those of abandoned turns.
    pub n_calls: u32,
    /// Number of calls that failed. A call that was denied, cancelled or skipped did not.
    pub n_failed_calls: u32,
    /// Time at which the run ended.
    pub ended_at: Option<Timestamp>,
    /// Calls of the current turn.
    n_calls_of_turn: u32,
    /// Open questions to people.
    questions: Vec<(CallId, Option<InputId>)>,
}

impl RunProgress {
    /// Returns the progress after `events`.
    pub fn after<'a>(events: impl IntoIterator<Item = &'a Arc<RecordedEvent>>) -> Self {
        let mut progress = Self::default();
        for recorded in events {
            progress.note(recorded);
        }
        progress
    }

    /// Whether the run waits for a person.
    pub fn needs_input(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether this event changes the progress of a run. Most do not.
    pub fn concerns(event: &Event) -> bool {
        matches!(
            event,
            any_event!(
                TurnStarted TurnAbandoned RunTakenOver CallAnnounced ApprovalRequested
                ApprovalResolved InputRequested InputResolved ToolFinished RunFinished
            )
        )
    }

    /// Applies one event.
    pub fn note(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::TurnStarted { .. } => self.n_calls_of_turn = 0,
            Event::TurnAbandoned { .. } => {
                self.n_calls = self.n_calls.saturating_sub(self.n_calls_of_turn);
                self.n_calls_of_turn = 0;
            }
            Event::CallAnnounced { tool, .. } => {
                self.n_calls += 1;
                self.n_calls_of_turn += 1;
                if self.tools.len() < MAX_TOOLS && !self.tools.contains(&tool.name) {
                    self.tools.push(tool.name.replace('\0', ""));
                }
            }
            Event::ApprovalRequested { call_id, .. } => self.ask(call_id, None),
            Event::ApprovalResolved { call_id, .. } => {
                self.questions.retain(|(asked, input)| asked != call_id || input.is_some());
            }
            Event::InputRequested { call_id, input_id, .. } => self.ask(call_id, Some(input_id)),
            Event::InputResolved { input_id, .. } => {
                self.questions.retain(|(_, asked)| asked.as_ref() != Some(input_id));
            }
            Event::ToolFinished { call_id, outcome, .. } => {
                self.questions.retain(|(asked, _)| asked != call_id);
                self.n_failed_calls += u32::from(is_failure(outcome));
            }
            Event::RunFinished { .. } => {
                self.questions.clear();
                self.ended_at = Some(recorded.at);
            }
            _ => {}
        }
    }

    fn ask(&mut self, call_id: &CallId, input_id: Option<&InputId>) {
        let question = (call_id.clone(), input_id.cloned());
        if !self.questions.contains(&question) {
            self.questions.push(question);
        }
    }
}

fn is_failure(outcome: &ToolOutcome) -> bool {
    match outcome {
        ToolOutcome::Failed { .. }
        | ToolOutcome::TimedOut { .. }
        | ToolOutcome::InvalidArguments { .. }
        | ToolOutcome::NotFound { .. }
        | ToolOutcome::OutcomeUnknown { .. } => true,
        ToolOutcome::Succeeded { .. }
        | ToolOutcome::Cancelled
        | ToolOutcome::Denied { .. }
        | ToolOutcome::Skipped { .. } => false,
    }
}

/// Which runs to list. An empty filter lists all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFilter {
    /// Runs with one of these statuses; any if empty.
    pub statuses: Vec<ListedStatus>,
    /// Runs of this model.
    pub model: Option<String>,
    /// Runs of this conversation.
    pub conversation_id: Option<ConversationId>,
    /// Runs that called this tool.
    pub tool: Option<String>,
    /// Runs whose input contains this text. The case of ASCII letters is ignored.
    pub text: Option<String>,
    /// Runs created at this time or later.
    pub created_after: Option<Timestamp>,
    /// Runs created before this time.
    pub created_before: Option<Timestamp>,
}

impl RunFilter {
    /// Whether the filter includes `run`, apart from its status.
    fn includes_any_status(&self, run: &RunSummary) -> bool {
        let text = self.text.as_ref().map(|text| text.to_ascii_lowercase());
        self.model.as_ref().is_none_or(|model| *model == run.model)
            && self
                .conversation_id
                .as_ref()
                .is_none_or(|id| run.conversation_id.as_ref() == Some(id))
            && self.tool.as_ref().is_none_or(|tool| run.tools.contains(tool))
            && text.is_none_or(|text| run.text.to_ascii_lowercase().contains(&text))
            && self.created_after.is_none_or(|time| run.created_at >= time)
            && self.created_before.is_none_or(|time| run.created_at < time)
    }

    /// Whether the filter includes `run`.
    pub fn includes(&self, run: &RunSummary) -> bool {
        let has_status = self.statuses.is_empty() || self.statuses.contains(&run.status);
        has_status && self.includes_any_status(run)
    }

    /// Counts `runs` by status. The statuses of the filter are ignored.
    pub fn count(&self, runs: &[RunSummary]) -> RunCounts {
        let mut counts = RunCounts::new();
        for run in runs.iter().filter(|run| self.includes_any_status(run)) {
            *counts.entry(run.status).or_default() += 1;
        }
        counts
    }
}

/// Number of runs by status.
pub type RunCounts = BTreeMap<ListedStatus, u64>;

/// A page of a list of runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunQuery {
    /// Which runs to list.
    pub filter: RunFilter,
    /// The page starts after this run.
    pub after: Option<RunId>,
    /// The page ends before this run.
    pub before: Option<RunId>,
    /// Whether older runs come first.
    pub oldest_first: bool,
    /// Maximum number of runs.
    pub most: usize,
}

impl RunQuery {
    /// Returns the page of `runs`, which are all runs of a tenant, newest first. `None` if the run
    /// that the page starts after or ends before is not among them.
    pub fn page_of(&self, mut runs: Vec<RunSummary>) -> Option<RunPage> {
        if self.oldest_first {
            runs.reverse();
        }
        let place = |id: &RunId| runs.iter().position(|run| run.run_id == *id);
        let first = self.after.as_ref().map_or(Some(0), |id| place(id).map(|n| n + 1))?;
        let end = self.before.as_ref().map_or(Some(runs.len()), place)?;
        let listed = runs.into_iter().take(end).skip(first);
        let mut runs: Vec<RunSummary> =
            listed.filter(|run| self.filter.includes(run)).take(self.most + 1).collect();
        let has_more = runs.len() > self.most;
        runs.truncate(self.most);
        Some(RunPage { runs, has_more })
    }
}

/// The runs of a page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunPage {
    /// The runs.
    pub runs: Vec<RunSummary>,
    /// Whether runs follow after the page.
    pub has_more: bool,
}
