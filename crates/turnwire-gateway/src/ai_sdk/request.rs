//! The body of `POST /ai-sdk/chat`.

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{ApprovalAnswer, CallId, ConversationId, Decision, RunId};
use turnwire_surfaces::ai_sdk::read_approval_id;
use utoipa::ToSchema;

use crate::{api_error::ApiError, body::typed, client_error::ClientError};

/// Recorded as the source of approvals.
const BY: &str = "/ai-sdk/chat";
/// Maximum length of a chat ID, in bytes.
const MAX_CHAT_ID: usize = 256;

/// Request body of `/ai-sdk/chat`. Other fields are ignored, because pages add their own.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChatBody {
    /// ID of the chat, chosen by the page. If omitted, the chat is the one that the last assistant
    /// message belongs to, or a new one.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) id: Option<String>,
    /// The messages of the chat. Required. The last one is the user's message, or an assistant
    /// message with answers to approval requests.
    #[schema(value_type = Vec<UiMessage>)]
    messages: Option<Vec<UiMessage>>,
    /// What the page wants. Default: `submit-message`.
    #[schema(inline)]
    trigger: Option<Trigger>,
    /// ID of the message that is generated again or replaced. Everything from it on is removed from
    /// the conversation.
    message_id: Option<String>,
}

/// What a page wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum Trigger {
    /// Answer the last message.
    SubmitMessage,
    /// Answer the last user message again.
    RegenerateMessage,
}

/// A message of a page.
#[derive(Debug, Clone, Deserialize, ToSchema)]
pub(super) struct UiMessage {
    /// ID of the message.
    #[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
    id: Option<String>,
    /// Author of the message.
    #[schema(value_type = String)]
    pub(super) role: Option<UiRole>,
    /// Parts of the message. Of a user message `text` and `file` parts are used.
    #[schema(value_type = Vec<Object>)]
    parts: Option<Vec<Map<String, Value>>>,
    /// Metadata of the message, as it was streamed.
    #[schema(value_type = Option<Object>)]
    metadata: Option<Value>,
}

/// Author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UiRole {
    System,
    User,
    Assistant,
}

impl UiMessage {
    pub(super) fn parts(&self) -> &[Map<String, Value>] {
        self.parts.as_deref().unwrap_or_default()
    }
}

/// A request that was read.
#[derive(Debug)]
pub(super) struct ChatRequest {
    pub(super) chat_id: Option<String>,
    pub(super) messages: Vec<UiMessage>,
    pub(super) action: ChatAction,
}

/// What a request is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ChatAction {
    /// Answer the last message. With `rewind`, everything from that message on is removed from the
    /// conversation first.
    Answer { rewind: bool },
    /// Pass on the answers to approval requests.
    Approve(Vec<GivenAnswer>),
}

/// The answer to an approval request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GivenAnswer {
    pub(super) run_id: RunId,
    pub(super) call_id: CallId,
    pub(super) answer: ApprovalAnswer,
}

impl ChatRequest {
    pub(super) fn read(body: Value) -> Result<Self, ApiError> {
        let ChatBody { id, messages, trigger, message_id } = typed(body)?;
        if let Some(id) = &id {
            check_chat_id(id, "id")?;
        }
        let messages = messages.ok_or_else(|| ClientError::missing("messages"))?;
        let Some(last) = messages.last() else {
            let message = "`messages` must not be empty.";
            return Err(ClientError::invalid("messages", message).into());
        };
        let rewind = trigger == Some(Trigger::RegenerateMessage) || message_id.is_some();
        let action = match last.role {
            Some(UiRole::User) => ChatAction::Answer { rewind },
            Some(UiRole::Assistant) => ChatAction::Approve(answers(last, messages.len() - 1)?),
            Some(UiRole::System) | None => return Err(nothing_new().into()),
        };
        Ok(Self { chat_id: id, messages, action })
    }

    /// The conversation of the last assistant message, as its metadata says.
    pub(super) fn last_conversation(&self) -> Option<ConversationId> {
        let is_answer = |message: &&UiMessage| message.role == Some(UiRole::Assistant);
        let last = self.messages.iter().rev().find(is_answer)?;
        last.metadata.as_ref()?.get("conversation_id")?.as_str().map(ConversationId::from)
    }

    /// Number of user messages.
    pub(super) fn n_user_messages(&self) -> usize {
        self.messages.iter().filter(|message| message.role == Some(UiRole::User)).count()
    }
}

/// Refuses what cannot be the ID of a chat.
pub(super) fn check_chat_id(id: &str, param: &str) -> Result<(), ClientError> {
    if (1..=MAX_CHAT_ID).contains(&id.len()) && !id.contains('\0') {
        return Ok(());
    }
    let message = format!("`{param}` must have 1 to {MAX_CHAT_ID} bytes.");
    Err(ClientError::invalid(param, message))
}

/// The answers in an assistant message. Only the ID and the decision are used: a page could have
/// changed everything else.
fn answers(message: &UiMessage, place: usize) -> Result<Vec<GivenAnswer>, ClientError> {
    let is_answered =
        |part: &&Map<String, Value>| part.get("state").is_some_and(|s| s == "approval-responded");
    let answers: Vec<GivenAnswer> = message
        .parts()
        .iter()
        .filter(is_answered)
        .map(|part| {
            let approval = part.get("approval").unwrap_or(&Value::Null);
            read_answer(approval).ok_or_else(|| {
                let message = "An approval needs the `id` of its request, and `approved`.";
                ClientError::invalid(format!("messages[{place}].parts"), message)
            })
        })
        .collect::<Result<_, _>>()?;
    if answers.is_empty() {
        return Err(nothing_new());
    }
    let first = answers.first().map(|answer| answer.run_id.clone());
    if answers.iter().any(|answer| Some(&answer.run_id) != first.as_ref()) {
        let message = "The approvals of one message must be of one run.";
        return Err(ClientError::invalid(format!("messages[{place}].parts"), message));
    }
    Ok(answers)
}

fn read_answer(approval: &Value) -> Option<GivenAnswer> {
    let (run_id, call_id) = read_approval_id(approval.get("id")?.as_str()?)?;
    let reason = approval.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_approved = approval.get("approved")?.as_bool()?;
    let decision = if is_approved { Decision::Approved } else { Decision::Denied { reason } };
    Some(GivenAnswer { run_id, call_id, answer: ApprovalAnswer::from(decision).by(BY) })
}

fn nothing_new() -> ClientError {
    let message = "The last message must be the user's, or answer an approval request.";
    ClientError::invalid("messages", message)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
