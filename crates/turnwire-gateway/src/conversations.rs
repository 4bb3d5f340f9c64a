//! `/v1/conversations`: conversations kept by hand.
//!
//! A conversation is the same thing on every surface: what is begun on `/chat` or over a
//! WebSocket can be listed here, and what is opened here can be used there.

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{
    ConversationId, ConversationRecord, Entry, Item, ItemId, StoreError, ToolKind,
};
use turnwire_surfaces::responses::{InputItem, response::ResponseNote, wire_items};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    app::App,
    body::{Json, JsonBody},
    door::Caller,
    files::Removed,
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::{ErrorBody, Refusal},
    responses::{
        look_up,
        request::{self, ClientError, Input, InputBody, read_metadata, refuse_unknown},
    },
};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(open))
        .routes(routes!(retrieve, annotate, delete))
        .routes(routes!(add_items, list_items))
        .routes(routes!(item, remove_item))
        .routes(routes!(messages))
}

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Conversation {
    id: String,
    object: &'static str,
    created_at: i64,
    metadata: BTreeMap<String, String>,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

impl From<ConversationRecord> for Conversation {
    fn from(ConversationRecord { id, created_at, metadata }: ConversationRecord) -> Self {
        let created_at = created_at.as_micros() / 1_000_000;
        Self { id: id.to_string(), object: "conversation", created_at, metadata, turnwire: None }
    }
}

/// What a client sends to open or annotate a conversation.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
struct ConversationBody {
    /// What has been said already.
    #[schema(value_type = Option<Vec<Object>>)]
    items: Option<Vec<Value>>,
    /// At most 16 notes.
    metadata: Option<BTreeMap<String, String>>,
}

#[utoipa::path(
    post,
    path = "/v1/conversations",
    tag = "conversations",
    request_body = ConversationBody,
    responses((status = 200, description = "The conversation", body = Conversation))
)]
async fn open(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<Conversation>, Refusal> {
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

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    responses((status = 200, description = "The conversation", body = Conversation))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Conversation>, Refusal> {
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    request_body = ConversationBody,
    responses((status = 200, description = "The conversation", body = Conversation))
)]
async fn annotate(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Conversation>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let metadata = read_metadata(&object(body, &["metadata"])?)?;
    let store = app.runs().store();
    store.annotate_conversation(caller.tenant(), &record.id, metadata).await?;
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

#[utoipa::path(
    delete,
    path = "/v1/conversations/{conversation_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    responses(
        (status = 200, description = "It is gone", body = Removed),
        (status = 409, description = "The conversation is busy", body = ErrorBody),
    )
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Removed>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    app.runs().store().forget_conversation(caller.tenant(), &record.id).await?;
    Ok(Json(Removed::new(id, "conversation.deleted")))
}

#[utoipa::path(
    post,
    path = "/v1/conversations/{conversation_id}/items",
    tag = "conversations",
    params(("conversation_id" = String, Path)),
    request_body = ConversationBody,
    responses(
        (status = 200, description = "What was added", body = Page<InputItem>),
        (status = 409, description = "The conversation is busy", body = ErrorBody),
    )
)]
async fn add_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<Page<InputItem>>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let known = app.runs().history(caller.tenant(), &record.id).await?;
    let body = object(body, &["items"])?;
    let (entries, turnwire) = read_entries(&app, &caller, &body, &known).await?;
    let items = wire_items(&entries);
    app.runs().store().add_entries(caller.tenant(), &record.id, entries).await?;
    let wish = PageWish { limit: Some(100), ..PageWish::default() };
    let page = Page::of(items, &wish, Order::Asc, |item| item.id().to_string())?;
    Ok(Json(Page { turnwire, ..page }))
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/items",
    tag = "conversations",
    params(("conversation_id" = String, Path), PageWish),
    responses((status = 200, description = "What was said", body = Page<InputItem>))
)]
async fn list_items(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<InputItem>>, Refusal> {
    page_of_items(&app, &caller, &id, &wish, Order::Desc).await
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/messages",
    tag = "conversations",
    params(("conversation_id" = String, Path), PageWish),
    responses((status = 200, description = "What was said, oldest first", body = Page<InputItem>))
)]
async fn messages(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<InputItem>>, Refusal> {
    page_of_items(&app, &caller, &id, &wish, Order::Asc).await
}

async fn page_of_items(
    app: &App,
    caller: &Caller,
    id: &str,
    wish: &PageWish,
    order: Order,
) -> Result<Json<Page<InputItem>>, Refusal> {
    let record = find(app, caller, id).await?;
    let items = wire_items(&app.runs().history(caller.tenant(), &record.id).await?);
    Ok(Json(Page::of(items, wish, order, |item| item.id().to_string())?))
}

#[utoipa::path(
    get,
    path = "/v1/conversations/{conversation_id}/items/{item_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path), ("item_id" = String, Path)),
    responses((status = 200, description = "The item", body = InputItem))
)]
async fn item(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, item_id)): PathParams<(String, String)>,
) -> Result<Json<InputItem>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let items = wire_items(&app.runs().history(caller.tenant(), &record.id).await?);
    let found = items.into_iter().find(|item| item.id().as_str() == item_id);
    found.map(Json).ok_or_else(|| Refusal::not_found("Item", &item_id))
}

#[utoipa::path(
    delete,
    path = "/v1/conversations/{conversation_id}/items/{item_id}",
    tag = "conversations",
    params(("conversation_id" = String, Path), ("item_id" = String, Path)),
    responses(
        (status = 200, description = "The conversation without it", body = Conversation),
        (status = 409, description = "The conversation is busy", body = ErrorBody),
    )
)]
async fn remove_item(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, item_id)): PathParams<(String, String)>,
) -> Result<Json<Conversation>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let entries = app.runs().history(caller.tenant(), &record.id).await?;
    let Some(entry) = entries.iter().find(|entry| entry.id.as_str() == item_id) else {
        return Err(Refusal::not_found("Item", &item_id));
    };
    for id in with_its_result(entry, &entries) {
        app.runs().store().remove_entry(caller.tenant(), &record.id, &id).await?;
    }
    Ok(Json(record.into()))
}

/// A call goes with what came of it: for a hosted tool the two are one item to a client, and no
/// model takes one without the other.
fn with_its_result(entry: &Entry, entries: &[Entry]) -> Vec<ItemId> {
    let mut ids = vec![entry.id.clone()];
    if let Item::Call { call_id, .. } = &*entry.item {
        let is_result = |entry: &&Entry| matches!(&*entry.item, Item::CallResult { call_id: of, .. } if of == call_id);
        ids.extend(entries.iter().find(is_result).map(|result| result.id.clone()));
    }
    ids
}

/// A conversation of the caller.
pub(crate) async fn find(
    app: &App,
    caller: &Caller,
    id: &str,
) -> Result<ConversationRecord, Refusal> {
    let found = app.runs().store().conversation(caller.tenant(), &ConversationId::new(id)).await;
    found.map_err(|error| match error {
        StoreError::NotFound(_) => Refusal::not_found("Conversation", id),
        other => other.into(),
    })
}

async fn read_entries(
    app: &App,
    caller: &Caller,
    body: &Map<String, Value>,
    known: &[Entry],
) -> Result<(Vec<Entry>, Option<ResponseNote>), Refusal> {
    let items = match body.get("items") {
        None | Some(Value::Null) => return Ok((Vec::new(), None)),
        Some(Value::Array(items)) => items.clone(),
        Some(_) => {
            let message = "`items` must be a list.";
            return Err(Refusal::bad_request("invalid_type", message).about("items"));
        }
    };
    let body = InputBody::Items(items);
    let looked_up = look_up(app, caller, &body, known).await?;
    let InputBody::Items(items) = &body else { return Ok((Vec::new(), None)) };
    let input = request::read_items(items, "items", &looked_up)?;
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

/// A conversation is what was said. What only a response can act on would be lost in it.
fn refuse_what_is_not_kept(items: &[Value], input: &Input) -> Result<(), ClientError> {
    let brings_tools =
        |item: &Value| item.get("type").and_then(Value::as_str) == Some(request::ADDITIONAL_TOOLS);
    let tools = items.iter().position(brings_tools).map(|place| format!("items[{place}]"));
    let answer = input.answers.first().map(|answer| answer.param.clone());
    match tools.or(answer) {
        Some(param) => {
            let message = "Tools and answers to approval requests belong into the input of a \
                           response; a conversation does not keep them.";
            Err(ClientError::new("unsupported_item", param, message))
        }
        None => Ok(()),
    }
}

/// The body, which has no other than the `known` fields.
fn object(body: Value, known: &[&str]) -> Result<Map<String, Value>, Refusal> {
    match body {
        Value::Object(body) => {
            refuse_unknown(&body, known)?;
            Ok(body)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(Refusal::bad_request("invalid_type", "The body must be a JSON object."))
        }
    }
}
