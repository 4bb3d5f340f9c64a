//! Appends that must not hold up the others: too heavy to share a commit, or in a batch that the
//! database did not take.
//!
//! They are written one by one, the lightest first, so that the innocent of a batch do not wait
//! for the guilty. One that takes too long gets more time, and is rejected when that was not
//! enough either while the database takes other writes.

use std::{slice, sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Attempts, Herald, Job, Journal, Written};
use crate::{database::DatabaseError, outage::Outage};

/// How long an append that stands alone may take, try by try.
const TIMES: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(1)];

/// How often the connection may break over it: more often than by chance, even where connections
/// are cut all the time.
const CHANCES: u32 = 20;

/// Writes what was isolated, on a connection of its own where the database can have two.
pub(crate) struct IsolatedWriter {
    arriving: mpsc::UnboundedReceiver<Job>,
    waiting: Vec<Job>,
    journal: Box<dyn Journal>,
    herald: Herald,
    outage: Arc<Outage>,
    stop: CancellationToken,
}

impl IsolatedWriter {
    /// A writer of what is sent to it. It ends with the last sender.
    pub(crate) fn new(
        journal: Box<dyn Journal>,
        herald: Herald,
        outage: Arc<Outage>,
        stop: CancellationToken,
    ) -> (mpsc::UnboundedSender<Job>, Self) {
        let (sender, arriving) = mpsc::unbounded_channel();
        let writer = Self { arriving, waiting: Vec::new(), journal, herald, outage, stop };
        (sender, writer)
    }

    /// Writes until nobody can isolate anything any more.
    pub(crate) async fn run(mut self) {
        while let Some(job) = self.next().await {
            self.write(job).await;
        }
    }

    /// The lightest of those that wait.
    async fn next(&mut self) -> Option<Job> {
        if self.waiting.is_empty() {
            self.waiting.push(self.arriving.recv().await?);
        }
        while let Ok(job) = self.arriving.try_recv() {
            self.waiting.push(job);
        }
        let lightest =
            (0..self.waiting.len()).min_by_key(|n| self.waiting.get(*n).map(|j| j.bytes))?;
        Some(self.waiting.swap_remove(lightest))
    }

    async fn write(&mut self, job: Job) {
        let mut refused = None;
        for time in TIMES {
            let attempts = Attempts {
                journal: &mut *self.journal,
                outage: &self.outage,
                stop: &self.stop,
                time,
                chances: CHANCES,
            };
            match attempts.write(slice::from_ref(&job)).await {
                Some(Ok(kept)) => {
                    return self.herald.tell(Some(Written { batch: vec![job], kept }));
                }
                Some(Err(error @ DatabaseError::TooSlow(_))) => refused = Some(error),
                Some(Err(error)) => return self.herald.refuse(vec![job], &error),
                // Dropping the job answers it.
                None => return,
            }
        }
        if let Some(error) = refused {
            self.herald.refuse(vec![job], &error);
        }
    }
}
