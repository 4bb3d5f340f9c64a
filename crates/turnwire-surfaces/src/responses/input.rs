//! A conversation as a list of items, for `input_items` and `/v1/conversations/…/items`.
//!
//! A conversation stores a call and its result separately, because models read them that way. Here
//! an MCP call or a search is one item with its result, and a call that waits for an approval is an
//! approval request.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use serde::Serialize;
use turnwire_contract::{
    CallId, Content, Entry, Image, Item, ItemId, LibraryAddress, Role, ToolKind, ToolRef,
};
use utoipa::ToSchema;

use super::{
    ids,
    item::{
        CustomToolCallItem, FileSearchCallItem, FunctionCallItem, FunctionCallOutputItem,
        InputContent, ItemNote, ItemStatus, McpApprovalRequestItem, McpCallItem, OutputText,
        ReasoningItem, Refusal, SummaryPart, WebSearchCallItem,
    },
    outcome,
};

/// An item of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InputItem {
    /// A message.
    Message(InputMessage),
    /// Reasoning of the model.
    Reasoning(ReasoningItem),
    /// A function call.
    FunctionCall(FunctionCallItem),
    /// The output of a function.
    FunctionCallOutput(FunctionCallOutputItem),
    /// A call of a custom tool.
    CustomToolCall(CustomToolCallItem),
    /// The output of a custom tool.
    CustomToolCallOutput(FunctionCallOutputItem),
    /// A call of an MCP tool.
    McpCall(McpCallItem),
    /// A call of an MCP tool that waits for an approval.
    McpApprovalRequest(McpApprovalRequestItem),
    /// A web search.
    WebSearchCall(WebSearchCallItem),
    /// A file search.
    FileSearchCall(FileSearchCallItem),
}

impl InputItem {
    /// The ID of the item.
    pub fn id(&self) -> &ItemId {
        match self {
            Self::Message(item) => &item.id,
            Self::Reasoning(item) => &item.id,
            Self::FunctionCall(item) => &item.id,
            Self::FunctionCallOutput(item) | Self::CustomToolCallOutput(item) => &item.id,
            Self::CustomToolCall(item) => &item.id,
            Self::McpCall(item) => &item.id,
            Self::McpApprovalRequest(item) => &item.id,
            Self::WebSearchCall(item) => &item.id,
            Self::FileSearchCall(item) => &item.id,
        }
    }
}

/// A message.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct InputMessage {
    /// ID of the item.
    #[schema(value_type = String)]
    pub id: ItemId,
    /// Always `completed`.
    pub status: ItemStatus,
    /// Role of the author.
    pub role: InputRole,
    /// Parts of the message.
    pub content: Vec<InputContent>,
}

/// Role of the author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputRole {
    /// The application.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl From<Role> for InputRole {
    fn from(role: Role) -> Self {
        match role {
            Role::System => Self::System,
            Role::User => Self::User,
            Role::Assistant => Self::Assistant,
        }
    }
}

/// The conversation as items of this surface.
pub fn wire_items(entries: &[Entry]) -> Vec<InputItem> {
    let mut items: Vec<InputItem> = Vec::with_capacity(entries.len());
    // Native calls without a result so far, and their index in the list.
    let mut waiting: HashMap<&CallId, usize> = HashMap::new();
    let mut custom: HashSet<&CallId> = HashSet::new();
    for Entry { id, item } in entries {
        match &**item {
            Item::Message { role, content } => items.push(message(id, *role, content)),
            Item::Reasoning { text, encrypted_content } => {
                items.push(reasoning(id, text, encrypted_content.clone()));
            }
            Item::Call { call_id, name, arguments, kind, server } => {
                let tool = ToolRef { name: name.clone(), kind: *kind, server: server.clone() };
                if is_native(*kind) {
                    waiting.insert(call_id, items.len());
                }
                if *kind == ToolKind::Custom {
                    custom.insert(call_id);
                }
                items.push(call(id, call_id, &tool, arguments));
            }
            Item::CallResult { call_id, output, images, failed, custom: is_custom } => {
                let call = waiting.remove(call_id).and_then(|place| items.get_mut(place));
                if let Some(call) = call {
                    add_result(call, id, output, images.len(), *failed);
                    continue;
                }
                let output = function_output(id, call_id, output, images);
                items.push(if *is_custom || custom.contains(call_id) {
                    InputItem::CustomToolCallOutput(output)
                } else {
                    InputItem::FunctionCallOutput(output)
                });
            }
        }
    }
    items
}

/// Whether a call of this kind has its result in its own item.
fn is_native(kind: ToolKind) -> bool {
    match kind {
        ToolKind::Mcp | ToolKind::WebSearch | ToolKind::FileSearch => true,
        ToolKind::Function | ToolKind::Client | ToolKind::Custom => false,
    }
}

fn message(id: &ItemId, role: Role, content: &[Content]) -> InputItem {
    let content = content.iter().map(|part| wire_part(role, part)).collect();
    let (id, status) = (id.clone(), ItemStatus::Completed);
    InputItem::Message(InputMessage { id, status, role: role.into(), content })
}

fn wire_part(role: Role, part: &Content) -> InputContent {
    match part {
        Content::Text { text } if role == Role::Assistant => {
            InputContent::OutputText(OutputText::new(text.clone()))
        }
        Content::Text { text } => InputContent::InputText { text: text.clone() },
        Content::Refusal { text } => InputContent::Refusal(Refusal { refusal: text.clone() }),
        Content::Image { url, detail } => InputContent::image(url.clone(), detail.clone()),
        Content::File { name, url } => {
            let file_id = LibraryAddress::of(url).map(|kept| kept.file_id.to_string());
            let is_carried_along = url.starts_with("data:");
            let is_elsewhere = !is_carried_along && file_id.is_none();
            InputContent::InputFile {
                filename: name.clone(),
                file_url: is_elsewhere.then(|| url.clone()),
                file_data: is_carried_along.then(|| url.clone()),
                file_id,
            }
        }
    }
}

fn reasoning(id: &ItemId, text: &str, encrypted_content: Option<String>) -> InputItem {
    let part = SummaryPart::SummaryText { text: text.to_owned() };
    InputItem::Reasoning(ReasoningItem {
        id: id.clone(),
        status: ItemStatus::Completed,
        summary: Some(part).filter(|_| !text.is_empty()).into_iter().collect(),
        encrypted_content,
    })
}

fn call(id: &ItemId, call_id: &CallId, tool: &ToolRef, arguments: &str) -> InputItem {
    let (id, arguments) = (id.clone(), arguments.to_owned());
    match tool.kind {
        ToolKind::Function | ToolKind::Client => InputItem::FunctionCall(FunctionCallItem {
            id,
            status: ItemStatus::Completed,
            arguments,
            call_id: call_id.clone(),
            name: tool.own_name().to_owned(),
            namespace: tool.server.clone(),
        }),
        ToolKind::Custom => InputItem::CustomToolCall(CustomToolCallItem {
            id,
            status: ItemStatus::Completed,
            call_id: call_id.clone(),
            input: arguments,
            name: tool.own_name().to_owned(),
            namespace: tool.server.clone(),
        }),
        ToolKind::Mcp => InputItem::McpApprovalRequest(McpApprovalRequestItem {
            id: ids::approval_request_id(&id, None),
            arguments,
            name: tool.own_name().to_owned(),
            server_label: tool.server.clone().unwrap_or_default(),
            turnwire: None,
        }),
        ToolKind::WebSearch => InputItem::WebSearchCall(WebSearchCallItem {
            id,
            status: ItemStatus::Incomplete,
            action: Some(outcome::web_action(&arguments, None, false)),
            turnwire: ItemNote::default(),
        }),
        ToolKind::FileSearch => InputItem::FileSearchCall(FileSearchCallItem {
            id,
            status: ItemStatus::Incomplete,
            queries: outcome::queries(&arguments, None),
            results: None,
            turnwire: ItemNote::default(),
        }),
    }
}

/// Adds the result of a native call to its item.
fn add_result(call: &mut InputItem, id: &ItemId, output: &str, n_images: usize, failed: bool) {
    let ended = if failed { ItemStatus::Failed } else { ItemStatus::Completed };
    match call {
        InputItem::McpApprovalRequest(asked) => {
            let output = output.to_owned();
            *call = InputItem::McpCall(McpCallItem {
                id: ids::asked_about(asked.id.as_str()).unwrap_or_else(|| id.clone()),
                status: ended,
                approval_request_id: None,
                arguments: mem::take(&mut asked.arguments),
                name: mem::take(&mut asked.name),
                server_label: mem::take(&mut asked.server_label),
                error: failed.then(|| outcome::said_by_tool(output.clone())),
                output: (!failed).then_some(output),
                turnwire: ItemNote {
                    images: Some(n_images).filter(|n_images| *n_images > 0),
                    ..ItemNote::default()
                },
            });
        }
        InputItem::WebSearchCall(search) => search.status = ended,
        InputItem::FileSearchCall(search) => search.status = ended,
        InputItem::Message(_)
        | InputItem::Reasoning(_)
        | InputItem::FunctionCall(_)
        | InputItem::FunctionCallOutput(_)
        | InputItem::CustomToolCall(_)
        | InputItem::CustomToolCallOutput(_)
        | InputItem::McpCall(_) => {}
    }
}

fn function_output(
    id: &ItemId,
    call_id: &CallId,
    output: &str,
    images: &[Image],
) -> FunctionCallOutputItem {
    FunctionCallOutputItem {
        id: id.clone(),
        status: ItemStatus::Completed,
        call_id: call_id.clone(),
        output: outcome::with_pictures(output.to_owned(), images),
        turnwire: ItemNote::default(),
    }
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
