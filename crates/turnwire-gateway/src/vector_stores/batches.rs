//! `/v1/vector_stores/{vector_store_id}/file_batches`: many files at once.
//!
//! A batch is done when the answer to its request is sent. What there is to ask about it later
//! is what [`recent`](super::recent) remembers.

use std::{collections::HashMap, sync::Arc};

use axum::{
    Json,
    extract::{Path, State},
};
use serde::Serialize;
use serde_json::Map;
use turnwire_contract::{Attachment, CollectionRecord, FileId};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    FileCounts, Sizes,
    attached::{StatusWish, VectorStoreFile, all_there, attach_all, page_of, show},
    body::{BatchBody, read_batch},
    find,
    recent::{Batch, Tried},
};
use crate::{
    app::App,
    body::JsonBody,
    door::Caller,
    files::seconds,
    page::{Page, PageWish},
    query::Asked,
    refusal::Refusal,
};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create))
        .routes(routes!(retrieve))
        .routes(routes!(cancel))
        .routes(routes!(list_files))
}

/// Files that were attached together.
#[derive(Debug, Serialize, ToSchema)]
struct FileBatch {
    id: String,
    /// Always `vector_store.files_batch`.
    object: &'static str,
    created_at: i64,
    vector_store_id: String,
    /// Always `completed`.
    status: &'static str,
    file_counts: FileCounts,
}

impl From<&Batch> for FileBatch {
    fn from(batch: &Batch) -> Self {
        let n_refused = batch.n_refused();
        Self {
            id: batch.id.clone(),
            object: "vector_store.files_batch",
            created_at: seconds(batch.created_at),
            vector_store_id: batch.collection.to_string(),
            status: "completed",
            file_counts: FileCounts::new(batch.files.len() - n_refused, n_refused),
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/file_batches",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path)),
    request_body = BatchBody,
    responses((status = 200, description = "The batch, done", body = FileBatch))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<FileBatch>, Refusal> {
    let store = find(&app, &caller, &id).await?;
    let wanted = all_there(&app, &caller, read_batch(body)?).await?;
    let batch = Arc::new(attach_all(&app, &caller, &store.id, wanted).await?);
    app.batches().keep(caller.tenant(), Arc::clone(&batch));
    Ok(Json(FileBatch::from(&*batch)))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("batch_id" = String, Path)),
    responses((status = 200, description = "The batch", body = FileBatch))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    Path((id, batch_id)): Path<(String, String)>,
) -> Result<Json<FileBatch>, Refusal> {
    let (_, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    Ok(Json(FileBatch::from(&*batch)))
}

#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("batch_id" = String, Path)),
    responses((status = 200, description = "The batch: it is always too late", body = FileBatch))
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    Path((id, batch_id)): Path<(String, String)>,
) -> Result<Json<FileBatch>, Refusal> {
    let (_, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    Ok(Json(FileBatch::from(&*batch)))
}

#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files",
    tag = "vector_stores",
    params(("vector_store_id" = String, Path), ("batch_id" = String, Path), StatusWish, PageWish),
    responses((
        status = 200,
        description = "The files of the batch, without those that have been detached since",
        body = Page<VectorStoreFile>
    ))
)]
async fn list_files(
    State(app): State<App>,
    caller: Caller,
    Path((id, batch_id)): Path<(String, String)>,
    Asked(status): Asked<StatusWish>,
    Asked(wish): Asked<PageWish>,
) -> Result<Json<Page<VectorStoreFile>>, Refusal> {
    let (store, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    let attachments = app.library().attachments(caller.tenant(), &store.id).await?;
    let mut attached: HashMap<FileId, Attachment> =
        attachments.into_iter().map(|attached| (attached.file_id.clone(), attached)).collect();
    let sizes = Sizes::of(&app, &caller).await?;
    let shown = |Tried { file_id, refused }: &Tried| {
        let attachment = match refused {
            None => attached.remove(file_id)?,
            Some(_) => Attachment {
                file_id: file_id.clone(),
                created_at: batch.created_at,
                attributes: Map::new(),
            },
        };
        Some(show(&store.id, attachment, sizes.of_file(file_id), refused.clone()))
    };
    let all = batch.files.iter().filter_map(shown).filter(|file| status.takes(file)).collect();
    Ok(Json(page_of(all, &wish)?))
}

async fn find_batch(
    app: &App,
    caller: &Caller,
    id: &str,
    batch_id: &str,
) -> Result<(CollectionRecord, Arc<Batch>), Refusal> {
    let store = find(app, caller, id).await?;
    let batch = app.batches().find(caller.tenant(), &store.id, batch_id);
    let batch = batch.ok_or_else(|| Refusal::not_found("File batch", batch_id))?;
    Ok((store, batch))
}
