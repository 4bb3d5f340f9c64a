//! The surface of S3: `on_event(event_type, data)`.
//!
//! Five frames for a chat window that shows tool use: `tool_call` and `tool_result` around each
//! tool, then `response` or `error`, then `done`. The answer is sent in one piece at the end;
//! [`answer`](crate::answer) decides what it is if the model generated several texts. A run that
//! stopped at a limit has a `response` like a completed one, because its text is usable; a failed
//! or cancelled one has an `error` instead.
//!
//! A frame has a few more fields than `data` shows, because [`chat_stream`](crate::chat_stream) is
//! made from it.

use serde_json::{Value, json};
use turnwire_contract::{
    CallId, ConversationId, Event, RecordedEvent, RunOutcome, ToolOutcome, any_event,
};

use crate::{
    Projection,
    answer::Answer,
    calls::{Call, CallBook, CallEvent},
    preview::result_summary,
};

/// One event of S3.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatFrame {
    /// The model calls a tool.
    ToolCall {
        /// Name of the tool.
        tool: String,
        /// The arguments: `{}` if there are none, `{"invalid_arguments": "…"}` if they are not a
        /// JSON object.
        args: Value,
        /// ID of the tool call; not part of `data`.
        call_id: CallId,
    },
    /// A tool has ended.
    ToolResult {
        /// Name of the tool.
        tool: String,
        /// Whether the tool succeeded.
        success: bool,
        /// ID of the tool call; not part of `data`.
        call_id: CallId,
        /// Summary of the result on one line; not part of `data`.
        summary: String,
        /// Execution time in milliseconds; not part of `data`.
        duration_ms: u64,
    },
    /// The final text.
    Response {
        /// The complete text.
        content: String,
    },
    /// The run failed or was cancelled.
    Error {
        /// Message for the user.
        error: String,
    },
    /// The end; nothing follows.
    Done {
        /// The conversation of the run, if it belongs to one.
        conversation_id: Option<ConversationId>,
    },
}

impl ChatFrame {
    /// The first argument of `on_event`.
    pub fn event_type(&self) -> &'static str {
        match self {
            Self::ToolCall { .. } => "tool_call",
            Self::ToolResult { .. } => "tool_result",
            Self::Response { .. } => "response",
            Self::Error { .. } => "error",
            Self::Done { .. } => "done",
        }
    }

    /// The second argument of `on_event`: always an object.
    pub fn data(&self) -> Value {
        match self {
            Self::ToolCall { tool, args, .. } => json!({ "tool": tool, "args": args }),
            Self::ToolResult { tool, success, .. } => json!({ "tool": tool, "success": success }),
            Self::Response { content } => json!({ "content": content }),
            Self::Error { error } => json!({ "error": error }),
            Self::Done { conversation_id } => json!({ "conversation_id": conversation_id }),
        }
    }
}

/// The projection of S3.
#[derive(Debug, Default)]
pub struct ChatEvents {
    book: CallBook,
    answer: Answer,
}

impl ChatEvents {
    /// Creates a projection.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls so far.
    pub(crate) fn book(&self) -> &CallBook {
        &self.book
    }

    fn last_frames(&self, outcome: &RunOutcome) -> Vec<ChatFrame> {
        let last_word = match problem(outcome) {
            None => ChatFrame::Response { content: self.answer.content().to_owned() },
            Some(error) => ChatFrame::Error { error },
        };
        let request = self.book.request();
        let conversation_id = request.and_then(|request| request.conversation_id.clone());
        vec![last_word, ChatFrame::Done { conversation_id }]
    }
}

impl Projection for ChatEvents {
    type Frame = ChatFrame;

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<ChatFrame> {
        self.answer.note(recorded);
        let event = self.book.note(recorded);
        match &recorded.event {
            Event::ToolStarted { call_id, .. } => match self.book.get(call_id) {
                Some(call) if event == CallEvent::Began => vec![tool_call(call)],
                Some(_) | None => Vec::new(),
            },
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                let Some(call) = self.book.get(call_id) else { return Vec::new() };
                let result = || tool_result(call, outcome, *duration_ms);
                match event {
                    CallEvent::Ended => vec![result()],
                    CallEvent::BeganAndEnded => vec![tool_call(call), result()],
                    CallEvent::Neither | CallEvent::Began => Vec::new(),
                }
            }
            Event::RunFinished { outcome, .. } => self.last_frames(outcome),
            any_event!(
                RunQueued RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver
                TurnStarted TurnRetried PartSkipped TurnAbandoned TurnFinished MessageStarted
                TextAdded RefusalAdded AnnotationAdded MessageFinished ReasoningAdded
                ReasoningFinished DiscoveryStarted ToolsDiscovered CallAnnounced ArgumentsAdded
                ArgumentsFinished ApprovalRequested ApprovalResolved ToolPhase ToolProgressed
                ToolOutputAdded InputRequested InputResolved ToolStayedSilent ToolRetried
            ) => Vec::new(),
        }
    }
}

fn tool_call(call: &Call) -> ChatFrame {
    ChatFrame::ToolCall {
        tool: call.tool.name.clone(),
        args: Value::Object(call.arguments()),
        call_id: call.call_id.clone(),
    }
}

fn tool_result(call: &Call, outcome: &ToolOutcome, duration_ms: u64) -> ChatFrame {
    ChatFrame::ToolResult {
        tool: call.tool.name.clone(),
        success: outcome.is_success(),
        call_id: call.call_id.clone(),
        summary: result_summary(outcome),
        duration_ms,
    }
}

/// Why a run with this outcome has no response; `None` if it has one.
pub(crate) fn problem(outcome: &RunOutcome) -> Option<String> {
    match outcome {
        RunOutcome::Completed | RunOutcome::Incomplete { .. } => None,
        RunOutcome::Failed { failure } => Some(failure.message.clone()),
        RunOutcome::Cancelled => Some("cancelled".to_owned()),
    }
}

#[cfg(test)]
#[path = "chat_events_tests.rs"]
mod tests;
