//! `/v1/vector_stores`: collections that files are searched in.
//!
//! A vector store is a collection of the [`Library`](turnwire_contract::Library). Indexing is
//! done when an answer is sent, so a client that polls is done after one look.
//!
//! * this file has the stores themselves;
//! * [`attached`] has the files in a store, and [`batches`] many of them at once;
//! * [`search`] looks for passages;
//! * [`body`] reads what clients send.
//!
//! What official clients may send and nothing is made of: `chunking_strategy`, because the
//! library cuts texts in its own way, and says so with the strategy `other`; `expires_after`,
//! because nothing here expires, and `expires_at` says so; `description`.

mod attached;
mod batches;
mod body;
mod recent;
mod search;

use std::collections::{BTreeMap, HashMap};

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Serialize;
use serde_json::Map;
use turnwire_contract::{CollectionId, CollectionRecord, FileId};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::recent::Batches;

use self::{
    attached::Wanted,
    body::{StoreBody, read_store},
};
use crate::{
    app::App,
    body::JsonBody,
    door::Caller,
    files::{Removed, missing, seconds},
    page::{Order, Page, PageWish},
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
    /// The bytes of all its files together.
    usage_bytes: u64,
    file_counts: FileCounts,
    /// Always `completed`: files can be found as soon as they are attached.
    status: &'static str,
    /// Always null: a store stays until it is deleted.
    expires_at: Option<i64>,
    /// When a file was attached last.
    last_active_at: Option<i64>,
    metadata: BTreeMap<String, String>,
}

/// How many files are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
struct FileCounts {
    /// Always 0.
    in_progress: usize,
    completed: usize,
    failed: usize,
    /// Always 0.
    cancelled: usize,
    total: usize,
}

impl FileCounts {
    fn new(completed: usize, failed: usize) -> Self {
        Self { in_progress: 0, completed, failed, cancelled: 0, total: completed + failed }
    }
}

/// How many bytes each file of a caller has.
struct Sizes(HashMap<FileId, u64>);

impl Sizes {
    async fn of(app: &App, caller: &Caller) -> Result<Self, Refusal> {
        let files = app.library().files(caller.tenant()).await?;
        Ok(Self(files.into_iter().map(|file| (file.id, file.bytes)).collect()))
    }

    fn of_file(&self, id: &FileId) -> u64 {
        self.0.get(id).copied().unwrap_or(0)
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
    let StoreBody { name, file_ids, metadata } = read_store(body)?;
    let file_ids = file_ids.unwrap_or_default();
    let wanted = file_ids.into_iter().map(|file_id| Wanted { file_id, attributes: Map::new() });
    let wanted = attached::all_there(&app, &caller, wanted.collect()).await?;
    let record = CollectionRecord {
        id: CollectionId::new(app.runs().new_id("vs")),
        name: name.unwrap_or_default(),
        created_at: app.runs().now(),
        metadata: metadata.unwrap_or_default(),
    };
    app.library().open_collection(caller.tenant(), record.clone()).await?;
    let batch = attached::attach_all(&app, &caller, &record.id, wanted).await?;
    let n_refused = batch.n_refused();
    attached::keep_refusals(&app, &caller, batch);
    let sizes = Sizes::of(&app, &caller).await?;
    let mut store = show(&app, &caller, record, &sizes).await?;
    store.file_counts = FileCounts::new(store.file_counts.completed, n_refused);
    Ok(Json(store))
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
    let sizes = Sizes::of(&app, &caller).await?;
    let mut data = Vec::new();
    for record in page.data {
        data.push(show(&app, &caller, record, &sizes).await?);
    }
    let Page { object, first_id, last_id, has_more, .. } = page;
    Ok(Json(Page { object, data, first_id, last_id, has_more }))
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
    Path(id): Path<String>,
) -> Result<Json<VectorStore>, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let sizes = Sizes::of(&app, &caller).await?;
    Ok(Json(show(&app, &caller, record, &sizes).await?))
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
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStore>, Refusal> {
    let mut record = find(&app, &caller, &id).await?;
    let StoreBody { name, metadata, file_ids: _ } = read_store(body)?;
    record.name = name.unwrap_or(record.name);
    record.metadata = metadata.unwrap_or(record.metadata);
    let (name, metadata) = (record.name.clone(), record.metadata.clone());
    let library = app.library();
    let annotated = library.annotate_collection(caller.tenant(), &record.id, name, metadata).await;
    annotated.map_err(|error| missing("Vector store", &id, error))?;
    let sizes = Sizes::of(&app, &caller).await?;
    Ok(Json(show(&app, &caller, record, &sizes).await?))
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
    Path(id): Path<String>,
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
    sizes: &Sizes,
) -> Result<VectorStore, Refusal> {
    let attachments = app.library().attachments(caller.tenant(), &record.id).await;
    let attachments =
        attachments.map_err(|error| missing("Vector store", record.id.as_str(), error))?;
    let last_attached = attachments.iter().map(|attachment| attachment.created_at).max();
    Ok(VectorStore {
        id: record.id.to_string(),
        object: "vector_store",
        created_at: seconds(record.created_at),
        name: record.name,
        usage_bytes: attachments.iter().map(|attached| sizes.of_file(&attached.file_id)).sum(),
        file_counts: FileCounts::new(attachments.len(), 0),
        status: "completed",
        expires_at: None,
        last_active_at: Some(seconds(last_attached.unwrap_or(record.created_at))),
        metadata: record.metadata,
    })
}

/// A vector store of the caller.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<CollectionRecord, Refusal> {
    let found = app.library().collection(caller.tenant(), &CollectionId::from(id)).await;
    found.map_err(|error| missing("Vector store", id, error))
}
