//! The stream as a whole: its message, its steps and its segments.

use turnwire_contract::{
    Approvals, DiscoveryOutcome, Event, Failure, IncompleteReason, RecordedEvent, RunOutcome,
    Usage, any_event,
};

use super::{
    Dialect, MESSAGE_KEY, Span,
    chunk::{
        Data, FinishMetadata, FinishReason, NoticeData, StartMetadata, SupersededData, UiChunk,
    },
    speech::Speech,
    tools::Tools,
    waiting::Waiting,
};
use crate::{
    Projection,
    calls::{CallBook, CallEvent},
    preview::sentence,
};

/// What a reader of the stream gets.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "nearly every frame is a chunk")]
pub enum AiSdkFrame {
    /// A chunk.
    Chunk(UiChunk),
    /// Only people are awaited. If nothing follows at once, the stream ends with these chunks,
    /// which are those that the next event of the run makes if it ends the segment. Not counted.
    ///
    /// The engine asks for all approvals of a turn together, and answers at once those that a
    /// person has given for the whole conversation.
    AwaitsPeople(Vec<UiChunk>),
}

/// The projection of `/ai-sdk/chat`.
#[derive(Debug, Default)]
pub struct AiSdk {
    dialect: Dialect,
    span: Span,
    segment: u32,
    pause: Pause,
    /// Whether the message has started in this segment.
    has_started: bool,
    step: Step,
    book: CallBook,
    waiting: Waiting,
    speech: Speech,
    tools: Tools,
    /// Calls that the client executes, or that the next run does.
    has_calls_left: bool,
}

/// Whether the run waits for people only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Pause {
    #[default]
    No,
    /// It does, and the segment is still open.
    Perhaps,
    /// It does, and the segment is closed.
    Yes,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Closed,
    Open,
    /// Open and empty, because its content was withdrawn.
    Fresh,
}

impl AiSdk {
    /// Creates a projection for one client.
    pub fn new(dialect: Dialect, span: Span) -> Self {
        Self { dialect, span, tools: Tools::new(dialect), ..Self::default() }
    }

    /// The current segment, from 0.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    fn start(&mut self, recorded: &RecordedEvent) -> UiChunk {
        self.has_started = true;
        let request = self.book.request();
        let continued = request.and_then(|request| request.surface_data.get(MESSAGE_KEY)?.as_str());
        UiChunk::Start {
            message_id: continued.unwrap_or(recorded.run_id.as_str()).to_owned(),
            message_metadata: StartMetadata {
                run_id: recorded.run_id.clone(),
                conversation_id: request.and_then(|request| request.conversation_id.clone()),
                model: request.map(|request| request.model.clone()),
            },
        }
    }

    fn start_turn(&mut self, out: &mut Vec<UiChunk>) {
        if self.step != Step::Fresh {
            self.finish_step(out);
            out.push(UiChunk::StartStep);
        }
        self.step = Step::Open;
        self.speech.start_turn();
        self.tools.start_turn();
    }

    fn finish_step(&mut self, out: &mut Vec<UiChunk>) {
        self.speech.end_all(out);
        if self.step != Step::Closed {
            out.push(UiChunk::FinishStep);
        }
        self.step = Step::Closed;
    }

    /// Withdraws the turn, as far as the client can.
    fn abandon_turn(&mut self, out: &mut Vec<UiChunk>) {
        self.speech.end_all(out);
        let items = self.speech.take_items();
        if self.dialect == Dialect::V7 {
            self.tools.withdraw();
            if self.step == Step::Open {
                out.push(UiChunk::ResetStep);
                self.step = Step::Fresh;
            }
            return;
        }
        let calls = self.tools.take_calls();
        let calls = calls.iter().filter_map(|call_id| self.book.get(call_id));
        let items = items.into_iter().chain(calls.map(|call| call.item_id.clone()));
        out.extend(items.map(|item_id| {
            let id = item_id.to_string();
            UiChunk::DataSuperseded(Data::part(id, SupersededData { item_id }))
        }));
    }

    /// The end of a segment after which the run continues.
    fn closing(&self) -> Vec<UiChunk> {
        let finish =
            UiChunk::Finish { finish_reason: FinishReason::ToolCalls, message_metadata: None };
        let step = (self.step != Step::Closed).then_some(UiChunk::FinishStep);
        step.into_iter().chain([finish]).collect()
    }

    fn end_run(&mut self, outcome: &RunOutcome, usage: Usage, out: &mut Vec<UiChunk>) {
        self.finish_step(out);
        let finish_reason = match outcome {
            RunOutcome::Completed if self.has_calls_left => FinishReason::ToolCalls,
            RunOutcome::Completed => FinishReason::Stop,
            RunOutcome::Incomplete { reason } => reason_of(*reason),
            RunOutcome::Failed { failure } => {
                let (error_text, code) = (sentence(&failure.message), failure.code.clone());
                out.push(UiChunk::Error { error_text, code });
                FinishReason::Error
            }
            RunOutcome::Cancelled => {
                out.push(UiChunk::Abort { reason: "cancelled".to_owned() });
                FinishReason::Other
            }
        };
        let message_metadata = Some(FinishMetadata { outcome: outcome.clone(), usage });
        out.push(UiChunk::Finish { finish_reason, message_metadata });
    }

    /// The chunks of one event, without those of segments.
    fn chunks(&mut self, recorded: &RecordedEvent, change: CallEvent) -> Vec<UiChunk> {
        let mut out = Vec::new();
        match &recorded.event {
            Event::TurnStarted { .. } => self.start_turn(&mut out),
            Event::TurnAbandoned { .. } => self.abandon_turn(&mut out),
            Event::TurnRetried { reason, .. } => {
                out.push(notice(reason, &format!("{}; trying again", reason.message)));
            }
            Event::PartSkipped { reason, .. } => out.push(notice(reason, &reason.message)),
            Event::ToolsDiscovered {
                server,
                outcome: DiscoveryOutcome::Failed { failure },
                ..
            } => {
                out.push(notice(failure, &format!("{server}: {}", failure.message)));
            }
            any_event!(
                MessageStarted TextAdded RefusalAdded AnnotationAdded MessageFinished
                ReasoningAdded ReasoningFinished
            ) => self.speech.project(&recorded.event, &mut out),
            Event::CallAnnounced { tool, .. } => {
                // Calls of the request come before the first turn.
                if self.step == Step::Closed {
                    self.start_turn(&mut out);
                }
                self.has_calls_left |= tool.kind.is_run_by_client();
                self.tools.project(&self.book, recorded, change, &mut out);
            }
            Event::ApprovalRequested { .. } => {
                let request = self.book.request();
                let hands_back = request.is_some_and(|run| run.approvals == Approvals::HandBack);
                self.has_calls_left |= hands_back;
                self.tools.project(&self.book, recorded, change, &mut out);
            }
            any_event!(
                ArgumentsAdded ArgumentsFinished ApprovalResolved ToolStarted ToolPhase
                ToolProgressed ToolOutputAdded InputRequested InputResolved ToolStayedSilent
                ToolRetried ToolFinished
            ) => {
                self.tools.project(&self.book, recorded, change, &mut out);
            }
            Event::RunFinished { outcome, usage } => self.end_run(outcome, *usage, &mut out),
            any_event!(
                RunQueued RunStarted Unknown RunTakenOver TurnFinished LogprobsAdded
                DiscoveryStarted ToolsDiscovered ToolTaskStarted
            ) => {}
        }
        out
    }

    /// Closes the segment if `event` comes after a pause.
    fn close_segment(&mut self, event: &Event, frames: &mut Vec<AiSdkFrame>) {
        if self.pause == Pause::Perhaps && !belongs_to_the_question(event) {
            let closing = self.closing();
            frames.extend(closing.into_iter().filter_map(|chunk| self.shown(chunk)));
            self.step = Step::Closed;
            self.pause = Pause::Yes;
        }
    }

    /// The chunk as a frame, if it is in the span of the client.
    fn shown(&self, chunk: UiChunk) -> Option<AiSdkFrame> {
        let ends_run = matches!(&chunk, UiChunk::Finish { message_metadata: Some(_), .. });
        let is_inner_start =
            matches!(chunk, UiChunk::Start { .. }) && self.segment > self.span.first;
        let is_inner_finish = chunk.is_last() && !ends_run && self.segment < self.span.last;
        let is_shown = self.span.includes(self.segment) && !is_inner_start && !is_inner_finish;
        is_shown.then_some(AiSdkFrame::Chunk(chunk))
    }
}

impl Projection for AiSdk {
    type Frame = AiSdkFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<AiSdkFrame> {
        let mut frames = Vec::new();
        self.close_segment(&recorded.event, &mut frames);
        let change = self.book.note(recorded);
        self.waiting.note(&recorded.event);
        let chunks = self.chunks(recorded, change);
        let is_first = matches!(recorded.event, Event::RunQueued { .. });
        if chunks.is_empty() && !is_first {
            return frames;
        }
        if self.pause == Pause::Yes {
            self.segment += 1;
            self.has_started = false;
        }
        self.pause = Pause::No;
        if !self.has_started {
            let start = self.start(recorded);
            frames.extend(self.shown(start));
        }
        frames.extend(chunks.into_iter().filter_map(|chunk| self.shown(chunk)));
        if self.dialect.has_approvals() && self.waiting.is_for_people_only() {
            self.pause = Pause::Perhaps;
            if self.segment == self.span.last {
                frames.push(AiSdkFrame::AwaitsPeople(self.closing()));
            }
        }
        frames
    }
}

/// Whether an event is recorded together with the approval request before it: another request of
/// the same turn, or an answer that was known before.
fn belongs_to_the_question(event: &Event) -> bool {
    let is_known = |by: &Option<String>| by.as_deref() == Some("conversation");
    matches!(event, Event::ApprovalRequested { .. })
        || matches!(event, Event::ApprovalResolved { by, .. } if is_known(by))
}

fn reason_of(limit: IncompleteReason) -> FinishReason {
    match limit {
        IncompleteReason::MaxOutputTokens | IncompleteReason::MaxOutputBytes => {
            FinishReason::Length
        }
        IncompleteReason::ContentFilter => FinishReason::ContentFilter,
        IncompleteReason::MaxTurns
        | IncompleteReason::MaxCost
        | IncompleteReason::InsufficientQuota
        | IncompleteReason::MaxToolCalls
        | IncompleteReason::TimeLimit
        | IncompleteReason::RepeatedCall => FinishReason::Other,
    }
}

fn notice(failure: &Failure, message: &str) -> UiChunk {
    let data = NoticeData { code: failure.code.clone(), message: sentence(message) };
    UiChunk::DataNotice(Data::passing(data))
}
