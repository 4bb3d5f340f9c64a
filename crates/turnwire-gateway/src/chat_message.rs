//! The body of `/chat` and `/chat/stream`: a message, and what the client chose for its answer.
//!
//! The model, tools and attachments are read by the code of the Responses API, so that the same
//! values, limits and errors apply. Tools stand for tools of the settings; calls never go to the
//! client, which has no way to answer them here.

use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::{Content, ConversationId, Item, ItemId, Role, RunRequest};
use turnwire_surfaces::ChatStreamOptions;
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Result,
    client_error::{ClientError, refuse_unknown},
    conversations,
    responses::{
        choose_tools, model_for,
        references::resolve_references,
        request::{read_attachments, references_of_attachments},
    },
    typed,
};

/// Maximum length of a session ID, in bytes.
const MAX_SESSION_ID: usize = 128;

/// Request body of `/chat` and `/chat/stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct ChatMessage {
    /// The user's message. Required, unless there are attachments.
    #[schema(min_length = 1)]
    message: Option<String>,
    /// ID of the conversation to continue. It must exist. If omitted, a new conversation is
    /// created.
    #[schema(min_length = 1, max_length = 128)]
    session_id: Option<String>,
    /// ID of an item of the conversation that the message replaces, with everything after it. What
    /// is replaced leaves the conversation when the run starts, and stays with the runs that it came
    /// from. Needs `session_id`.
    #[schema(min_length = 1)]
    replaces: Option<String>,
    /// Path of the file the user is viewing. It is passed to the model as a hint.
    active_file: Option<String>,
    /// Name of the model, as in `/v1/responses`. Default: the default model of the server.
    #[schema(min_length = 1)]
    model: Option<String>,
    /// Tools the model may call, as in `/v1/responses`: MCP servers of the settings by their
    /// `server_label`, functions of the settings by their name, `web_search` and `file_search`.
    /// Functions of the client are refused. Default: the tools of the settings.
    #[schema(value_type = Option<Vec<Object>>)]
    tools: Option<Vec<Value>>,
    /// Images and files of the message: parts `input_image` and `input_file`, as in
    /// `/v1/responses`.
    #[schema(value_type = Option<Vec<Object>>)]
    attachments: Option<Vec<Value>>,
    /// `/chat/stream` only: send text deltas while the model generates them. Default: false.
    tokens: Option<bool>,
    /// `/chat/stream` only: send approval requests for calls that need one. If false, such calls
    /// are denied and the model is told so. Default: false.
    approvals: Option<bool>,
    /// `/chat/stream` only: send the questions that tools ask the user. If false, tools are told
    /// that no user can answer. Default: false.
    inputs: Option<bool>,
}

impl ChatMessage {
    /// All field names, used to refuse unknown ones.
    const FIELDS: [&str; 10] = [
        "message",
        "session_id",
        "replaces",
        "active_file",
        "model",
        "tools",
        "attachments",
        "tokens",
        "approvals",
        "inputs",
    ];

    pub(crate) fn read(body: Value) -> Result<Self> {
        if let Value::Object(fields) = &body {
            refuse_unknown(fields, &Self::FIELDS)?;
        }
        let message: Self = typed(body)?;
        let has_attachments = message.attachments.as_ref().is_some_and(|list| !list.is_empty());
        if message.message.is_none() && !has_attachments {
            return Err(ClientError::missing("message").into());
        }
        for (name, value) in [("message", &message.message), ("model", &message.model)] {
            if value.as_deref() == Some("") {
                let text = format!("`{name}` must not be empty.");
                return Err(ClientError::invalid(name, text).into());
            }
        }
        let is_plain = |c: char| c.is_ascii_graphic();
        if let Some(id) = &message.session_id
            && !((1..=MAX_SESSION_ID).contains(&id.len()) && id.chars().all(is_plain))
        {
            let text = "`session_id` must be 1 to 128 visible ASCII characters.";
            return Err(ClientError::invalid("session_id", text).into());
        }
        if message.replaces.is_some() && message.session_id.is_none() {
            return Err(ClientError::missing("session_id").into());
        }
        Ok(message)
    }

    /// The optional frames the client asked for.
    pub(crate) fn options(&self) -> ChatStreamOptions {
        let wants = |what: Option<bool>| what == Some(true);
        ChatStreamOptions {
            tokens: wants(self.tokens),
            approvals: wants(self.approvals),
            inputs: wants(self.inputs),
        }
    }

    /// Refuses options that only work on a stream.
    pub(crate) fn refuse_what_needs_a_stream(&self) -> Result<()> {
        let needs_stream =
            [("tokens", self.tokens), ("approvals", self.approvals), ("inputs", self.inputs)];
        let found = needs_stream.iter().find(|(_, is_wished)| *is_wished == Some(true));
        let Some((name, _)) = found else { return Ok(()) };
        let message = format!("`{name}` needs a stream; send this to /chat/stream.");
        Err(ApiError::bad_request("unsupported_parameter", message).about(*name))
    }

    /// The run that answers the message. An unknown session is refused, as on `/ws/chat`: a new
    /// conversation under its name would silently have no history.
    pub(crate) async fn into_run(self, app: &App, caller: &Caller) -> Result<RunRequest> {
        let mut run = app.chat_request(caller);
        if self.model.is_some() {
            run.model = model_for(app, caller, self.model.as_deref())?;
        }
        if let Some(listed) = &self.tools {
            let chosen = choose_tools(app, caller, listed).await?;
            (run.tools, run.servers) = (chosen.tools, chosen.servers);
        }
        let text = self.message.map(Content::text);
        let attached = attached(app, caller, &self.attachments.unwrap_or_default()).await?;
        let content = text.into_iter().chain(attached).collect();
        run.input = vec![Item::Message { role: Role::User, content }];
        if let Some(file) = self.active_file {
            let hint = format!("The person is looking at the file `{file}`.");
            let instructions = run.instructions.into_iter().chain([hint]);
            run.instructions = Some(instructions.collect::<Vec<_>>().join("\n\n"));
        }
        let conversation_id = match self.session_id {
            None => app.runs().new_conversation_id(),
            Some(id) => {
                let found = conversations::find(app, caller, &id).await;
                found.map_err(|error| error.about("session_id"))?.id
            }
        };
        if let Some(id) = self.replaces {
            run.replaces = Some(replaced(app, caller, &conversation_id, &id).await?);
        }
        run.conversation_id = Some(conversation_id);
        Ok(run)
    }
}

/// The item that the message replaces. The conversation must have it.
async fn replaced(
    app: &App,
    caller: &Caller,
    conversation_id: &ConversationId,
    id: &str,
) -> Result<ItemId> {
    let entries = app.runs().history(caller.tenant(), conversation_id).await?;
    let found = entries.into_iter().find(|entry| entry.id.as_str() == id);
    let missing = || ApiError::not_found("Item", id).about("replaces");
    Ok(found.ok_or_else(missing)?.id)
}

/// Reads the attachments, and looks up the uploaded files that they name.
async fn attached(app: &App, caller: &Caller, list: &[Value]) -> Result<Vec<Content>> {
    let references = references_of_attachments(list);
    let found = resolve_references(app, caller, references, &[]).await;
    let found = found.map_err(|error| error.about("attachments"))?;
    Ok(read_attachments(list, "attachments", &found)?)
}
