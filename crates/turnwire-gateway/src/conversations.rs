//! `/v1/conversations`: creating, reading and editing conversations.
//!
//! Conversations are shared by all surfaces: one started on `/chat` or over a WebSocket can be
//! listed here, and one created here can be used there.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{ConversationId, ConversationRecord, Entry, Item, ItemId, ToolKind};
use turnwire_surfaces::responses::{InputItem, response::ResponseNote, wire_items};
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Json, JsonBody, OrNotFound, PathParams, QueryParams, Result,
    files::DeletedObject,
    page::{Order, Page, PageParams},
    responses::{
        references::resolve_references,
        request::{self, ClientError, Input, InputBody, read_metadata, refuse_unknown},
    },
};

module_routes! {
    [open]
    [retrieve, annotate, delete]
    [add_items, list_items]
    [item, remove_item]
    [messages]
}

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    /// ID of the conversation.
    id: String,
    /// Always `conversation`.
    object: &'static str,
    /// Time of creation, in Unix seconds.
    created_at: i64,
    /// Key-value pairs set by the client.
    metadata: BTreeMap<String, String>,
    /// Present if input fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

impl From<ConversationRecord> for Conversation {
    fn from(ConversationRecord { id, created_at, metadata }: ConversationRecord) -> Self {
        let created_at = created_at.as_micros() / 1_000_000;
        Self { id: id.to_string(), object: "conversation", created_at, metadata, turnwire: None }
    }
}

/// Request body for creating or updating a conversation, and for adding items to it.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
struct ConversationBody {
    /// Input items to add. Used when creating a conversation and when adding items.
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Vec<Value>>,
    /// Up to 16 key-value pairs. Used when creating and updating a conversation.
    metadata: Option<BTreeMap<String, String>>,
}

/// Create a conversation.
#[utoipa::path(
    post,
    path = "/v1/conversations",
    request_body = ConversationBody,
    responses((status = 200, description = "The new conversation", body = Conversation))
)]
async fn open(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<Conversation>> {
    let body = object(body, &["items", "metadata"])?;
    let metadata = read_metadata(&body)?;
    let (entries, turnwire) = read_entries(&app, &caller, &body, &[]).await?;
    let (id, created_at) = (app.runs().new_conversation_id(), app.runs().now());
    let record = ConversationRecord { id: id.clone(), created_at, metadata };
    let store = app.runs().store();
    store.open_conversation(caller.tenant(), record.clone()).await?;
    if !entries.is_empty() {
        store.add_entries(caller.tenant(), &id, entries).await?;
    }
    Ok(Json(Conversation { turnwire, ..record.into() }))
}

/// Get a conversation.
#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}",
    responses((status = 200, description = "The conversation", body = Conversation))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Conversation>> {
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

/// Replace the metadata of a conversation.
#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}",
    request_body = ConversationBody,
    responses((status = 200, description = "The updated conversation", body = Conversation))
)]
async fn annotate(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Conversation>> {
    let record = find(&app, &caller, &id).await?;
    let metadata = read_metadata(&object(body, &["metadata"])?)?;
    let store = app.runs().store();
    store.annotate_conversation(caller.tenant(), &record.id, metadata).await?;
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

/// Delete a conversation.
#[utoipa::path(
    delete,
    path = "/v1/conversations/{conversation_id}",
    responses(
        (status = 200, description = "The conversation was deleted", body = DeletedObject),
        (status = 409, description = "The conversation has a run in progress"),
    )
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedObject>> {
    let conversation_id = ConversationId::new(id.as_str());
    let deleted = app.runs().store().delete_conversation(caller.tenant(), &conversation_id).await;
    deleted.or_not_found("Conversation", &id)?;
    Ok(Json(DeletedObject::new(id, "conversation.deleted")))
}

/// Add items to a conversation.
#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/items",
    request_body = ConversationBody,
    responses(
        (status = 200, description = "The added items", body = Page<InputItem>),
        (status = 409, description = "The conversation has a run in progress"),
    )
)]
async fn add_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Page<InputItem>>> {
    let record = find(&app, &caller, &id).await?;
    let known = app.runs().history(caller.tenant(), &record.id).await?;
    let body = object(body, &["items"])?;
    let (entries, turnwire) = read_entries(&app, &caller, &body, &known).await?;
    let items = wire_items(&entries);
    app.runs().store().add_entries(caller.tenant(), &record.id, entries).await?;
    let params = PageParams { limit: Some(100), ..PageParams::default() };
    let page = Page::of(items, &params, Order::Asc, |item| item.id().to_string())?;
    Ok(Json(Page { turnwire, ..page }))
}

/// List the items of a conversation, newest first by default.
#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/items",
    params(PageParams),
    responses((status = 200, description = "A page of items", body = Page<InputItem>))
)]
async fn list_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<InputItem>>> {
    page_of_items(&app, &caller, &id, &params, Order::Desc).await
}

/// List the items of a conversation, oldest first by default.
#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/messages",
    params(PageParams),
    responses((status = 200, description = "A page of items", body = Page<InputItem>))
)]
async fn messages(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<InputItem>>> {
    page_of_items(&app, &caller, &id, &params, Order::Asc).await
}

async fn page_of_items(
    app: &App,
    caller: &Caller,
    id: &str,
    params: &PageParams,
    order: Order,
) -> Result<Json<Page<InputItem>>> {
    let record = find(app, caller, id).await?;
    let items = wire_items(&app.runs().history(caller.tenant(), &record.id).await?);
    Ok(Json(Page::of(items, params, order, |item| item.id().to_string())?))
}

/// Get an item of a conversation.
#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/items/{item_id}",
    responses((status = 200, description = "The item", body = InputItem))
)]
async fn item(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, item_id)): PathParams<(String, String)>,
) -> Result<Json<InputItem>> {
    let record = find(&app, &caller, &id).await?;
    let items = wire_items(&app.runs().history(caller.tenant(), &record.id).await?);
    let found = items.into_iter().find(|item| item.id().as_str() == item_id);
    found.map(Json).ok_or_else(|| ApiError::not_found("Item", &item_id))
}

/// Delete an item of a conversation.
///
/// Deleting a call also deletes its result.
#[utoipa::path(
    delete,
    path = "/v1/conversations/{conversation_id}/items/{item_id}",
    responses(
        (status = 200, description = "The conversation, without the deleted item",
            body = Conversation),
        (status = 409, description = "The conversation has a run in progress"),
    )
)]
async fn remove_item(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, item_id)): PathParams<(String, String)>,
) -> Result<Json<Conversation>> {
    let record = find(&app, &caller, &id).await?;
    let entries = app.runs().history(caller.tenant(), &record.id).await?;
    let Some(entry) = entries.iter().find(|entry| entry.id.as_str() == item_id) else {
        return Err(ApiError::not_found("Item", &item_id));
    };
    for id in with_its_result(entry, &entries) {
        app.runs().store().remove_entry(caller.tenant(), &record.id, &id).await?;
    }
    Ok(Json(record.into()))
}

/// IDs of the entry and, for a call, of its result. For a hosted tool both are one item to a
/// client, and models refuse one without the other.
fn with_its_result(entry: &Entry, entries: &[Entry]) -> Vec<ItemId> {
    let mut ids = vec![entry.id.clone()];
    if let Item::Call { call_id, .. } = &*entry.item {
        let is_result = |entry: &&Entry| matches!(&*entry.item, Item::CallResult { call_id: of, .. } if of == call_id);
        ids.extend(entries.iter().find(is_result).map(|result| result.id.clone()));
    }
    ids
}

/// Finds a conversation of the caller.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<ConversationRecord> {
    let found = app.runs().store().conversation(caller.tenant(), &ConversationId::new(id)).await;
    found.or_not_found("Conversation", id)
}

async fn read_entries(
    app: &App,
    caller: &Caller,
    body: &Map<String, Value>,
    known: &[Entry],
) -> Result<(Vec<Entry>, Option<ResponseNote>)> {
    let items = match body.get("items") {
        None | Some(Value::Null) => return Ok((Vec::new(), None)),
        Some(Value::Array(items)) => items.clone(),
        Some(_) => {
            let message = "`items` must be a list.";
            return Err(ApiError::bad_request("invalid_type", message).about("items"));
        }
    };
    let body = InputBody::Items(items);
    let references = request::references(&body);
    let references_found = resolve_references(app, caller, references, known).await?;
    let InputBody::Items(items) = &body else { return Ok((Vec::new(), None)) };
    let input = request::read_items(items, "items", &references_found)?;
    refuse_what_is_not_kept(items, &input)?;
    let history: Vec<&Item> = known.iter().map(|entry| &*entry.item).collect();
    request::check_calls(&history, &input.items)?;
    let named = |item: Item| {
        let prefix = match &item {
            Item::Message { .. } => "msg",
            Item::Reasoning { .. } => "rs",
            Item::Call { kind: ToolKind::Custom, .. } => "ctc",
            Item::Call { .. } => "fc",
            Item::CallResult { custom: true, .. } => "ctco",
            Item::CallResult { .. } => "fco",
        };
        Entry::new(app.runs().new_id(prefix), item)
    };
    let ignored = input.ignored;
    let note = (!ignored.is_empty()).then_some(ResponseNote { ignored });
    Ok((input.items.into_iter().map(named).collect(), note))
}

/// Refuses items that only a response can act on, because a conversation does not store them.
fn refuse_what_is_not_kept(items: &[Value], input: &Input) -> Result<(), ClientError> {
    let brings_tools =
        |item: &Value| item.get("type").and_then(Value::as_str) == Some(request::ADDITIONAL_TOOLS);
    let tools = items.iter().position(brings_tools).map(|place| format!("items[{place}]"));
    let answer = input.answers.first().map(|answer| answer.param.clone());
    let Some(param) = tools.or(answer) else { return Ok(()) };
    let message = "Tools and answers to approval requests belong in the input of a response; a \
                   conversation does not store them.";
    Err(ClientError::new("unsupported_item", param, message))
}

/// The body as an object. Fields other than `known` are refused.
fn object(body: Value, known: &[&str]) -> Result<Map<String, Value>> {
    match body {
        Value::Object(body) => {
            refuse_unknown(&body, known)?;
            Ok(body)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(ApiError::bad_request("invalid_type", "The body must be a JSON object."))
        }
    }
}
