//! A reader of one run: a position in its journal.
//!
//! It reads from the run's tail, and from the database what the tail has dropped. An idle reader
//! buffers nothing. While the database is unavailable, the reader retries with backoff, so that a
//! restart of the server does not break streams.

use std::sync::Arc;

use futures::stream;
use turnwire_contract::{EventStream, JournalError, RecordedEvent, Seq};

use crate::{
    database::{Database, DatabaseError},
    live_tails::{Subscription, TailRead},
    outage::{Availability, Backoff},
    pages::{MAX_PAGE_BYTES, page},
    sealing::Sealing,
    shared_pages::Events,
};

pub(crate) struct RunReader {
    subscription: Subscription,
    database: Arc<dyn Database>,
    sealing: Arc<Sealing>,
    outage: Arc<Availability>,
    after: Seq,
    /// Last seq to read, if it is before the end of the run.
    until: Option<Seq>,
    ready: Events,
    /// Maximum size of a page from the database.
    max_page_bytes: i64,
}

impl RunReader {
    /// Creates a reader that starts after `after`.
    pub(crate) fn new(
        subscription: Subscription,
        database: Arc<dyn Database>,
        sealing: Arc<Sealing>,
        outage: Arc<Availability>,
        after: Seq,
    ) -> Self {
        let (ready, max_page_bytes) = (Events::default(), MAX_PAGE_BYTES);
        Self { subscription, database, sealing, outage, after, until: None, ready, max_page_bytes }
    }

    /// Stops after `last`. All events up to it are in the database, even if this process has not
    /// received them.
    pub(crate) fn until(self, last: Seq) -> Self {
        Self { until: Some(last), ..self }
    }

    /// Streams the events as they become visible.
    pub(crate) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            let next = reader.next().await?;
            let goes_on = next.as_ref().is_ok_and(|recorded| !recorded.event.ends_the_run());
            Some((next, goes_on.then_some(reader)))
        }))
    }

    async fn next(&mut self) -> Option<Result<Arc<RecordedEvent>, JournalError>> {
        if self.until.is_some_and(|last| self.after >= last) {
            return None;
        }
        loop {
            if let Some(recorded) = self.ready.next() {
                if recorded.seq != self.after.next() {
                    return Some(Err(self.broken("gap in sequence numbers")));
                }
                self.after = recorded.seq;
                return Some(Ok(recorded));
            }
            let tail = Arc::clone(self.subscription.tail());
            // Registered before the check, so that no notification is missed.
            let notified = tail.notified();
            match tail.after(self.after) {
                TailRead::Events(events) => self.ready = Events::new(events),
                TailRead::NotYet if self.until.is_none() => notified.await,
                TailRead::Over => return None,
                TailRead::Deleted => return Some(Err(self.not_found())),
                TailRead::InDatabase | TailRead::NotYet => {
                    if let Err(error) = self.read_page().await {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// Reads a page from the database and retries while it is unavailable. Readers at the same
    /// position share the page. A reader with an end does not retry: its caller decides.
    async fn read_page(&mut self) -> Result<(), JournalError> {
        let mut backoff = Backoff::default();
        let tail = Arc::clone(self.subscription.tail());
        loop {
            let (tenant, run_id) = (tail.tenant(), tail.run_id());
            let (database, sealing) = (&*self.database, &*self.sealing);
            let fetch = page(database, sealing, tenant, run_id, self.after, self.max_page_bytes);
            match tail.pages().page(self.after, fetch).await {
                Ok(page) if page.is_empty() => return Err(self.not_found()),
                Ok(page) => {
                    self.outage.mark_up();
                    self.ready = page;
                    return Ok(());
                }
                Err(error) if error.is_transient() => {
                    if matches!(error, DatabaseError::TooSlow(_)) {
                        self.max_page_bytes = (self.max_page_bytes / 4).max(1);
                    }
                    self.outage.mark_down(&error.to_string());
                    if self.until.is_some() {
                        return Err(JournalError::Unavailable(error.to_string()));
                    }
                    tokio::time::sleep(backoff.next_pause()).await;
                }
                Err(DatabaseError::KeyMissing(why)) => return Err(JournalError::KeyMissing(why)),
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    fn not_found(&self) -> JournalError {
        JournalError::NotFound(self.subscription.tail().run_id().clone())
    }

    fn broken(&self, words: &str) -> JournalError {
        let run_id = self.subscription.tail().run_id();
        tracing::error!(%run_id, after = %self.after, "journal unreadable: {words}");
        JournalError::Unavailable(words.to_owned())
    }
}
