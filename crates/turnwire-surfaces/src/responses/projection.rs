//! From events to frames.
//!
//! The response object is kept as it grows, and every frame is told from it: the snapshot of a
//! running response, the plain answer and the last frame of the stream are the same object at
//! different times. Order is the whole point of this file and its two neighbours:
//!
//! * `response.created` comes first and once, whoever works on the run (a takeover is no second
//!   beginning), and one terminal frame comes last;
//! * an item is added before anything is said about it, done once, and done before the end;
//! * `sequence_number` and `output_index` run from 0 without gaps.

use std::{collections::HashMap, mem, sync::Arc};

use turnwire_contract::{
    CallId, Event, Failure, ItemId, Recorded, RunId, RunOutcome, RunRequest, Timestamp, ToolSpec,
    Usage,
};

use super::{
    echo::{Echo, include},
    event::{
        ErrorFrame, ErrorPayload, ItemFrame, ResponseEvent, ResponseFrame, SkippedPart, TakenOver,
        TurnNews, TurnRetry,
    },
    item::{FailureNote, OutputItem, TokenLogprob},
    response::{self, IncompleteDetails, Response, ResponseError, ResponseStatus},
    tools::ShownCall,
};
use crate::Projection;

/// How much a client wants to be told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// Official event names only (R1).
    #[default]
    Strict,
    /// Events of ours too.
    Extended,
}

/// The projection of the Responses surface.
#[derive(Debug)]
pub struct Responses {
    pub(super) stage: Stage,
    /// Messages, thoughts and questions for tools, by their item.
    pub(super) spoken: HashMap<ItemId, Spoken>,
    /// Calls, by their id.
    pub(super) calls: HashMap<CallId, ShownCall>,
    /// The calls in the order they were announced.
    pub(super) order: Vec<CallId>,
    /// The tools that servers brought.
    pub(super) discovered: Vec<Arc<ToolSpec>>,
    pub(super) turn: u32,
    /// How many calls of the latest turn the server still owes an end.
    pub(super) n_open: usize,
    /// Where the output stood when the latest turn began.
    turn_began_at: usize,
    begun: bool,
    over: bool,
}

/// How far something said has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    /// It is open, at this place of the output.
    Open(usize),
    /// It is closed.
    Closed,
}

/// The response as it is now, and the frames that wait to be sent.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) profile: Profile,
    pub(super) response: Response,
    pub(super) run_id: RunId,
    pub(super) request: Arc<RunRequest>,
    pub(super) at: Timestamp,
    /// The places of what was withdrawn: it was said, and is not part of the answer.
    withdrawn: Vec<usize>,
    /// How likely the tokens are of the text that comes next.
    pub(super) untold_logprobs: Vec<TokenLogprob>,
    next_number: u64,
    frames: Vec<ResponseEvent>,
}

impl Responses {
    /// A stream in which nothing has happened yet.
    pub fn new(profile: Profile) -> Self {
        let (run_id, at) = (RunId::new("run_"), Timestamp::from_micros(0));
        let request = Arc::new(RunRequest::new("", Vec::new()));
        let response = Response::new(&run_id, at, &request);
        let frames = Vec::new();
        Self {
            stage: Stage {
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
            spoken: HashMap::new(),
            calls: HashMap::new(),
            order: Vec::new(),
            discovered: Vec::new(),
            turn: 0,
            n_open: 0,
            begun: false,
            over: false,
        }
    }

    /// The response object as of now: what a reader of a running response gets, and the plain
    /// answer once it is over. Before the first event it is blank.
    pub fn response(&self) -> Response {
        let mut response = self.stage.response.clone();
        leave_out(&self.stage.withdrawn, &mut response);
        response
    }

    /// Whether the terminal frame has been sent.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl Projection for Responses {
    type Frame = ResponseEvent;

    fn project(&mut self, recorded: &Recorded) -> Vec<ResponseEvent> {
        if !self.over {
            self.stage.at = recorded.at;
            self.tell(recorded);
        }
        mem::take(&mut self.stage.frames)
    }
}

impl Responses {
    fn tell(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::RunQueued { request } => self.create(&recorded.run_id, request),
            Event::RunStarted => self.begin(),
            Event::RunTakenOver { attempt } => self.take_over(*attempt),
            Event::TurnStarted { turn } => {
                self.turn = *turn;
                self.turn_began_at = self.stage.response.output.len();
                self.n_open = 0;
                let turn = *turn;
                self.stage.send_own(|sequence_number| {
                    ResponseEvent::TurnStarted(TurnNews { sequence_number, turn })
                });
            }
            Event::TurnRetried { turn, attempt, reason, delay_ms } => {
                self.retry_turn(*turn, *attempt, reason, *delay_ms);
            }
            Event::PartSkipped { turn, bytes, reason } => {
                let (turn, bytes, failure) = (*turn, *bytes, FailureNote::from(reason));
                self.stage.send_own(|sequence_number| {
                    let skipped = SkippedPart { sequence_number, turn, bytes, failure };
                    ResponseEvent::PartSkipped(Box::new(skipped))
                });
            }
            Event::TurnAbandoned { turn } => {
                let turn = *turn;
                let said = self.turn_began_at..self.stage.response.output.len();
                self.stage.withdrawn.extend(said);
                self.stage.send_own(|sequence_number| {
                    ResponseEvent::TurnAbandoned(TurnNews { sequence_number, turn })
                });
            }
            Event::TurnFinished { .. } | Event::Unknown(_) | Event::ToolTaskStarted { .. } => {}
            Event::MessageStarted { .. }
            | Event::LogprobsAdded { .. }
            | Event::TextAdded { .. }
            | Event::RefusalAdded { .. }
            | Event::AnnotationAdded { .. }
            | Event::MessageFinished { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. } => self.tell_speech(&recorded.event),
            Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::CallAnnounced { .. }
            | Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolStarted { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::InputRequested { .. }
            | Event::InputResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::ToolRetried { .. }
            | Event::ToolFinished { .. } => self.tell_tools(&recorded.event),
            Event::RunFinished { outcome, usage } => self.end(outcome, *usage),
        }
    }

    fn create(&mut self, run_id: &RunId, request: &Arc<RunRequest>) {
        let stage = &mut self.stage;
        stage.response = Response::new(run_id, stage.at, request);
        stage.run_id = run_id.clone();
        stage.request = Arc::clone(request);
        stage.send_response(ResponseEvent::Created);
        if stage.response.status == ResponseStatus::Queued {
            stage.send_response(ResponseEvent::Queued);
        }
    }

    fn begin(&mut self) {
        if !mem::replace(&mut self.begun, true) {
            self.stage.response.status = ResponseStatus::InProgress;
            self.stage.send_response(ResponseEvent::InProgress);
        }
    }

    /// A takeover goes on where the worker before it stopped.
    fn take_over(&mut self, attempt: u32) {
        self.begin();
        self.stage.send_own(|sequence_number| {
            ResponseEvent::RunTakenOver(TakenOver { sequence_number, attempt })
        });
    }

    fn retry_turn(&mut self, turn: u32, attempt: u32, reason: &Failure, delay_ms: u64) {
        let failure = FailureNote::from(reason);
        self.stage.send_own(|sequence_number| {
            let retry = TurnRetry { sequence_number, turn, attempt, failure, delay_ms };
            ResponseEvent::TurnRetried(Box::new(retry))
        });
    }

    fn end(&mut self, outcome: &RunOutcome, usage: Usage) {
        self.close_speech();
        self.close_calls();
        self.over = true;
        let stage = &mut self.stage;
        leave_out(&mem::take(&mut stage.withdrawn), &mut stage.response);
        stage.response.usage = Some(usage.into());
        match outcome {
            RunOutcome::Completed => {
                stage.response.status = ResponseStatus::Completed;
                stage.response.completed_at = Some(response::seconds(stage.at));
                stage.send_response(ResponseEvent::Completed);
            }
            RunOutcome::Incomplete { reason } => {
                stage.stop(ResponseStatus::Incomplete, response::reason(*reason));
            }
            RunOutcome::Cancelled => stage.stop(ResponseStatus::Cancelled, "cancelled"),
            RunOutcome::Failed { failure } => stage.fail(failure),
        }
    }
}

/// Takes what was withdrawn out of a response: only what replaced it is part of the answer (R20).
fn leave_out(withdrawn: &[usize], response: &mut Response) {
    let mut place = 0..;
    response.output.retain(|_| place.next().is_none_or(|place| !withdrawn.contains(&place)));
}

impl Stage {
    /// Puts a frame into the stream, with the next number.
    pub(super) fn send(&mut self, frame: impl FnOnce(u64) -> ResponseEvent) {
        let number = self.next_number;
        self.next_number += 1;
        self.frames.push(frame(number));
    }

    /// Puts a frame into the stream if the client wants more than official ones.
    pub(super) fn send_own(&mut self, frame: impl FnOnce(u64) -> ResponseEvent) {
        if self.profile == Profile::Extended {
            self.send(frame);
        }
    }

    fn send_response(&mut self, frame: impl FnOnce(ResponseFrame) -> ResponseEvent) {
        let response = Box::new(self.response.clone());
        self.send(|sequence_number| frame(ResponseFrame { sequence_number, response }));
    }

    /// A cancelled run stops like one at a limit, because the stream has no other official way
    /// to say it (R8).
    fn stop(&mut self, status: ResponseStatus, reason: &'static str) {
        self.response.status = status;
        self.response.incomplete_details = Some(IncompleteDetails { reason });
        self.send_response(ResponseEvent::Incomplete);
    }

    fn fail(&mut self, failure: &Failure) {
        let error = ResponseError::from(failure);
        let ResponseError { kind, code, message, param, turnwire } = error.clone();
        self.send(|sequence_number| {
            let error = ErrorPayload {
                kind: kind.to_owned(),
                code: code.clone(),
                message: message.clone(),
                param: param.clone(),
            };
            let frame = ErrorFrame { sequence_number, code, message, param, error, turnwire };
            ResponseEvent::Error(Box::new(frame))
        });
        self.response.status = ResponseStatus::Failed;
        self.response.error = Some(error);
        self.send_response(ResponseEvent::Failed);
    }

    /// Adds an item to the output; its place.
    pub(super) fn add_item(&mut self, item: OutputItem) -> usize {
        let output_index = self.response.output.len();
        let shown = Box::new(item.clone());
        self.response.output.push(item);
        self.send(|sequence_number| {
            ResponseEvent::ItemAdded(ItemFrame { sequence_number, output_index, item: shown })
        });
        output_index
    }

    /// Says that the item at this place will stay as it is.
    pub(super) fn item_done(&mut self, output_index: usize) {
        let Some(item) = self.response.output.get(output_index) else { return };
        let item = Box::new(item.clone());
        self.send(|sequence_number| {
            ResponseEvent::ItemDone(ItemFrame { sequence_number, output_index, item })
        });
    }

    /// Whether the client asked to see what is usually left out.
    pub(super) fn includes(&self, what: &str) -> bool {
        Echo(&self.request.echo).includes(what)
    }

    /// Whether proofs of what was thought are shown.
    pub(super) fn shows_seals(&self) -> bool {
        self.includes(include::SEALS)
    }
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
