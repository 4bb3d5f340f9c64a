//! The surface of S3: `on_event(event_type, data)`.
//!
//! Five frames, made for a chat window that wants to say more than "Thinking…": `tool_call`
//! and `tool_result` around each tool, then `response` or `error`, then `done`. The answer
//! comes in one piece at the end; what it is when the model spoke several times is decided in
//! [`answer`](crate::answer). A run that stopped at a limit has a `response` like a completed
//! one, because what it says is good; a failed or cancelled one has an `error` instead.
//!
//! A frame knows a little more than `data` shows, because
//! [`chat_stream`](crate::chat_stream) is made from it.

use serde_json::{Value, json};
use turnwire_contract::{CallId, ConversationId, Event, Recorded, RunOutcome, ToolOutcome};

use crate::{
    Projection,
    answer::Answer,
    calls::{Call, CallBook, CallNews},
    preview::result_summary,
};

/// One event as S3 has it.
#[derive(Debug, Clone, PartialEq)]
pub enum ChatFrame {
    /// The agent is calling a tool.
    ToolCall {
        /// Its name.
        tool: String,
        /// The arguments: `{}` if there are none, `{"invalid_arguments": "…"}` if they are not
        /// a JSON object.
        args: Value,
        /// The call; not part of `data`.
        call_id: CallId,
    },
    /// The tool is done.
    ToolResult {
        /// Its name.
        tool: String,
        /// Whether it says it worked.
        success: bool,
        /// The call; not part of `data`.
        call_id: CallId,
        /// What came of it, on one line; not part of `data`.
        summary: String,
        /// How long the tool worked; not part of `data`.
        duration_ms: u64,
    },
    /// The final text.
    Response {
        /// All of it.
        content: String,
    },
    /// The run failed or was cancelled.
    Error {
        /// Why, in public words.
        error: String,
    },
    /// Nothing follows.
    Done {
        /// The conversation the run belongs to, if it belongs to one.
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
    /// At the beginning of a run.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known about the calls so far.
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

    fn project(&mut self, recorded: &Recorded) -> Vec<ChatFrame> {
        self.answer.note(recorded);
        let news = self.book.note(recorded);
        match &recorded.event {
            Event::ToolStarted { call_id, .. } => match self.book.get(call_id) {
                Some(call) if news == CallNews::Began => vec![tool_call(call)],
                Some(_) | None => Vec::new(),
            },
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                let Some(call) = self.book.get(call_id) else { return Vec::new() };
                let result = || tool_result(call, outcome, *duration_ms);
                match news {
                    CallNews::Ended => vec![result()],
                    CallNews::BeganAndEnded => vec![tool_call(call), result()],
                    CallNews::Neither | CallNews::Began => Vec::new(),
                }
            }
            Event::RunFinished { outcome, .. } => self.last_frames(outcome),
            Event::RunQueued { .. }
            | Event::RunStarted
            | Event::Unknown(_)
            | Event::LogprobsAdded { .. }
            | Event::ToolTaskStarted { .. }
            | Event::RunTakenOver { .. }
            | Event::TurnStarted { .. }
            | Event::TurnRetried { .. }
            | Event::PartSkipped { .. }
            | Event::TurnAbandoned { .. }
            | Event::TurnFinished { .. }
            | Event::MessageStarted { .. }
            | Event::TextAdded { .. }
            | Event::RefusalAdded { .. }
            | Event::AnnotationAdded { .. }
            | Event::MessageFinished { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. }
            | Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::CallAnnounced { .. }
            | Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::InputRequested { .. }
            | Event::InputResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::ToolRetried { .. } => Vec::new(),
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

/// Why a run that ended so has no response; nothing if it has one.
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
