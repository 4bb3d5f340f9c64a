//! Projects a journal into the stream of frames of one reader.
//!
//! A reader is a position in a journal and a projection that has seen all events before it. The run
//! does not depend on it: its first reader may hold it up for a moment before a tool begins, and no
//! longer once it was late (decision 006), and a reader that disconnects has no effect, unless the
//! run is to be cancelled then: it is neither stored nor repeatable, or the request asks for it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tracing::warn;
use turnwire_contract::{
    EventStream, JournalError, RecordedEvent, RunId, RunStatus, Seq, StoreError, TenantId,
};
use turnwire_engine::{RunHandle, Runs};
use turnwire_surfaces::{Answer, Projection};

use crate::{api_error::ApiError, app::App};

/// How long after the last frame a reader counts as having seen it.
const WRITTEN_AFTER: Duration = Duration::from_millis(1);

/// How long a run may be silent before its follower checks whether it has ended.
const LOOK_AFTER: Duration = Duration::from_secs(15);

/// A frame, with the event it was projected from.
pub type ProjectedFrame<F> = (Arc<RecordedEvent>, F);

/// The frames that `projection` makes of `events`, each with its event. Ends with the run, or
/// earlier with an error if the journal cannot be read.
pub fn frames<P>(
    projection: P,
    events: EventStream,
) -> impl Stream<Item = Result<ProjectedFrame<P::Frame>, JournalError>> + Send
where
    P: Projection + Send,
    P::Frame: Send,
{
    watched_frames(projection, events, None)
}

/// Like [`frames`], for a run that waits until its first reader has seen the start of a tool:
/// `seen` receives the reader's position.
///
/// Frames handed to the connection are written once no more are pending. So they count as seen
/// shortly after that.
pub fn watched_frames<P>(
    projection: P,
    events: EventStream,
    seen: Option<watch::Sender<Seq>>,
) -> impl Stream<Item = Result<ProjectedFrame<P::Frame>, JournalError>> + Send
where
    P: Projection + Send,
    P::Frame: Send,
{
    let reader = FrameReader {
        projection,
        events,
        ready: VecDeque::new(),
        last_projected: Seq::START,
        seen,
    };
    stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        loop {
            if let Some(frame) = reader.ready.pop_front() {
                return Some((Ok(frame), Some(reader)));
            }
            let recorded = match reader.next_event().await? {
                Ok(recorded) => recorded,
                Err(error) => {
                    warn!(%error, "stream ended, journal unavailable");
                    return Some((Err(error), None));
                }
            };
            let frames = reader.projection.project(&recorded);
            reader.last_projected = recorded.seq;
            reader.ready.extend(frames.into_iter().map(|frame| (Arc::clone(&recorded), frame)));
        }
    })
}

/// The projection of a run after its end, and its answer.
pub(crate) async fn project_to_end<P: Projection>(
    mut projection: P,
    mut events: EventStream,
) -> Result<(P, Answer), JournalError> {
    let mut answer = Answer::default();
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        projection.project(&recorded);
        answer.note(&recorded);
    }
    Ok((projection, answer))
}

struct FrameReader<P: Projection> {
    projection: P,
    events: EventStream,
    ready: VecDeque<(Arc<RecordedEvent>, P::Frame)>,
    /// The last event whose frames were handed over.
    last_projected: Seq,
    seen: Option<watch::Sender<Seq>>,
}

impl<P: Projection> FrameReader<P> {
    async fn next_event(&mut self) -> Option<Result<Arc<RecordedEvent>, JournalError>> {
        let Self { events, last_projected, seen, .. } = self;
        if let Some(seen) = seen
            && *seen.borrow() < *last_projected
        {
            tokio::select! {
                biased;
                event = events.next() => return event,
                () = sleep(WRITTEN_AFTER) => {
                    seen.send_replace(*last_projected);
                }
            }
        }
        events.next().await
    }
}

/// Refuses a cursor that the run has not reached (C11).
pub(crate) async fn check_cursor(
    runs: &Runs,
    tenant: &TenantId,
    run_id: &RunId,
    after: Seq,
    param: &'static str,
) -> Result<(), ApiError> {
    if runs.has_reached(tenant, run_id, after).await? {
        return Ok(());
    }
    Err(cursor_ahead(after.0, param))
}

/// The error for a cursor that the run has not reached.
pub(crate) fn cursor_ahead(after: u64, param: &'static str) -> ApiError {
    let message = format!(
        "The run has not reached {after} yet; resume after the last event that you received."
    );
    ApiError::bad_request("invalid_cursor", message).about(param)
}

/// The events of a run after `after`, including later ones, until it ends. Also ends if the run is
/// over and its journal does not say so.
pub async fn follow_while_it_runs(
    runs: &Runs,
    tenant: &TenantId,
    run_id: &RunId,
    after: Seq,
) -> Result<EventStream, JournalError> {
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
    async fn next(&mut self) -> Option<Result<Arc<RecordedEvent>, JournalError>> {
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
        // The check is repeated later.
        Err(error) => matches!(error, StoreError::NotFound(_)),
    }
}

/// Cancels a run when it is dropped, if the client asked for that or cannot come back for the
/// answer. Does nothing while the server ends its streams: the client did not disconnect then. The
/// stream of an ephemeral run is not ended.
#[derive(Debug)]
pub(crate) struct CancelOnDrop {
    run: Option<(App, TenantId, RunId)>,
    is_ephemeral: bool,
}

impl CancelOnDrop {
    /// Guards the run.
    pub(crate) fn new(app: App, tenant: TenantId, run_id: RunId) -> Self {
        Self { run: Some((app, tenant, run_id)), is_ephemeral: false }
    }

    /// Guards the run of this handle.
    pub(crate) fn of(app: App, tenant: TenantId, handle: &RunHandle) -> Self {
        let run = Some((app, tenant, handle.id().clone()));
        Self { run, is_ephemeral: handle.is_ephemeral() }
    }

    /// Disables the guard: the run has ended, or may continue without its reader.
    pub(crate) fn disarm(&mut self) {
        self.run = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((app, tenant, run_id)) = self.run.take() else { return };
        if self.is_ephemeral {
            app.runs().cancel_here(&tenant, &run_id);
        } else if !app.ends_streams() {
            app.runs().cancel_in_background(&tenant, &run_id);
        }
    }
}
