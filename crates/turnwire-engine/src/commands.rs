//! Commands to a run: cancel, approve, reply.
//!
//! If this process executes the run, the command is applied directly. Otherwise it is stored as a
//! pending command for the worker that holds the run or claims it next: see
//! [`Workers`](turnwire_contract::Workers).

use std::sync::Arc;

use futures::TryStreamExt;
use serde_json::Value;
use tracing::warn;
use turnwire_contract::{
    ApprovalAnswer, CallId, Event, InputId, JournalError, RecordedEvent, Reply, RunCommand, RunId,
    Seq, StoreError, TenantId, ToolSpec, any_event,
};

use crate::{
    live_run::Stop,
    run_state::{Call, RunState},
    runs::Runs,
    schemas,
    toolbox::read_arguments_for,
};

/// Result of an answer to an approval or a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// The answer is recorded, or equals the recorded one.
    Accepted,
    /// Another answer was recorded first, or the question has expired.
    TooLate,
    /// No such question exists.
    NotAsked,
}

/// Why an answer is rejected. The question stays open.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The answer does not match the schema.
    #[error("{0}")]
    DoesNotFit(String),
    /// The append to the journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Runs {
    /// Cancels a run on any worker. Returns whether there was a run to cancel. The run may end
    /// shortly after this returns.
    pub async fn cancel(&self, tenant: &TenantId, run_id: &RunId) -> Result<bool, StoreError> {
        let here = self.live(tenant, run_id);
        if let Some(run) = &here {
            run.stop(Stop::Cancelled);
        }
        // The run may be taken over at any moment, so only the stored command guarantees the
        // cancel.
        let left = self.enqueue(tenant, run_id, RunCommand::Cancel).await?;
        Ok(left || here.is_some())
    }

    /// Cancels a run in a background task.
    pub fn cancel_in_background(&self, tenant: &TenantId, run_id: &RunId) {
        if self.cancel_here(tenant, run_id) && !self.0.parts.workers.is_durable() {
            return;
        }
        let (runs, tenant, run_id) = (self.clone(), tenant.clone(), run_id.clone());
        self.0.leases.tasks.spawn(async move {
            if let Err(error) = runs.cancel(&tenant, &run_id).await {
                warn!(%error, %run_id, "cancel failed");
            }
        });
    }

    /// Cancels one call, running or waiting for a person. The run continues. Returns whether there
    /// was a call to cancel.
    pub async fn cancel_call(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<bool, StoreError> {
        let runs = self.clone();
        let (tenant, run_id, call_id) = (tenant.clone(), run_id.clone(), call_id.clone());
        let work = async move {
            let away = |error: JournalError| {
                if let JournalError::KeyMissing(why) = error {
                    return StoreError::KeyMissing(why);
                }
                StoreError::Unavailable(error.to_string())
            };
            if let Some(run) = runs.live(&tenant, &run_id) {
                match run.cancel_call(&call_id).await {
                    Err(JournalError::Conflict { .. }) => {}
                    done => return done.map_err(away),
                }
            }
            let is_open = match runs.call_history(&tenant, &run_id, &call_id).await {
                Ok(history) => is_open(&history.events, &call_id),
                Err(JournalError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
                Err(JournalError::KeyMissing(why)) => return Err(StoreError::KeyMissing(why)),
                Err(_) => false,
            };
            if !is_open {
                return Ok(false);
            }
            runs.enqueue(&tenant, &run_id, RunCommand::CancelCall { call_id }).await
        };
        self.run_detached(work).await
    }

    /// Resolves the approval of a call. Returns whether this answer is the recorded one. A second
    /// answer has no effect.
    pub async fn resolve(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: impl Into<ApprovalAnswer>,
    ) -> Result<bool, JournalError> {
        let answer =
            self.give_answer(tenant, run_id, call_id, answer.into(), DuplicatePolicy::Reject);
        match answer.await {
            Ok(answered) => Ok(answered == AnswerOutcome::Accepted),
            Err(AnswerError::DoesNotFit(_)) => Ok(false),
            Err(AnswerError::Journal(error)) => Err(error),
        }
    }

    /// Resolves the approval of a call. Repeating the recorded answer is accepted.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
    ) -> Result<AnswerOutcome, AnswerError> {
        self.give_answer(tenant, run_id, call_id, answer, DuplicatePolicy::Accept).await
    }

    async fn give_answer(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
        repeat: DuplicatePolicy,
    ) -> Result<AnswerOutcome, AnswerError> {
        let runs = self.clone();
        let (tenant, run_id, call_id) = (tenant.clone(), run_id.clone(), call_id.clone());
        let work = async move {
            runs.resolve_here_or_elsewhere(&tenant, &run_id, &call_id, answer, repeat).await
        };
        self.run_detached(work).await
    }

    async fn resolve_here_or_elsewhere(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
        repeat: DuplicatePolicy,
    ) -> Result<AnswerOutcome, AnswerError> {
        if let Some(run) = self.live(tenant, run_id) {
            let edited = edited_tool(&run.state(), call_id, &answer);
            check_arguments(edited, &answer).await?;
            match run.resolve(call_id, answer.clone()).await {
                Ok(true) => return Ok(AnswerOutcome::Accepted),
                // Already resolved; or the run has just ended or moved to another worker.
                Ok(false) | Err(JournalError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let CallHistory { events: journal, head } =
            self.call_history(tenant, run_id, call_id).await?;
        let answer = as_counted(&journal, call_id, answer);
        let settled = |journal: &[_]| resolved_outcome(journal, call_id, &answer, repeat);
        if let Some(settled) = settled(&journal) {
            return Ok(settled);
        }
        if let Some(state) = state_of(run_id, &journal) {
            check_arguments(edited_tool(&state, call_id, &answer), &answer).await?;
        }
        let command = RunCommand::Answer { call_id: call_id.clone(), answer: answer.clone() };
        if !self.enqueue_or_fail(tenant, run_id, command).await? {
            // The run has ended meanwhile, perhaps because of the same answer.
            let history = self.call_history(tenant, run_id, call_id).await?;
            return Ok(settled(&history.events).unwrap_or(AnswerOutcome::TooLate));
        }
        let judge = |event: &Event| Some(compare_answers(&answer_in(event, call_id)?, &answer));
        self.await_answer(tenant, run_id, call_id, head, judge).await
    }

    /// Answers a question of a tool: the one with this id, or the only one of the call. Repeating
    /// the recorded answer is accepted.
    pub async fn reply(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        input_id: Option<InputId>,
        reply: Reply,
        by: impl Into<String>,
    ) -> Result<AnswerOutcome, AnswerError> {
        let runs = self.clone();
        let (tenant, run_id, call_id) = (tenant.clone(), run_id.clone(), call_id.clone());
        let by = Some(by.into());
        let work = async move {
            runs.reply_here_or_elsewhere(&tenant, &run_id, &call_id, input_id, reply, by).await
        };
        self.run_detached(work).await
    }

    async fn reply_here_or_elsewhere(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        input_id: Option<InputId>,
        reply: Reply,
        by: Option<String>,
    ) -> Result<AnswerOutcome, AnswerError> {
        let CallHistory { events: journal, head } =
            self.call_history(tenant, run_id, call_id).await?;
        let Some(asked) = asked_in(&journal, call_id, input_id.as_ref()) else {
            return Ok(AnswerOutcome::NotAsked);
        };
        let (input_id, schema) = asked;
        let judge = |event: &Event| {
            let given = reply_in(event, &input_id)?;
            Some(if given == reply { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate })
        };
        let settled = |journal: &[Arc<RecordedEvent>]| {
            journal.iter().find_map(|recorded| judge(&recorded.event))
        };
        if let Some(settled) = settled(&journal) {
            return Ok(settled);
        }
        if let Reply::Accepted { content } = &reply {
            let content = Value::Object(content.clone());
            schemas::checked(&schema, content).await.map_err(AnswerError::DoesNotFit)?;
        }
        if let Some(run) = self.live(tenant, run_id) {
            match run.reply(&input_id, reply.clone(), by.clone()).await {
                Ok(true) => return Ok(AnswerOutcome::Accepted),
                Ok(false) | Err(JournalError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let command = RunCommand::Input {
            call_id: call_id.clone(),
            input_id: input_id.clone(),
            reply: reply.clone(),
            by,
        };
        if !self.enqueue_or_fail(tenant, run_id, command).await? {
            let history = self.call_history(tenant, run_id, call_id).await?;
            return Ok(settled(&history.events).unwrap_or(AnswerOutcome::TooLate));
        }
        self.await_answer(tenant, run_id, call_id, head, judge).await
    }

    /// Waits until the worker that holds the run records an answer that `judge` recognizes, or
    /// until the call ends without one.
    async fn await_answer(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        after: Seq,
        judge: impl Fn(&Event) -> Option<AnswerOutcome>,
    ) -> Result<AnswerOutcome, AnswerError> {
        let mut events = self.follow(tenant, run_id, after).await?;
        while let Some(recorded) = events.try_next().await.map_err(AnswerError::Journal)? {
            if let Some(outcome) = judge(&recorded.event) {
                return Ok(outcome);
            }
            if is_end_of(&recorded.event, call_id) {
                break;
            }
        }
        Ok(AnswerOutcome::TooLate)
    }

    /// Returns the events about a call so far. A run that does not exist has none.
    async fn call_history(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<CallHistory, JournalError> {
        let mut history = CallHistory { events: Vec::new(), head: Seq::START };
        let mut stored = match self.stored(tenant, run_id).await {
            Err(JournalError::NotFound(_)) => return Ok(history),
            stored => stored?,
        };
        while let Some(recorded) = stored.try_next().await? {
            history.head = recorded.seq;
            if matters_to(call_id, &recorded.event) {
                history.events.push(recorded);
            }
        }
        Ok(history)
    }

    async fn enqueue_or_fail(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<bool, JournalError> {
        let left = self.enqueue(tenant, run_id, command).await;
        left.map_err(|error| {
            if let StoreError::KeyMissing(why) = error {
                return JournalError::KeyMissing(why);
            }
            JournalError::Unavailable(error.to_string())
        })
    }

    /// Stores a pending command for the run. Returns whether a worker will apply it.
    async fn enqueue(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<bool, StoreError> {
        let parts = &self.0.parts;
        if !parts.workers.is_durable() {
            return Ok(false);
        }
        match parts.workers.enqueue(tenant, run_id, command).await {
            Ok(()) => Ok(true),
            // The run has ended or does not exist.
            Err(StoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The events of a run that concern one call, and the head of the journal.
struct CallHistory {
    events: Vec<Arc<RecordedEvent>>,
    head: Seq,
}

/// Returns whether an event is needed to judge an answer about a call: the call itself, its tool's
/// schema, and its questions. Output of models and tools may be long and is not needed.
fn matters_to(about: &CallId, event: &Event) -> bool {
    let is_about_tools = matches!(
        event,
        Event::RunQueued { .. } | Event::ToolsDiscovered { .. } | Event::TurnStarted { .. }
    );
    let is_said_meanwhile = matches!(
        event,
        any_event!(ArgumentsAdded ToolPhase ToolProgressed ToolOutputAdded ToolStayedSilent)
    );
    is_about_tools || event.call_id() == Some(about) && !is_said_meanwhile
}

/// Returns the answer as it counts for the call: one about a budget holds for no later call.
fn as_counted(
    journal: &[Arc<RecordedEvent>],
    about: &CallId,
    answer: ApprovalAnswer,
) -> ApprovalAnswer {
    let is_about_budget = journal.iter().any(|recorded| {
        matches!(&recorded.event, Event::ApprovalRequested { call_id, budget: Some(_), .. }
            if call_id == about)
    });
    ApprovalAnswer { remember: answer.remember && !is_about_budget, ..answer }
}

/// How to judge a repeated answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DuplicatePolicy {
    Accept,
    Reject,
}

/// Returns the outcome for a question that is resolved or was never asked, or `None` if it is still
/// open.
fn resolved_outcome(
    journal: &[Arc<RecordedEvent>],
    call_id: &CallId,
    answer: &ApprovalAnswer,
    repeat: DuplicatePolicy,
) -> Option<AnswerOutcome> {
    let about = journal.iter().map(|recorded| &recorded.event);
    let about: Vec<&Event> = about.filter(|event| event.call_id() == Some(call_id)).collect();
    let given = about.iter().find_map(|event| answer_in(event, call_id));
    if let Some(given) = given {
        return Some(match repeat {
            DuplicatePolicy::Accept => compare_answers(&given, answer),
            DuplicatePolicy::Reject => AnswerOutcome::TooLate,
        });
    }
    let was_asked = about.iter().any(|event| matches!(event, Event::ApprovalRequested { .. }));
    let is_over = about.iter().any(|event| is_end_of(event, call_id));
    match (was_asked, is_over) {
        (false, _) => Some(AnswerOutcome::NotAsked),
        (true, true) => Some(AnswerOutcome::TooLate),
        (true, false) => None,
    }
}

fn compare_answers(given: &ApprovalAnswer, ours: &ApprovalAnswer) -> AnswerOutcome {
    if given.says_the_same(ours) { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate }
}

fn answer_in(event: &Event, about: &CallId) -> Option<ApprovalAnswer> {
    event.answer().filter(|_| event.call_id() == Some(about))
}

fn reply_in(event: &Event, about: &InputId) -> Option<Reply> {
    let Event::InputResolved { input_id, reply, .. } = event else { return None };
    (input_id == about).then(|| reply.clone())
}

/// Returns the question with this id, or the latest one of the call, with its answer schema.
fn asked_in(
    journal: &[Arc<RecordedEvent>],
    about: &CallId,
    meant: Option<&InputId>,
) -> Option<(InputId, Value)> {
    journal.iter().rev().find_map(|recorded| {
        let Event::InputRequested { call_id, input_id, schema, .. } = &recorded.event else {
            return None;
        };
        let is_meant = call_id == about && meant.is_none_or(|meant| meant == input_id);
        is_meant.then(|| (input_id.clone(), schema.clone()))
    })
}

/// Returns the tool whose arguments a person edited.
fn edited_tool(
    state: &RunState,
    call_id: &CallId,
    answer: &ApprovalAnswer,
) -> Option<Arc<ToolSpec>> {
    answer.arguments.as_ref()?;
    let call = state.call(call_id).filter(|call| Call::waits_for_approval(call))?;
    state.shared_spec_of(&call.tool).cloned()
}

/// Checks arguments edited by a person against the tool's schema.
async fn check_arguments(
    tool: Option<Arc<ToolSpec>>,
    answer: &ApprovalAnswer,
) -> Result<(), AnswerError> {
    let (Some(spec), Some(arguments)) = (tool, &answer.arguments) else { return Ok(()) };
    read_arguments_for(&spec, arguments).await.map(drop).map_err(AnswerError::DoesNotFit)
}

/// Folds the events about tools and calls.
fn state_of(run_id: &RunId, journal: &[Arc<RecordedEvent>]) -> Option<RunState> {
    let Event::RunQueued { request } = &journal.first()?.event else { return None };
    let mut state = RunState::new(run_id, Arc::clone(request), Vec::new());
    for recorded in journal {
        state.apply(&recorded.event);
    }
    Some(state)
}

/// Returns whether, at the end of the journal, the call is running or waits for a person.
fn is_open(journal: &[Arc<RecordedEvent>], call_id: &CallId) -> bool {
    let about = journal.iter().map(|recorded| &recorded.event);
    let about: Vec<&Event> = about.filter(|event| event.call_id() == Some(call_id)).collect();
    let began = |event: &&Event| {
        matches!(event, Event::ToolStarted { .. } | Event::ApprovalRequested { .. })
    };
    about.iter().any(began) && !about.iter().any(|event| is_end_of(event, call_id))
}

fn is_end_of(event: &Event, about: &CallId) -> bool {
    matches!(event, Event::ToolFinished { call_id, .. } if call_id == about)
}
