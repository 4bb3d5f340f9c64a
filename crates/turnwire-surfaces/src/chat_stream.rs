//! The stream of `POST /chat/stream`, and the answer of `POST /chat`.
//!
//! The frames are those of [`chat_events`](crate::chat_events) with the name of the event as their
//! `type`: `tool_call`, `tool_result`, `response`, `error`, `done`, and no others unless the client
//! enabled them. `"tokens": true` adds `token`, `"approvals": true` adds `approval_request`,
//! `"inputs": true` adds `input_request`. The cursor of a frame does not depend on these options,
//! so a client may resume with other options.
//!
//! The stream ends with one `response` or `error` and then one `done`. With tokens the `response`
//! is sent as well: it is the answer, while tokens are all generated text, including text before
//! tool calls and of a worker that died.

use serde::Serialize;
use serde_json::Value;
use turnwire_contract::{
    CallId, ConversationId, Effect, Event, InputId, RecordedEvent, Timestamp, ToolClaims, any_event,
};
use utoipa::ToSchema;

use crate::{
    BudgetQuestion, Projection,
    answer::Answer,
    chat_events::{ChatEvents, ChatFrame, problem},
    clean::{Cleaner, clean},
    wire_json::wire_json,
};

/// The data of one frame.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatStreamFrame {
    /// The model calls a tool.
    ToolCall {
        /// Name of the tool.
        tool: String,
        /// The arguments. Always an object.
        #[schema(value_type = Object)]
        args: Value,
        /// ID of the tool call. Its `tool_result` has the same.
        #[schema(value_type = String)]
        call_id: CallId,
    },
    /// A tool has ended.
    ToolResult {
        /// Name of the tool.
        tool: String,
        /// Whether the tool succeeded.
        success: bool,
        /// ID of the tool call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Summary of the result: the first 100 characters, on one line.
        summary: String,
        /// Execution time in milliseconds; 0 if the tool never started.
        duration_ms: u64,
    },
    /// The complete answer.
    Response {
        /// Text of the answer.
        content: String,
    },
    /// The run ended without an answer.
    Error {
        /// Human-readable message.
        error: String,
    },
    /// End of the stream. Nothing follows.
    Done {
        /// ID of the conversation, for the next message.
        #[schema(value_type = Option<String>)]
        session_id: Option<ConversationId>,
    },
    /// A text delta. Enabled with `tokens`.
    Token {
        /// The new text. Never empty.
        content: String,
    },
    /// A call needs an approval. Enabled with `approvals`.
    ApprovalRequest {
        /// Name of the tool.
        tool: String,
        /// The arguments. Always an object.
        #[schema(value_type = Object)]
        args: Value,
        /// ID of the tool call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// Time at which the request expires. The call is denied then. Missing if it does not
        /// expire.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
        /// The new definition of the tool, if it differs from the one that was approved before.
        #[serde(skip_serializing_if = "Option::is_none")]
        changed: Option<String>,
        /// Effect class of the tool. Present with `server_claims`.
        #[serde(skip_serializing_if = "Option::is_none")]
        effect: Option<Effect>,
        /// What the tool's server claims about the tool. Not verified. Missing if it claims
        /// nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        server_claims: Option<ToolClaims>,
        /// The budget that the approval is about, if that is why it is asked for. The answer decides
        /// whether the run goes on, and all calls of the turn wait for it.
        #[serde(skip_serializing_if = "Option::is_none")]
        budget: Option<BudgetQuestion>,
    },
    /// A tool asks the user a question and waits for the answer. Enabled with `inputs`.
    InputRequest {
        /// Name of the tool.
        tool: String,
        /// ID of the tool call.
        #[schema(value_type = String)]
        call_id: CallId,
        /// ID of the question.
        #[schema(value_type = String)]
        input_id: InputId,
        /// Text of the question.
        message: String,
        /// JSON schema of the answer.
        #[schema(value_type = Object)]
        schema: Value,
        /// Time at which the question expires. Missing if it does not.
        #[serde(skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
}

impl ChatStreamFrame {
    /// The frame as JSON on one line, for a `data:` line.
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

/// The optional frames of `/chat/stream`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChatStreamOptions {
    /// Text deltas.
    pub tokens: bool,
    /// Approval requests.
    pub approvals: bool,
    /// Questions of tools.
    pub inputs: bool,
}

/// The projection of `/chat/stream`. [`WithCursors`](crate::WithCursors) adds the cursors.
#[derive(Debug, Default)]
pub struct ChatStream {
    options: ChatStreamOptions,
    events: ChatEvents,
    cleaner: Cleaner,
}

impl ChatStream {
    /// Creates a projection with these optional frames.
    pub fn new(options: ChatStreamOptions) -> Self {
        Self { options, ..Self::default() }
    }

    fn token(&mut self, text: &str) -> Vec<ChatStreamFrame> {
        let content = self.cleaner.clean(text).into_owned();
        let is_wanted = self.options.tokens && !content.is_empty();
        if is_wanted { vec![ChatStreamFrame::Token { content }] } else { Vec::new() }
    }

    fn approval_request(&self, event: &Event) -> Vec<ChatStreamFrame> {
        let Event::ApprovalRequested {
            call_id,
            expires_at,
            changed,
            effect,
            server_claims,
            budget,
        } = event
        else {
            return Vec::new();
        };
        let call = self.events.book().get(call_id);
        let Some(call) = call.filter(|call| self.options.approvals && !call.is_over) else {
            return Vec::new();
        };
        vec![ChatStreamFrame::ApprovalRequest {
            tool: clean(&call.tool.name).into_owned(),
            args: Value::Object(call.arguments()),
            call_id: call_id.clone(),
            expires_at: *expires_at,
            changed: changed.as_deref().map(|words| clean(words).into_owned()),
            effect: *effect,
            server_claims: *server_claims,
            budget: BudgetQuestion::of(budget.as_deref()),
        }]
    }

    fn input_request(&self, event: &Event) -> Vec<ChatStreamFrame> {
        let Event::InputRequested { call_id, input_id, message, schema, expires_at, .. } = event
        else {
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

    fn project(&mut self, recorded: &RecordedEvent) -> Vec<ChatStreamFrame> {
        let frames = self.events.project(recorded);
        match &recorded.event {
            Event::TextAdded { text, .. } | Event::RefusalAdded { text, .. } => self.token(text),
            Event::MessageStarted { .. } => {
                self.cleaner.reset();
                Vec::new()
            }
            Event::ApprovalRequested { .. } => self.approval_request(&recorded.event),
            Event::InputRequested { .. } => self.input_request(&recorded.event),
            any_event!(
                RunQueued RunStarted Unknown LogprobsAdded ToolTaskStarted RunTakenOver
                TurnStarted TurnRetried PartSkipped TurnAbandoned TurnFinished AnnotationAdded
                MessageFinished ReasoningAdded ReasoningFinished DiscoveryStarted ToolsDiscovered
                CallAnnounced ArgumentsAdded ArgumentsFinished ApprovalResolved ToolStarted
                ToolPhase ToolProgressed ToolOutputAdded InputResolved ToolStayedSilent
                ToolRetried ToolFinished RunFinished
            ) => frames.into_iter().map(Into::into).collect(),
        }
    }
}

/// Answer of `POST /chat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChatAnswer {
    /// Text of the model's answer.
    pub response: String,
    /// ID of the conversation. Send it with the next message to continue.
    #[schema(value_type = String)]
    pub session_id: ConversationId,
}

impl ChatAnswer {
    /// The answer of a run that has ended. The error says why there is no answer, as in the `error`
    /// frame of the stream.
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
