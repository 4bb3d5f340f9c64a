//! The body of `POST /ai-sdk/chat`.

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{ApprovalAnswer, CallId, ConversationId, Decision, RunId};
use turnwire_surfaces::ai_sdk::read_approval_id;
use utoipa::ToSchema;

use crate::{
    Result,
    client_error::{ClientError, shown},
    client_tools::ClientTool,
    typed,
};

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
    /// message with answers to approval requests or outputs of functions of the page.
    #[schema(value_type = Vec<UiMessage>)]
    messages: Option<Vec<UiMessage>>,
    /// What the page wants. Default: `submit-message`.
    #[schema(inline)]
    trigger: Option<Trigger>,
    /// Functions of the page, by name, each with `description` and `inputSchema` (or `parameters`), a
    /// JSON Schema. Their calls go to the page, which sends the outputs in the last message.
    #[schema(value_type = Option<Object>)]
    tools: Option<Map<String, Value>>,
    /// ID of the message that is generated again or replaced. Everything from it on is superseded: it
    /// leaves the conversation and stays with the runs that it came from.
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
    pub(super) id: Option<String>,
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

#[derive(Debug)]
pub(crate) struct ChatRequest {
    pub(super) chat_id: Option<String>,
    pub(super) messages: Vec<UiMessage>,
    pub(super) tools: Vec<ClientTool>,
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
    /// Continue the last message with the outputs of the page's functions.
    Continue,
}

/// The answer to an approval request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GivenAnswer {
    pub(super) run_id: RunId,
    pub(super) call_id: CallId,
    pub(super) answer: ApprovalAnswer,
}

impl ChatRequest {
    pub(crate) fn read(body: Value) -> Result<Self> {
        let ChatBody { id, messages, trigger, tools, message_id } = typed(body)?;
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
            Some(UiRole::Assistant) => answered(last, messages.len() - 1)?,
            Some(UiRole::System) | None => return Err(nothing_new().into()),
        };
        let tools = client_tools(tools.unwrap_or_default())?;
        Ok(Self { chat_id: id, messages, tools, action })
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

/// The functions of a page. The AI SDK calls the schema `inputSchema`, other libraries `parameters`.
fn client_tools(tools: Map<String, Value>) -> Result<Vec<ClientTool>, ClientError> {
    let as_tool = |(name, tool): (String, Value)| {
        let path = format!("tools.{}", shown(&name));
        let Value::Object(mut fields) = tool else {
            return Err(ClientError::wrong_type(path, "an object", &tool));
        };
        let description = fields.remove("description").unwrap_or_default();
        let schema = fields.remove("inputSchema").or_else(|| fields.remove("parameters"));
        let tool = [
            ("name".to_owned(), Value::String(name)),
            ("description".to_owned(), description),
            ("parameters".to_owned(), schema.unwrap_or_default()),
        ];
        Ok((path, tool.into_iter().collect()))
    };
    tools.into_iter().map(as_tool).collect()
}

/// What an assistant message at the end of a request is for.
fn answered(message: &UiMessage, place: usize) -> Result<ChatAction, ClientError> {
    let has_state = |state: &str| {
        message.parts().iter().any(|part| part.get("state").is_some_and(|s| s == state))
    };
    if !has_state("approval-responded")
        && (has_state("output-available") || has_state("output-error"))
    {
        return Ok(ChatAction::Continue);
    }
    answers(message, place).map(ChatAction::Approve)
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

pub(super) fn nothing_new() -> ClientError {
    let message = "The last message must be the user's, answer an approval request, or have the \
                   output of a function of the page.";
    ClientError::invalid("messages", message)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
