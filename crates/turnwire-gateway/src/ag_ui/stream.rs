//! The events of a run on their way to the client.
//!
//! A stream has the frames after a given one, all of them, up to the end of the run or to a pause
//! in which nothing but people is awaited. A client takes a stream that just ends for a run that
//! has ended. So a stream ends cleanly only then; in every other case, such as a shutdown, the
//! connection breaks, and the client knows that something is missing.

use std::pin::Pin;

use axum::response::Response as HttpResponse;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use turnwire_contract::{
    EventStream, JournalError, JournalHead, RecordedEvent, RunId, Seq, StoreError, TenantId,
};
use turnwire_surfaces::{
    AgUi, AgUiFrame, Projection,
    ag_ui::{AgUiEvent, Outcome},
};

use super::message_references::{referenced, resolve};
use crate::{
    App, Result,
    sse::{BrokenStream, SseFrame, breaking_event_stream},
    streaming::{CancelOnDrop, ProjectedFrame, watched_frames},
};

/// A frame, or a pause that is one if nothing follows.
enum Step {
    Frame(AgUiFrame),
    Pause(AgUiFrame),
}

/// The projection, with its pauses.
#[derive(Default)]
struct Steps(AgUi);

impl Projection for Steps {
    type Frame = Step;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<Step> {
        let frames = self.0.project(recorded).into_iter().map(Step::Frame);
        let frames: Vec<Step> = frames.collect();
        let pause = self.0.pause().cloned().map(Step::Pause);
        frames.into_iter().chain(pause).collect()
    }
}

/// Where a stream begins, and who cares about it.
#[derive(Default)]
pub(super) struct StreamOptions {
    /// Number of the last frame that the client has.
    pub(super) after: u64,
    /// Receives the position of the first reader.
    pub(super) seen: Option<watch::Sender<Seq>>,
    /// Cancels the run if the client disconnects.
    pub(super) guard: Option<CancelOnDrop>,
}

type StepStream =
    Pin<Box<dyn Stream<Item = Result<ProjectedFrame<Step>, JournalError>> + Send + 'static>>;

struct StreamReader {
    app: App,
    tenant: TenantId,
    run_id: RunId,
    steps: StepStream,
    after: u64,
    guard: Option<CancelOnDrop>,
    /// Whether the run has ended.
    is_over: bool,
}

/// A response that streams the run `run_id` of `tenant`.
pub(super) fn stream_of(
    app: &App,
    tenant: &TenantId,
    run_id: &RunId,
    events: EventStream,
    options: StreamOptions,
) -> HttpResponse {
    let StreamOptions { after, seen, guard } = options;
    let reader = StreamReader {
        app: app.clone(),
        tenant: tenant.clone(),
        run_id: run_id.clone(),
        steps: Box::pin(watched_frames(Steps::default(), events, seen)),
        after,
        guard,
        is_over: false,
    };
    let frames = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let (frame, is_last) = reader.next().await?;
        Some((frame, (!is_last).then_some(reader)))
    });
    breaking_event_stream(app, frames, |out, frame: AgUiFrame| {
        SseFrame::begin(out).id(frame.number).json(&frame);
    })
}

impl StreamReader {
    /// The next frame, and whether it is the last; `None` at the end of the run.
    async fn next(&mut self) -> Option<(Result<AgUiFrame, BrokenStream>, bool)> {
        loop {
            let (recorded, step) = match self.steps.next().await {
                Some(Ok(step)) => step,
                None if self.is_over => {
                    self.disarm();
                    return None;
                }
                // The run goes on, or nobody can tell. That is not a disconnect of the client.
                Some(Err(_)) | None => {
                    self.disarm();
                    return Some((Err(BrokenStream), true));
                }
            };
            self.is_over |= recorded.event.ends_the_run();
            match step {
                Step::Frame(frame) if frame.number > self.after => {
                    let Ok(frame) = whole(&self.app, &self.tenant, frame).await else {
                        self.disarm();
                        return Some((Err(BrokenStream), true));
                    };
                    return Some((Ok(frame), false));
                }
                Step::Pause(frame) if frame.number > self.after => {
                    let Self { app, tenant, run_id, .. } = &*self;
                    let head = app.runs().head(tenant, run_id);
                    if is_at(head.await, recorded.seq) {
                        self.disarm();
                        return Some((Ok(frame), true));
                    }
                }
                Step::Frame(_) | Step::Pause(_) => {}
            }
        }
    }

    fn disarm(&mut self) {
        if let Some(guard) = &mut self.guard {
            guard.disarm();
        }
    }
}

/// The frame with the texts that its messages refer to.
async fn whole(
    app: &App,
    tenant: &TenantId,
    mut frame: AgUiFrame,
) -> Result<AgUiFrame, StoreError> {
    if let AgUiEvent::MessagesSnapshot { messages } = &mut frame.event {
        let names = referenced(messages);
        if !names.is_empty() {
            resolve(messages, &app.runs().store().entries_named(tenant, &names).await?);
        }
    }
    Ok(frame)
}

/// Whether nothing was recorded after `seq`.
fn is_at(head: Result<JournalHead, JournalError>, seq: Seq) -> bool {
    head.is_ok_and(|head| head.last == seq)
}

/// How far a run has come.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Number of the last frame, including that of a pause.
    pub(super) last_number: u64,
    /// Whether the run has ended.
    pub(super) is_over: bool,
    pub(super) thread_id: String,
    /// All pauses so far.
    pub(super) pauses: Vec<Pause>,
}

/// A run of the protocol that ended with interrupts.
#[derive(Debug)]
pub(super) struct Pause {
    /// Number of its last frame.
    pub(super) number: u64,
    /// ID of the run of the protocol.
    pub(super) run_id: String,
    /// IDs of the interrupts.
    pub(super) interrupts: Vec<String>,
}

impl Progress {
    /// Reads what is recorded of a run.
    pub(super) async fn of(app: &App, tenant: &TenantId, run_id: &RunId) -> Result<Self> {
        let mut events = app.runs().stored(tenant, run_id).await?;
        let (mut surface, mut progress) = (AgUi::new(), Self::default());
        while let Some(recorded) = events.try_next().await? {
            for frame in surface.project(&recorded) {
                progress.note(&frame);
            }
            progress.is_over |= recorded.event.ends_the_run();
        }
        if let Some(pause) = surface.pause() {
            progress.note(pause);
        }
        Ok(progress)
    }

    fn note(&mut self, frame: &AgUiFrame) {
        self.last_number = frame.number;
        match &frame.event {
            AgUiEvent::RunStarted { thread_id, .. } => self.thread_id.clone_from(thread_id),
            AgUiEvent::RunFinished {
                run_id,
                outcome: Some(Outcome::Interrupt { interrupts }),
                ..
            } => {
                let interrupts = interrupts.iter().map(|interrupt| interrupt.id.clone()).collect();
                let (number, run_id) = (frame.number, run_id.clone());
                self.pauses.push(Pause { number, run_id, interrupts });
            }
            _ => {}
        }
    }
}
