//! `/v1/vector_stores/{vector_store_id}/files`: the files in a store.
//!
//! A file that cannot be read as text is no mistake of the request: the answer has the status
//! `failed` and says why. The file is then not in the store, and a later look finds the reason
//! only [as long as it is remembered](super::recent).

use std::{collections::HashSet, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwire_contract::{Attachment, CollectionId, FileId, LibraryError};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Sizes,
    body::{AttachBody, AttributesBody, read_attach, read_attributes},
    find,
    recent::{Batch, Tried},
};
use crate::{
    app::App,
    body::JsonBody,
    door::Caller,
    files::{self, Removed, missing, seconds},
    page::{Order, Page, PageWish},
    query::Asked,
    refusal::Refusal,
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
}

/// A file in a vector store.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct VectorStoreFile {
    /// The id of the file.
    id: String,
    /// Always `vector_store.file`.
    object: &'static str,
    created_at: i64,
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
    /// No file ever is.
    InProgress,
    /// It can be found.
    Completed,
    /// It cannot be read as text.
    Failed,
    /// No file ever is.
    Cancelled,
}

/// Why a file is not in the store.
#[derive(Debug, Serialize, ToSchema)]
struct LastError {
    /// Always `unsupported_file`.
    code: &'static str,
    message: String,
}

/// How a file was cut into passages.
#[derive(Debug, Serialize, ToSchema)]
struct ChunkingStrategy {
    /// Always `other`: the library's own way.
    #[serde(rename = "type")]
    kind: &'static str,
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
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let wanted = read_attach(body)?;
    let file = files::find(&app, &caller, wanted.file_id.as_str()).await?;
    let batch = attach_all(&app, &caller, &store.id, vec![wanted.clone()]).await?;
    let refused = batch.files.iter().find_map(|file| file.refused.clone());
    let (created_at, attributes) = (batch.created_at, wanted.attributes);
    let attachment = Attachment { file_id: file.id, created_at, attributes };
    keep_refusals(&app, &caller, batch);
    Ok(Json(show(&store.id, attachment, file.bytes, refused)))
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
    Path(id): Path<String>,
    Asked(status): Asked<StatusWish>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<VectorStoreFile>>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let attachments = app.library().attachments(caller.tenant(), &store.id).await?;
    let sizes = Sizes::of(&app, &caller).await?;
    let shown = |attachment: Attachment| {
        let bytes = sizes.of_file(&attachment.file_id);
        show(&store.id, attachment, bytes, None)
    };
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
    Path((id, file_id)): Path<(String, String)>,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let file = files::find(&app, &caller, &file_id).await?;
    let (attachment, refused) = match attachment(&app, &caller, &store.id, &file_id).await {
        Ok(attachment) => (attachment, None),
        Err(not_there) => {
            let refusal = app.batches().refusal(caller.tenant(), &store.id, &file.id);
            let (created_at, reason) = refusal.ok_or(not_there)?;
            (Attachment { file_id: file.id, created_at, attributes: Map::new() }, Some(reason))
        }
    };
    Ok(Json(show(&store.id, attachment, file.bytes, refused)))
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
    Path((id, file_id)): Path<(String, String)>,
    JsonBody(body): JsonBody,
) -> Result<Json<VectorStoreFile>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let mut attachment = attachment(&app, &caller, &store.id, &file_id).await?;
    attachment.attributes = read_attributes(body)?;
    let file = files::find(&app, &caller, &file_id).await?;
    app.library().attach(caller.tenant(), &store.id, attachment.clone()).await?;
    Ok(Json(show(&store.id, attachment, file.bytes, None)))
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
    Path((id, file_id)): Path<(String, String)>,
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
    responses((status = 200, description = "What the file says", body = ContentPage))
)]
async fn content(
    State(app): State<App>,
    caller: Caller,
    Path((id, file_id)): Path<(String, String)>,
) -> Result<Json<ContentPage>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let attachment = attachment(&app, &caller, &store.id, &file_id).await?;
    let content = app.library().content(caller.tenant(), &attachment.file_id).await;
    let content = content.map_err(|error| missing("File", &file_id, error))?;
    let data = vec![Text::new(String::from_utf8_lossy(&content).into_owned())];
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
    for file in &wanted {
        files::find(app, caller, file.file_id.as_str()).await?;
    }
    Ok(wanted)
}

/// Attaches files, one after the other.
pub(super) async fn attach_all(
    app: &App,
    caller: &Caller,
    collection: &CollectionId,
    wanted: Vec<Wanted>,
) -> Result<Batch, Refusal> {
    let created_at = app.runs().now();
    let mut files = Vec::new();
    for Wanted { file_id, attributes } in wanted {
        let attachment = Attachment { file_id: file_id.clone(), created_at, attributes };
        let refused = attach_one(app, caller, collection, attachment).await?;
        files.push(Tried { file_id, refused });
    }
    let id = app.runs().new_id("vsfb");
    Ok(Batch { id, collection: collection.clone(), created_at, files })
}

/// Remembers why files were not attached that nobody called a batch.
pub(super) fn keep_refusals(app: &App, caller: &Caller, mut batch: Batch) {
    batch.files.retain(|file| file.refused.is_some());
    if !batch.files.is_empty() {
        app.batches().keep(caller.tenant(), Arc::new(batch));
    }
}

/// Attaches a file, or returns the reason why it cannot be found by what it says.
async fn attach_one(
    app: &App,
    caller: &Caller,
    collection: &CollectionId,
    attachment: Attachment,
) -> Result<Option<String>, Refusal> {
    let file_id = attachment.file_id.clone();
    match app.library().attach(caller.tenant(), collection, attachment).await {
        Ok(()) => Ok(None),
        Err(refused @ LibraryError::Refused(_)) => Ok(Some(Refusal::from(refused).message)),
        Err(other) => Err(missing("File", file_id.as_str(), other)),
    }
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

/// A file in a store; `refused` says why it is not.
pub(super) fn show(
    collection: &CollectionId,
    Attachment { file_id, created_at, attributes }: Attachment,
    bytes: u64,
    refused: Option<String>,
) -> VectorStoreFile {
    VectorStoreFile {
        id: file_id.to_string(),
        object: "vector_store.file",
        created_at: seconds(created_at),
        usage_bytes: if refused.is_some() { 0 } else { bytes },
        vector_store_id: collection.to_string(),
        status: if refused.is_some() { Status::Failed } else { Status::Completed },
        last_error: refused.map(|message| LastError { code: "unsupported_file", message }),
        attributes,
        chunking_strategy: ChunkingStrategy { kind: "other" },
    }
}

/// A page of files, of which the oldest come first.
pub(super) fn page_of(
    oldest_first: Vec<VectorStoreFile>,
    wish: &PageWish,
) -> Result<Page<VectorStoreFile>, Refusal> {
    Page::of(oldest_first, wish, Order::Desc, |file| file.id.clone())
}
