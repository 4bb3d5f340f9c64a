//! A run changes hands, with an engine at either end.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should fall over"
)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::StreamExt;
use tokio::time::timeout;
use turnwire_contract::{
    AbandonedRun, Commands, Event, EventStream, Item, Journal, JournalError, JournalHead, Lease,
    Leases, PendingCommand, RecordedEvent, RunCommand, RunId, RunOutcome, RunRequest, Seq,
    StoreError, TenantId, Timestamp, Workers,
};
use turnwire_engine::{EngineParts, Runs, StartError};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};

use crate::support::Backend;

/// How long a worker's runs stay its own; and no chance that its neighbour is quicker.
const LEASE: Duration = Duration::from_millis(300);

/// So long that nobody loses a run by being late.
const LONG_LEASE: Duration = Duration::from_mins(1);

/// How long a run may take that nobody keeps from ending.
const SOON: Duration = Duration::from_secs(20);

fn engine(store: &Store, model: Scripted) -> Runs {
    engine_with(store, Arc::new(store.clone()), model)
}

fn engine_with(store: &Store, workers: Arc<dyn Workers>, model: Scripted) -> Runs {
    Runs::new(EngineParts {
        any_model: Some(Arc::new(model)),
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers,
        ..EngineParts::default()
    })
}

/// A model that never comes to an end.
fn slow() -> Scripted {
    Scripted::new([Turn::new().text("Let me ").wait_forever()])
}

/// A model that has the answer at once.
fn quick() -> Scripted {
    Scripted::new([Turn::new().text("Done.")])
}

/// A run that has said something and waits for the rest for ever, and the place it is at.
async fn speaking(engine: &Runs) -> (RunId, Seq) {
    let run = engine.start(RunRequest::new("m", vec![Item::user("?")])).await.unwrap();
    let mut events = run.events().await.unwrap();
    loop {
        let recorded = events.next().await.unwrap().unwrap();
        if matches!(recorded.event, Event::TextAdded { .. }) {
            return (run.id().clone(), recorded.seq);
        }
    }
}

/// How the run ends, as its journal has it.
async fn outcome_of(store: &Store, run_id: &RunId) -> RunOutcome {
    let mut events = store.read(&TenantId::default(), run_id, Seq::START).await.unwrap();
    let ended = async {
        loop {
            let recorded = events.next().await.unwrap().unwrap();
            if let Event::RunFinished { outcome, .. } = &recorded.event {
                return outcome.clone();
            }
        }
    };
    timeout(SOON, ended).await.expect("somebody works on it")
}

/// C14: a cancel that was taken while a run had no worker holds, also if the next worker would
/// have had the answer at once.
#[tokio::test]
async fn a_cancel_is_heeded_before_the_next_worker_begins() {
    for backend in Backend::both() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        // It beats once and never again: gone, without a word.
        first.heartbeat().await.unwrap();
        let left = engine(&first, slow());
        let (run_id, _) = speaking(&left).await;
        second.enqueue(&TenantId::default(), &run_id, RunCommand::Cancel).await.unwrap();

        let next = engine(&second, quick());
        next.start_worker().await.unwrap();
        assert_eq!(outcome_of(&second, &run_id).await, RunOutcome::Cancelled, "{}", backend.url);
    }
}

/// C36: a worker says before it ends which of its runs is to blame, with a connection of its own.
/// That run is blamed, and the one beside it is not even suspected.
#[tokio::test]
async fn a_worker_says_which_run_ends_it() {
    for backend in Backend::both() {
        let [first, second]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
        first.heartbeat().await.unwrap();
        let left = engine(&first, slow().repeat_last());
        let ((blocking, _), (beside, _)) = (speaking(&left).await, speaking(&left).await);
        let options = StoreOptions::at(backend.url.as_str());
        Store::blame(&options, first.worker(), &blocking).await.unwrap();

        let mut claimed = Vec::new();
        let claiming = async {
            while claimed.len() < 2 {
                second.heartbeat().await.unwrap();
                claimed.extend(second.claim(10).await.unwrap());
                tokio::time::sleep(LEASE / 10).await;
            }
        };
        timeout(SOON, claiming).await.expect("its worker is gone");
        let [innocent, suspect] = claimed.as_slice() else { panic!("{claimed:?}") };
        assert_eq!((&innocent.run_id, innocent.n_blamed), (&beside, 0), "{}", backend.url);
        assert_eq!(innocent.probation, None, "{}", backend.url);
        assert_eq!((&suspect.run_id, suspect.n_blamed), (&blocking, 1), "{}", backend.url);
        assert!(suspect.probation.is_some(), "{}", backend.url);
    }
}

/// C16: a worker that was held up since its claim finds out that the run is another's before it
/// writes to its journal.
#[tokio::test]
async fn who_is_late_does_not_write() {
    for backend in Backend::both() {
        let [first, late] = backend.stores_with(2, LONG_LEASE).await.try_into().unwrap();
        let owner = engine(&first, slow());
        owner.start_worker().await.unwrap();
        let (run_id, seq) = speaking(&owner).await;
        let tenant = TenantId::default();
        let taken = engine(&late, quick()).take_over(&tenant, &run_id).await;
        assert!(matches!(taken, Err(StartError::NotAbandoned(_))), "{taken:?}");
        assert_eq!(late.read_stored(&tenant, &run_id, seq).await.unwrap(), [], "{}", backend.url);
    }
}

/// C17: a worker that was stopped in the middle of a takeover comes back, and writes to a run
/// that was given to another meanwhile. Both let go of it; it must not stay without anybody.
#[tokio::test]
async fn a_run_that_a_late_worker_wrote_to_is_taken_up_again() {
    for backend in Backend::both() {
        let [first, late] = backend.stores_with(2, LONG_LEASE).await.try_into().unwrap();
        let owner = engine(&first, slow());
        is_overtaken_and_taken_up(&owner, &late, &backend).await;
    }
}

/// C17, C18: the same, and the store does not hear that the run is given up. That is said again.
#[tokio::test]
async fn a_release_that_is_not_heard_is_said_again() {
    for backend in Backend::both() {
        let [first, late] = backend.stores_with(2, LONG_LEASE).await.try_into().unwrap();
        let deaf = Arc::new(HalfDeaf::to(&first, Loss::Release));
        let owner = engine_with(&first, Arc::clone(&deaf) as Arc<dyn Workers>, slow());
        is_overtaken_and_taken_up(&owner, &late, &backend).await;
        assert!(deaf.has_lost.load(Ordering::SeqCst), "nothing was lost");
    }
}

/// C17, C18: the store gives a run to a worker that never hears of it, because the answer is
/// lost. It must not stay that worker's for as long as it lives.
#[tokio::test]
async fn a_claim_whose_answer_is_lost_leaves_no_run_behind() {
    for backend in Backend::both() {
        let [first, second] = backend.stores_with(2, LONG_LEASE).await.try_into().unwrap();
        first.heartbeat().await.unwrap();
        let left = engine(&first, slow());
        let (run_id, _) = speaking(&left).await;
        first.release(&run_id).await.unwrap();

        let deaf = Arc::new(HalfDeaf::to(&second, Loss::Claim));
        let next = engine_with(&second, Arc::clone(&deaf) as Arc<dyn Workers>, quick());
        next.start_worker().await.unwrap();
        assert_eq!(outcome_of(&second, &run_id).await, RunOutcome::Completed, "{}", backend.url);
        assert!(deaf.has_lost.load(Ordering::SeqCst), "nothing was lost");
    }
}

/// C7, C17: a worker keeps a run and can do nothing more for it: it cannot write, or not even
/// read what is there. What its client was told comes true all the same: another worker finds
/// the run begun and released, and goes on.
#[tokio::test]
async fn a_run_that_was_taken_is_carried_out_by_somebody() {
    for reads_lost in [0, 1] {
        for backend in Backend::both() {
            let [first, second] = backend.stores_with(2, LONG_LEASE).await.try_into().unwrap();
            first.heartbeat().await.unwrap();
            let cut_off = Runs::new(EngineParts {
                any_model: Some(Arc::new(quick())),
                journal: Arc::new(CutOff { store: first.clone(), reads_lost: reads_lost.into() }),
                store: Arc::new(first.clone()),
                workers: Arc::new(first.clone()),
                ..EngineParts::default()
            });
            let request = RunRequest::new("m", vec![Item::user("?")]);
            let handle = cut_off.start(request).await.unwrap();
            assert!(!handle.already_existed(), "nobody has asked for it before");
            let (tenant, run_id) = (TenantId::default(), handle.id());
            let journal = second.read_stored(&tenant, run_id, Seq::START).await.unwrap();
            assert!(matches!(journal[0].event, Event::RunQueued { .. }), "{journal:?}");

            let next = engine(&second, quick());
            next.start_worker().await.unwrap();
            assert_eq!(outcome_of(&second, run_id).await, RunOutcome::Completed, "{}", backend.url);
        }
    }
}

/// A journal that cannot be written to, and at first not be read.
struct CutOff {
    store: Store,
    reads_lost: AtomicU32,
}

fn cut_off() -> JournalError {
    JournalError::Unavailable("as the test wants it".to_owned())
}

#[async_trait]
impl Journal for CutOff {
    async fn append(&self, _: &TenantId, _: Vec<Arc<RecordedEvent>>) -> Result<(), JournalError> {
        Err(cut_off())
    }
    async fn read(
        &self,
        tenant: &TenantId,
        id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        let lose = |left: u32| left.checked_sub(1);
        if self.reads_lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok() {
            return Err(cut_off());
        }
        self.store.read(tenant, id, after).await
    }
    async fn head(&self, tenant: &TenantId, id: &RunId) -> Result<JournalHead, JournalError> {
        self.store.head(tenant, id).await
    }
    async fn stored(
        &self,
        tenant: &TenantId,
        id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        self.store.stored(tenant, id, after).await
    }
    async fn delete(&self, tenant: &TenantId, id: &RunId) -> Result<(), JournalError> {
        Journal::delete(&self.store, tenant, id).await
    }
}

async fn is_overtaken_and_taken_up(owner: &Runs, late: &Store, backend: &Backend) {
    owner.start_worker().await.unwrap();
    let (run_id, seq) = speaking(owner).await;
    let (tenant, at) = (TenantId::default(), Timestamp::from_micros(1));
    let event = Event::taken_over(2);
    let taken = RecordedEvent { run_id: run_id.clone(), seq: seq.next(), at, event };
    late.append(&tenant, vec![Arc::new(taken)]).await.unwrap();

    // The next thing its owner records comes too late. It lives, and beats on.
    owner.cancel(&tenant, &run_id).await.unwrap();
    let next = engine(late, quick());
    next.start_worker().await.unwrap();
    assert_eq!(outcome_of(late, &run_id).await, RunOutcome::Cancelled, "{}", backend.url);
}

/// What one worker and its store do not hear of each other, once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// The store does it, and its answer is lost.
    Claim,
    /// The store never hears of it.
    Release,
}

/// A worker that misses something, once.
struct HalfDeaf {
    store: Store,
    loss: Loss,
    has_lost: AtomicBool,
}

impl HalfDeaf {
    fn to(store: &Store, loss: Loss) -> Self {
        Self { store: store.clone(), loss, has_lost: AtomicBool::new(false) }
    }

    fn loses(&self, loss: Loss) -> bool {
        self.loss == loss && !self.has_lost.swap(true, Ordering::SeqCst)
    }
}

fn unheard() -> StoreError {
    StoreError::Unavailable("as the test wants it".to_owned())
}

#[async_trait]
impl Leases for HalfDeaf {
    async fn heartbeat(&self) -> Result<Lease, StoreError> {
        self.store.heartbeat().await
    }

    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>, StoreError> {
        let claimed = self.store.claim(most).await?;
        if !claimed.is_empty() && self.loses(Loss::Claim) { Err(unheard()) } else { Ok(claimed) }
    }

    async fn release(&self, run_id: &RunId) -> Result<(), StoreError> {
        if self.loses(Loss::Release) { Err(unheard()) } else { self.store.release(run_id).await }
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>, StoreError> {
        self.store.owned_runs().await
    }

    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>, StoreError> {
        self.store.lost_runs(run_ids).await
    }
}

#[async_trait]
impl Commands for HalfDeaf {
    async fn enqueue(
        &self,
        tenant: &TenantId,
        id: &RunId,
        command: RunCommand,
    ) -> Result<(), StoreError> {
        self.store.enqueue(tenant, id, command).await
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>, StoreError> {
        self.store.pending_commands().await
    }

    async fn pending_commands_for(
        &self,
        run_id: &RunId,
    ) -> Result<Vec<PendingCommand>, StoreError> {
        self.store.pending_commands_for(run_id).await
    }

    async fn acknowledge(&self, pending_commands: &[i64]) -> Result<(), StoreError> {
        self.store.acknowledge(pending_commands).await
    }

    async fn woken(&self) {
        self.store.woken().await;
    }
}
