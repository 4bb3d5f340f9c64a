//! Isolated appends: too large to share a commit, or in a batch that the database rejected.
//!
//! They are written one at a time, those with the fewest attempts and the smallest size first, so
//! that valid appends of a failed batch do not wait for the faulty one. A slow append gets a longer
//! timeout. One that fails while the database accepts other writes is rejected.

use std::{panic::AssertUnwindSafe, slice, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{BatchWriter, CommitNotifier, Job, comes_back, is_given_up};
use crate::{
    database::DatabaseError,
    outage::{Availability, Backoff},
};

/// Statement timeouts of an isolated append, by attempt.
const TIMES: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(1)];

/// Maximum connection failures during one append: more than occur by chance.
const MAX_CONNECTION_FAILURES: u32 = 20;

/// Writes isolated appends, on its own connection where the database allows two writers.
pub(crate) struct IsolatedWriter {
    arriving: mpsc::UnboundedReceiver<Job>,
    waiting: Vec<IsolatedJob>,
    journal: Box<dyn BatchWriter>,
    notifier: CommitNotifier,
    outage: Arc<Availability>,
    stop: CancellationToken,
}

/// An append and its attempts.
struct IsolatedJob {
    job: Job,
    n_too_slow: usize,
    n_broken: u32,
    pause: Backoff,
    ready_at: Instant,
}

impl IsolatedJob {
    fn new(job: Job) -> Self {
        let (pause, ready_at) = (Backoff::default(), Instant::now());
        Self { job, n_too_slow: 0, n_broken: 0, pause, ready_at }
    }

    /// Returns the statement timeout of the next attempt.
    fn time(&self) -> Duration {
        TIMES.get(self.n_too_slow).copied().unwrap_or_default()
    }

    /// Counts a failure caused by the append. Returns whether to retry.
    fn may_be_tried_after(&mut self, error: &DatabaseError) -> bool {
        self.ready_at = Instant::now() + self.pause.next_pause();
        match error {
            DatabaseError::Unavailable(_) => {
                self.n_broken += 1;
                self.n_broken < MAX_CONNECTION_FAILURES
            }
            DatabaseError::NoRoom(_) => {
                tracing::warn!(%error, bytes = self.job.bytes, "an append waits for room");
                true
            }
            DatabaseError::TooSlow(_) => {
                self.n_too_slow += 1;
                self.n_too_slow < TIMES.len()
            }
            DatabaseError::UniqueViolation(_)
            | DatabaseError::InvalidValue(_)
            | DatabaseError::Failed(_)
            | DatabaseError::KeyMissing(_) => false,
        }
    }
}

impl IsolatedWriter {
    /// Creates a writer for the jobs sent to it. It ends with the last sender.
    pub(crate) fn new(
        journal: Box<dyn BatchWriter>,
        notifier: CommitNotifier,
        outage: Arc<Availability>,
        stop: CancellationToken,
    ) -> (mpsc::UnboundedSender<Job>, Self) {
        let (sender, arriving) = mpsc::unbounded_channel();
        let writer = Self { arriving, waiting: Vec::new(), journal, notifier, outage, stop };
        (sender, writer)
    }

    /// Runs until all senders are dropped.
    pub(crate) async fn run(mut self) {
        while let Some(next) = self.next().await {
            // Dropping the append reports the failure to its caller.
            if AssertUnwindSafe(self.write(next)).catch_unwind().await.is_err() {
                tracing::error!("isolated writer panicked, continuing");
            }
        }
    }

    /// Waits for the next append. Returns `None` if there will be none.
    async fn next(&mut self) -> Option<IsolatedJob> {
        loop {
            while let Ok(job) = self.arriving.try_recv() {
                self.waiting.push(IsolatedJob::new(job));
            }
            let now = Instant::now();
            let ready = self.waiting.iter().enumerate().filter(|(_, next)| next.ready_at <= now);
            let first =
                ready.min_by_key(|(_, next)| (next.n_broken, next.n_too_slow, next.job.bytes));
            if let Some((n, _)) = first {
                return Some(self.waiting.swap_remove(n));
            }
            let soonest = self.waiting.iter().map(|next| next.ready_at).min();
            tokio::select! {
                arrived = self.arriving.recv(), if !self.arriving.is_closed() => match arrived {
                    Some(job) => self.waiting.push(IsolatedJob::new(job)),
                    None if self.waiting.is_empty() => return None,
                    None => {}
                },
                () = sleep_until(soonest.unwrap_or(now)), if soonest.is_some() => {}
                else => return None,
            }
        }
    }

    async fn write(&mut self, mut next: IsolatedJob) {
        let error = match self.journal.write(slice::from_ref(&next.job), next.time()).await {
            Ok(kept) => {
                return self.notifier.tell(next.job, kept.first().is_some_and(|kept| *kept));
            }
            Err(error) => error,
        };
        let is_given_up = is_given_up(&self.stop, slice::from_ref(&next.job));
        if matches!(error, DatabaseError::NoRoom(_)) && is_given_up {
            return;
        }
        let is_refused = matches!(error, DatabaseError::UniqueViolation(_));
        if !is_refused && self.journal.probe().await.is_err() {
            self.outage.mark_down(&error.to_string());
            let batch = slice::from_ref(&next.job);
            // Dropping the job reports the failure to its caller.
            if comes_back(&mut *self.journal, &self.stop, batch).await {
                self.outage.mark_up();
                self.waiting.push(next);
            }
        } else if next.may_be_tried_after(&error) {
            self.waiting.push(next);
        } else {
            self.notifier.refuse(vec![next.job], &error);
        }
    }
}
