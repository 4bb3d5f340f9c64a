//! Pages of a journal that several readers hold at once.
//!
//! A thousand clients that watch one run from its beginning, and are all too slow, would hold a
//! thousand copies of its first page. Here they hold one: a page is kept for as long as somebody
//! reads it, and whoever comes to the same place meanwhile gets the same one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use tokio::sync::OnceCell;
use turnwire_contract::{RecordedEvent, Seq};

use crate::{database::DatabaseError, pages::Page, sync::lock};

/// A page, once it is fetched.
type Slot = OnceCell<Vec<Arc<RecordedEvent>>>;

/// The pages of one run that somebody reads, by the place they follow on.
#[derive(Debug, Default)]
pub(crate) struct SharedPages {
    slots: Mutex<HashMap<Seq, Weak<Slot>>>,
}

impl SharedPages {
    /// The page that follows on `after`: the one that others read, or else what `fetch` brings.
    /// Of several who ask at once, one fetches.
    pub(crate) async fn page(
        &self,
        after: Seq,
        fetch: impl Future<Output = Result<Page, DatabaseError>>,
    ) -> Result<Events, DatabaseError> {
        let slot = self.slot(after);
        slot.get_or_try_init(|| async { Ok(fetch.await?.events) }).await?;
        Ok(Events { page: slot, n_seen: 0 })
    }

    fn slot(&self, after: Seq) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.get(&after).and_then(Weak::upgrade) {
            return slot;
        }
        if slots.len() == slots.capacity() {
            slots.retain(|_, slot| slot.strong_count() > 0);
        }
        let slot = Arc::default();
        slots.insert(after, Arc::downgrade(&slot));
        slot
    }
}

/// Events that a reader has at hand, and how far it has come with them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    page: Arc<Slot>,
    n_seen: usize,
}

impl Events {
    /// These, from the first on.
    pub(crate) fn new(events: Vec<Arc<RecordedEvent>>) -> Self {
        Self { page: Arc::new(Slot::new_with(Some(events))), n_seen: 0 }
    }

    /// Whether there are none at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.page.get().is_none_or(Vec::is_empty)
    }

    /// The next one. With the last one, all of them are let go.
    pub(crate) fn next(&mut self) -> Option<Arc<RecordedEvent>> {
        let events = self.page.get()?;
        let next = events.get(self.n_seen).cloned()?;
        self.n_seen += 1;
        if self.n_seen == events.len() {
            *self = Self::default();
        }
        Some(next)
    }
}

#[cfg(test)]
#[path = "shared_pages_tests.rs"]
mod tests;
