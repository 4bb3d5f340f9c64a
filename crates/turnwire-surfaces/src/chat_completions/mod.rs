//! The surface of `POST /v1/chat/completions`.
//!
//! This dialect knows one answer of one model, and calls that the client executes. So the turns of
//! a run become one message: their texts follow each other, with a blank line between two turns,
//! and the calls that the server executes are not shown. With the profile `extended` the events of
//! these calls are sent in chunks of their own, in the field `turnwire`.
//!
//! Nothing can be taken back in this dialect. If a worker fails during a turn, the text that it
//! streamed stays, and the text of the turn that replaces it follows after a blank line; the
//! completion without `stream` has only the latter. If calls for the client were already streamed,
//! the stream ends with an error: a client that executed the calls of both turns would act twice.

mod message;
pub mod wire;

use std::mem;

use turnwire_contract::{
    CallId, Event, Failure, IncompleteReason, ItemId, RecordedEvent, RunId, RunOutcome, RunRequest,
    Timestamp, ToolRef, Usage, any_event,
};

pub use self::wire::{ChatCompletion, ChatCompletionChunk, CompletionFrame};
use self::{
    message::{MessageSoFar, url_citation},
    wire::{
        ChunkChoice, ChunkDelta, CompletionChoice, CompletionError, CompletionLogprobs,
        CompletionNote, CustomToolDelta, FinishReason, FunctionDelta, ToolCallDelta,
    },
};
use crate::{
    Profile, Projection,
    gaps::Gaps,
    responses::{
        item::TokenLogprob,
        response::{ResponseError, seconds},
        surface_data::{IGNORED, SurfaceData},
    },
};

/// Failure code of a run that was cancelled.
const CANCELLED: &str = "cancelled";
/// Failure code of a stream that cannot be continued.
const SUPERSEDED: &str = "turn_superseded";

/// What a client receives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompletionOptions {
    /// Whether events of the run are sent as well.
    pub profile: Profile,
    /// Whether the tokens used are sent at the end.
    pub include_usage: bool,
}

/// The projection of Chat Completions.
#[derive(Debug)]
pub struct ChatCompletions {
    options: CompletionOptions,
    head: Head,
    message: MessageSoFar,
    /// Log probabilities of the text that comes next.
    next_logprobs: Vec<TokenLogprob>,
    last_streamed: Option<char>,
    gaps: Gaps,
    /// Whether the stream has ended.
    has_ended: bool,
    outcome: Option<(RunOutcome, Usage)>,
    frames: Vec<CompletionFrame>,
}

/// What all chunks repeat.
#[derive(Debug, Clone, Default)]
struct Head {
    id: String,
    created: i64,
    model: String,
    ignored: Option<Vec<String>>,
}

impl ChatCompletions {
    /// Creates a projection.
    pub fn new(options: CompletionOptions) -> Self {
        Self {
            options,
            head: Head::default(),
            message: MessageSoFar::default(),
            next_logprobs: Vec::new(),
            last_streamed: None,
            gaps: Gaps::default(),
            has_ended: false,
            outcome: None,
            frames: Vec::new(),
        }
    }

    /// The completion of a run that has ended. The error says why there is no answer.
    pub fn completion(&self) -> Result<ChatCompletion, Failure> {
        let Some((outcome, usage)) = &self.outcome else {
            return Err(Failure::new("run_not_finished", "the run has not ended"));
        };
        let finish_reason = self.finish_reason(outcome)?;
        let Head { id, created, model, .. } = self.head.clone();
        let choice = CompletionChoice {
            index: 0,
            message: self.message.whole(),
            logprobs: CompletionLogprobs::of(self.message.logprobs().to_vec()),
            finish_reason,
        };
        Ok(ChatCompletion {
            id,
            object: "chat.completion",
            created,
            model,
            choices: vec![choice],
            usage: (*usage).into(),
            turnwire: self.note(),
        })
    }

    fn finish_reason(&self, outcome: &RunOutcome) -> Result<FinishReason, Failure> {
        match outcome {
            RunOutcome::Completed if self.message.has_calls() => Ok(FinishReason::ToolCalls),
            RunOutcome::Completed => Ok(FinishReason::Stop),
            RunOutcome::Incomplete { reason: IncompleteReason::ContentFilter } => {
                Ok(FinishReason::ContentFilter)
            }
            RunOutcome::Incomplete { .. } => Ok(FinishReason::Length),
            RunOutcome::Cancelled => Err(Failure::new(CANCELLED, "the run was cancelled")),
            RunOutcome::Failed { failure } => Err(failure.clone()),
        }
    }

    fn begin(&mut self, run_id: &RunId, at: Timestamp, request: &RunRequest) {
        let (run, surface_data) = (run_id.as_str(), SurfaceData(&request.surface_data));
        self.head = Head {
            id: format!("chatcmpl-{}", run.strip_prefix("run_").unwrap_or(run)),
            created: seconds(at),
            model: surface_data.get("model").unwrap_or_else(|| request.model.clone()),
            ignored: surface_data.get(IGNORED),
        };
        let (role, content) = (Some("assistant"), Some(String::new()));
        self.stream(ChunkDelta { role, content, ..ChunkDelta::default() });
    }

    fn add_text(&mut self, item_id: &ItemId, text: &str) {
        if text.is_empty() {
            return;
        }
        let opens = self.message.opens(item_id);
        self.message.add_text(item_id, text);
        let logprobs = mem::take(&mut self.next_logprobs);
        self.message.add_logprobs(&logprobs);
        let mut content = text.to_owned();
        if opens && self.last_streamed.is_some_and(|last| last != '\n') {
            content.insert_str(0, message::BETWEEN_TURNS);
        }
        self.last_streamed = content.chars().last();
        let delta = ChunkDelta { content: Some(content), ..ChunkDelta::default() };
        self.stream_choice(delta, CompletionLogprobs::of(logprobs), None);
    }

    fn add_refusal(&mut self, item_id: &ItemId, text: &str) {
        if !text.is_empty() {
            self.message.add_refusal(item_id, text);
            self.stream(ChunkDelta { refusal: Some(text.to_owned()), ..ChunkDelta::default() });
        }
    }

    fn add_reasoning(&mut self, item_id: &ItemId, text: &str) {
        if !text.is_empty() {
            self.message.add_reasoning(item_id, text);
            let reasoning_content = Some(text.to_owned());
            self.stream(ChunkDelta { reasoning_content, ..ChunkDelta::default() });
        }
    }

    /// A call for the client. Calls that the server executes are not part of the message.
    fn add_call(&mut self, call_id: &CallId, tool: &ToolRef) {
        if !tool.kind.is_run_by_client() {
            return;
        }
        let (index, is_custom) = self.message.add_call(call_id, tool);
        let name = Some(tool.own_name().to_owned());
        let (kind, function, custom) = if is_custom {
            ("custom", None, Some(CustomToolDelta { name, input: String::new() }))
        } else {
            ("function", Some(FunctionDelta { name, arguments: String::new() }), None)
        };
        let id = Some(call_id.to_string());
        self.stream_call(ToolCallDelta { index, id, kind: Some(kind), function, custom });
    }

    fn add_arguments(&mut self, call_id: &CallId, text: &str) {
        let Some((index, is_custom)) = self.message.add_arguments(call_id, text) else { return };
        let text = text.to_owned();
        let delta = ToolCallDelta { index, ..ToolCallDelta::default() };
        self.stream_call(if is_custom {
            ToolCallDelta { custom: Some(CustomToolDelta { name: None, input: text }), ..delta }
        } else {
            ToolCallDelta { function: Some(FunctionDelta { name: None, arguments: text }), ..delta }
        });
    }

    /// The worker failed: what it said in this turn is not part of the answer.
    fn withdraw_turn(&mut self) {
        if self.message.withdraw_turn() {
            let message = "the server failed while the model made a call, and the model was \
                           asked again; send the request again";
            self.stream_error(&Failure::new(SUPERSEDED, message));
        }
    }

    fn end(&mut self, outcome: &RunOutcome, usage: Usage) {
        self.outcome = Some((outcome.clone(), usage));
        match self.finish_reason(outcome) {
            Err(failure) => self.stream_error(&failure),
            Ok(reason) => {
                self.stream_choice(ChunkDelta::default(), None, Some(reason));
                if self.options.include_usage {
                    let usage = Some(Some(usage.into()));
                    self.send(ChatCompletionChunk { usage, ..self.chunk(Vec::new()) });
                }
                self.send_frame(CompletionFrame::Done);
                self.has_ended = true;
            }
        }
    }

    /// What comes with the whole answer.
    fn note(&self) -> Option<CompletionNote> {
        let warnings = self.gaps.warning().map(|warning| vec![warning]);
        let note = CompletionNote { ignored: self.head.ignored.clone(), warnings, event: None };
        (note != CompletionNote::default()).then_some(note)
    }

    fn stream(&mut self, delta: ChunkDelta) {
        self.stream_choice(delta, None, None);
    }

    fn stream_call(&mut self, call: ToolCallDelta) {
        self.stream(ChunkDelta { tool_calls: vec![call], ..ChunkDelta::default() });
    }

    fn stream_choice(
        &mut self,
        delta: ChunkDelta,
        logprobs: Option<CompletionLogprobs>,
        finish_reason: Option<FinishReason>,
    ) {
        let turnwire = finish_reason.and_then(|_| self.note());
        let choice = ChunkChoice { index: 0, delta, logprobs, finish_reason };
        self.send(ChatCompletionChunk { turnwire, ..self.chunk(vec![choice]) });
    }

    fn stream_error(&mut self, failure: &Failure) {
        let error = ResponseError::from(failure);
        self.send_frame(CompletionFrame::Error(Box::new(CompletionError { error })));
        self.send_frame(CompletionFrame::Done);
        self.has_ended = true;
    }

    /// Sends the event itself, if the client asked for it.
    fn stream_event(&mut self, recorded: &RecordedEvent) {
        if self.options.profile == Profile::Extended {
            let event = Some(Box::new(recorded.clone()));
            let turnwire = Some(CompletionNote { event, ..CompletionNote::default() });
            self.send(ChatCompletionChunk { turnwire, ..self.chunk(Vec::new()) });
        }
    }

    fn chunk(&self, choices: Vec<ChunkChoice>) -> ChatCompletionChunk {
        let Head { id, created, model, .. } = self.head.clone();
        let usage = self.options.include_usage.then_some(None);
        let object = "chat.completion.chunk";
        ChatCompletionChunk { id, object, created, model, choices, usage, turnwire: None }
    }

    fn send(&mut self, chunk: ChatCompletionChunk) {
        self.send_frame(CompletionFrame::Chunk(Box::new(chunk)));
    }

    fn send_frame(&mut self, frame: CompletionFrame) {
        if !self.has_ended {
            self.frames.push(frame);
        }
    }
}

impl Projection for ChatCompletions {
    type Frame = CompletionFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<CompletionFrame> {
        match &recorded.event {
            Event::RunQueued { request } => {
                self.begin(&recorded.run_id, recorded.at, request);
            }
            Event::TurnStarted { .. } => {
                self.message.begin_turn();
                self.stream_event(recorded);
            }
            Event::PartSkipped { turn, .. } => {
                self.gaps.add(*turn);
                self.stream_event(recorded);
            }
            Event::TurnRetried { turn, .. } => {
                self.gaps.forget(*turn);
                self.stream_event(recorded);
            }
            Event::TurnAbandoned { turn } => {
                self.gaps.forget(*turn);
                self.stream_event(recorded);
                self.withdraw_turn();
            }
            Event::LogprobsAdded { logprobs, .. } => {
                self.next_logprobs.extend(logprobs.iter().map(TokenLogprob::from));
            }
            Event::TextAdded { item_id, text } => self.add_text(item_id, text),
            Event::RefusalAdded { item_id, text } => self.add_refusal(item_id, text),
            Event::AnnotationAdded { item_id, annotation } => {
                if let Some(citation) = url_citation(annotation, self.message.starts_at(item_id)) {
                    self.message.add_citation(citation.clone());
                    let annotations = vec![citation];
                    self.stream(ChunkDelta { annotations, ..ChunkDelta::default() });
                } else {
                    self.stream_event(recorded);
                }
            }
            Event::MessageFinished { item_id, text, refusal, .. } => {
                let (text, refusal) = self.message.missing(item_id, text, refusal);
                self.add_text(item_id, &text);
                self.add_refusal(item_id, &refusal);
            }
            Event::ReasoningAdded { item_id, text } => self.add_reasoning(item_id, text),
            Event::ReasoningFinished { item_id, text, .. } => {
                let (rest, _) = self.message.missing(item_id, text, "");
                self.add_reasoning(item_id, &rest);
            }
            Event::CallAnnounced { call_id, tool, .. } => {
                self.add_call(call_id, tool);
                self.stream_event(recorded);
            }
            Event::ArgumentsAdded { call_id, text } => self.add_arguments(call_id, text),
            Event::ArgumentsFinished { call_id, arguments, .. } => {
                if let Some(rest) = self.message.missing_arguments(call_id, arguments) {
                    self.add_arguments(call_id, &rest);
                }
                self.stream_event(recorded);
            }
            Event::RunFinished { outcome, usage } => self.end(outcome, *usage),
            Event::RunStarted | Event::MessageStarted { .. } => {}
            any_event!(
                RunTakenOver TurnFinished DiscoveryStarted ToolsDiscovered
                ApprovalRequested ApprovalResolved ToolStarted ToolTaskStarted ToolPhase
                ToolProgressed ToolOutputAdded InputRequested InputResolved ToolStayedSilent
                ToolRetried ToolFinished Unknown
            ) => self.stream_event(recorded),
        }
        mem::take(&mut self.frames)
    }
}

#[cfg(test)]
#[path = "chat_completions_tests.rs"]
mod tests;
