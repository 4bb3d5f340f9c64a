//! Projects events into frames.
//!
//! The response object is kept up to date, and every frame is made from it: the snapshot of a
//! running response, the final response and the last frame of the stream are the same object at
//! different times. This file and its neighbours (`speech`, `tools`, `discovery`, `finished_calls`)
//! guarantee the order:
//!
//! * `response.created` comes first and once, also after a takeover, and one terminal frame comes
//!   last;
//! * an item is added before any other event about it, done once, and done before the end;
//! * `sequence_number` and `output_index` start at 0 and have no gaps.

use std::{collections::HashMap, mem, sync::Arc};

use turnwire_contract::{
    CallId, Event, Failure, ItemId, RecordedEvent, RunId, RunOutcome, RunRequest, Timestamp,
    ToolSpec, Usage, any_event,
};

use super::{
    event::{
        ErrorFrame, ErrorPayload, ItemFrame, ResponseEvent, ResponseFrame, SequencedEvent,
        SkippedPart, TakenOver, TurnEvent, TurnRetry,
    },
    item::{FailureNote, OutputItem, TokenLogprob},
    response::{self, IncompleteDetails, Response, ResponseError, ResponseStatus},
    shown_call::ShownCall,
    surface_data::{SurfaceData, include},
};
use crate::{Projection, gaps::Gaps};

/// The set of events a client receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Official event types only (R1).
    #[default]
    Strict,
    /// Turnwire's own events as well.
    Extended,
}

/// The projection of the Responses surface.
#[derive(Debug)]
pub struct Responses {
    pub(super) writer: ResponseWriter,
    /// Messages, reasoning and tool listings, by item ID.
    pub(super) item_states: HashMap<ItemId, ItemState>,
    pub(super) calls: HashMap<CallId, ShownCall>,
    /// The calls in the order they were announced.
    pub(super) order: Vec<CallId>,
    /// The tools that servers listed.
    pub(super) discovered: Vec<Arc<ToolSpec>>,
    pub(super) turn: u32,
    /// Number of calls of the latest turn that the server has yet to end.
    pub(super) n_open: usize,
    /// Length of the output when the latest turn started.
    turn_began_at: usize,
    gaps: Gaps,
    begun: bool,
    over: bool,
}

/// State of a message, of reasoning or of a tool listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemState {
    /// Open, at this index of the output.
    Open(usize),
    Closed,
}

/// The current response, and the frames that wait to be sent.
#[derive(Debug)]
pub(super) struct ResponseWriter {
    pub(super) profile: Profile,
    pub(super) response: Response,
    pub(super) run_id: RunId,
    pub(super) request: Arc<RunRequest>,
    pub(super) at: Timestamp,
    /// Indexes of withdrawn items: they were streamed, and are not part of the answer.
    withdrawn: Vec<usize>,
    /// Log probabilities of the text that comes next.
    pub(super) untold_logprobs: Vec<TokenLogprob>,
    next_number: u64,
    frames: Vec<SequencedEvent>,
}

impl Responses {
    /// Creates a projection.
    pub fn new(profile: Profile) -> Self {
        let (run_id, at) = (RunId::new("run_"), Timestamp::from_micros(0));
        let request = Arc::new(RunRequest::new("", Vec::new()));
        let response = Response::new(&run_id, at, &request);
        let frames = Vec::new();
        Self {
            writer: ResponseWriter {
                profile,
                response,
                run_id,
                request,
                at,
                withdrawn: Vec::new(),
                untold_logprobs: Vec::new(),
                next_number: 0,
                frames,
            },
            turn_began_at: 0,
            gaps: Gaps::default(),
            item_states: HashMap::new(),
            calls: HashMap::new(),
            order: Vec::new(),
            discovered: Vec::new(),
            turn: 0,
            n_open: 0,
            begun: false,
            over: false,
        }
    }

    /// The current response: the snapshot of a running response, and the final response after its
    /// end. Blank before the first event.
    pub fn response(&self) -> Response {
        let mut response = self.writer.response.clone();
        leave_out(&self.writer.withdrawn, &mut response);
        response
    }

    /// Whether the terminal frame was sent.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl Projection for Responses {
    type Frame = SequencedEvent;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<SequencedEvent> {
        if !self.over {
            self.writer.at = recorded.at;
            self.tell(recorded);
        }
        mem::take(&mut self.writer.frames)
    }
}

impl Responses {
    fn tell(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::RunQueued { request } => self.create(&recorded.run_id, request),
            Event::RunStarted => self.begin(),
            Event::RunTakenOver { attempt, .. } => self.take_over(*attempt),
            Event::TurnStarted { turn } => {
                self.turn = *turn;
                self.turn_began_at = self.writer.response.output.len();
                self.n_open = 0;
                let turn = *turn;
                self.writer.send_own(ResponseEvent::TurnStarted(TurnEvent { turn }));
            }
            Event::TurnRetried { turn, attempt, reason, delay_ms } => {
                self.retry_turn(*turn, *attempt, reason, *delay_ms);
            }
            Event::PartSkipped { turn, bytes, reason } => {
                self.gaps.add(*turn);
                let (turn, bytes, failure) = (*turn, *bytes, FailureNote::from(reason));
                let skipped = SkippedPart { turn, bytes, failure };
                self.writer.send_own(ResponseEvent::PartSkipped(Box::new(skipped)));
            }
            Event::TurnAbandoned { turn } => {
                let turn = *turn;
                self.gaps.forget(turn);
                let said = self.turn_began_at..self.writer.response.output.len();
                self.writer.withdrawn.extend(said);
                self.writer.send_own(ResponseEvent::TurnAbandoned(TurnEvent { turn }));
            }
            Event::TurnFinished { .. } | Event::Unknown(_) | Event::ToolTaskStarted { .. } => {}
            any_event!(
                MessageStarted LogprobsAdded TextAdded RefusalAdded AnnotationAdded
                MessageFinished ReasoningAdded ReasoningFinished
            ) => self.tell_speech(&recorded.event),
            any_event!(
                DiscoveryStarted ToolsDiscovered CallAnnounced ArgumentsAdded ArgumentsFinished
                ApprovalRequested ApprovalResolved ToolStarted ToolPhase ToolProgressed
                ToolOutputAdded InputRequested InputResolved ToolStayedSilent ToolRetried
                ToolFinished
            ) => self.tell_tools(&recorded.event),
            Event::RunFinished { outcome, usage } => self.end(outcome, *usage),
        }
    }

    fn create(&mut self, run_id: &RunId, request: &Arc<RunRequest>) {
        let writer = &mut self.writer;
        writer.response = Response::new(run_id, writer.at, request);
        writer.run_id = run_id.clone();
        writer.request = Arc::clone(request);
        writer.send_response(ResponseEvent::Created);
        if writer.response.status == ResponseStatus::Queued {
            writer.send_response(ResponseEvent::Queued);
        }
    }

    fn begin(&mut self) {
        if !mem::replace(&mut self.begun, true) {
            self.writer.response.status = ResponseStatus::InProgress;
            self.writer.send_response(ResponseEvent::InProgress);
        }
    }

    /// A takeover continues where the worker before it stopped.
    fn take_over(&mut self, attempt: u32) {
        self.begin();
        self.writer.send_own(ResponseEvent::RunTakenOver(TakenOver { attempt }));
    }

    fn retry_turn(&mut self, turn: u32, attempt: u32, reason: &Failure, delay_ms: u64) {
        self.gaps.forget(turn);
        let failure = FailureNote::from(reason);
        let retry = TurnRetry { turn, attempt, failure, delay_ms };
        self.writer.send_own(ResponseEvent::TurnRetried(Box::new(retry)));
    }

    fn end(&mut self, outcome: &RunOutcome, usage: Usage) {
        self.close_speech();
        self.close_calls();
        self.over = true;
        let writer = &mut self.writer;
        leave_out(&mem::take(&mut writer.withdrawn), &mut writer.response);
        writer.response.usage = Some(usage.into());
        if let Some(warning) = self.gaps.warning() {
            writer.response.warn(warning);
        }
        match outcome {
            RunOutcome::Completed => {
                writer.response.status = ResponseStatus::Completed;
                writer.response.completed_at = Some(response::seconds(writer.at));
                writer.send_response(ResponseEvent::Completed);
            }
            RunOutcome::Incomplete { reason } => {
                writer.stop(ResponseStatus::Incomplete, response::reason(*reason));
            }
            RunOutcome::Cancelled => writer.stop(ResponseStatus::Cancelled, "cancelled"),
            RunOutcome::Failed { failure } => writer.fail(failure),
        }
    }
}

/// Removes withdrawn items from a response: only their replacements are part of the answer (R20).
fn leave_out(withdrawn: &[usize], response: &mut Response) {
    let mut output_index = 0..;
    response.output.retain(|_| {
        output_index.next().is_none_or(|output_index| !withdrawn.contains(&output_index))
    });
}

impl ResponseWriter {
    /// Adds a frame to the stream, with the next sequence number.
    pub(super) fn send(&mut self, event: ResponseEvent) {
        let sequence_number = self.next_number;
        self.next_number += 1;
        self.frames.push(SequencedEvent { sequence_number, event });
    }

    /// Adds a frame to the stream if the profile is extended.
    pub(super) fn send_own(&mut self, event: ResponseEvent) {
        if self.profile == Profile::Extended {
            self.send(event);
        }
    }

    fn send_response(&mut self, frame: impl FnOnce(ResponseFrame) -> ResponseEvent) {
        let response = Box::new(self.response.clone());
        self.send(frame(ResponseFrame { response }));
    }

    /// Ends a response that was cancelled or stopped at a limit. Both use `response.incomplete`,
    /// because the stream has no official event for a cancel (R8).
    fn stop(&mut self, status: ResponseStatus, reason: &'static str) {
        self.response.status = status;
        self.response.incomplete_details = Some(IncompleteDetails { reason });
        self.send_response(ResponseEvent::Incomplete);
    }

    fn fail(&mut self, failure: &Failure) {
        let error = ResponseError::from(failure);
        let ResponseError { kind, code, message, param, turnwire } = error.clone();
        let payload = ErrorPayload {
            kind: kind.to_owned(),
            code: code.clone(),
            message: message.clone(),
            param: param.clone(),
        };
        let frame = ErrorFrame { code, message, param, error: payload, turnwire };
        self.send(ResponseEvent::Error(Box::new(frame)));
        self.response.status = ResponseStatus::Failed;
        self.response.error = Some(error);
        self.send_response(ResponseEvent::Failed);
    }

    /// Adds an item to the output and returns its index.
    pub(super) fn add_item(&mut self, item: OutputItem) -> usize {
        let output_index = self.response.output.len();
        let shown = Box::new(item.clone());
        self.response.output.push(item);
        self.send(ResponseEvent::ItemAdded(ItemFrame { output_index, item: shown }));
        output_index
    }

    /// Sends `response.output_item.done` for the item at this index.
    pub(super) fn item_done(&mut self, output_index: usize) {
        let Some(item) = self.response.output.get(output_index) else { return };
        let item = Box::new(item.clone());
        self.send(ResponseEvent::ItemDone(ItemFrame { output_index, item }));
    }

    /// Whether the client requested additional output with `include`.
    pub(super) fn includes(&self, what: &str) -> bool {
        SurfaceData(&self.request.surface_data).includes(what)
    }

    /// Whether encrypted reasoning is included.
    pub(super) fn shows_encrypted_content(&self) -> bool {
        self.includes(include::ENCRYPTED_CONTENT)
    }
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
