//! A store that is slow and a journal that breaks, where a test wants them to.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, future::ready};
use tokio::sync::watch;
use turnwire_contract::{
    AbandonedRun, Allowed, Commands, ConversationId, ConversationRecord, Conversations, Created,
    Entries, Entry, EventStream, ItemId, Journal, JournalError, JournalHead, Lease, Leases, NewRun,
    PendingCommand, RecordedEvent, RequestKey, RunCommand, RunId, RunOutcome, RunRecord,
    RunRecords, Seq, StoreError, TenantId, Timestamp,
};
use turnwire_engine::{MemoryJournal, MemoryRunStore};

/// A door that the test opens and shuts. Clones are the same door.
#[derive(Clone)]
pub(crate) struct Gate {
    is_open: watch::Sender<bool>,
    n_come: watch::Sender<u32>,
    n_done: watch::Sender<u32>,
}

impl Default for Gate {
    fn default() -> Self {
        let count = || watch::Sender::new(0);
        Self { is_open: watch::Sender::new(true), n_come: count(), n_done: count() }
    }
}

impl Gate {
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.send_replace(is_open);
    }

    pub(crate) fn n_come_by_now(&self) -> u32 {
        *self.n_come.borrow()
    }

    /// Waits until `n` have come to the gate.
    pub(crate) async fn n_have_come(&self, n: u32) {
        reach(&self.n_come, n).await;
    }

    /// Waits until what is behind the gate was done `n` times.
    pub(crate) async fn n_are_done(&self, n: u32) {
        reach(&self.n_done, n).await;
    }

    async fn pass(&self) {
        self.n_come.send_modify(|n| *n += 1);
        self.is_open.subscribe().wait_for(|is_open| *is_open).await.unwrap();
    }
}

async fn reach(count: &watch::Sender<u32>, n: u32) {
    let mut count = count.subscribe();
    let reached = count.wait_for(|count| *count >= n);
    tokio::time::timeout(Duration::from_secs(10), reached)
        .await
        .expect("it comes to that")
        .unwrap();
}

/// A store whose doors can be shut.
#[derive(Clone, Default)]
pub(crate) struct SlowStore {
    pub(crate) inner: Arc<MemoryRunStore>,
    pub(crate) creating: Gate,
    pub(crate) forgetting: Gate,
    pub(crate) finding: Gate,
    /// Whether listing runs falls over.
    pub(crate) falls_over: bool,
}

#[async_trait]
impl RunRecords for SlowStore {
    async fn create(&self, run: NewRun) -> Result<Created, StoreError> {
        self.creating.pass().await;
        self.inner.create(run).await
    }

    async fn find_by_key(
        &self,
        tenant: &TenantId,
        key: &RequestKey,
        now: Timestamp,
    ) -> Result<Option<RunId>, StoreError> {
        self.inner.find_by_key(tenant, key, now).await
    }

    async fn find(&self, tenant: &TenantId, run_id: &RunId) -> Result<RunRecord, StoreError> {
        self.finding.pass().await;
        self.inner.find(tenant, run_id).await
    }

    async fn list(&self, tenant: &TenantId, most: usize) -> Result<Vec<RunRecord>, StoreError> {
        assert!(!self.falls_over, "as the test wants it");
        self.inner.list(tenant, most).await
    }

    async fn finish(
        &self,
        run_id: &RunId,
        outcome: RunOutcome,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.inner.finish(run_id, outcome, entries).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), StoreError> {
        self.forgetting.pass().await;
        let done = self.inner.delete(tenant, run_id).await;
        self.forgetting.n_done.send_modify(|n| *n += 1);
        done
    }
}

#[async_trait]
impl Conversations for SlowStore {
    async fn open_conversation(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
    ) -> Result<(), StoreError> {
        self.inner.open_conversation(tenant, conversation).await
    }

    async fn conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<ConversationRecord, StoreError> {
        self.inner.conversation(tenant, id).await
    }

    async fn annotate_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        metadata: BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        self.inner.annotate_conversation(tenant, id, metadata).await
    }

    async fn delete_conversation(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<(), StoreError> {
        self.inner.delete_conversation(tenant, id).await
    }

    async fn restore(
        &self,
        tenant: &TenantId,
        conversation: ConversationRecord,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.inner.restore(tenant, conversation, entries).await
    }

    async fn allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        self.inner.allowed(tenant, id).await
    }

    async fn allow(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: Allowed,
    ) -> Result<(), StoreError> {
        self.inner.allow(tenant, id, allowed).await
    }
}

#[async_trait]
impl Entries for SlowStore {
    async fn context(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Entry>, StoreError> {
        self.inner.context(tenant, run_id).await
    }

    async fn entries_named(
        &self,
        tenant: &TenantId,
        names: &[ItemId],
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.entries_named(tenant, names).await
    }

    async fn history(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Entry>, StoreError> {
        self.inner.history(tenant, id).await
    }

    async fn add_entries(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entries: Vec<Entry>,
    ) -> Result<(), StoreError> {
        self.inner.add_entries(tenant, id, entries).await
    }

    async fn remove_entry(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        entry: &ItemId,
    ) -> Result<(), StoreError> {
        self.inner.remove_entry(tenant, id, entry).await
    }
}

/// Workers that share a store. What one of them leaves, another one takes up. Clones are the
/// same team.
#[derive(Clone, Default)]
pub(crate) struct Team {
    left: Arc<Mutex<Vec<RunId>>>,
    pending_commands: Arc<Mutex<Vec<PendingCommand>>>,
}

#[async_trait]
impl Leases for Team {
    async fn heartbeat(&self) -> Result<Lease, StoreError> {
        Ok(Lease { length: Duration::from_mins(1) })
    }

    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        let mut left = self.left.lock().unwrap();
        let n = left.len().min(most);
        let tenant = TenantId::default();
        let abandoned = |run_id| AbandonedRun {
            tenant: tenant.clone(),
            run_id,
            n_deaths: 0,
            n_failed_takeovers: 0,
            last_heard: None,
        };
        Ok(left.drain(..n).map(abandoned).collect())
    }

    async fn release(&self, run_id: &RunId) -> Result<(), StoreError> {
        self.left.lock().unwrap().push(run_id.clone());
        Ok(())
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(Vec::new())
    }

    async fn lost_runs(&self, _: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Commands for Team {
    async fn enqueue(
        &self,
        _: &TenantId,
        run_id: &RunId,
        command: RunCommand,
    ) -> Result<(), StoreError> {
        let mut pending_commands = self.pending_commands.lock().unwrap();
        let id = i64::try_from(pending_commands.len()).unwrap();
        pending_commands.push(PendingCommand { id, run_id: run_id.clone(), command });
        Ok(())
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>, StoreError> {
        Ok(self.pending_commands.lock().unwrap().clone())
    }

    async fn pending_commands_for(
        &self,
        run_id: &RunId,
    ) -> Result<Vec<PendingCommand>, StoreError> {
        let pending_commands = self.pending_commands.lock().unwrap();
        Ok(pending_commands.iter().filter(|left| left.run_id == *run_id).cloned().collect())
    }

    async fn acknowledge(&self, _: &[i64]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn woken(&self) {
        std::future::pending::<()>().await;
    }
}

/// A journal that breaks for its readers, after so many events. Clones are the same journal.
#[derive(Clone)]
pub(crate) struct BreakingLog {
    pub(crate) inner: Arc<MemoryJournal>,
    readable: usize,
}

impl BreakingLog {
    pub(crate) fn after(readable: usize) -> Self {
        Self { inner: Arc::default(), readable }
    }
}

fn broken() -> JournalError {
    JournalError::Unavailable("as the test wants it".to_owned())
}

#[async_trait]
impl Journal for BreakingLog {
    async fn append(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError> {
        self.inner.append(tenant, batch).await
    }
    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        let events = self.inner.read(tenant, run_id, after).await?;
        let readable = self.readable;
        let events = events.enumerate().take_while(move |(n, _)| ready(*n <= readable));
        Ok(Box::pin(events.map(move |(n, read)| if n < readable { read } else { Err(broken()) })))
    }
    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, JournalError> {
        self.inner.head(tenant, run_id).await
    }
    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.inner.stored(tenant, run_id, after).await
    }
    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError> {
        self.inner.delete(tenant, run_id).await
    }
}
