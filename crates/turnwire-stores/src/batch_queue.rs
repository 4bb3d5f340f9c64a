//! Requests that wait to be done together: whoever has the turn does what waits for everybody.

use std::sync::Mutex;

use tokio::{
    select,
    sync::{Mutex as AsyncMutex, MutexGuard, oneshot},
};

use crate::sync::lock;

/// Maximum number of requests done at a time.
const MAX_BATCH: usize = 100;

/// Requests that wait, and `S`, which belongs to whoever has the turn.
pub(crate) struct BatchQueue<T, S = ()> {
    waiting: Mutex<Vec<T>>,
    leader: AsyncMutex<S>,
}

impl<T, S: Default> Default for BatchQueue<T, S> {
    fn default() -> Self {
        Self { waiting: Mutex::default(), leader: AsyncMutex::default() }
    }
}

/// What came first.
pub(crate) enum Waited<'a, R, S> {
    /// The request was done by somebody else. `None`: it was not, because they were dropped.
    Done(Option<R>),
    /// The turn. Do the next batch, and wait again.
    Leader(MutexGuard<'a, S>),
}

impl<T, S> BatchQueue<T, S> {
    pub(crate) fn add(&self, request: T) {
        lock(&self.waiting).push(request);
    }

    /// Waits until a request is done, or until nobody else has the turn.
    pub(crate) async fn wait<R>(&self, done: &mut oneshot::Receiver<R>) -> Waited<'_, R, S> {
        select! {
            biased;
            done = done => Waited::Done(done.ok()),
            leader = self.leader.lock() => Waited::Leader(leader),
        }
    }

    /// Returns whether a batch would have no place for more.
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
