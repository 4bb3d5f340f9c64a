//! From a journal to a stream of frames that belongs to one reader.
//!
//! A reader is a place in a journal and a projection that has seen everything before it. It
//! costs the run nothing: a reader that does not read is waited for by nobody, and one that
//! hangs up is simply gone, unless it asked that the run go with it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;
use turnwire_contract::{
    EventStream, LogError, Recorded, RunId, RunStatus, Seq, StoreError, TenantId,
};
use turnwire_engine::Runs;
use turnwire_surfaces::Projection;

use crate::{app::App, refusal::Refusal};

/// How long after the last frame a reader counts as having seen it.
const WRITTEN_AFTER: Duration = Duration::from_millis(1);

/// After how much silence of a run its reader looks whether there is anything to wait for.
const LOOK_AFTER: Duration = Duration::from_secs(15);

/// A frame, with the event it follows from.
pub type Told<F> = (Arc<Recorded>, F);

/// The frames that `projection` makes of `events`, each with the event it follows from. Ends
/// with the run, or earlier with an error when the journal cannot be read on.
pub fn frames<P>(
    projection: P,
    events: EventStream,
) -> impl Stream<Item = Result<Told<P::Frame>, LogError>> + Send
where
    P: Projection + Send,
    P::Frame: Send,
{
    told_frames(projection, events, None)
}

/// The same, for a run that lets its first reader see a tool's start before the tool begins:
/// `seen` is told how far the reader is.
///
/// What was handed to the connection is written when there is nothing more to hand over; so it
/// counts as seen a moment after that.
pub fn told_frames<P>(
    projection: P,
    events: EventStream,
    seen: Option<watch::Sender<Seq>>,
) -> impl Stream<Item = Result<Told<P::Frame>, LogError>> + Send
where
    P: Projection + Send,
    P::Frame: Send,
{
    let reader = Reader { projection, events, ready: VecDeque::new(), told: Seq::START, seen };
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        loop {
            if let Some(frame) = reader.ready.pop_front() {
                return Some((Ok(frame), Some(reader)));
            }
            let recorded = match reader.next_event().await? {
                Ok(recorded) => recorded,
                Err(error) => {
                    warn!(%error, "A reader lost the journal.");
                    return Some((Err(error), None));
                }
            };
            let frames = reader.projection.project(&recorded);
            reader.told = recorded.seq;
            reader.ready.extend(frames.into_iter().map(|frame| (Arc::clone(&recorded), frame)));
        }
    })
}

struct Reader<P: Projection> {
    projection: P,
    events: EventStream,
    ready: VecDeque<(Arc<Recorded>, P::Frame)>,
    /// The last event whose frames were handed over.
    told: Seq,
    seen: Option<watch::Sender<Seq>>,
}

impl<P: Projection> Reader<P> {
    async fn next_event(&mut self) -> Option<Result<Arc<Recorded>, LogError>> {
        let Self { events, told, seen, .. } = self;
        if let Some(seen) = seen
            && *seen.borrow() < *told
        {
            tokio::select! {
                biased;
                event = events.next() => return event,
                () = sleep(WRITTEN_AFTER) => {
                    seen.send_replace(*told);
                }
            }
        }
        events.next().await
    }
}

/// Refuses a place that a run has not come to (C11).
pub(crate) async fn check_place(
    runs: &Runs,
    tenant: &TenantId,
    run_id: &RunId,
    after: Seq,
    param: &'static str,
) -> Result<(), Refusal> {
    if runs.has_come_to(tenant, run_id, after).await? {
        return Ok(());
    }
    Err(no_such_place(after.0, param))
}

/// The refusal of a place that a run has not come to.
pub(crate) fn no_such_place(after: u64, param: &'static str) -> Refusal {
    let message = format!("The run has not come to {after} yet; read on after what you have seen.");
    Refusal::bad_request("invalid_cursor", message).about(param)
}

/// What a run recorded after `after`, and what it will record, up to its end. A run that is over
/// without having recorded that is not waited for.
pub async fn follow_while_it_runs(
    runs: &Runs,
    tenant: &TenantId,
    run_id: &RunId,
    after: Seq,
) -> Result<EventStream, LogError> {
    let events = runs.follow(tenant, run_id, after).await?;
    let follower = Follower {
        runs: runs.clone(),
        tenant: tenant.clone(),
        run_id: run_id.clone(),
        events,
        seen: after,
    };
    Ok(Box::pin(stream::unfold(follower, |mut follower| async move {
        let next = follower.next().await?;
        Some((next, follower))
    })))
}

struct Follower {
    runs: Runs,
    tenant: TenantId,
    run_id: RunId,
    events: EventStream,
    /// The last event that was read.
    seen: Seq,
}

impl Follower {
    async fn next(&mut self) -> Option<Result<Arc<Recorded>, LogError>> {
        loop {
            if let Ok(next) = timeout(LOOK_AFTER, self.events.next()).await {
                let next = next?;
                self.seen = next.as_ref().map_or(self.seen, |recorded| recorded.seq);
                return Some(next);
            }
            if is_over(&self.runs, &self.tenant, &self.run_id).await {
                let rest = self.runs.stored_after(&self.tenant, &self.run_id, self.seen).await;
                self.events = rest.unwrap_or_else(|_| Box::pin(stream::empty()));
            }
        }
    }
}

async fn is_over(runs: &Runs, tenant: &TenantId, run_id: &RunId) -> bool {
    match runs.find(tenant, run_id).await {
        Ok(record) => record.status != RunStatus::Active,
        // Who does not know may know the next time.
        Err(error) => matches!(error, StoreError::NotFound(_)),
    }
}

/// Cancels a run when it is dropped, for readers that want the run to go with them. A reader
/// whom the server sends elsewhere has not gone away.
#[derive(Debug)]
pub(crate) struct CancelWhenDropped {
    run: Option<(App, TenantId, RunId)>,
}

impl CancelWhenDropped {
    /// Watches over the run.
    pub(crate) fn new(app: App, tenant: TenantId, run_id: RunId) -> Self {
        Self { run: Some((app, tenant, run_id)) }
    }

    /// The run is over, or may go on alone.
    pub(crate) fn let_go(&mut self) {
        self.run = None;
    }
}

impl Drop for CancelWhenDropped {
    fn drop(&mut self) {
        if let Some((app, tenant, run_id)) = self.run.take()
            && !app.ends_streams()
        {
            app.runs().cancel_soon(&tenant, &run_id);
        }
    }
}
