//! How many documents are read at once, and whose.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
    thread,
};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};
use turnwire_contract::TenantId;

use crate::sync::lock;

/// With one place, a document that takes all its time would keep every other tenant waiting.
const AT_LEAST: usize = 2;

/// The places. Each tenant has at most one, and those who wait get theirs in the order in which
/// they came.
#[derive(Debug)]
pub(super) struct Places {
    places: Arc<Semaphore>,
    /// Whose turn it is among the documents of a tenant.
    turns: Mutex<HashMap<TenantId, Weak<Turn<()>>>>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _turn: OwnedMutexGuard<()>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// Half of the cores.
    pub(super) fn of_this_machine() -> Self {
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        Self::new((n_cores / 2).max(AT_LEAST))
    }

    pub(super) fn new(n_places: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(n_places)), turns: Mutex::default() }
    }

    /// Waits for a place.
    pub(super) async fn take(&self, tenant: &TenantId) -> Place {
        // First the turn, so that a tenant waits for one place only.
        let turn = self.turn_of(tenant).lock_owned().await;
        // It is never closed.
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        Place { _turn: turn, _place: place }
    }

    fn turn_of(&self, tenant: &TenantId) -> Arc<Turn<()>> {
        let mut turns = lock(&self.turns);
        if let Some(turn) = turns.get(tenant).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Turn::new(()));
        turns.insert(tenant.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
