//! Stop, handover and release of a run.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{ApprovalAnswer, CallId, Decision, JournalError, Reply};

use super::{LiveRun, Stop, StoreFailure, retry_while_unavailable};
use crate::sync::lock;

impl LiveRun {
    /// Stops the run. The first reason wins.
    pub fn stop(&self, why: Stop) {
        let _ = self.stopped_by.set(why);
        self.stop.cancel();
    }

    /// Stops the run when its work time reaches the limit. Never returns.
    pub(crate) async fn enforce_time_limit(&self) -> Infallible {
        loop {
            let limit = self.state().limits().wall_clock;
            let end = lock(&self.worked).ends_at(limit);
            if timeout_at(end, self.paused.notified()).await.is_err() {
                break;
            }
        }
        self.wait_for_lease().await;
        self.stop(Stop::TimeLimit);
        pending().await
    }

    /// Returns why the run must stop, or `None` if it need not.
    pub fn stopped_by(&self) -> Option<Stop> {
        let with_everything = || self.stop.is_cancelled().then_some(Stop::Shutdown);
        self.stopped_by.get().copied().or_else(with_everything)
    }

    /// Completes when the run must stop.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Returns whether a handover is requested.
    pub(crate) fn should_hand_over(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Completes when a handover is requested.
    pub(crate) async fn handover_requested(&self) {
        self.leave.cancelled().await;
    }

    /// Drops the run at once: nothing more is appended, and all its tasks are stopped. Its calls are
    /// not cancelled, because another worker may continue them.
    pub(crate) fn relinquish(&self) {
        let waiting = lock(&self.waiting);
        self.left.store(true, Ordering::Release);
        drop(waiting);
        self.stop.cancel();
    }

    /// Returns whether this worker gave the run up.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Returns what a call reads to know whether this worker gave its run up.
    pub(crate) fn left(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.left)
    }

    /// Waits while the lease is expired: another worker may have claimed the run.
    pub(crate) async fn wait_for_lease(&self) {
        let Some(mut lease_end) = self.lease_end.clone() else { return };
        tokio::select! {
            biased;
            () = self.stopped() => {}
            // The sender lives as long as the engine.
            _ = lease_end.wait_for(|until| *until > Instant::now()) => {}
        }
    }

    /// Retries a store call with backoff while the store is unavailable. Returns `None` if the run
    /// stops or is handed over meanwhile.
    pub(crate) async fn retry_until_available<T, E: StoreFailure, F>(
        &self,
        ask: impl Fn() -> F,
    ) -> Option<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        tokio::select! {
            biased;
            heard = retry_while_unavailable(&ask) => Some(heard),
            () = self.stopped() => None,
            () = self.handover_requested() => None,
        }
    }

    /// Like [`Self::retry_until_available`], but also retries during a handover, for results that
    /// must not be lost.
    pub(crate) async fn retry_until_stored<T, E: StoreFailure, F>(
        &self,
        keep: impl Fn() -> F,
    ) -> Option<Result<T, E>>
    where
        F: Future<Output = Result<T, E>>,
    {
        tokio::select! {
            biased;
            kept = retry_while_unavailable(&keep) => Some(kept),
            () = self.stopped() => None,
        }
    }

    /// Returns whether the `RunEnd` was stored in the batch of the end event.
    pub(crate) fn run_end_is_stored(&self) -> bool {
        self.run_end_is_stored.load(Ordering::Acquire)
    }

    /// Signals that the run has ended and everything is stored.
    pub(crate) fn mark_persisted(&self) {
        let _ = self.persisted.set(());
    }

    /// Waits until the run has ended and everything is stored.
    pub(crate) async fn persisted(&self) {
        self.persisted.wait().await;
    }

    /// Creates the cancellation token of a call, a child of the run's token.
    pub(crate) fn begin_call(&self, call_id: &CallId) -> CancellationToken {
        let token = self.stop.child_token();
        lock(&self.calls_at_work).insert(call_id.clone(), token.clone());
        token
    }

    pub(crate) fn end_call(&self, call_id: &CallId) {
        lock(&self.calls_at_work).remove(call_id);
    }

    /// Stops one running call. The run continues. Returns whether the call was running.
    pub fn stop_call(&self, call_id: &CallId) -> bool {
        let token = lock(&self.calls_at_work).get(call_id).cloned();
        token.inspect(CancellationToken::cancel).is_some()
    }
}

impl LiveRun {
    /// Cancels one call, running or waiting for a person. The run continues. Returns whether there
    /// was a call to cancel.
    pub(crate) async fn cancel_call(&self, call_id: &CallId) -> Result<bool, JournalError> {
        if self.stop_call(call_id) {
            return Ok(true);
        }
        let in_doubt =
            self.state().questions(call_id).find(|q| q.unknown_outcome.is_some()).cloned();
        if let Some(question) = in_doubt {
            return self
                .reply(&question.input_id, Reply::Cancelled, Some("cancel".to_owned()))
                .await;
        }
        let decision = Decision::Denied { reason: "the call was cancelled".to_owned() };
        self.resolve(call_id, ApprovalAnswer::from(decision).by("cancel")).await
    }
}
