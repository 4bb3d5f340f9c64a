//! `/v1/vector_stores/{vector_store_id}/file_batches`: attaching several files at once.
//!
//! A batch is completed when none of its files is in progress.

use axum::extract::State;
use serde::Serialize;
use turnwire_contract::{BatchId, BatchRecord, CollectionId, CollectionRecord};
use utoipa::ToSchema;

use super::{
    FileCounts,
    attached::{StatusParams, VectorStoreFile, all_there, attach_all, page_of, show},
    body::{BatchBody, read_batch},
    find,
};
use crate::{
    App, Caller, Json, JsonBody, OrNotFound, PathParams, QueryParams, Result,
    files::seconds,
    page::{Page, PageParams},
};

module_routes! { [create] [retrieve] [cancel] [list_files] }

/// Files that were attached together.
#[derive(Debug, Serialize, ToSchema)]
struct FileBatch {
    /// ID of the batch.
    id: String,
    /// Always `vector_store.files_batch`.
    object: &'static str,
    /// Time of creation, in Unix seconds.
    created_at: i64,
    /// ID of the vector store.
    vector_store_id: String,
    /// `in_progress`, `completed` or `cancelled`.
    status: &'static str,
    /// Number of files in the batch, by status.
    file_counts: FileCounts,
}

impl FileBatch {
    fn of(store: &CollectionId, batch: BatchRecord) -> Self {
        let status = if batch.cancelled {
            "cancelled"
        } else if batch.files.in_progress > 0 {
            "in_progress"
        } else {
            "completed"
        };
        Self {
            id: batch.id.to_string(),
            object: "vector_store.files_batch",
            created_at: seconds(batch.created_at),
            vector_store_id: store.to_string(),
            status,
            file_counts: batch.files.into(),
        }
    }
}

/// Attach several files to a vector store. They are indexed in the background.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/file_batches",
    request_body = BatchBody,
    responses((status = 200, description = "The new batch",
        body = FileBatch))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
    JsonBody(body): JsonBody,
) -> Result<Json<FileBatch>> {
    let store = find(&app, &caller, &id).await?;
    let wanted = all_there(&app, &caller, read_batch(body)?).await?;
    let batch = BatchRecord {
        id: BatchId::new(app.runs().new_id("vsfb")),
        created_at: app.runs().now(),
        cancelled: false,
        files: turnwire_contract::FileCounts::default(),
    };
    let batch_id = batch.id.clone();
    attach_all(&app, &caller, &store.id, Some(batch), wanted).await?;
    let (_, batch) = find_batch(&app, &caller, &id, batch_id.as_str()).await?;
    Ok(Json(FileBatch::of(&store.id, batch)))
}

/// Get a batch of files.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}",
    responses((status = 200, description = "The batch", body = FileBatch))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, batch_id)): PathParams<(String, String)>,
) -> Result<Json<FileBatch>> {
    let (store, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    Ok(Json(FileBatch::of(&store.id, batch)))
}

/// Cancel the indexing of a batch.
#[utoipa::path(
    post,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/cancel",
    responses((status = 200, description = "The cancelled batch. Files that are already indexed \
            stay in the vector store",
        body = FileBatch))
)]
async fn cancel(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, batch_id)): PathParams<(String, String)>,
) -> Result<Json<FileBatch>> {
    let store = find(&app, &caller, &id).await?;
    let batch = BatchId::from(batch_id.as_str());
    let done = app.library().cancel_batch(caller.tenant(), &store.id, &batch).await;
    done.or_not_found("File batch", &batch_id)?;
    let (_, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    Ok(Json(FileBatch::of(&store.id, batch)))
}

/// List the files of a batch, newest first by default.
#[utoipa::path(
    get,
    path = "/v1/vector_stores/{vector_store_id}/file_batches/{batch_id}/files",
    params(StatusParams, PageParams),
    responses((
        status = 200,
        description = "A page of files. Files detached in the meantime are not listed",
        body = Page<VectorStoreFile>
    ))
)]
async fn list_files(
    State(app): State<App>,
    caller: Caller,
    PathParams((id, batch_id)): PathParams<(String, String)>,
    QueryParams(status): QueryParams<StatusParams>,
    QueryParams(params): QueryParams<PageParams>,
) -> Result<Json<Page<VectorStoreFile>>> {
    let (store, batch) = find_batch(&app, &caller, &id, &batch_id).await?;
    let attachments = app.library().attachments(caller.tenant(), &store.id).await?;
    let its = attachments.into_iter().filter(|file| file.batch_id.as_ref() == Some(&batch.id));
    let mut all: Vec<VectorStoreFile> =
        its.map(|file| show(&store.id, file)).filter(|file| status.takes(file)).collect();
    all.reverse();
    Ok(Json(page_of(all, &params)?))
}

async fn find_batch(
    app: &App,
    caller: &Caller,
    id: &str,
    batch_id: &str,
) -> Result<(CollectionRecord, BatchRecord)> {
    let store = find(app, caller, id).await?;
    let batch = BatchId::from(batch_id);
    let batch = app.library().batch(caller.tenant(), &store.id, &batch).await;
    let batch = batch.or_not_found("File batch", batch_id)?;
    Ok((store, batch))
}
