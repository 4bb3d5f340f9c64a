//! Turns the input of a request into items of a conversation.
//!
//! A client may send messages, outputs of calls, or a whole history that it manages itself: every
//! item that a response has ever returned is accepted as input. No call of a history is executed
//! again. An answer to an approval request that is followed by output of the model is history too.

use std::collections::HashSet;

use serde_json::Value;
use turnwire_contract::{CallId, Content, Decision, Item, Role, ToolKind, ToolOutcome};
use turnwire_surfaces::responses::ids;

use super::{
    InputBody,
    arguments::{check_length, read_arguments},
    native_items, parts,
    resolved::ResolvedReferences,
    summary::unwrap_summary,
    tools::PlacedTool,
};
use crate::{
    client_error::{ClientError, shown},
    field_tracker::FieldTracker,
    fields::{Fields, placed},
};

/// Type of an item that brings tools.
pub const ADDITIONAL_TOOLS: &str = "additional_tools";

/// Fields of history items that have no effect: IDs, states, and our own notes.
const NAMES_AND_STATES: [&str; 4] = ["id", "status", "created_by", "turnwire"];

/// The input of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// Items to add to the conversation.
    pub items: Vec<Item>,
    /// Decisions about calls that waited for an approval.
    pub answers: Vec<ApprovalAnswer>,
    /// Number of items before the last call that waited, once those calls are taken out.
    pub n_before_calls: usize,
    /// The fields that were ignored.
    pub ignored: Vec<String>,
}

/// A decision about a call that waited for an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// ID of the `mcp_approval_request`.
    pub approval_request_id: String,
    pub decision: Decision,
    /// Path in the request, such as `input[1]`.
    pub param: String,
}

/// What has to be looked up before the input can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct References {
    /// IDs of items.
    pub items: Vec<String>,
    /// IDs of files.
    pub files: Vec<String>,
    /// IDs of the files that are part of a tool output.
    pub files_in_outputs: HashSet<String>,
}

/// The items and files that `input` refers to. Skips malformed parts; [`read_input`] reports them.
pub fn references(input: &InputBody) -> References {
    let mut references = References::default();
    let InputBody::Items(items) = input else { return references };
    for item in items {
        let id = item.get("id").and_then(Value::as_str);
        if kind_of(item) == Some("item_reference") {
            references.items.extend(id.map(str::to_owned));
        }
        for name in ["content", "output"] {
            let parts = item.get(name).and_then(Value::as_array);
            for file in files_of(parts.map(Vec::as_slice).unwrap_or_default()) {
                if name == "output" {
                    references.files_in_outputs.insert(file.clone());
                }
                references.files.push(file);
            }
        }
    }
    references
}

/// The files that attachments refer to. Skips malformed ones, as [`references`].
pub fn references_of_attachments(list: &[Value]) -> References {
    References { files: files_of(list).collect(), ..References::default() }
}

fn files_of(parts: &[Value]) -> impl Iterator<Item = String> {
    parts.iter().filter_map(|part| Some(part.get("file_id")?.as_str()?.to_owned()))
}

/// Reads the field `input` of a request.
pub fn read_input(
    input: &InputBody,
    references_found: &ResolvedReferences,
) -> Result<Input, ClientError> {
    match input {
        InputBody::Text(text) => Ok(Input { items: vec![Item::user(text)], ..Input::default() }),
        InputBody::Items(items) => read_items(items, "input", references_found),
    }
}

/// Reads an array of items in the field `path`.
pub fn read_items(
    list: &[Value],
    path: &str,
    references_found: &ResolvedReferences,
) -> Result<Input, ClientError> {
    let most = references_found.limits.items;
    if list.len() > most {
        let message = format!("`{path}` may have at most {most} items, not {}.", list.len());
        return Err(ClientError::new("too_many_items", path, message));
    }
    let unread = FieldTracker::within(&references_found.limits);
    let mut reader = InputReader::new(list, references_found);
    for (n, (path, value)) in placed(list, path).enumerate() {
        reader.read(n, &Fields::of(value, &path, &unread)?)?;
    }
    let mut input = reader.input;
    input.ignored = unread.left();
    Ok(input)
}

/// The tools that are part of the input, with their paths.
pub fn additional_tools(input: Option<&InputBody>) -> Result<Vec<PlacedTool<'_>>, ClientError> {
    let Some(InputBody::Items(items)) = input else { return Ok(Vec::new()) };
    let mut tools = Vec::new();
    for (path, item) in placed(items, "input") {
        if kind_of(item) == Some(ADDITIONAL_TOOLS) {
            let path = format!("{path}.tools");
            match item.get("tools") {
                Some(Value::Array(list)) => tools.extend(placed(list, &path)),
                None | Some(Value::Null) => return Err(ClientError::missing(path)),
                Some(other) => return Err(ClientError::wrong_type(path, "a list", other)),
            }
        }
    }
    Ok(tools)
}

/// The type of an item, including the cases where a client may omit it.
fn kind_of(item: &Value) -> Option<&str> {
    match item.get("type") {
        Some(Value::String(kind)) => Some(kind),
        None | Some(Value::Null) if item.get("role").is_some() => Some("message"),
        None | Some(Value::Null) if item.get("id").is_some() => Some("item_reference"),
        _ => None,
    }
}

fn is_made_by_model(item: &Value) -> bool {
    match kind_of(item) {
        Some("message") => item.get("role").and_then(Value::as_str) == Some("assistant"),
        Some(
            "reasoning" | "function_call" | "custom_tool_call" | "mcp_call" | "web_search_call"
            | "file_search_call",
        ) => true,
        _ => false,
    }
}

struct InputReader<'a> {
    references_found: &'a ResolvedReferences,
    /// Approval requests whose call was executed.
    resolved: HashSet<&'a str>,
    /// Index of the last item that the model generated.
    last_of_model: Option<usize>,
    input: Input,
}

impl<'a> InputReader<'a> {
    fn new(list: &'a [Value], references_found: &'a ResolvedReferences) -> Self {
        let calls = list.iter().filter(|item| kind_of(item) == Some("mcp_call"));
        Self {
            references_found,
            resolved: calls.filter_map(|call| call.get("approval_request_id")?.as_str()).collect(),
            last_of_model: list.iter().rposition(is_made_by_model),
            input: Input::default(),
        }
    }

    fn read(&mut self, n: usize, item: &Fields<'_>) -> Result<(), ClientError> {
        let kind = match item.text("type")? {
            Some(kind) => kind,
            None if item.value("role").is_some() => "message",
            None if item.value("id").is_some() => "item_reference",
            None => return Err(ClientError::missing(item.path_of("type"))),
        };
        item.pass_over(&NAMES_AND_STATES);
        match kind {
            "message" => self.read_message(item),
            "function_call" => self.read_call(item),
            "custom_tool_call" => self.read_custom_call(item),
            "function_call_output" => self.read_output(item, false),
            "custom_tool_call_output" => self.read_output(item, true),
            ADDITIONAL_TOOLS => {
                item.pass_over(&["role", "tools"]);
                Ok(())
            }
            "reasoning" => self.read_reasoning(item),
            "item_reference" => self.read_reference(item),
            "compaction" => self.read_compaction(item),
            "mcp_call" => self.extend(native_items::mcp_call(item, &call_id_of(item, n)?)?),
            "web_search_call" => {
                self.extend(native_items::web_search(item, &call_id_of(item, n)?)?)
            }
            "file_search_call" => {
                self.extend(native_items::file_search(item, &call_id_of(item, n)?)?)
            }
            // The tools are listed again in each run.
            "mcp_list_tools" => {
                item.all();
                Ok(())
            }
            "mcp_approval_request" => self.read_approval_request(item),
            "mcp_approval_response" => self.read_approval_answer(n, item),
            other => {
                let message = format!("Items of the type `{}` are not supported.", shown(other));
                Err(ClientError::new("unsupported_item", item.path_of("type"), message))
            }
        }
    }

    #[expect(clippy::unnecessary_wraps, reason = "the way every kind of item ends")]
    fn extend(&mut self, items: impl IntoIterator<Item = Item>) -> Result<(), ClientError> {
        self.input.items.extend(items);
        Ok(())
    }

    fn read_message(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        const ROLES: [&str; 4] = ["user", "assistant", "system", "developer"];
        let role = item.word("role", &ROLES)?;
        let role = match role.ok_or_else(|| ClientError::missing(item.path_of("role")))? {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            _ => Role::System,
        };
        let content = parts::read_content(item, self.references_found)?;
        self.extend([Item::Message { role, content }])
    }

    fn read_call(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let call = Item::Call {
            call_id: CallId::new(item.needed_name("call_id")?),
            name: item.needed_name("name")?.to_owned(),
            arguments: read_arguments(item)?,
            kind: ToolKind::Client,
            server: item.owned_text("namespace")?,
        };
        self.extend([call])
    }

    fn read_custom_call(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let input = item.needed_text("input")?;
        check_length(input, item, "input")?;
        let call = Item::Call {
            call_id: CallId::new(item.needed_name("call_id")?),
            name: item.needed_name("name")?.to_owned(),
            arguments: input.to_owned(),
            kind: ToolKind::Custom,
            server: item.owned_text("namespace")?,
        };
        self.extend([call])
    }

    fn read_output(&mut self, item: &Fields<'_>, custom: bool) -> Result<(), ClientError> {
        let call_id = CallId::new(item.needed_name("call_id")?);
        let (output, images) = parts::read_output(item, self.references_found)?;
        self.extend([Item::CallResult { call_id, output, images, failed: false, custom }])
    }

    fn read_reasoning(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let mut text = joined_texts(item, "summary")?;
        if text.is_empty() {
            text = joined_texts(item, "content")?;
        }
        let encrypted_content = item.owned_text("encrypted_content")?;
        let says_something = !text.is_empty() || encrypted_content.is_some();
        self.extend(says_something.then_some(Item::Reasoning { text, encrypted_content }))
    }

    fn read_reference(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let id = item.needed_name("id")?;
        let found = self.references_found.items.get(id).cloned().ok_or_else(|| {
            let message = format!("Item with id `{}` not found.", shown(id));
            ClientError::not_found("item_not_found", item.path_of("id"), message)
        })?;
        self.extend(found)
    }

    fn read_compaction(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let Some(text) = unwrap_summary(item.needed_text("encrypted_content")?) else {
            let path = item.path_of("encrypted_content");
            let message = format!(
                "`{path}` was not created by this server; create a new one with \
                 `/v1/responses/compact`."
            );
            return Err(ClientError::new("invalid_encrypted_content", path, message));
        };
        self.extend([Item::Message { role: Role::System, content: vec![Content::text(text)] }])
    }

    /// Adds the waiting call, with the ID of its approval request as call ID.
    fn read_approval_request(&mut self, item: &Fields<'_>) -> Result<(), ClientError> {
        let id = item.needed_name("id")?;
        let kind = ids::asked_kind(id);
        // Only a tool of an MCP server has one; the label of others is a placeholder.
        let server = Some(item.needed_name("server_label")?.to_owned());
        let call = Item::Call {
            call_id: CallId::new(id),
            name: item.needed_name("name")?.to_owned(),
            arguments: read_arguments(item)?,
            kind,
            server: server.filter(|_| kind == ToolKind::Mcp),
        };
        let is_open = !self.resolved.contains(id);
        self.extend(is_open.then_some(call))
    }

    fn read_approval_answer(&mut self, n: usize, item: &Fields<'_>) -> Result<(), ClientError> {
        let id = item.needed_name("approval_request_id")?;
        let approve = item.flag("approve")?;
        let approve = approve.ok_or_else(|| ClientError::missing(item.path_of("approve")))?;
        let reason = item.owned_text("reason")?.unwrap_or_default();
        if self.resolved.contains(id) {
            return Ok(());
        }
        if self.last_of_model.is_some_and(|last| n < last) {
            return self.extend(self.settled_without_result(id, approve, reason));
        }
        let decision = if approve { Decision::Approved } else { Decision::Denied { reason } };
        let approval_request_id = id.to_owned();
        let param = item.path().to_owned();
        self.input.answers.push(ApprovalAnswer { approval_request_id, decision, param });
        Ok(())
    }

    /// The result of a call that was decided earlier, as far as the history shows it.
    fn settled_without_result(&self, id: &str, approve: bool, reason: String) -> Option<Item> {
        let is_it =
            |item: &Item| matches!(item, Item::Call { call_id, .. } if call_id.as_str() == id);
        self.input.items.iter().any(is_it).then(|| {
            let message = "the outcome of this call is not known".to_owned();
            let outcome = if approve {
                ToolOutcome::OutcomeUnknown { message }
            } else {
                ToolOutcome::Denied { reason }
            };
            let output = format!("Error: {}", outcome.problem().unwrap_or_default());
            Item::CallResult {
                call_id: CallId::new(id),
                output,
                images: Vec::new(),
                failed: true,
                custom: false,
            }
        })
    }
}

/// The ID of a hosted call: its `call_id`, or else the ID of its item.
fn call_id_of(item: &Fields<'_>, n: usize) -> Result<CallId, ClientError> {
    let id = item.text("call_id")?.or(item.text("id")?).filter(|id| !id.is_empty());
    Ok(id.map_or_else(|| CallId::new(format!("call_of_item_{n}")), CallId::new))
}

fn joined_texts(item: &Fields<'_>, name: &str) -> Result<String, ClientError> {
    let mut texts = Vec::new();
    for (path, part) in item.list(name)?.into_iter().flatten() {
        let part = item.inner(part, &path)?;
        part.pass_over(&["type"]);
        texts.push(part.needed_text("text")?);
    }
    Ok(texts.join("\n\n"))
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
