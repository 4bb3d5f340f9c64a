//! C27: a result that is too big for the journal while the place for such results is away.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use futures::StreamExt;
use turnwire_contract::{
    BlobError, BlobId, BlobStore, Event, Item, RunId, RunOutcome, RunRequest, TenantId, ToolOutcome,
};
use turnwire_engine::{ClockAndIds, EngineParts, MemoryBlobStore, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};

use crate::{calls, returns};

/// Refuses the first texts, and keeps the others.
struct AwayAtFirst {
    kept: MemoryBlobStore,
    n_refusals: AtomicUsize,
    refusal: BlobError,
}

#[async_trait]
impl BlobStore for AwayAtFirst {
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        let left = |n: usize| n.checked_sub(1);
        let taken = self.n_refusals.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
        match taken {
            Ok(_) => Err(self.refusal.clone()),
            Err(_) => self.kept.put(tenant, run_id, id, text).await,
        }
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        self.kept.get(tenant, id).await
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        self.kept.delete(tenant, run_id).await
    }
}

/// How the call of a tool ends whose result of two thousand bytes is refused so often.
async fn outcome_after(n_refusals: usize, refusal: BlobError) -> (Runs, ToolOutcome) {
    let mut tools = Toolbox::default();
    tools.add(Arc::new(returns("t", &"x".repeat(2_000)))).unwrap();
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.tools.extend(tools.specs());
    request.limits.output_in_journal = 100;
    let n_refusals = AtomicUsize::new(n_refusals);
    let runs = Runs::new(EngineParts {
        tools,
        any_model: Some(Arc::new(Scripted::new([calls(&["t"]), Turn::new().text("ok")]))),
        clock_and_ids: Arc::new(ClockAndIds::simulated()),
        blobs: Arc::new(AwayAtFirst { kept: MemoryBlobStore::default(), n_refusals, refusal }),
        ..EngineParts::default()
    });
    let mut events = runs.start(request).await.unwrap().events().await.unwrap();
    let mut outcome = None;
    while let Some(recorded) = events.next().await {
        match recorded.unwrap().event.clone() {
            Event::ToolFinished { outcome: how, .. } => outcome = Some(how),
            Event::RunFinished { outcome, .. } => assert_eq!(outcome, RunOutcome::Completed),
            _ => {}
        }
    }
    (runs, outcome.unwrap())
}

/// C27: it waits like everything else that has to be kept, and is whole.
#[tokio::test(start_paused = true)]
async fn a_big_result_waits_for_an_outage_to_pass() {
    let away = BlobError::Unavailable("restarting".to_owned());
    let (runs, outcome) = outcome_after(20, away).await;
    let ToolOutcome::Succeeded { output } = outcome else { panic!("{outcome:?}") };
    let rest = output.rest.unwrap();
    let kept = runs.blobs().get(&TenantId::default(), &rest.blob).await.unwrap();
    assert_eq!(kept, "x".repeat(2_000));
}

/// C27: what will never be kept is not waited for.
#[tokio::test(start_paused = true)]
async fn a_big_result_that_is_never_taken_fails_its_call() {
    let never = BlobError::Rejected("too large".to_owned());
    let (_, outcome) = outcome_after(usize::MAX, never).await;
    let ToolOutcome::Failed { failure } = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.code, "output_lost");
}
