//! Appends that must not hold up the others: too heavy to share a commit, or in a batch that the
//! database did not take.
//!
//! They are written one by one, each in turn, those first that were tried least and weigh least:
//! so the innocent of a batch do not wait for the guilty. One that takes too long gets more time,
//! and one that does not work while the database takes other writes is rejected.

use std::{panic::AssertUnwindSafe, slice, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{BatchWriter, CommitNotifier, Job, WrittenBatch, comes_back};
use crate::{
    database::DatabaseError,
    outage::{Backoff, Outage},
};

/// How long an append that stands alone may take, try by try.
const TIMES: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(1)];

/// How often the connection may break over an append: more often than by chance, even where
/// connections are cut all the time.
const CHANCES: u32 = 20;

/// Writes what was isolated, on a connection of its own where the database can have two.
pub(crate) struct IsolatedWriter {
    arriving: mpsc::UnboundedReceiver<Job>,
    waiting: Vec<Isolated>,
    journal: Box<dyn BatchWriter>,
    notifier: CommitNotifier,
    outage: Arc<Outage>,
    stop: CancellationToken,
}

/// An append, and what has come of it so far.
struct Isolated {
    job: Job,
    n_too_slow: usize,
    n_broken: u32,
    pause: Backoff,
    ready_at: Instant,
}

impl Isolated {
    fn new(job: Job) -> Self {
        let (pause, ready_at) = (Backoff::default(), Instant::now());
        Self { job, n_too_slow: 0, n_broken: 0, pause, ready_at }
    }

    /// How long it may take this time.
    fn time(&self) -> Duration {
        TIMES.get(self.n_too_slow).copied().unwrap_or_default()
    }

    /// Counts a failure that was not the database's. Says whether it may be tried again.
    fn may_be_tried_after(&mut self, error: &DatabaseError) -> bool {
        self.ready_at = Instant::now() + self.pause.next_pause();
        match error {
            DatabaseError::Away(_) => {
                self.n_broken += 1;
                self.n_broken < CHANCES
            }
            DatabaseError::TooSlow(_) => {
                self.n_too_slow += 1;
                self.n_too_slow < TIMES.len()
            }
            DatabaseError::Taken(_) | DatabaseError::Refused(_) | DatabaseError::Broken(_) => false,
        }
    }
}

impl IsolatedWriter {
    /// A writer of what is sent to it. It ends with the last sender.
    pub(crate) fn new(
        journal: Box<dyn BatchWriter>,
        notifier: CommitNotifier,
        outage: Arc<Outage>,
        stop: CancellationToken,
    ) -> (mpsc::UnboundedSender<Job>, Self) {
        let (sender, arriving) = mpsc::unbounded_channel();
        let writer = Self { arriving, waiting: Vec::new(), journal, notifier, outage, stop };
        (sender, writer)
    }

    /// Writes until nobody can isolate anything any more.
    pub(crate) async fn run(mut self) {
        while let Some(next) = self.next().await {
            // Dropping the append answers it.
            if AssertUnwindSafe(self.write(next)).catch_unwind().await.is_err() {
                tracing::error!("isolated writer panicked, continuing");
            }
        }
    }

    /// The one whose turn it is; waits for it. Nothing if there will be none.
    async fn next(&mut self) -> Option<Isolated> {
        loop {
            while let Ok(job) = self.arriving.try_recv() {
                self.waiting.push(Isolated::new(job));
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
                    Some(job) => self.waiting.push(Isolated::new(job)),
                    None if self.waiting.is_empty() => return None,
                    None => {}
                },
                () = sleep_until(soonest.unwrap_or(now)), if soonest.is_some() => {}
                else => return None,
            }
        }
    }

    async fn write(&mut self, mut next: Isolated) {
        let error = match self.journal.write(slice::from_ref(&next.job), next.time()).await {
            Ok(kept) => {
                return self.notifier.tell(Some(WrittenBatch { batch: vec![next.job], kept }));
            }
            Err(error) => error,
        };
        let is_refused = matches!(error, DatabaseError::Taken(_));
        if !is_refused && self.journal.probe().await.is_err() {
            self.outage.note_away(&error.to_string());
            let batch = slice::from_ref(&next.job);
            // Dropping the job answers it.
            if comes_back(&mut *self.journal, &self.stop, batch).await {
                self.outage.note_back();
                self.waiting.push(next);
            }
        } else if next.may_be_tried_after(&error) {
            self.waiting.push(next);
        } else {
            self.notifier.refuse(vec![next.job], &error);
        }
    }
}
