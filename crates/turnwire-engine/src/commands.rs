//! What people may ask of a run, whichever worker has it.
//!
//! If this process works on the run, it is done here and now. Otherwise a wish is left for the
//! one that does, or for the one that will: see [`Workers`](turnwire_contract::Workers).

use std::sync::Arc;

use futures::TryStreamExt;
use serde_json::Value;
use tracing::warn;
use turnwire_contract::{
    ApprovalAnswer, CallId, Event, InputId, JournalError, RecordedEvent, Reply, RunCommand, RunId,
    Seq, StoreError, TenantId,
    seeded::{Fault, is_seeded},
};

use crate::{
    live_run::Stop,
    run_state::{Call, RunState},
    runs::Runs,
    toolbox::{complaints_about, read_arguments_for},
};

/// What came of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// It was recorded, or it equals the answer that was.
    Accepted,
    /// Another answer was recorded first, or the question has expired.
    TooLate,
    /// There is no such question.
    NotAsked,
}

/// Why an answer was not taken; the question stays open.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// What the person wrote does not fit what is asked for.
    #[error("{0}")]
    DoesNotFit(String),
    /// The journal did not take it.
    #[error(transparent)]
    Log(#[from] JournalError),
}

impl Runs {
    /// Cancels a run, here or elsewhere. Says whether there was something to cancel; when it
    /// returns, the end may still be a moment away.
    pub async fn cancel(&self, tenant: &TenantId, run_id: &RunId) -> Result<bool, StoreError> {
        let here = self.live(tenant, run_id);
        if let Some(run) = &here {
            run.stop(Stop::Cancelled);
        }
        // A run that is here may have been taken over a moment ago, or may be in the next one;
        // then only the wish counts. Whoever is told that it was taken can rely on it.
        let left = self.enqueue(tenant, run_id, RunCommand::Cancel).await?;
        Ok(left || here.is_some())
    }

    /// Cancels a run, for those who cannot wait for it.
    pub fn cancel_in_background(&self, tenant: &TenantId, run_id: &RunId) {
        if self.cancel_here(tenant, run_id) && !self.0.parts.workers.is_durable() {
            return;
        }
        let (runs, tenant, run_id) = (self.clone(), tenant.clone(), run_id.clone());
        self.0.lease_keeper.tasks().spawn(async move {
            if let Err(error) = runs.cancel(&tenant, &run_id).await {
                warn!(%error, %run_id, "cancel failed");
            }
        });
    }

    /// Cancels one call, whether a tool is at work on it or it waits for a person; the run goes
    /// on. Says whether there was something to cancel.
    pub async fn cancel_call(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<bool, StoreError> {
        let runs = self.clone();
        let (tenant, run_id, call_id) = (tenant.clone(), run_id.clone(), call_id.clone());
        let work = async move {
            let away = |error: JournalError| StoreError::Unavailable(error.to_string());
            if let Some(run) = runs.live(&tenant, &run_id) {
                match run.cancel_call(&call_id).await {
                    Err(JournalError::Conflict { .. }) => {}
                    done => return done.map_err(away),
                }
            }
            let is_open = match runs.call_history(&tenant, &run_id, &call_id).await {
                Ok(history) => is_open(&history.events, &call_id),
                Err(JournalError::Unavailable(why)) => return Err(StoreError::Unavailable(why)),
                Err(_) => false,
            };
            if !is_open {
                return Ok(false);
            }
            runs.enqueue(&tenant, &run_id, RunCommand::CancelCall { call_id }).await
        };
        self.run_detached(work).await
    }

    /// Answers for a person whether a call may be carried out. Says whether that is the answer
    /// that counts; a second one changes nothing.
    pub async fn resolve(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: impl Into<ApprovalAnswer>,
    ) -> Result<bool, JournalError> {
        let answer = self.give_answer(tenant, run_id, call_id, answer.into(), Repeat::IsTooLate);
        match answer.await {
            Ok(answered) => Ok(answered == AnswerOutcome::Accepted),
            Err(AnswerError::DoesNotFit(_)) => Ok(false),
            Err(AnswerError::Log(error)) => Err(error),
        }
    }

    /// Answers for a person whether a call may be carried out. The same answer once more is as
    /// good as the first.
    pub async fn answer(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
    ) -> Result<AnswerOutcome, AnswerError> {
        self.give_answer(tenant, run_id, call_id, answer, Repeat::IsTaken).await
    }

    async fn give_answer(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
        answer: ApprovalAnswer,
        repeat: Repeat,
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
        repeat: Repeat,
    ) -> Result<AnswerOutcome, AnswerError> {
        if let Some(run) = self.live(tenant, run_id) {
            check_arguments(&run.state(), call_id, &answer)?;
            match run.resolve(call_id, answer.clone()).await {
                Ok(true) => return Ok(AnswerOutcome::Accepted),
                // Settled; or the run has ended, or moved on to another worker, in this moment.
                Ok(false) | Err(JournalError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let CallHistory { events: journal, head } =
            match self.call_history(tenant, run_id, call_id).await {
                Ok(history) => history,
                Err(JournalError::NotFound(_)) => return Ok(AnswerOutcome::NotAsked),
                Err(error) => return Err(error.into()),
            };
        if let Some(settled) = settled_by(&journal, call_id, &answer, repeat) {
            return Ok(settled);
        }
        if let Some(state) = state_of(run_id, &journal) {
            check_arguments(&state, call_id, &answer)?;
        }
        let command = RunCommand::Answer { call_id: call_id.clone(), answer: answer.clone() };
        if !self.enqueue_or_fail(tenant, run_id, command).await? {
            // It has ended since: perhaps because somebody has given the same answer.
            let history = self.call_history(tenant, run_id, call_id).await?;
            let settled = settled_by(&history.events, call_id, &answer, repeat);
            return Ok(settled.unwrap_or(AnswerOutcome::TooLate));
        }
        let mut events = self.follow(tenant, run_id, head).await?;
        while let Some(recorded) = events.try_next().await.map_err(AnswerError::Log)? {
            if let Some(given) = answer_in(&recorded.event, call_id) {
                return Ok(judged(&given, &answer));
            }
            if is_end_of(&recorded.event, call_id) {
                break;
            }
        }
        Ok(AnswerOutcome::TooLate)
    }

    /// Answers for a person what a tool has asked: the question of this id, or the only one of
    /// the call. The same answer once more is as good as the first.
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
            match self.call_history(tenant, run_id, call_id).await {
                Ok(history) => history,
                Err(JournalError::NotFound(_)) => return Ok(AnswerOutcome::NotAsked),
                Err(error) => return Err(error.into()),
            };
        let Some(asked) = asked_in(&journal, call_id, input_id.as_ref()) else {
            return Ok(AnswerOutcome::NotAsked);
        };
        let (input_id, schema) = asked;
        let given = journal.iter().find_map(|recorded| reply_in(&recorded.event, &input_id));
        if let Some(given) = given {
            return Ok(if given == reply {
                AnswerOutcome::Accepted
            } else {
                AnswerOutcome::TooLate
            });
        }
        if let Reply::Accepted { content } = &reply {
            complaints_about(&schema, &Value::Object(content.clone()))
                .map_or(Ok(()), |complaint| Err(AnswerError::DoesNotFit(complaint)))?;
        }
        if let Some(run) = self.live(tenant, run_id) {
            match run.reply(&input_id, reply.clone(), by.clone()).await {
                Ok(true) => return Ok(AnswerOutcome::Accepted),
                Ok(false) | Err(JournalError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let (call_id, ours) = (call_id.clone(), reply.clone());
        let command =
            RunCommand::Input { call_id: call_id.clone(), input_id: input_id.clone(), reply, by };
        if !self.enqueue_or_fail(tenant, run_id, command).await? {
            let history = self.call_history(tenant, run_id, &call_id).await?;
            let given =
                history.events.iter().find_map(|recorded| reply_in(&recorded.event, &input_id));
            let is_ours = given.is_some_and(|given| given == ours);
            return Ok(if is_ours { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate });
        }
        let mut events = self.follow(tenant, run_id, head).await?;
        while let Some(recorded) = events.try_next().await.map_err(AnswerError::Log)? {
            if let Some(given) = reply_in(&recorded.event, &input_id) {
                return Ok(if given == ours {
                    AnswerOutcome::Accepted
                } else {
                    AnswerOutcome::TooLate
                });
            }
            if is_end_of(&recorded.event, &call_id) {
                break;
            }
        }
        Ok(AnswerOutcome::TooLate)
    }

    /// What the journal says about a call so far.
    async fn call_history(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        call_id: &CallId,
    ) -> Result<CallHistory, JournalError> {
        let mut history = CallHistory { events: Vec::new(), head: Seq::START };
        let mut stored = self.stored(tenant, run_id).await?;
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
        left.map_err(|error| JournalError::Unavailable(error.to_string()))
    }

    /// Leaves a wish for whoever works on the run. Says whether anybody will.
    async fn enqueue(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<bool, StoreError> {
        let parts = &self.0.parts;
        if !parts.workers.is_durable() || is_seeded(Fault::CancelThroughFence) {
            return Ok(false);
        }
        match parts.workers.enqueue(tenant, run_id, command).await {
            Ok(()) => Ok(true),
            // It is over, or never was.
            Err(StoreError::NotFound(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The events of a run that have to do with one of its calls, and how far all of them have come.
struct CallHistory {
    events: Vec<Arc<RecordedEvent>>,
    head: Seq,
}

/// Whether somebody who answers about a call has to know of an event: it tells what the call is,
/// what its tool takes, and what became of the questions about it. What models and tools have
/// said meanwhile may be long, and says nothing about that.
fn matters_to(about: &CallId, event: &Event) -> bool {
    let is_about_tools = matches!(
        event,
        Event::RunQueued { .. } | Event::ToolsDiscovered { .. } | Event::TurnStarted { .. }
    );
    let is_said_meanwhile = matches!(
        event,
        Event::ArgumentsAdded { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::ToolStayedSilent { .. }
    );
    is_about_tools || event.call_id() == Some(about) && !is_said_meanwhile
}

/// What the same answer once more counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    IsTaken,
    IsTooLate,
}

/// What came of an answer to a question that is settled, or was never asked; nothing if it
/// waits.
fn settled_by(
    journal: &[Arc<RecordedEvent>],
    call_id: &CallId,
    answer: &ApprovalAnswer,
    repeat: Repeat,
) -> Option<AnswerOutcome> {
    let about = journal.iter().map(|recorded| &recorded.event);
    let about: Vec<&Event> = about.filter(|event| event.call_id() == Some(call_id)).collect();
    let given = about.iter().find_map(|event| answer_in(event, call_id));
    if let Some(given) = given {
        return Some(match repeat {
            Repeat::IsTaken => judged(&given, answer),
            Repeat::IsTooLate => AnswerOutcome::TooLate,
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

fn judged(given: &ApprovalAnswer, ours: &ApprovalAnswer) -> AnswerOutcome {
    if given.says_the_same(ours) { AnswerOutcome::Accepted } else { AnswerOutcome::TooLate }
}

fn answer_in(event: &Event, about: &CallId) -> Option<ApprovalAnswer> {
    event.answer().filter(|_| event.call_id() == Some(about))
}

fn reply_in(event: &Event, about: &InputId) -> Option<Reply> {
    let Event::InputResolved { input_id, reply, .. } = event else { return None };
    (input_id == about).then(|| reply.clone())
}

/// The question that is meant, with the schema of its answer: the one of this id, or the latest
/// of the call.
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

/// The arguments that a person has written must be ones that the tool takes.
fn check_arguments(
    state: &RunState,
    call_id: &CallId,
    answer: &ApprovalAnswer,
) -> Result<(), AnswerError> {
    let Some(arguments) = &answer.arguments else { return Ok(()) };
    let call = state.call(call_id).filter(|call| Call::waits_for_approval(call));
    let Some(spec) = call.and_then(|call| state.spec(&call.tool.name)) else { return Ok(()) };
    read_arguments_for(spec, arguments).map(drop).map_err(AnswerError::DoesNotFit)
}

/// What the journal of a run means, as far as its tools and calls are concerned.
fn state_of(run_id: &RunId, journal: &[Arc<RecordedEvent>]) -> Option<RunState> {
    let Event::RunQueued { request } = &journal.first()?.event else { return None };
    let mut state = RunState::new(run_id, Arc::clone(request), Vec::new());
    for recorded in journal {
        state.apply(&recorded.event);
    }
    Some(state)
}

/// Whether the journal ends with this call at work, or waiting for a person.
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
