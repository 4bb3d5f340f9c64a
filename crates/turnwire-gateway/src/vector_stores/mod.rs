//! `/v1/vector_stores`: collections that files are searched in.
//!
//! A vector store is a collection of the [`Library`](turnwire_contract::Library). Files are read
//! in the background; their status, and the counts of a store and of a batch, say how far they
//! are.
//!
//! * this file has the stores themselves;
//! * [`attached`] has the files in a store, and [`batches`] many of them at once;
//! * [`search`] looks for passages;
//! * [`body`] reads what clients send.
//!
//! What official clients may send and nothing is made of: `description`.

mod attached;
mod batches;
mod body;
mod search;

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{CollectionId, CollectionNotes, CollectionRecord, CollectionUsage};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    attached::Wanted,
    body::{StoreBody, read_chunking, read_store},
};
use crate::{
    app::App,
    body::{Json, JsonBody},
    door::Caller,
    files::{Removed, missing, seconds},
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::Refusal,
};

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(retrieve, update, delete))
        .merge(attached::routes())
        .merge(batches::routes())
        .merge(search::routes())
}

/// A vector store.
#[derive(Debug, Serialize, ToSchema)]
struct VectorStore {
    id: String,
    /// Always `vector_store`.
    object: &'static str,
    created_at: i64,
    name: String,
    /// What its passages and their vectors take.
    usage_bytes: u64,
    file_counts: FileCounts,
    /// `in_progress` while files are read, `expired` when it is of no use any more.
    status: &'static str,
    expires_after: Option<ExpiresAfter>,
    /// When it expires if it is not used until then; null: never.
    expires_at: Option<i64>,
    /// When it was used last.
    last_active_at: Option<i64>,
    metadata: BTreeMap<String, String>,
    /// What of the request was not heeded; not there otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// When a store expires.
#[derive(Debug, Serialize, ToSchema)]
struct ExpiresAfter {
    /// Always `last_active_at`.
    anchor: &'static str,
    days: u32,
}

/// How many files are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct FileCounts {
    in_progress: u64,
    completed: u64,
    failed: u64,
    cancelled: u64,
    total: u64,
}

impl From<turnwire_contract::FileCounts> for FileCounts {
    fn from(counts: turnwire_contract::FileCounts) -> Self {
        let turnwire_contract::FileCounts { in_progress, completed, failed, cancelled } = counts;
        Self { in_progress, completed, failed, cancelled, total: counts.total() }
    }
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores",
    tag = "vector_stores",
    request_body = StoreBody,
    responses((status = 200, description = "The vector store", body = VectorStore))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStore>, Refusal> {
    let body = read_store(body)?;
    let turnwire = body.note();
    let StoreBody { name, file_ids, metadata, expires_after, chunking_strategy, .. } = body;
    let chunking = read_chunking(chunking_strategy)?;
    let file_ids = file_ids.unwrap_or_default().into_iter();
    let wanted = file_ids.map(|file_id| Wanted { file_id, attributes: Map::new(), chunking });
    let wanted = attached::all_there(&app, &caller, wanted.collect()).await?;
    let created_at = app.runs().now();
    let record = CollectionRecord {
        id: CollectionId::new(app.runs().new_id("vs")),
        created_at,
        last_active_at: created_at,
        notes: CollectionNotes {
            name: name.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
            expires_after_days: expires_after.map(|after| after.days()).transpose()?,
        },
    };
    app.library().open_collection(caller.tenant(), record.clone()).await?;
    attached::attach_all(&app, &caller, &record.id, None, wanted).await?;
    Ok(Json(VectorStore { turnwire, ..show(&app, &caller, record).await? }))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores",
    tag = "vector_stores",
    params(PageWish),
    responses((status = 200, description = "Newest first", body = Page<VectorStore>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<VectorStore>>, Refusal> {
    let mut records = app.library().collections(caller.tenant()).await?;
    records.reverse();
    let page = Page::of(records, &wish, Order::Desc, |record| record.id.to_string())?;
    let mut data = Vec::new();
    for record in page.data {
        data.push(show(&app, &caller, record).await?);
    }
    let Page { object, first_id, last_id, has_more, turnwire, .. } = page;
    Ok(Json(Page { object, data, first_id, last_id, has_more, turnwire }))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    responses((status = 200, description = "The vector store", body = VectorStore))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<VectorStore>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    Ok(Json(show(&app, &caller, record).await?))
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    request_body = StoreBody,
    responses((status = 200, description = "The vector store", body = VectorStore))
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStore>, Refusal> {
    let mut record = find(&app, &caller, &id).await?;
    // What is left out stays as it is; what is null is taken away.
    let forget_expiry = body.get("expires_after").is_some_and(Value::is_null);
    let body = read_store(body)?;
    body.refuse_what_comes_too_late()?;
    let turnwire = body.note();
    let StoreBody { name, metadata, expires_after, .. } = body;
    let notes = &mut record.notes;
    notes.name = name.unwrap_or_else(|| std::mem::take(&mut notes.name));
    notes.metadata = metadata.unwrap_or_else(|| std::mem::take(&mut notes.metadata));
    if forget_expiry {
        notes.expires_after_days = None;
    } else if let Some(after) = expires_after {
        notes.expires_after_days = Some(after.days()?);
    }
    let annotated =
        app.library().annotate_collection(caller.tenant(), &record.id, notes.clone()).await;
    annotated.map_err(|error| missing("Vector store", &id, error))?;
    let record = find(&app, &caller, &id).await?;
    Ok(Json(VectorStore { turnwire, ..show(&app, &caller, record).await? }))
}

#[utoipa::path(
    delete,
    path = "/v1/vector_stores/{vector_store_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    responses((status = 200, description = "It is gone; its files stay", body = Removed))
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Removed>, Refusal> {
    let collection = CollectionId::from(id.as_str());
    let removed = app.library().remove_collection(caller.tenant(), &collection).await;
    removed.map_err(|error| missing("Vector store", &id, error))?;
    Ok(Json(Removed::new(id, "vector_store.deleted")))
}

async fn show(
    app: &App,
    caller: &Caller,
    record: CollectionRecord,
) -> Result<VectorStore, Refusal> {
    let usage = app.library().usage(caller.tenant(), &record.id).await;
    let CollectionUsage { files, bytes } =
        usage.map_err(|error| missing("Vector store", record.id.as_str(), error))?;
    let status = if record.is_expired(app.runs().now()) {
        "expired"
    } else if files.in_progress > 0 {
        "in_progress"
    } else {
        "completed"
    };
    let days = record.notes.expires_after_days;
    Ok(VectorStore {
        id: record.id.to_string(),
        object: "vector_store",
        created_at: seconds(record.created_at),
        usage_bytes: bytes,
        file_counts: files.into(),
        status,
        expires_after: days.map(|days| ExpiresAfter { anchor: "last_active_at", days }),
        expires_at: record.expires_at().map(seconds),
        last_active_at: Some(seconds(record.last_active_at)),
        name: record.notes.name,
        metadata: record.notes.metadata,
        turnwire: None,
    })
}

/// A vector store of the caller.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<CollectionRecord, Refusal> {
    let found = app.library().collection(caller.tenant(), &CollectionId::from(id)).await;
    found.map_err(|error| missing("Vector store", id, error))
}
