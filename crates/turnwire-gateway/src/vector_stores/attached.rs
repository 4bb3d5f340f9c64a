//! `/v1/vector_stores/{vector_store_id}/files`: the files in a store.
//!
//! A file that cannot be read as text is no mistake of the request: its status becomes `failed`
//! and says why.

use std::collections::HashSet;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{
    Attachment, BatchRecord, Chunking, CollectionId, FileId, Indexing, Unreadable,
};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    body::{AttachBody, AttributesBody, read_attach, read_attributes},
    find,
};
use crate::{
    app::App,
    body::{Json, JsonBody},
    door::Caller,
    files::{self, Removed, missing, seconds},
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::{Refusal, sentence},
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, attach))
        .routes(routes!(retrieve, update, detach))
        .routes(routes!(content))
}

/// A file that is to be attached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wanted {
    pub(super) file_id: FileId,
    pub(super) attributes: Map<String, Value>,
    pub(super) chunking: Chunking,
}

/// A file in a vector store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VectorStoreFile {
    /// The id of the file.
    id: String,
    /// Always `vector_store.file`.
    object: &'static str,
    created_at: i64,
    /// What its passages and their vectors take.
    usage_bytes: u64,
    vector_store_id: String,
    status: Status,
    last_error: Option<LastError>,
    #[schema(value_type = Object)]
    attributes: Map<String, Value>,
    chunking_strategy: ChunkingStrategy,
}

/// How far a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// It waits to be read, or is being read.
    InProgress,
    /// It can be found.
    Completed,
    /// It cannot be read as text.
    Failed,
    /// Its batch was cancelled before it was read.
    Cancelled,
}

/// Why a file cannot be found.
#[derive(Debug, Serialize, ToSchema)]
struct LastError {
    /// `unsupported_file`, `invalid_file` or `server_error`.
    code: &'static str,
    message: String,
}

/// How a file is cut into passages; `auto` shows as what it means.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkingStrategy {
    /// Always `static`.
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "static")]
    tokens: ChunkTokens,
}

/// How long passages are.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkTokens {
    max_chunk_size_tokens: u32,
    chunk_overlap_tokens: u32,
}

impl From<Chunking> for ChunkingStrategy {
    fn from(chunking: Chunking) -> Self {
        let (max_chunk_size_tokens, chunk_overlap_tokens) = chunking.tokens();
        let tokens = ChunkTokens { max_chunk_size_tokens, chunk_overlap_tokens };
        Self { kind: "static", tokens }
    }
}

/// What a file says.
#[derive(Debug, Serialize, ToSchema)]
struct ContentPage {
    /// Always `vector_store.file_content.page`.
    object: &'static str,
    data: Vec<Text>,
    has_more: bool,
    next_page: Option<String>,
}

/// A piece of text.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Text {
    /// Always `text`.
    #[serde(rename = "type")]
    kind: &'static str,
    text: String,
}

impl Text {
    pub(super) fn new(text: String) -> Self {
        Self { kind: "text", text }
    }
}

/// Which files.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct StatusWish {
    /// Only files of this status.
    filter: Option<Status>,
}

impl StatusWish {
    pub(super) fn takes(&self, file: &VectorStoreFile) -> bool {
        self.filter.is_none_or(|status| status == file.status)
    }
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/files",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    request_body = AttachBody,
    responses((status = 200, description = "The file in the store", body = VectorStoreFile))
)]
async fn attach(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let wanted = read_attach(body)?;
    let file_id = wanted.file_id.clone();
    let wanted = all_there(&app, &caller, vec![wanted]).await?;
    attach_all(&app, &caller, &store.id, None, wanted).await?;
    let attached = attachment(&app, &caller, &store.id, file_id.as_str()).await?;
    Ok(Json(show(&store.id, attached)))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), StatusWish, PageWish),
    responses((status = 200, description = "Newest first", body = Page<VectorStoreFile>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    Asked(status): Asked<StatusWish>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<VectorStoreFile>>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let attachments = app.library().attachments(caller.tenant(), &store.id).await?;
    let shown = |attachment: Attachment| show(&store.id, attachment);
    let all = attachments.into_iter().rev().map(shown).filter(|file| status.takes(file));
    Ok(Json(page_of(all.collect(), &wish)?))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("file_id" = String, Path)),
    responses((status = 200, description = "The file in the store", body = VectorStoreFile))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let attached = attachment(&app, &caller, &store.id, &file_id).await?;
    Ok(Json(show(&store.id, attached)))
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("file_id" = String, Path)),
    request_body = AttributesBody,
    responses((status = 200, description = "The file in the store", body = VectorStoreFile))
)]
async fn update(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let attributes = read_attributes(body)?;
    let (tenant, id) = (caller.tenant(), FileId::from(file_id.as_str()));
    let changed = app.library().set_attributes(tenant, &store.id, &id, attributes).await;
    changed.map_err(|error| missing("File", &file_id, error))?;
    let attached = attachment(&app, &caller, &store.id, &file_id).await?;
    Ok(Json(show(&store.id, attached)))
}

#[utoipa::path(
    delete,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("file_id" = String, Path)),
    responses((status = 200, description = "It is no longer in the store", body = Removed))
)]
async fn detach(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<Removed>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let library = app.library();
    let detached =
        library.detach(caller.tenant(), &store.id, &FileId::from(file_id.as_str())).await;
    detached.map_err(|error| missing("File", &file_id, error))?;
    Ok(Json(Removed::new(file_id, "vector_store.file.deleted")))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/files/{file_id}/content",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("file_id" = String, Path)),
    responses((status = 200, description = "What the file says, passage by passage; nothing before it has been read", body = ContentPage))
)]
async fn content(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, file_id)): PathParams<(String, String)>,
) -> Result<Json<ContentPage>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let id = FileId::from(file_id.as_str());
    let passages = app.library().passages(caller.tenant(), &store.id, &id).await;
    let passages = passages.map_err(|error| missing("File", &file_id, error))?;
    let data = passages.into_iter().map(Text::new).collect();
    let object = "vector_store.file_content.page";
    Ok(Json(ContentPage { object, data, has_more: false, next_page: None }))
}

/// `wanted`, if all of these files are there, each of them once. Looked up before anything is
/// done, so that a wrong id changes nothing.
pub(super) async fn all_there(
    app: &App,
    caller: &Caller,
    mut wanted: Vec<Wanted>,
) -> Result<Vec<Wanted>, Refusal> {
    let mut seen = HashSet::new();
    wanted.retain(|file| seen.insert(file.file_id.clone()));
    if let [one] = wanted.as_slice() {
        files::find(app, caller, one.file_id.as_str()).await?;
    } else if !wanted.is_empty() {
        let files = app.library().files(caller.tenant()).await?;
        let there: HashSet<FileId> = files.into_iter().map(|file| file.id).collect();
        if let Some(missing) = wanted.iter().find(|file| !there.contains(&file.file_id)) {
            return Err(Refusal::not_found("File", missing.file_id.as_str()));
        }
    }
    Ok(wanted)
}

/// Hands files over to be read.
pub(super) async fn attach_all(
    app: &App,
    caller: &Caller,
    collection: &CollectionId,
    batch: Option<BatchRecord>,
    wanted: Vec<Wanted>,
) -> Result<(), Refusal> {
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
) -> Result<Attachment, Refusal> {
    let id = FileId::from(file_id);
    let found = app.library().attachment(caller.tenant(), collection, &id).await;
    found.map_err(|error| missing("File", file_id, error))
}

/// A file in a store.
pub(super) fn show(collection: &CollectionId, attachment: Attachment) -> VectorStoreFile {
    let (status, last_error) = match attachment.state {
        Indexing::InProgress => (Status::InProgress, None),
        Indexing::Completed => (Status::Completed, None),
        Indexing::Cancelled => (Status::Cancelled, None),
        Indexing::Failed { why, reason } => {
            let code = match why {
                Unreadable::Unsupported => "unsupported_file",
                Unreadable::Invalid => "invalid_file",
                Unreadable::Broke => "server_error",
            };
            (Status::Failed, Some(LastError { code, message: sentence(&reason) }))
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

/// A page of files, of which the oldest come first.
pub(super) fn page_of(
    oldest_first: Vec<VectorStoreFile>,
    wish: &PageWish,
) -> Result<Page<VectorStoreFile>, Refusal> {
    Page::of(oldest_first, wish, Order::Desc, |file| file.id.clone())
}
