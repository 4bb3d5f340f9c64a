//! The loop of a run.
//!
//! This module executes steps and decides nothing, except that a stop, a handover or a budget that
//! others have used comes first.
//! [`RunState::next_step`](crate::run_state::RunState::next_step) decides, from recorded events
//! only. So another process can continue a run: it reads the journal and gets the same next step.

use std::{collections::HashSet, panic::AssertUnwindSafe, sync::Arc};

use futures::{FutureExt, TryStreamExt, future::join, stream::FuturesUnordered};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, instrument};
use turnwire_contract::{
    Allowed, CallId, Event, IncompleteReason, JournalError, RunOutcome, RunStore, ToolOutcome,
    ToolSpec,
};

use crate::{
    Result,
    definition::permission,
    discovery::discover,
    failures,
    live_run::{LiveRun, Stop},
    model_turn::ask_model,
    run_context::{DriveOutcome, RunContext, StepOutcome},
    run_state::{INTERRUPTED, Step},
    tool_call::execute_call,
    when_woken::WhenWoken,
};

/// Executes `run` from its current state to its end, or to a point where another worker can
/// continue.
///
/// Returns an error only if the journal fails. A failed tool or a cancelled run is a normal
/// outcome.
#[instrument(skip_all, fields(run_id = %run.id()))]
pub(crate) async fn drive(run: &LiveRun, context: &RunContext) -> Result<DriveOutcome> {
    let done = CancellationToken::new();
    // Boxed, because moves would copy the large future several times.
    let steps = AssertUnwindSafe(execute_steps(run, context)).catch_unwind().boxed();
    let steps = async {
        let outcome = steps.await;
        done.cancel();
        outcome
    };
    let beside = async {
        let expiring = AssertUnwindSafe(run.expire_unanswered(&done)).catch_unwind();
        tokio::select! {
            // A panic outside the steps ends the run in the same way.
            expired = expiring => {
                if expired.is_err() {
                    run.stop(Stop::Panicked);
                }
            }
            never = run.enforce_time_limit() => match never {},
        }
    };
    let (outcome, ()) = join(steps, WhenWoken::new(beside.boxed())).await;
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
    match outcome {
        DriveOutcome::Ended(outcome) => {
            Box::pin(finish(run, context, outcome)).await.map(DriveOutcome::Ended)
        }
        DriveOutcome::HandedOver => Ok(DriveOutcome::HandedOver),
    }
}

async fn execute_steps(run: &LiveRun, context: &RunContext) -> Result<DriveOutcome> {
    loop {
        run.wait_for_lease().await;
        if let Some(stop) = run.stopped_by() {
            return Ok(DriveOutcome::Ended(stop.outcome()));
        }
        if run.should_hand_over() {
            return Ok(DriveOutcome::HandedOver);
        }
        // What others use is not in the journal, so the next step cannot know it.
        let nearly_spent = run.nearly_spent().await;
        let step = match (run.state().next_step(), nearly_spent) {
            (Step::AskApproval(_) | Step::RunTools(_), Some(budget)) => Step::AskBudget(budget),
            (step, _) => step,
        };
        debug!(?step, "next step");
        context.work.begin(step.name());
        match step {
            Step::Discover(servers) => Box::pin(discover(run, context, servers)).await?,
            Step::AskModel => {
                if run.is_spent().await {
                    let reason = IncompleteReason::InsufficientQuota;
                    return Ok(DriveOutcome::Ended(RunOutcome::Incomplete { reason }));
                }
                // Boxed, so that a run waiting for a tool does not hold the memory of a turn.
                let turn = Box::pin(ask_model(run, context));
                if let StepOutcome::End(outcome) = turn.await? {
                    return Ok(DriveOutcome::Ended(outcome));
                }
            }
            Step::AskApproval(calls) => Box::pin(ask_people(run, context, calls)).await?,
            Step::AskBudget(budget) => {
                let asked = run.state().budget_events(&budget, run.now());
                run.record_all(asked).await?;
                run.note_asked();
            }
            Step::AskOutcome(calls) => ask_outcomes(run, calls).await?,
            Step::RunTools(calls) => run_tools(run, context, calls).await?,
            Step::SkipCalls { calls, reason } => {
                run.record_all(skipped(calls, &reason)).await?;
            }
            Step::Wait => run.wait_for_change().await,
            Step::Finish(outcome) => return Ok(DriveOutcome::Ended(outcome)),
        }
    }
}

/// Requests approvals for `calls`, except for tools allowed for the whole conversation.
async fn ask_people(run: &LiveRun, context: &RunContext, calls: Vec<CallId>) -> Result<()> {
    let conversation_id = run.state().request().conversation_id.clone();
    let allowed: Vec<Allowed> = match conversation_id {
        Some(id) => {
            let store = context.store.as_ref();
            match run.retry_until_available(|| store.allowed(run.tenant(), &id)).await {
                // Without a stored permission, an approval is requested.
                Some(allowed) => allowed.unwrap_or_default(),
                // The loop checks for the stop next.
                None => return Ok(()),
            }
        }
        None => Vec::new(),
    };
    let request = Arc::clone(run.state().request());
    let is_allowed = |spec: &ToolSpec| {
        spec.changed.is_none()
            && !allowed.is_empty()
            && allowed.contains(&permission(&request, spec))
    };
    let asked = run.state().asking_events(calls, run.now(), is_allowed);
    run.record_all(asked).await?;
    run.note_asked();
    Ok(())
}

/// Asks a person about the outcomes of calls whose worker failed.
async fn ask_outcomes(run: &LiveRun, calls: Vec<CallId>) -> Result<()> {
    let ask = |call_id| run.outcome_question(call_id, INTERRUPTED);
    let asked = calls.iter().map(ask).collect();
    run.record_all(asked).await?;
    run.note_asked();
    Ok(())
}

/// Executes `calls` concurrently, and calls that a person approves meanwhile. Each end is recorded
/// when it occurs.
async fn run_tools(run: &LiveRun, context: &RunContext, calls: Vec<CallId>) -> Result<()> {
    let mut begun: HashSet<CallId> = HashSet::new();
    let mut at_work = FuturesUnordered::new();
    let mut ready = calls;
    loop {
        for call_id in ready.drain(..) {
            begun.insert(call_id.clone());
            at_work.push(execute_call(run, context, call_id).boxed());
        }
        tokio::select! {
            biased;
            ended = at_work.try_next() => match ended? {
                Some(()) => {}
                None => return Ok(()),
            },
            () = run.answered() => ready = run.state().ready_beside(&begun),
        }
    }
}

fn skipped(calls: Vec<CallId>, reason: &str) -> Vec<Event> {
    let outcome = ToolOutcome::Skipped { reason: reason.to_owned() };
    let end = |call_id| Event::ToolFinished { call_id, outcome: outcome.clone(), duration_ms: 0 };
    calls.into_iter().map(end).collect()
}

/// Ends the run in the journal, whose fencing proves that the run is still ours, and in the
/// conversation: in one transaction if the store has both. Returns its outcome.
async fn finish(run: &LiveRun, context: &RunContext, outcome: RunOutcome) -> Result<RunOutcome> {
    // The last turn may have ended it.
    let recorded = run.state().outcome().cloned();
    let outcome = if let Some(recorded) = recorded {
        recorded
    } else {
        // One batch closes everything open and ends the run, so there is no intermediate state.
        run.record_end(outcome.clone()).await?;
        outcome
    };
    persist_end(run, context.store.as_ref(), outcome.clone()).await;
    Ok(outcome)
}

/// Stores the entries that a finished run adds to its conversation, unless the batch of its end
/// included them.
pub(crate) async fn persist_end(run: &LiveRun, store: &dyn RunStore, outcome: RunOutcome) {
    if !run.run_end_is_stored() {
        let entries = run.state().added().to_vec();
        if let Err(error) = store.finish(run.id(), outcome, entries).await {
            error!(%error, "failed to store the conversation");
        }
    }
    run.mark_persisted();
}
