//! Journal pages shared between readers.
//!
//! A thousand slow readers of one run would hold a thousand copies of its first page. Here they
//! share one: a page is cached while any reader uses it, and readers at the same position get the
//! same page.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use tokio::sync::OnceCell;
use turnwire_contract::{RecordedEvent, Seq};

use crate::{database::DatabaseError, pages::Page, sync::lock};

/// A page, once it is fetched.
type Slot = OnceCell<Vec<Arc<RecordedEvent>>>;

/// The pages of one run in use, by the seq that they follow.
#[derive(Debug, Default)]
pub(crate) struct SharedPages {
    slots: Mutex<HashMap<Seq, Weak<Slot>>>,
}

impl SharedPages {
    /// Returns the page after `after`: a shared one, or the result of `fetch`. Concurrent callers
    /// fetch once.
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

/// A page, and a reader's position in it.
#[derive(Debug, Default)]
pub(crate) struct Events {
    page: Arc<Slot>,
    n_seen: usize,
}

impl Events {
    /// Starts at the first event.
    pub(crate) fn new(events: Vec<Arc<RecordedEvent>>) -> Self {
        Self { page: Arc::new(Slot::new_with(Some(events))), n_seen: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.page.get().is_none_or(Vec::is_empty)
    }

    /// Returns the next event. The page is released with the last one.
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
