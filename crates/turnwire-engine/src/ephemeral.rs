//! Runs that are kept in memory, although the store is durable.
//!
//! A run is stored so that it outlives its client and its process. Some runs have nothing that could:
//! nobody can retrieve them, they are cancelled when their client disconnects, which it does when
//! the process dies, and they execute no tool, so that they leave no effect behind that somebody
//! has to know of. Storing them would cost several commits each and prove nothing, and their
//! clients have asked for them not to be stored.
//!
//! Such a run has a journal like any other, and its client reads a projection of it. But it has one
//! reader, the client that asked for it: nobody else finds the run by its ID, in a list or on
//! another worker. So an event is forgotten when it is read, and a model that is faster than the
//! client waits for it, as it would without anybody between them. A shutdown cannot hand the run
//! over, and waits for it as long as it waits for tools.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::stream;
use tokio::sync::Notify;
use turnwire_contract::{
    Approvals, EventStream, Journal, JournalError, JournalHead, RecordedEvent, RunEnd, RunId,
    RunRequest, Seq, TenantId,
};

use crate::{output::delta_of, sync::lock};

/// A reader that is this many bytes behind is waited for.
const MAX_UNREAD_BYTES: usize = 256 * 1024;

/// Returns whether a run neither needs what is stored about others, nor executes tools, nor waits
/// for people.
pub(crate) fn needs_nothing_stored(request: &RunRequest) -> bool {
    request.conversation_id.is_none()
        && request.continues.is_none()
        && request.servers.is_empty()
        && request.first_calls.is_empty()
        && request.approvals != Approvals::Wait
        && request.tools.iter().all(|spec| spec.kind.is_run_by_client())
}

/// The journal of one ephemeral run: the events that its only reader has not read yet.
#[derive(Debug, Default)]
pub(crate) struct EphemeralJournal {
    unread: Mutex<Unread>,
    /// Notified when there is more to read.
    grown: Notify,
    /// Notified when the reader has taken what there was, or is gone.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Unread {
    events: VecDeque<Arc<RecordedEvent>>,
    n_bytes: usize,
    /// Sequence number of the last event, read or not.
    last: Seq,
    is_over: bool,
    reader: ReaderState,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ReaderState {
    #[default]
    Expected,
    Reading,
    Gone,
}

impl EphemeralJournal {
    /// Whether the reader is so far behind that the model has to wait.
    pub(crate) fn is_full(&self) -> bool {
        lock(&self.unread).n_bytes > MAX_UNREAD_BYTES
    }

    /// Waits until there is room for more.
    pub(crate) async fn has_room(&self) {
        loop {
            // Registered before the check, so that no notification is missed.
            let taken = self.taken.notified();
            if !self.is_full() {
                return;
            }
            taken.await;
        }
    }
}

#[async_trait]
impl Journal for EphemeralJournal {
    async fn append(
        &self,
        _tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError> {
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else { return Ok(()) };
        let (first, last) = (Arc::clone(first), Arc::clone(last));
        let mut unread = lock(&self.unread);
        if unread.is_over || first.seq != unread.last.next() {
            return Err(JournalError::Conflict { run_id: first.run_id.clone(), seq: first.seq });
        }
        unread.last = last.seq;
        unread.is_over = last.event.ends_the_run();
        if unread.reader != ReaderState::Gone {
            unread.n_bytes += batch.iter().map(|recorded| event_bytes(recorded)).sum::<usize>();
            unread.events.extend(batch);
        }
        drop(unread);
        self.grown.notify_one();
        Ok(())
    }

    /// There is nothing else to store for the end of the run.
    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        _ending: RunEnd,
    ) -> Result<bool, JournalError> {
        self.append(tenant, batch).await?;
        Ok(true)
    }

    async fn read(
        &self,
        _tenant: &TenantId,
        run_id: &RunId,
        _after: Seq,
    ) -> Result<EventStream, JournalError> {
        // What was read is forgotten, so there is no second reader. The first one uses `read`.
        Err(JournalError::NotFound(run_id.clone()))
    }

    async fn head(&self, _tenant: &TenantId, _run_id: &RunId) -> Result<JournalHead, JournalError> {
        let unread = lock(&self.unread);
        Ok(JournalHead { last: unread.last, is_over: unread.is_over })
    }

    async fn delete(&self, _tenant: &TenantId, _run_id: &RunId) -> Result<(), JournalError> {
        Ok(())
    }
}

/// Returns the events of the run from its first one. To be called once.
pub(crate) fn read(journal: &Arc<EphemeralJournal>) -> EventStream {
    lock(&journal.unread).reader = ReaderState::Reading;
    let reader = Reader { journal: Arc::clone(journal), taken: VecDeque::new() };
    Box::pin(stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let recorded = reader.next().await;
        let more = (!recorded.event.ends_the_run()).then_some(reader);
        Some((Ok(recorded), more))
    }))
}

/// The only reader.
struct Reader {
    journal: Arc<EphemeralJournal>,
    /// Taken out of the journal, and not read yet.
    taken: VecDeque<Arc<RecordedEvent>>,
}

impl Reader {
    async fn next(&mut self) -> Arc<RecordedEvent> {
        loop {
            if let Some(recorded) = self.taken.pop_front() {
                return recorded;
            }
            let grown = self.journal.grown.notified();
            {
                let mut unread = lock(&self.journal.unread);
                // The empty queue goes back, so that both keep their room.
                mem::swap(&mut unread.events, &mut self.taken);
                unread.n_bytes = 0;
            }
            if self.taken.is_empty() {
                grown.await;
            } else {
                self.journal.taken.notify_one();
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut unread = lock(&self.journal.unread);
        unread.reader = ReaderState::Gone;
        unread.events = VecDeque::new();
        unread.n_bytes = 0;
        drop(unread);
        self.journal.taken.notify_one();
    }
}

/// Estimates the size of an event in bytes. What is large and no delta, the run holds anyway.
fn event_bytes(recorded: &RecordedEvent) -> usize {
    size_of::<RecordedEvent>() + delta_of(&recorded.event).map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{FutureExt, StreamExt};
    use tokio::time::timeout;
    use turnwire_contract::{Event, ItemId, RunOutcome, Timestamp, Usage};

    use super::*;

    fn tenant() -> TenantId {
        TenantId::default()
    }

    fn event(seq: u64, event: Event) -> Arc<RecordedEvent> {
        let (run_id, at) = (RunId::from("run_1"), Timestamp::from_micros(0));
        Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })
    }

    fn said(seq: u64, text: &str) -> Arc<RecordedEvent> {
        event(seq, Event::TextAdded { item_id: ItemId::new("msg_1"), text: text.into() })
    }

    /// C2: the reader gets every event once and in order, also those that were appended before it
    /// read, and its stream ends with the run.
    #[tokio::test]
    async fn every_event_is_read_once() {
        let journal = Arc::new(EphemeralJournal::default());
        journal.append(&tenant(), vec![event(1, Event::RunStarted)]).await.unwrap();
        let mut events = read(&journal);
        assert_eq!(events.next().await.unwrap().unwrap().seq, Seq(1));
        assert!(events.next().now_or_never().is_none(), "nothing is there");
        journal.append(&tenant(), vec![said(2, "a"), said(3, "b")]).await.unwrap();
        let outcome = RunOutcome::Completed;
        let end =
            event(4, Event::RunFinished { outcome: outcome.clone(), usage: Usage::default() });
        let ending = RunEnd { outcome, entries: Vec::new() };
        assert!(journal.append_end(&tenant(), vec![end], ending).await.unwrap());
        let rest: Vec<Seq> = events.map(|event| event.unwrap().seq).collect().await;
        assert_eq!(rest, [Seq(2), Seq(3), Seq(4)]);
        let head = journal.head(&tenant(), &RunId::from("run_1")).await.unwrap();
        assert_eq!(head, JournalHead { last: Seq(4), is_over: true });
    }

    /// C2: what does not follow the last event is refused, and so is everything after the end.
    #[tokio::test]
    async fn only_the_next_event_is_appended() {
        let journal = EphemeralJournal::default();
        journal.append(&tenant(), vec![event(1, Event::RunStarted)]).await.unwrap();
        for seq in [1, 3] {
            let refused = journal.append(&tenant(), vec![said(seq, "x")]).await;
            assert!(matches!(refused, Err(JournalError::Conflict { .. })), "{seq}");
        }
        let outcome = RunOutcome::Completed;
        let end = Event::RunFinished { outcome, usage: Usage::default() };
        journal.append(&tenant(), vec![event(2, end)]).await.unwrap();
        let refused = journal.append(&tenant(), vec![said(3, "x")]).await;
        assert!(matches!(refused, Err(JournalError::Conflict { .. })));
    }

    /// C13, C29: a client that does not read has a bounded number of bytes waiting for it; the
    /// model waits until it reads, or is gone.
    #[tokio::test]
    async fn a_reader_that_is_behind_is_waited_for() {
        for is_dropped in [false, true] {
            let journal = Arc::new(EphemeralJournal::default());
            let mut events = read(&journal);
            let text = "x".repeat(1000);
            let mut n_appended: u64 = 0;
            while !journal.is_full() {
                n_appended += 1;
                journal.append(&tenant(), vec![said(n_appended, &text)]).await.unwrap();
            }
            assert!((100..300).contains(&n_appended), "{n_appended}");
            assert!(journal.has_room().now_or_never().is_none());
            if is_dropped {
                drop(events);
            } else {
                events.next().await.unwrap().unwrap();
            }
            timeout(Duration::from_secs(10), journal.has_room()).await.unwrap();
            journal.append(&tenant(), vec![said(n_appended + 1, &text)]).await.unwrap();
            let n_waiting = lock(&journal.unread).events.len();
            assert_eq!(n_waiting, usize::from(!is_dropped), "nothing is kept for nobody");
        }
    }
}
