//! Runs that are kept in memory, although the store is durable.
//!
//! A run is stored so that it outlives its client and its process. Some runs need not: nobody can
//! retrieve them, they are cancelled when their client disconnects, which also happens when the
//! process dies, and they execute no tools, so no effect has to be remembered. Storing them would
//! cost several commits each without a benefit, and their clients have asked for them not to be
//! stored.
//!
//! Such a run has a journal like any other, and its client reads a projection of it. But it has one
//! reader, the client that asked for it: nobody else finds the run by its ID, in a list or on
//! another worker. So an event is forgotten when it is read, and what a slow reader has not read
//! yet is joined, because nobody has seen where one delta ends and the next begins. A shutdown
//! cannot hand the run over, and waits for it as long as it waits for tools.

use std::{
    collections::VecDeque,
    mem::{self, Discriminant, discriminant},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures::stream;
use tokio::sync::Notify;
use turnwire_contract::{
    Approvals, Event, EventStream, Journal, JournalError, JournalHead, RecordedEvent, RunEnd,
    RunId, RunRequest, Seq, TenantId,
};

use crate::{
    Result,
    output::{delta_mut, delta_of},
    sync::lock,
};

/// Deltas are joined if this many events are unread.
const MAX_UNREAD: usize = 256;

/// Returns whether a run neither needs what is stored about others, nor has tools to execute, nor
/// waits for people.
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
}

#[derive(Debug, Default)]
struct Unread {
    events: VecDeque<Arc<RecordedEvent>>,
    /// Sequence number of the last event, read or not.
    last: Seq,
    is_over: bool,
    /// Whether nobody will read any more.
    is_abandoned: bool,
}

impl Unread {
    fn push(&mut self, recorded: Arc<RecordedEvent>) {
        let is_joined = self.events.len() >= MAX_UNREAD
            && self.events.back_mut().is_some_and(|last| join(last, &recorded));
        if !is_joined {
            self.events.push_back(recorded);
        }
    }
}

/// Adds the delta of `next` to that of `last`, if both add to the same text. Returns whether they
/// do.
fn join(last: &mut Arc<RecordedEvent>, next: &RecordedEvent) -> bool {
    let adds_to = adds_to(&next.event);
    if adds_to.is_none() || adds_to != self::adds_to(&last.event) {
        return false;
    }
    let last = Arc::make_mut(last);
    (last.seq, last.at) = (next.seq, next.at);
    if let (Some(text), Some(more)) = (delta_mut(&mut last.event), delta_of(&next.event)) {
        text.push_str(more);
    }
    true
}

/// Returns which text a delta adds to.
fn adds_to(event: &Event) -> Option<(Discriminant<Event>, &str)> {
    let id = if let Event::ArgumentsAdded { call_id, .. } = event {
        call_id.as_str()
    } else if let Event::TextAdded { item_id, .. }
    | Event::RefusalAdded { item_id, .. }
    | Event::ReasoningAdded { item_id, .. } = event
    {
        item_id.as_str()
    } else {
        return None;
    };
    Some((discriminant(event), id))
}

#[async_trait]
impl Journal for EphemeralJournal {
    async fn append(&self, _tenant: &TenantId, batch: Vec<Arc<RecordedEvent>>) -> Result<()> {
        let Some(first) = batch.first() else { return Ok(()) };
        let mut unread = lock(&self.unread);
        if unread.is_over || first.seq != unread.last.next() {
            return Err(JournalError::Conflict { run_id: first.run_id.clone(), seq: first.seq });
        }
        for recorded in batch {
            unread.last = recorded.seq;
            unread.is_over = recorded.event.ends_the_run();
            if !unread.is_abandoned {
                unread.push(recorded);
            }
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
        _run_end: RunEnd,
    ) -> Result<bool> {
        self.append(tenant, batch).await?;
        Ok(true)
    }

    /// What was read is forgotten, so there is no second reader. The only one uses [`read`].
    async fn read(&self, _tenant: &TenantId, run_id: &RunId, _after: Seq) -> Result<EventStream> {
        Err(JournalError::NotFound(run_id.clone()))
    }

    async fn head(&self, _tenant: &TenantId, _run_id: &RunId) -> Result<JournalHead> {
        let unread = lock(&self.unread);
        Ok(JournalHead { last: unread.last, is_over: unread.is_over })
    }

    async fn delete(&self, _tenant: &TenantId, _run_id: &RunId) -> Result<()> {
        Ok(())
    }
}

/// Returns the events of the run from its first one. To be called once.
pub(crate) fn read(journal: &Arc<EphemeralJournal>) -> EventStream {
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
            // The empty queue goes back, so that both keep their room.
            mem::swap(&mut lock(&self.journal.unread).events, &mut self.taken);
            if self.taken.is_empty() {
                grown.await;
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut unread = lock(&self.journal.unread);
        unread.is_abandoned = true;
        unread.events = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use turnwire_contract::{ItemId, RunOutcome, Timestamp, Usage};

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
        let run_end = RunEnd { outcome, entries: Vec::new() };
        assert!(journal.append_end(&tenant(), vec![end], run_end).await.unwrap());
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

    /// C13, C29, I9: a client that does not read delays nobody, and has a bounded number of events
    /// and the text that it did not read waiting for it. It misses nothing of it.
    #[tokio::test]
    async fn what_a_slow_reader_has_not_read_is_joined() {
        let journal = Arc::new(EphemeralJournal::default());
        let events = read(&journal);
        for seq in 1..=10_000 {
            journal.append(&tenant(), vec![said(seq, "word ")]).await.unwrap();
        }
        assert_eq!(lock(&journal.unread).events.len(), MAX_UNREAD);
        let called = Event::ArgumentsAdded { call_id: "call_1".into(), text: "{".into() };
        journal.append(&tenant(), vec![event(10_001, called)]).await.unwrap();
        journal.append(&tenant(), vec![said(10_002, "other")]).await.unwrap();
        let events: Vec<_> = events.take(MAX_UNREAD + 2).map(Result::unwrap).collect().await;
        let text = |events: &[Arc<RecordedEvent>]| -> String {
            events.iter().filter_map(|recorded| delta_of(&recorded.event)).collect()
        };
        assert_eq!(text(&events[..MAX_UNREAD]), "word ".repeat(10_000));
        assert_eq!(events[MAX_UNREAD - 1].seq, Seq(10_000), "that of the last delta");
        assert_eq!(text(&events[MAX_UNREAD..]), "{other", "they add to different texts");
    }

    /// C29: nothing is kept for a client that is gone.
    #[tokio::test]
    async fn nothing_is_kept_for_nobody() {
        let journal = Arc::new(EphemeralJournal::default());
        let events = read(&journal);
        journal.append(&tenant(), vec![said(1, "a")]).await.unwrap();
        drop(events);
        journal.append(&tenant(), vec![said(2, "b")]).await.unwrap();
        assert!(lock(&journal.unread).events.is_empty());
    }
}
