//! The whole run on one page.
//!
//! This module carries out; it decides nothing. What comes next is always the answer of
//! [`RunState::next_step`](crate::run_state::RunState::next_step), which looks at the recorded
//! events only. That is why a run can be taken up again by another process: it reads the
//! journal, asks the same question and gets the same answer.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use futures::{FutureExt, TryStreamExt, future::join, stream::FuturesUnordered};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, error, instrument};
use turnwire_contract::{
    Allowed, BlobStore, CallId, Event, JournalError, Model, RunOutcome, RunStore, ToolOutcome,
    ToolServers, ToolSpec,
};

use crate::{
    concurrency::ConcurrencyLimits,
    definition::definition_of,
    discovery::discover,
    failures,
    live_run::{LiveRun, Stop},
    model_turn::ask_model,
    policy::ApprovalPolicy,
    prompt_files::PromptFiles,
    run_state::Step,
    tool_call::execute_call,
    toolbox::Toolbox,
};

/// What a run works with.
pub(crate) struct RunContext {
    pub(crate) model: Arc<dyn Model>,
    /// The files that conversations name.
    pub(crate) files: Arc<PromptFiles>,
    pub(crate) tools: Toolbox,
    pub(crate) servers: Arc<dyn ToolServers>,
    pub(crate) store: Arc<dyn RunStore>,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) tasks: TaskTracker,
    /// How often a silent tool is said to be still at work.
    pub(crate) heartbeat: Duration,
    /// What people are asked about.
    pub(crate) policy: ApprovalPolicy,
    /// How many calls are carried out at the same time.
    pub(crate) concurrency: ConcurrencyLimits,
    /// How many unreadable parts of answers were left out, in all runs.
    pub(crate) skipped_parts: Arc<AtomicU64>,
}

/// Whether the loop continues after a step.
pub(crate) enum StepOutcome {
    Continue,
    /// The run ends here.
    End(RunOutcome),
}

/// How this worker's part of a run ended.
pub(crate) enum DriveOutcome {
    /// The run ended.
    Ended(RunOutcome),
    /// The run is left to another worker.
    HandedOver,
}

/// Takes `run` from where it stands to its end, or leaves it where another worker can go on.
///
/// Returns an error only when the journal is lost; a failed tool or a cancelled run is a
/// normal end and comes back as its outcome.
#[instrument(skip_all, fields(run_id = %run.id()))]
pub(crate) async fn drive(
    run: &LiveRun,
    context: &RunContext,
) -> Result<DriveOutcome, JournalError> {
    let done = CancellationToken::new();
    // On the heap: what is moved about would be in here several times.
    let steps = AssertUnwindSafe(execute_steps(run, context)).catch_unwind().boxed();
    let steps = async {
        let outcome = steps.await;
        done.cancel();
        outcome
    };
    // Whatever panics beside the steps ends the run like a step that does.
    let expiring = AssertUnwindSafe(run.expire_unanswered(&done)).catch_unwind().boxed();
    let expiring = async {
        if expiring.await.is_err() {
            run.stop(Stop::Panicked);
        }
    };
    let outcome = tokio::select! {
        (outcome, ()) = join(steps, expiring) => outcome,
        never = run.enforce_time_limit() => match never {},
    };
    let outcome = match outcome {
        Ok(Err(JournalError::Rejected { reason, .. })) => {
            error!(reason, "event rejected by the journal, run ends");
            DriveOutcome::Ended(RunOutcome::Failed { failure: failures::journal_rejected() })
        }
        Ok(outcome) => outcome?,
        Err(_) => {
            error!("run step panicked");
            DriveOutcome::Ended(RunOutcome::Failed { failure: failures::engine_failed() })
        }
    };
    if let DriveOutcome::Ended(outcome) = &outcome {
        Box::pin(finish(run, context, outcome.clone())).await?;
    }
    Ok(outcome)
}

async fn execute_steps(run: &LiveRun, context: &RunContext) -> Result<DriveOutcome, JournalError> {
    loop {
        run.wait_for_lease().await;
        if let Some(stop) = run.stopped_by() {
            return Ok(DriveOutcome::Ended(stop.outcome()));
        }
        if run.is_to_be_left() {
            return Ok(DriveOutcome::HandedOver);
        }
        let step = run.state().next_step();
        debug!(?step, "next step");
        match step {
            Step::Discover(servers) => Box::pin(discover(run, context, servers)).await?,
            Step::AskModel => {
                // On the heap: a run that waits for a tool should not carry it along.
                let turn = Box::pin(ask_model(run, context));
                if let StepOutcome::End(outcome) = turn.await? {
                    return Ok(DriveOutcome::Ended(outcome));
                }
            }
            Step::AskApproval(calls) => Box::pin(ask_people(run, context, calls)).await?,
            Step::RunTools(calls) => run_tools(run, context, calls).await?,
            Step::SkipCalls { calls, reason } => {
                run.record_all(skipped(calls, &reason)).await?;
            }
            Step::Wait => run.woken().await,
            Step::Finish(outcome) => return Ok(DriveOutcome::Ended(outcome)),
        }
    }
}

/// Asks a person about `calls`, but for those of tools that were allowed earlier for the whole
/// conversation.
async fn ask_people(
    run: &LiveRun,
    context: &RunContext,
    calls: Vec<CallId>,
) -> Result<(), JournalError> {
    let conversation_id = run.state().request().conversation_id.clone();
    let allowed: Vec<Allowed> = match conversation_id {
        Some(id) => {
            let store = context.store.as_ref();
            match run.retry_until_available(|| store.allowed(run.tenant(), &id)).await {
                // What is not known to be allowed is asked.
                Some(allowed) => allowed.unwrap_or_default(),
                // The loop looks at the stop next.
                None => return Ok(()),
            }
        }
        None => Vec::new(),
    };
    let is_allowed = |spec: &ToolSpec| {
        let is_it = |allowed: &Allowed| {
            allowed.tool == spec.name && allowed.definition == definition_of(spec)
        };
        spec.changed.is_none() && allowed.iter().any(is_it)
    };
    let asked = run.state().asking_events(calls, run.now(), is_allowed);
    run.record_all(asked).await?;
    run.note_asked();
    Ok(())
}

/// Carries out `calls` side by side. Each one's end is recorded as soon as it comes.
async fn run_tools(
    run: &LiveRun,
    context: &RunContext,
    calls: Vec<CallId>,
) -> Result<(), JournalError> {
    let at_work: FuturesUnordered<_> =
        calls.into_iter().map(|call_id| execute_call(run, context, call_id).boxed()).collect();
    at_work.try_collect().await
}

fn skipped(calls: Vec<CallId>, reason: &str) -> Vec<Event> {
    let outcome = ToolOutcome::Skipped { reason: reason.to_owned() };
    let end = |call_id| Event::ToolFinished { call_id, outcome: outcome.clone(), duration_ms: 0 };
    calls.into_iter().map(end).collect()
}

/// Ends the run: first its journal, which also proves that the run is still ours, then its
/// conversation.
async fn finish(
    run: &LiveRun,
    context: &RunContext,
    outcome: RunOutcome,
) -> Result<(), JournalError> {
    // Everything open is closed in the batch that ends the run: there is no state in between.
    run.record_end(outcome.clone()).await?;
    persist_end(run, context.store.as_ref(), outcome).await;
    Ok(())
}

/// Stores what a finished run adds to its conversation, if that was not done with its end.
pub(crate) async fn persist_end(run: &LiveRun, store: &dyn RunStore, outcome: RunOutcome) {
    if !run.ending_is_stored() {
        let entries = run.state().added().to_vec();
        if let Err(error) = store.finish(run.id(), outcome, entries).await {
            error!(%error, "conversation not stored");
        }
    }
    run.mark_persisted();
}
