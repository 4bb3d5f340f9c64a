//! Projects a journal into the stream of frames of one reader.
//!
//! A reader is a position in a journal and a projection that has seen all events before it. The run
//! does not depend on it: its first reader may hold it up for a moment before a tool begins, and no
//! longer once it was late (decision 006), and a reader that disconnects has no effect, unless the
//! run is to be cancelled then: it is neither stored nor repeatable, or the request asks for it.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use futures::{Stream, StreamExt, stream};
use tokio::{
    sync::watch,
    time::{Sleep, sleep, timeout},
};
use tracing::warn;
use turnwire_contract::{
    Event, EventStream, JournalError, RecordedEvent, RunId, RunStatus, Seq, StoreError, TenantId,
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

/// The frames that a projection makes of the events of a run, each with its event. Ends with the
/// run, or earlier with an error if the journal cannot be read.
pub struct Frames<P: Projection> {
    projection: P,
    events: EventStream,
    /// The last event, and those of its frames that are not handed over yet.
    event: Option<Arc<RecordedEvent>>,
    ready: vec::IntoIter<P::Frame>,
    is_over: bool,
    /// For the first reader of a run.
    position: Option<Position>,
}

impl<P: Projection> fmt::Debug for Frames<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

/// Tells a run how far its first reader has come.
struct Position {
    seen: watch::Sender<Seq>,
    /// Whether the run waits to be told.
    is_awaited: bool,
    /// Fires when the frames handed over last are written.
    written: Option<Pin<Box<Sleep>>>,
}

impl Position {
    /// Notes that the frames of an event are handed over. A run waits for its reader only before it
    /// calls a tool.
    fn note(&mut self, event: &Event) {
        self.is_awaited |= matches!(event, Event::ToolStarted { .. } | Event::ToolRetried { .. });
        self.written = None;
    }

    /// Tells the run, if it waits and `last` has been written by now.
    fn poll_tell(&mut self, last: Seq, context: &mut Context<'_>) {
        if !self.is_awaited {
            return;
        }
        let written = self.written.get_or_insert_with(|| Box::pin(sleep(WRITTEN_AFTER)));
        if written.as_mut().poll(context).is_ready() {
            self.seen.send_replace(last);
            (self.is_awaited, self.written) = (false, None);
        }
    }
}

/// The frames that `projection` makes of `events`.
pub fn frames<P: Projection>(projection: P, events: EventStream) -> Frames<P> {
    watched_frames(projection, events, None)
}

/// Like [`frames`], for a run that waits until its first reader has seen the start of a tool:
/// `seen` receives the reader's position then.
///
/// Frames handed to the connection are written once no more are pending. So they count as seen
/// shortly after that.
pub fn watched_frames<P: Projection>(
    projection: P,
    events: EventStream,
    seen: Option<watch::Sender<Seq>>,
) -> Frames<P> {
    let position = seen.map(|seen| Position { seen, is_awaited: false, written: None });
    let ready = Vec::new().into_iter();
    Frames { projection, events, event: None, ready, is_over: false, position }
}

impl<P: Projection> Frames<P> {
    fn end(&mut self) {
        self.is_over = true;
        self.position = None;
    }
}

impl<P> Stream for Frames<P>
where
    P: Projection + Unpin,
    P::Frame: Unpin,
{
    type Item = Result<ProjectedFrame<P::Frame>, JournalError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some((event, frame)) = this.event.as_ref().zip(this.ready.next()) {
                return Poll::Ready(Some(Ok((Arc::clone(event), frame))));
            }
            if this.is_over {
                return Poll::Ready(None);
            }
            let recorded = match this.events.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(recorded))) => recorded,
                Poll::Ready(Some(Err(error))) => {
                    warn!(%error, "stream ended, journal unavailable");
                    this.end();
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    this.end();
                    continue;
                }
                Poll::Pending => {
                    if let Some((position, event)) = this.position.as_mut().zip(this.event.as_ref())
                    {
                        position.poll_tell(event.seq, context);
                    }
                    return Poll::Pending;
                }
            };
            this.ready = this.projection.project(&recorded).into_iter();
            if let Some(position) = &mut this.position {
                position.note(&recorded.event);
            }
            this.event = Some(recorded);
        }
    }
}

/// `frames`, which cancel their run by `guard` if they are dropped before it has ended.
pub(crate) fn guarded<F>(
    frames: impl Stream<Item = Result<ProjectedFrame<F>, JournalError>>,
    mut guard: Option<CancelOnDrop>,
) -> impl Stream<Item = Result<ProjectedFrame<F>, JournalError>> {
    frames.inspect(move |read| {
        // A client that is told to reconnect, because the journal cannot be read, has not left.
        let is_over = read.as_ref().map_or(true, |(recorded, _)| recorded.event.ends_the_run());
        if is_over && let Some(guard) = &mut guard {
            guard.disarm();
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
