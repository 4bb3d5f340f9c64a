//! Group commit for requests: one task, the leader, executes all requests that wait, and the others
//! get their results from it.

use std::sync::Mutex;

use tokio::{
    select,
    sync::{Mutex as AsyncMutex, MutexGuard, oneshot},
};

use crate::sync::lock;

/// Maximum number of requests done at a time.
const MAX_BATCH: usize = 100;

/// Requests that wait, and `S`, the state of the leader.
pub(crate) struct BatchQueue<T, S = ()> {
    waiting: Mutex<Vec<T>>,
    leader: AsyncMutex<S>,
}

impl<T, S: Default> Default for BatchQueue<T, S> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), leader: AsyncMutex::default() }
    }
}

/// What ended the wait.
pub(crate) enum Waited<'a, R, S> {
    /// The leader executed the request. `None`: it did not, because its task was dropped.
    Done(Option<R>),
    /// The caller is the leader: it executes the next batch and waits again.
    Leader(MutexGuard<'a, S>),
}

impl<T, S> BatchQueue<T, S> {
    pub(crate) fn add(&self, request: T) {
        lock(&self.waiting).push(request);
    }

    /// Waits until the request is done, or until the caller becomes the leader.
    pub(crate) async fn wait<R>(&self, done: &mut oneshot::Receiver<R>) -> Waited<'_, R, S> {
        select! {
            biased;
            done = done => Waited::Done(done.ok()),
            leader = self.leader.lock() => Waited::Leader(leader),
        }
    }

    /// Returns whether the requests that wait fill a batch.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.waiting).len() >= MAX_BATCH
    }

    /// The requests that have waited longest.
    pub(crate) fn next_batch(&self) -> Vec<T> {
        let mut waiting = lock(&self.waiting);
        let n_requests = waiting.len().min(MAX_BATCH);
        waiting.drain(..n_requests).collect()
    }
}
