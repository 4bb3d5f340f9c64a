//! Waiting for the next part of an answer.

use std::{future::Future, pin::Pin, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, Sleep, sleep_until};
use turnwire_contract::Limits;

use crate::{deadline::later, live_run::LiveRun, when_woken::WhenWoken};

/// Waits for the model, up to its timeouts or a stop. What ends the wait is registered once per
/// answer, not for every part.
pub(crate) struct ModelWait<'a> {
    /// Completes on a stop and on a handover, after which the next worker repeats the turn.
    stopped: WhenWoken<BoxFuture<'a, ()>>,
    /// Fires at or before the end of the current wait.
    timer: Pin<Box<Sleep>>,
    deadline: Instant,
    silence: Duration,
}

impl<'a> ModelWait<'a> {
    pub(crate) fn new(run: &'a LiveRun, limits: &Limits) -> Self {
        let now = Instant::now();
        let (deadline, silence) = (later(now, limits.model_total), limits.model_silence);
        let stopped = async {
            tokio::select! {
                () = run.stopped() => {}
                () = run.handover_requested() => {}
            }
        };
        let timer = Box::pin(sleep_until(deadline.min(later(now, silence))));
        Self { stopped: WhenWoken::new(stopped.boxed()), timer, deadline, silence }
    }

    /// Only the model future is dropped, never an append.
    pub(crate) async fn wait_for<T>(&mut self, model: impl Future<Output = T>) -> WaitOutcome<T> {
        let until = self.deadline.min(later(Instant::now(), self.silence));
        tokio::select! {
            // A stop takes precedence over a part that is ready.
            biased;
            () = &mut self.stopped => WaitOutcome::Stopped,
            got = model => WaitOutcome::Ready(got),
            () = elapsed(&mut self.timer, until) => WaitOutcome::TimedOut,
        }
    }

    /// Leaves the model alone until `end`: what it sends meanwhile stays in its connection. Returns
    /// whether the run stops or is handed over.
    pub(crate) async fn pause_until(&mut self, end: Instant) -> bool {
        if end <= Instant::now() {
            return false;
        }
        self.timer.as_mut().reset(end);
        tokio::select! {
            biased;
            () = &mut self.stopped => true,
            () = self.timer.as_mut() => false,
        }
    }
}

/// Completes at `end`. A timer that fires earlier, for an earlier part, is set again.
async fn elapsed(timer: &mut Pin<Box<Sleep>>, end: Instant) {
    loop {
        timer.as_mut().await;
        if end <= Instant::now() {
            return;
        }
        timer.as_mut().reset(end);
    }
}

/// How a wait for the model ended.
pub(crate) enum WaitOutcome<T> {
    Ready(T),
    TimedOut,
    Stopped,
}
