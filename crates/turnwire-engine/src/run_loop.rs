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
    Allowed, BlobStore, CallId, Event, LogError, Model, RunOutcome, RunStore, ToolOutcome,
    ToolServers, ToolSpec,
};

use crate::{
    definition::definition_of,
    discovery::discover,
    failures,
    lanes::Lanes,
    live_run::{LiveRun, Stop},
    model_turn::ask_model,
    policy::ApprovalPolicy,
    prompt_files::PromptFiles,
    run_state::Step,
    tool_call::carry_out,
    toolbox::Toolbox,
};

/// What a run works with.
pub(crate) struct Workplace {
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
    pub(crate) lanes: Lanes,
    /// How many unreadable parts of answers were left out, in all runs.
    pub(crate) skipped_parts: Arc<AtomicU64>,
}

/// Whether the loop goes on after a step.
pub(crate) enum Carried {
    /// Ask what is next.
    On,
    /// The run cannot go on.
    End(RunOutcome),
}

/// How this worker's part of a run ended.
pub(crate) enum Driven {
    /// With the run.
    Ended(RunOutcome),
    /// It leaves the run to another worker.
    Left,
}

/// Takes `run` from where it stands to its end, or leaves it where another worker can go on.
///
/// Returns an error only when the journal is lost; a failed tool or a cancelled run is a
/// normal end and comes back as its outcome.
#[instrument(skip_all, fields(run_id = %run.id()))]
pub(crate) async fn drive(run: &LiveRun, workplace: &Workplace) -> Result<Driven, LogError> {
    let done = CancellationToken::new();
    // On the heap: what is moved about would be in here several times.
    let steps = AssertUnwindSafe(carry_out_steps(run, workplace)).catch_unwind().boxed();
    let steps = async {
        let outcome = steps.await;
        done.cancel();
        outcome
    };
    // Whatever panics beside the steps ends the run like a step that does.
    let expiring = AssertUnwindSafe(run.keep_expiring(&done)).catch_unwind().boxed();
    let expiring = async {
        if expiring.await.is_err() {
            run.stop(Stop::Panicked);
        }
    };
    let outcome = tokio::select! {
        (outcome, ()) = join(steps, expiring) => outcome,
        never = run.keep_time() => match never {},
    };
    let outcome = match outcome {
        Ok(Err(LogError::Rejected { reason, .. })) => {
            error!(reason, "the journal rejected an event, the run ends");
            Driven::Ended(RunOutcome::Failed { failure: failures::journal_rejected() })
        }
        Ok(outcome) => outcome?,
        Err(_) => {
            error!("A step of the run crashed.");
            Driven::Ended(RunOutcome::Failed { failure: failures::engine_failed() })
        }
    };
    if let Driven::Ended(outcome) = &outcome {
        Box::pin(finish(run, workplace, outcome.clone())).await?;
    }
    Ok(outcome)
}

async fn carry_out_steps(run: &LiveRun, workplace: &Workplace) -> Result<Driven, LogError> {
    loop {
        run.surely_ours().await;
        if let Some(stop) = run.stopped_by() {
            return Ok(Driven::Ended(stop.outcome()));
        }
        if run.is_to_be_left() {
            return Ok(Driven::Left);
        }
        let step = run.state().next_step();
        debug!(?step, "Next.");
        match step {
            Step::Discover(servers) => Box::pin(discover(run, workplace, servers)).await?,
            Step::AskModel => {
                // On the heap: a run that waits for a tool should not carry it along.
                let turn = Box::pin(ask_model(run, workplace));
                if let Carried::End(outcome) = turn.await? {
                    return Ok(Driven::Ended(outcome));
                }
            }
            Step::AskApproval(calls) => Box::pin(ask_people(run, workplace, calls)).await?,
            Step::RunTools(calls) => run_tools(run, workplace, calls).await?,
            Step::SkipCalls { calls, reason } => {
                run.record_all(skipped(calls, &reason)).await?;
            }
            Step::Wait => run.woken().await,
            Step::Finish(outcome) => return Ok(Driven::Ended(outcome)),
        }
    }
}

/// Asks a person about `calls`, but for those of tools that were allowed earlier for the whole
/// conversation.
async fn ask_people(
    run: &LiveRun,
    workplace: &Workplace,
    calls: Vec<CallId>,
) -> Result<(), LogError> {
    let conversation_id = run.state().request().conversation_id.clone();
    let allowed: Vec<Allowed> = match conversation_id {
        Some(id) => {
            let store = workplace.store.as_ref();
            match run.until_heard(|| store.allowed(run.tenant(), &id)).await {
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
    workplace: &Workplace,
    calls: Vec<CallId>,
) -> Result<(), LogError> {
    let at_work: FuturesUnordered<_> =
        calls.into_iter().map(|call_id| carry_out(run, workplace, call_id).boxed()).collect();
    at_work.try_collect().await
}

fn skipped(calls: Vec<CallId>, reason: &str) -> Vec<Event> {
    let outcome = ToolOutcome::Skipped { reason: reason.to_owned() };
    let end = |call_id| Event::ToolFinished { call_id, outcome: outcome.clone(), duration_ms: 0 };
    calls.into_iter().map(end).collect()
}

/// Ends the run: first its journal, which also proves that the run is still ours, then its
/// conversation.
async fn finish(run: &LiveRun, workplace: &Workplace, outcome: RunOutcome) -> Result<(), LogError> {
    // Everything open is closed in the batch that ends the run: there is no state in between.
    run.record_end(outcome.clone()).await?;
    put_away(run, workplace.store.as_ref(), outcome).await;
    Ok(())
}

/// Stores what a finished run adds to its conversation, if that was not done with its end.
pub(crate) async fn put_away(run: &LiveRun, store: &dyn RunStore, outcome: RunOutcome) {
    if !run.ending_is_stored() {
        let entries = run.state().added().to_vec();
        if let Err(error) = store.finish(run.id(), outcome, entries).await {
            error!(%error, "The conversation could not be stored.");
        }
    }
    run.note_put_away();
}
