//! `/v1/vector_stores`: collections of files that can be searched.
//!
//! A vector store is a collection of the [`Library`](turnwire_contract::Library). Files are indexed
//! in the background; their status, and the counts of a store and of a batch, show the progress.
//!
//! * this file has the stores themselves;
//! * [`attached`] has the files in a store, and [`batches`] attaches several at once;
//! * [`search`] searches for chunks;
//! * [`body`] has the request bodies.
//!
//! `description`, which official clients may send, is accepted and ignored.

mod attached;
mod batches;
pub(crate) mod body;
mod search;

use std::collections::BTreeMap;

use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{CollectionId, CollectionNotes, CollectionRecord, CollectionUsage};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::body::{StoreBody, Wanted, read_chunking, read_store};
use crate::{
    App, Caller, Json, JsonBody, OrNotFound, PathParams, QueryParams, Result,
    files::{DeletedObject, seconds},
    page::{Order, Page, PageParams},
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
    /// ID of the vector store.
    id: String,
    /// Always `vector_store`.
    object: &'static str,
    /// Time of creation, in Unix seconds.
    created_at: i64,
    /// Name of the vector store. May be empty.
    name: String,
    /// Storage used by the chunks and their embeddings, in bytes.
    usage_bytes: u64,
    /// Number of files in the store, by status.
    file_counts: FileCounts,
    /// `in_progress` while files are indexed, `completed`, or `expired`.
    status: &'static str,
    /// When the store expires. Null if it does not expire.
    expires_after: Option<ExpiresAfter>,
    /// Time at which the store expires if it is not used until then, in Unix seconds. Null if it
    /// does not expire.
    expires_at: Option<i64>,
    /// Time of last use, in Unix seconds.
    last_active_at: Option<i64>,
    /// Key-value pairs set by the client.
    metadata: BTreeMap<String, String>,
    /// Present if request fields were ignored; lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    turnwire: Option<ResponseNote>,
}

/// Expiry of a vector store.
#[derive(Debug, Serialize, ToSchema)]
struct ExpiresAfter {
    /// Start of the period. Always `last_active_at`.
    anchor: &'static str,
    /// Number of days without use after which the store expires.
    days: u32,
}

/// Number of files by status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct FileCounts {
    /// Files being indexed, or waiting for it.
    in_progress: u64,
    /// Files that are indexed.
    completed: u64,
    /// Files whose text could not be extracted.
    failed: u64,
    /// Files that were cancelled with their batch.
    cancelled: u64,
    /// All files.
    total: u64,
}

impl From<turnwire_contract::FileCounts> for FileCounts {
    fn from(counts: turnwire_contract::FileCounts) -> Self {
        let turnwire_contract::FileCounts { in_progress, completed, failed, cancelled } = counts;
        Self { in_progress, completed, failed, cancelled, total: counts.total() }
    }
}

/// Create a vector store.
#[utoipa::path(
    post,
    path = "/v1/vector_stores",
    request_body = StoreBody,
    responses((status = 200, description = "The new vector store", body = VectorStore))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStore>> {
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

/// List vector stores, newest first by default.
#[utoipa::path(
    get,
    path = "/v1/vector_stores",
    params(PageParams),
    responses((status = 200, description = "A page of vector stores", body = Page<VectorStore>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<VectorStore>>> {
    let mut records = app.library().collections(caller.tenant()).await?;
    records.reverse();
    let page = Page::of(records, &params, Order::Desc, |record| record.id.to_string())?;
    let mut data = Vec::new();
    for record in page.data {
        data.push(show(&app, &caller, record).await?);
    }
    let Page { object, first_id, last_id, has_more, turnwire, .. } = page;
    Ok(Json(Page { object, data, first_id, last_id, has_more, turnwire }))
}

/// Get a vector store.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}",
    responses((status = 200, description = "The vector store", body = VectorStore))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<VectorStore>> {
    let record = find(&app, &caller, &id).await?;
    Ok(Json(show(&app, &caller, record).await?))
}

/// Update a vector store.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}",
    request_body = StoreBody,
    responses((status = 200, description = "The updated vector store", body = VectorStore))
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStore>> {
    let mut record = find(&app, &caller, &id).await?;
    // An omitted field is not changed; null removes the expiry.
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
    let done = app.library().annotate_collection(caller.tenant(), &record.id, notes.clone()).await;
    done.or_not_found("Vector store", &id)?;
    let record = find(&app, &caller, &id).await?;
    Ok(Json(VectorStore { turnwire, ..show(&app, &caller, record).await? }))
}

/// Delete a vector store. Its files are kept.
#[utoipa::path(
    delete,
    path = "/v1/vector_stores/{vector_store_id}",
    responses((status = 200, description = "The vector store was deleted", body = DeletedObject))
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedObject>> {
    let collection = CollectionId::from(id.as_str());
    let done = app.library().remove_collection(caller.tenant(), &collection).await;
    done.or_not_found("Vector store", &id)?;
    Ok(Json(DeletedObject::new(id, "vector_store.deleted")))
}

async fn show(app: &App, caller: &Caller, record: CollectionRecord) -> Result<VectorStore> {
    let usage = app.library().usage(caller.tenant(), &record.id).await;
    let CollectionUsage { files, bytes } =
        usage.or_not_found("Vector store", record.id.as_str())?;
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

/// Finds a vector store of the caller.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<CollectionRecord> {
    let found = app.library().collection(caller.tenant(), &CollectionId::from(id)).await;
    found.or_not_found("Vector store", id)
}
