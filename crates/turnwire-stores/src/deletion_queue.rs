//! Runs that wait to be deleted together.

use std::sync::Mutex;

use tokio::sync::{Mutex as AsyncMutex, MutexGuard, oneshot};
use turnwire_contract::StoreError;

use crate::{deletion::RunKey, sync::lock};

/// Maximum number of runs deleted in one transaction.
const MAX_BATCH: usize = 100;

/// Runs that wait to be deleted.
#[derive(Default)]
pub(crate) struct DeletionQueue {
    waiting: Mutex<Vec<WaitingDeletion>>,
    /// Held by whoever deletes.
    turn: AsyncMutex<()>,
}

pub(crate) struct WaitingDeletion {
    pub(crate) run: RunKey,
    pub(crate) done: oneshot::Sender<Deleted>,
}

/// What became of a run in a batch.
pub(crate) enum Deleted {
    Done(Result<(), StoreError>),
    /// The batch failed. The run is tried alone: it may not be the cause.
    Alone,
}

impl DeletionQueue {
    pub(crate) fn add(&self, deletion: WaitingDeletion) {
        lock(&self.waiting).push(deletion);
    }

    /// Waits until nobody else deletes.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// The runs that have waited longest.
    pub(crate) fn next_batch(&self) -> Vec<WaitingDeletion> {
        let mut waiting = lock(&self.waiting);
        let n_runs = waiting.len().min(MAX_BATCH);
        waiting.drain(..n_runs).collect()
    }
}
