//! A store that is slow and a journal that breaks, where a test wants them to.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt, future::ready};
use tokio::sync::watch;
use turnwire_contract::{
    AbandonedRun, Commands, EventStream, Journal, JournalError, JournalHead, Lease, Leases,
    PendingCommand, RecordedEvent, RunCommand, RunId, Seq, StoreError, TenantId,
};
use turnwire_engine::{MemoryJournal, MemoryRunStore};
use turnwire_testkit::{Broken, Forwarding, StoreCall, Watcher};

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

/// A store whose doors can be shut. Clones are the same store.
pub(crate) type SlowStore = Forwarding<MemoryRunStore, Gates>;

/// What [`SlowStore`] waits for.
#[derive(Default)]
pub(crate) struct Gates {
    pub(crate) creating: Gate,
    pub(crate) forgetting: Gate,
    pub(crate) finding: Gate,
    /// Whether listing runs falls over.
    pub(crate) falls_over: bool,
}

#[async_trait]
impl Watcher for Gates {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        match call.name {
            "create" => self.creating.pass().await,
            "find" => self.finding.pass().await,
            "delete_run" => self.forgetting.pass().await,
            "select" => assert!(!self.falls_over, "as the test wants it"),
            _ => {}
        }
        Ok(())
    }

    async fn after(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        if call.name == "delete_run" {
            self.forgetting.n_done.send_modify(|n| *n += 1);
        }
        Ok(())
    }
}

/// Workers that share a store. What one of them leaves, another one takes up. Clones are the
/// same team.
#[derive(Clone)]
pub(crate) struct Team {
    pub(crate) lease: Duration,
    /// Whether heartbeats fail.
    pub(crate) is_away: Arc<AtomicBool>,
    /// Whether others have taken all runs.
    pub(crate) takes_all: Arc<AtomicBool>,
    left: Arc<Mutex<Vec<RunId>>>,
    pending_commands: Arc<Mutex<Vec<PendingCommand>>>,
}

impl Default for Team {
    fn default() -> Self {
        Self {
            lease: Duration::from_mins(1),
            is_away: Arc::default(),
            takes_all: Arc::default(),
            left: Arc::default(),
            pending_commands: Arc::default(),
        }
    }
}

#[async_trait]
impl Leases for Team {
    async fn heartbeat(&self) -> Result<Lease, StoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("as the test wants it".to_owned()));
        }
        Ok(Lease { length: self.lease })
    }

    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        let mut left = self.left.lock().unwrap();
        let n = left.len().min(most);
        let tenant = TenantId::default();
        let abandoned = |run_id| AbandonedRun {
            tenant: tenant.clone(),
            run_id,
            n_deaths: 0,
            n_blamed: 0,
            probation: None,
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

    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        let takes_all = self.takes_all.load(Ordering::SeqCst);
        Ok(if takes_all { run_ids.to_vec() } else { Vec::new() })
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
