//! One reader of one run: a place in its journal.
//!
//! It takes what is next from the run's tail, and from the database what the tail has no more.
//! A reader that does not read holds its place and nothing else. One whose database is away
//! waits: a stream does not break because a server is restarted.

use std::{collections::VecDeque, sync::Arc};

use futures::stream;
use turnwire_contract::{
    EventStream, LogError, Recorded, Seq,
    seeded::{Fault, is_seeded},
};

use crate::{
    database::{Database, DatabaseError},
    outage::{Outage, Patience},
    pages,
    tails::{Found, Seat},
};

/// How many rows a reader takes from the database at first. It may want to see only the end.
const FIRST_PAGE: i64 = 256;

/// How many rows at most.
const LARGEST_PAGE: i64 = 1024;

/// Events of this weight, or more, are enough for a page.
const HEAVY_PAGE: usize = 512 * 1024;

/// A reader.
pub(crate) struct Reader {
    seat: Seat,
    database: Arc<dyn Database>,
    outage: Arc<Outage>,
    after: Seq,
    ready: VecDeque<Arc<Recorded>>,
    page: i64,
}

impl Reader {
    /// A reader that has seen everything up to `after`.
    pub(crate) fn new(
        seat: Seat,
        database: Arc<dyn Database>,
        outage: Arc<Outage>,
        after: Seq,
    ) -> Self {
        let is_off = is_seeded(Fault::CursorOffByOne) && after > Seq::START;
        let after = if is_off { after.next() } else { after };
        Self { seat, database, outage, after, ready: VecDeque::new(), page: FIRST_PAGE }
    }

    /// The events as they become visible.
    pub(crate) fn into_stream(self) -> EventStream {
        Box::pin(stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            let next = reader.next().await?;
            let goes_on = next.as_ref().is_ok_and(|recorded| !recorded.event.ends_the_run());
            Some((next, goes_on.then_some(reader)))
        }))
    }

    async fn next(&mut self) -> Option<Result<Arc<Recorded>, LogError>> {
        loop {
            if let Some(recorded) = self.ready.pop_front() {
                let is_lax = is_seeded(Fault::DropOnOverflow) || is_seeded(Fault::NewsAsTruth);
                if recorded.seq != self.after.next() && !is_lax {
                    return Some(Err(self.broken("places are missing")));
                }
                self.after = recorded.seq;
                return Some(Ok(recorded));
            }
            let tail = Arc::clone(self.seat.tail());
            // Made before the look, so that what comes in between is not missed.
            let bell = tail.bell();
            match tail.after(self.after) {
                Found::Events(events) => self.ready.extend(events),
                Found::Nothing => bell.await,
                Found::Over => return None,
                Found::Forgotten => return Some(Err(self.not_found())),
                Found::Further => {
                    if let Err(error) = self.turn_page().await {
                        return Some(Err(error));
                    }
                }
            }
        }
    }

    /// Reads on in the database, for as long as it takes.
    async fn turn_page(&mut self) -> Result<(), LogError> {
        let mut patience = Patience::default();
        let tail = Arc::clone(self.seat.tail());
        loop {
            let (tenant, run_id) = (tail.tenant(), tail.run_id());
            let page = pages::page(&*self.database, tenant, run_id, self.after, self.page).await;
            match page {
                Ok(page) if page.events.is_empty() => return Err(self.not_found()),
                Ok(page) => {
                    self.outage.note_back();
                    let is_heavy = page.bytes > HEAVY_PAGE;
                    self.page = if is_heavy { FIRST_PAGE } else { LARGEST_PAGE };
                    self.ready.extend(page.events);
                    return Ok(());
                }
                Err(error) if error.is_transient() => {
                    if matches!(error, DatabaseError::TooSlow(_)) {
                        self.page = (self.page / 4).max(1);
                    }
                    self.outage.note_away(&error.to_string());
                    tokio::time::sleep(patience.next_pause()).await;
                }
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
    }

    fn not_found(&self) -> LogError {
        LogError::NotFound(self.seat.tail().run_id().clone())
    }

    fn broken(&self, words: &str) -> LogError {
        let run_id = self.seat.tail().run_id();
        tracing::error!(%run_id, after = %self.after, "the journal cannot be read: {words}");
        LogError::Unavailable(words.to_owned())
    }
}
