//! The body of `POST /chat/stream`, and the answer of `POST /chat`.
//!
//! The frames are those of [`chat_events`](crate::chat_events) with the event's name as their
//! `type`: `tool_call`, `tool_result`, `response`, `error`, `done`, and no others unless the
//! client asked. `"tokens": true` adds `token`, `"approvals": true` adds `approval_request`,
//! `"inputs": true` adds `input_request`.
//! The place of a frame is the same either way, so a client may come back with other wishes.
//!
//! The last word is `response` or `error`, once, and then `done`, once. With tokens the
//! `response` comes all the same: it is the answer, while tokens are everything that was said,
//! also on the way to a tool and by a worker that died.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{CallId, ConversationId, Event, InputId, Recorded, Timestamp};
use utoipa::ToSchema;

use crate::{
    Projection,
    answer::Answer,
    chat_events::{ChatEvents, ChatFrame, problem},
    clean::{Cleaner, clean},
    wire_json::wire_json,
};

/// One `data:` line.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatStreamFrame {
    /// The agent is calling a tool.
    ToolCall {
        /// The tool's name.
        tool: String,
        /// The arguments: always an object.
        #[schema(value_type = Object)]
        args: Value,
        /// The call; the same on its `tool_result`.
        #[schema(value_type = String)]
        call_id: CallId,
    },
    /// The tool is done.
    ToolResult {
        /// The tool's name.
        tool: String,
        /// Whether it says it worked.
        success: bool,
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// What came of it: the first 100 characters, on one line.
        summary: String,
        /// How long the tool worked; 0 if it never started.
        duration_ms: u64,
    },
    /// The answer, all of it at once.
    Response {
        /// The text.
        content: String,
    },
    /// There is no answer.
    Error {
        /// Why, in one sentence.
        error: String,
    },
    /// Nothing follows.
    Done {
        /// The conversation, to go on with.
        #[schema(value_type = Option<String>)]
        session_id: Option<ConversationId>,
    },
    /// The model said something. Asked for with `tokens`.
    Token {
        /// The words; never empty.
        content: String,
    },
    /// A person has to allow a call. Asked for with `approvals`.
    ApprovalRequest {
        /// The tool's name.
        tool: String,
        /// The arguments: always an object.
        #[schema(value_type = Object)]
        args: Value,
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Until when the answer may come; then the call is denied.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
        /// What the tool says of itself now, if its definition is not the one that was trusted
        /// before.
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<String>,
    },
    /// A tool asks the person something, and waits. Asked for with `inputs`.
    InputRequest {
        /// The tool's name.
        tool: String,
        /// The call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// The question.
        #[schema(value_type = String)]
        input_id: InputId,
        /// What is asked.
        message: String,
        /// The JSON Schema of the answer.
        #[schema(value_type = Object)]
        schema: Value,
        /// Until when the answer may come.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = Option<String>, format = DateTime)]
        expires_at: Option<Timestamp>,
    },
}

impl ChatStreamFrame {
    /// What stands after `data: `: JSON on one line.
    pub fn data(&self) -> String {
        wire_json(self)
    }
}

impl From<ChatFrame> for ChatStreamFrame {
    fn from(frame: ChatFrame) -> Self {
        match frame {
            ChatFrame::ToolCall { tool, args, call_id } => {
                Self::ToolCall { tool: clean(&tool).into_owned(), args, call_id }
            }
            ChatFrame::ToolResult { tool, success, call_id, summary, duration_ms } => {
                let tool = clean(&tool).into_owned();
                Self::ToolResult { tool, success, call_id, summary, duration_ms }
            }
            ChatFrame::Response { content } => Self::Response { content },
            ChatFrame::Error { error } => Self::Error { error: clean(&error).into_owned() },
            ChatFrame::Done { conversation_id } => Self::Done { session_id: conversation_id },
        }
    }
}

/// What a client of `/chat/stream` wants beside the five frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChatStreamOptions {
    /// What the model says while it says it.
    pub tokens: bool,
    /// Calls that a person has to allow.
    pub approvals: bool,
    /// What tools ask the person.
    pub inputs: bool,
}

/// The projection of `/chat/stream`. [`WithPlaces`](crate::WithPlaces) adds the places.
#[derive(Debug, Default)]
pub struct ChatStream {
    options: ChatStreamOptions,
    events: ChatEvents,
    cleaner: Cleaner,
}

impl ChatStream {
    /// For a client that wants this much.
    pub fn new(options: ChatStreamOptions) -> Self {
        Self { options, ..Self::default() }
    }

    fn token(&mut self, text: &str) -> Vec<ChatStreamFrame> {
        let content = self.cleaner.clean(text).into_owned();
        let is_wanted = self.options.tokens && !content.is_empty();
        if is_wanted { vec![ChatStreamFrame::Token { content }] } else { Vec::new() }
    }

    fn approval_request(
        &self,
        call_id: &CallId,
        expires_at: Option<Timestamp>,
        changed: Option<&str>,
    ) -> Vec<ChatStreamFrame> {
        let call = self.events.book().get(call_id);
        let Some(call) = call.filter(|call| self.options.approvals && !call.is_over) else {
            return Vec::new();
        };
        vec![ChatStreamFrame::ApprovalRequest {
            tool: clean(&call.tool.name).into_owned(),
            args: Value::Object(call.arguments()),
            call_id: call_id.clone(),
            expires_at,
            changed: changed.map(|words| clean(words).into_owned()),
        }]
    }

    fn input_request(&self, event: &Event) -> Vec<ChatStreamFrame> {
        let Event::InputRequested { call_id, input_id, message, schema, expires_at } = event else {
            return Vec::new();
        };
        let call = self.events.book().get(call_id);
        let Some(call) = call.filter(|call| self.options.inputs && !call.is_over) else {
            return Vec::new();
        };
        vec![ChatStreamFrame::InputRequest {
            tool: clean(&call.tool.name).into_owned(),
            call_id: call_id.clone(),
            input_id: input_id.clone(),
            message: clean(message).into_owned(),
            schema: schema.clone(),
            expires_at: *expires_at,
        }]
    }
}

impl Projection for ChatStream {
    type Frame = ChatStreamFrame;

    fn project(&mut self, recorded: &Recorded) -> Vec<ChatStreamFrame> {
        let frames = self.events.project(recorded);
        match &recorded.event {
            Event::TextAdded { text, .. } | Event::RefusalAdded { text, .. } => self.token(text),
            Event::MessageStarted { .. } => {
                self.cleaner.reset();
                Vec::new()
            }
            Event::ApprovalRequested { call_id, expires_at, changed } => {
                self.approval_request(call_id, *expires_at, changed.as_deref())
            }
            Event::InputRequested { .. } => self.input_request(&recorded.event),
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
            | Event::AnnotationAdded { .. }
            | Event::MessageFinished { .. }
            | Event::ReasoningAdded { .. }
            | Event::ReasoningFinished { .. }
            | Event::DiscoveryStarted { .. }
            | Event::ToolsDiscovered { .. }
            | Event::CallAnnounced { .. }
            | Event::ArgumentsAdded { .. }
            | Event::ArgumentsFinished { .. }
            | Event::ApprovalResolved { .. }
            | Event::ToolStarted { .. }
            | Event::ToolPhase { .. }
            | Event::ToolProgressed { .. }
            | Event::ToolOutputAdded { .. }
            | Event::InputResolved { .. }
            | Event::ToolStayedSilent { .. }
            | Event::ToolRetried { .. }
            | Event::ToolFinished { .. }
            | Event::RunFinished { .. } => frames.into_iter().map(Into::into).collect(),
        }
    }
}

/// The answer of `POST /chat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChatAnswer {
    /// What the model said.
    pub response: String,
    /// The conversation, to go on with.
    #[schema(value_type = String)]
    pub session_id: ConversationId,
}

impl ChatAnswer {
    /// What `/chat` answers when the run is over. An error says why there is no answer, in the
    /// words of the stream's `error`.
    pub fn of(answer: &Answer, session_id: ConversationId) -> Result<Self, String> {
        match answer.outcome().and_then(problem) {
            None => Ok(Self { response: answer.content().to_owned(), session_id }),
            Some(problem) => Err(clean(&problem).into_owned()),
        }
    }
}

#[cfg(test)]
#[path = "chat_stream_tests.rs"]
mod tests;
