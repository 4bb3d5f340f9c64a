//! `/v1/vector_stores/{vector_store_id}/files`: the files in a vector store.
//!
//! A file whose text cannot be extracted is not an error of the request: its status becomes
//! `failed`, and `last_error` says why.

use std::collections::HashSet;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{
    Attachment, BatchRecord, Chunking, CollectionId, ExtractionFailure, FileId, Indexing,
};
use utoipa::{IntoParams, ToSchema};

use super::{
    body::{AttachBody, AttributesBody, Wanted, read_attach, read_attributes},
    find,
};
use crate::{
    ApiError, App, Caller, Json, JsonBody, OrNotFound, PathParams, QueryParams, Result,
    api_error::sentence,
    files::{self, DeletedObject, seconds},
    page::{Order, Page, PageParams},
};

module_routes! { [list, attach] [retrieve, update, detach] [content] }

/// A file in a vector store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VectorStoreFile {
    /// ID of the file.
    id: String,
    /// Always `vector_store.file`.
    object: &'static str,
    /// Time at which the file was attached, in Unix seconds.
    created_at: i64,
    /// Storage used by the chunks of the file and their embeddings, in bytes.
    usage_bytes: u64,
    /// ID of the vector store.
    vector_store_id: String,
    /// Indexing status of the file.
    status: Status,
    /// Why the file was not indexed. Null unless `status` is `failed`.
    last_error: Option<IndexingError>,
    /// Key-value pairs that a search can filter by.
    #[schema(value_type = Object)]
    attributes: Map<String, Value>,
    /// How the file is split into chunks.
    chunking_strategy: ChunkingStrategy,
}

/// Indexing status of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// The file is being indexed, or waits for it.
    InProgress,
    /// The file is indexed and can be searched.
    Completed,
    /// The text of the file could not be extracted.
    Failed,
    /// The batch of the file was cancelled before the file was indexed.
    Cancelled,
}

/// Why a file was not indexed.
#[derive(Debug, Serialize, ToSchema)]
struct IndexingError {
    /// `unsupported_file`, `invalid_file` or `server_error`.
    code: &'static str,
    /// Human-readable message.
    message: String,
}

/// How a file is split into chunks. For `auto`, the values that were used.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkingStrategy {
    /// Always `static`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Size of the chunks.
    #[serde(rename = "static")]
    tokens: ChunkTokens,
}

/// Size of the chunks.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkTokens {
    /// Maximum size of a chunk, in tokens.
    max_chunk_size_tokens: u32,
    /// Number of tokens that consecutive chunks share.
    chunk_overlap_tokens: u32,
}

impl From<Chunking> for ChunkingStrategy {
    fn from(chunking: Chunking) -> Self {
        let (max_chunk_size_tokens, chunk_overlap_tokens) = chunking.tokens();
        let tokens = ChunkTokens { max_chunk_size_tokens, chunk_overlap_tokens };
        Self { kind: "static", tokens }
    }
}

/// Extracted text of a file.
#[derive(Debug, Serialize, ToSchema)]
struct ContentPage {
    /// Always `vector_store.file_content.page`.
    object: &'static str,
    /// Chunks of text, in order.
    data: Vec<Text>,
    /// Always false.
    has_more: bool,
    /// Always null.
    next_page: Option<String>,
}

/// A piece of text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Text {
    /// Always `text`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// The text.
    text: String,
}

impl Text {
    pub(super) fn new(text: String) -> Self {
        Self { kind: "text", text }
    }
}

/// Filter for the list of files.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatusParams {
    /// Return only files with this status: `in_progress`, `completed`, `failed` or `cancelled`.
    filter: Option<Status>,
}

impl StatusParams {
    pub(super) fn takes(&self, file: &VectorStoreFile) -> bool {
        self.filter.is_none_or(|status| status == file.status)
    }
}

/// Attach a file to a vector store. It is indexed in the background.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/files",
    request_body = AttachBody,
    responses((status = 200, description = "The attached file", body = VectorStoreFile))
)]
async fn attach(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>> {
    let store = find(&app, &caller, &id).await?;
    let wanted = read_attach(body)?;
    let file_id = wanted.file_id.clone();
    let wanted = all_there(&app, &caller, vec![wanted]).await?;
    attach_all(&app, &caller, &store.id, None, wanted).await?;
    let attached = attachment(&app, &caller, &store.id, file_id.as_str()).await?;
    Ok(Json(show(&store.id, attached)))
}

/// List the files of a vector store, newest first by default.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files",
    params(StatusParams, PageParams),
    responses((status = 200, description = "A page of files", body = Page<VectorStoreFile>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    QueryParams(status): QueryParams<StatusParams>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<VectorStoreFile>>> {
    let store = find(&app, &caller, &id).await?;
    let attachments = app.library().attachments(caller.tenant(), &store.id).await?;
    let shown = |attachment: Attachment| show(&store.id, attachment);
    let all = attachments.into_iter().rev().map(shown).filter(|file| status.takes(file));
    Ok(Json(page_of(all.collect(), &params)?))
}

/// Get a file of a vector store.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    responses((status = 200, description = "The file", body = VectorStoreFile))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<VectorStoreFile>> {
    let store = find(&app, &caller, &id).await?;
    let attached = attachment(&app, &caller, &store.id, &file_id).await?;
    Ok(Json(show(&store.id, attached)))
}

/// Replace the attributes of a file in a vector store.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    request_body = AttributesBody,
    responses((status = 200, description = "The updated file", body = VectorStoreFile))
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>> {
    let store = find(&app, &caller, &id).await?;
    let attributes = read_attributes(body)?;
    let (tenant, id) = (caller.tenant(), FileId::from(file_id.as_str()));
    let done = app.library().set_attributes(tenant, &store.id, &id, attributes).await;
    done.or_not_found("File", &file_id)?;
    let attached = attachment(&app, &caller, &store.id, &file_id).await?;
    Ok(Json(show(&store.id, attached)))
}

/// Remove a file from a vector store. The file itself is kept.
#[utoipa::path(
    delete,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    responses((status = 200, description = "The file was removed from the vector store",
        body = DeletedObject))
)]
async fn detach(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<DeletedObject>> {
    let store = find(&app, &caller, &id).await?;
    let library = app.library();
    let detached =
        library.detach(caller.tenant(), &store.id, &FileId::from(file_id.as_str())).await;
    detached.or_not_found("File", &file_id)?;
    Ok(Json(DeletedObject::new(file_id, "vector_store.file.deleted")))
}

/// Get the extracted text of a file.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}/content",
    responses((status = 200,
        description = "The text of the file, chunk by chunk. Empty until the file is indexed",
        body = ContentPage))
)]
async fn content(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<ContentPage>> {
    let store = find(&app, &caller, &id).await?;
    let id = FileId::from(file_id.as_str());
    let chunks = app.library().chunks(caller.tenant(), &store.id, &id).await;
    let chunks = chunks.or_not_found("File", &file_id)?;
    let data = chunks.into_iter().map(Text::new).collect();
    let object = "vector_store.file_content.page";
    Ok(Json(ContentPage { object, data, has_more: false, next_page: None }))
}

/// `wanted` without duplicates, if all of these files exist. Called before any change, so that a
/// wrong ID changes nothing.
pub(super) async fn all_there(
    app: &App,
    caller: &Caller,
    mut wanted: Vec<Wanted>,
) -> Result<Vec<Wanted>> {
    let mut seen = HashSet::new();
    wanted.retain(|file| seen.insert(file.file_id.clone()));
    if let [one] = wanted.as_slice() {
        files::find(app, caller, one.file_id.as_str()).await?;
    } else if !wanted.is_empty() {
        let files = app.library().files(caller.tenant()).await?;
        let there: HashSet<FileId> = files.into_iter().map(|file| file.id).collect();
        if let Some(missing) = wanted.iter().find(|file| !there.contains(&file.file_id)) {
            return Err(ApiError::not_found("File", missing.file_id.as_str()));
        }
    }
    Ok(wanted)
}

/// Queues files for indexing.
pub(super) async fn attach_all(
    app: &App,
    caller: &Caller,
    collection: &CollectionId,
    batch: Option<BatchRecord>,
    wanted: Vec<Wanted>,
) -> Result<()> {
    let created_at = app.runs().now();
    let attachment = |Wanted { file_id, attributes, chunking }: Wanted| Attachment {
        attributes,
        chunking,
        ..Attachment::new(file_id, created_at)
    };
    let attachments = wanted.into_iter().map(attachment).collect();
    Ok(app.library().attach(caller.tenant(), collection, batch, attachments).await?)
}

async fn attachment(
    app: &App,
    caller: &Caller,
    collection: &CollectionId,
    file_id: &str,
) -> Result<Attachment> {
    let id = FileId::from(file_id);
    app.library().attachment(caller.tenant(), collection, &id).await.or_not_found("File", file_id)
}

/// A file in a store, as it is sent.
pub(super) fn show(collection: &CollectionId, attachment: Attachment) -> VectorStoreFile {
    let (status, last_error) = match attachment.state {
        Indexing::InProgress => (Status::InProgress, None),
        Indexing::Completed => (Status::Completed, None),
        Indexing::Cancelled => (Status::Cancelled, None),
        Indexing::Failed { why, reason } => {
            let code = match why {
                ExtractionFailure::Unsupported => "unsupported_file",
                ExtractionFailure::Invalid => "invalid_file",
                ExtractionFailure::Broke => "server_error",
            };
            (Status::Failed, Some(IndexingError { code, message: sentence(&reason) }))
        }
    };
    VectorStoreFile {
        id: attachment.file_id.to_string(),
        object: "vector_store.file",
        created_at: seconds(attachment.created_at),
        usage_bytes: attachment.usage_bytes,
        vector_store_id: collection.to_string(),
        status,
        last_error,
        attributes: attachment.attributes,
        chunking_strategy: attachment.chunking.into(),
    }
}

/// A page of files, newest first by default.
pub(super) fn page_of(
    oldest_first: Vec<VectorStoreFile>,
    params: &PageParams,
) -> Result<Page<VectorStoreFile>> {
    Page::of(oldest_first, params, Order::Desc, |file| file.id.clone())
}
