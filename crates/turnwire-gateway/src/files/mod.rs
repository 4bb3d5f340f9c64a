//! `/v1/files`: uploading and managing files.
//!
//! A file is bytes with an ID. Its name is for display only: it is never used for a lookup or as
//! part of a path.

pub(crate) mod upload;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use turnwire_contract::{FileId, FileRecord, Timestamp};
use utoipa::{IntoParams, ToSchema};

use self::upload::UploadBody;
use crate::{
    App, Caller, Json, OrNotFound, PathParams, QueryParams, Result,
    page::{Order, Page, PageParams},
};

/// Largest accepted `limit`, as official clients send it. A page has at most [`MAX_ON_A_PAGE`]
/// files; the clients fetch the next page themselves.
const MAX_WISHED: usize = 10_000;
const MAX_ON_A_PAGE: usize = 100;

module_routes! { [list, create] [retrieve, delete] [content] }

/// Metadata of a file.
#[derive(Debug, Serialize, ToSchema)]
struct FileObject {
    /// ID of the file.
    id: String,
    /// Always `file`.
    object: &'static str,
    /// Size of the file, in bytes.
    bytes: u64,
    /// Time of the upload, in Unix seconds.
    created_at: i64,
    /// Name of the file, without folders.
    filename: String,
    /// Purpose given at upload, such as `assistants` or `user_data`.
    purpose: String,
    /// Always `processed`: a file is available as soon as its upload ends.
    status: &'static str,
    /// Time at which the file is deleted automatically, in Unix seconds. Null if it does not
    /// expire.
    expires_at: Option<i64>,
}

impl From<FileRecord> for FileObject {
    fn from(record: FileRecord) -> Self {
        let FileRecord { id, name, bytes, purpose, created_at, expires_at } = record;
        Self {
            id: id.to_string(),
            object: "file",
            bytes,
            created_at: seconds(created_at),
            filename: name,
            purpose,
            status: "processed",
            expires_at: expires_at.map(seconds),
        }
    }
}

/// Result of deleting an object.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedObject {
    /// ID of the deleted object.
    id: String,
    /// Type of the object, such as `file` or `conversation.deleted`.
    object: &'static str,
    /// Always true.
    deleted: bool,
}

impl DeletedObject {
    pub(crate) fn new(id: String, object: &'static str) -> Self {
        Self { id, object, deleted: true }
    }
}

/// Filter for the list of files.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FileParams {
    /// Return only files with this purpose.
    purpose: Option<String>,
}

/// Upload a file.
#[utoipa::path(
    post,
    path = "/v1/files",
    request_body(content = UploadBody, content_type = "multipart/form-data"),
    responses((status = 200, description = "The uploaded file", body = FileObject))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Json<FileObject>> {
    Ok(Json(upload::receive(&app, &caller, request).await?.into()))
}

/// List files, newest first by default.
///
/// `limit` may be up to 10000, but a page has at most 100 files. Without `limit` it has up to 100.
#[utoipa::path(
    get,
    path = "/v1/files",
    params(FileParams, PageParams),
    responses((status = 200, description = "A page of files", body = Page<FileObject>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    QueryParams(FileParams { purpose }): QueryParams<FileParams>,
    QueryParams(mut params): QueryParams<PageParams>,
) -> Result<Json<Page<FileObject>>> {
    params.limit = match params.limit {
        None | Some(MAX_ON_A_PAGE..=MAX_WISHED) => Some(MAX_ON_A_PAGE),
        other => other,
    };
    let records = app.library().files(caller.tenant()).await?;
    let wanted =
        |file: &FileRecord| purpose.as_ref().is_none_or(|purpose| *purpose == file.purpose);
    let oldest_first = records.into_iter().rev().filter(wanted).map(FileObject::from).collect();
    Ok(Json(Page::of(oldest_first, &params, Order::Desc, |file| file.id.clone())?))
}

/// Get the metadata of a file.
#[utoipa::path(
    get,
    path = "/v1/files/{file_id}",
    responses((status = 200, description = "The metadata of the file", body = FileObject))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<FileObject>> {
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

/// Delete a file and remove it from all vector stores.
#[utoipa::path(
    delete,
    path = "/v1/files/{file_id}",
    responses((status = 200, description = "The file was deleted", body = DeletedObject))
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DeletedObject>> {
    let done = app.library().remove_file(caller.tenant(), &FileId::from(id.as_str())).await;
    done.or_not_found("File", &id)?;
    Ok(Json(DeletedObject::new(id, "file")))
}

/// Download the content of a file.
#[utoipa::path(
    get,
    path = "/v1/files/{file_id}/content",
    responses((
        status = 200,
        description = "The content of the file, unchanged",
        body = String,
        content_type = "application/octet-stream"
    ))
)]
async fn content(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response> {
    let record = find(&app, &caller, &id).await?;
    let content = app.library().content_stream(caller.tenant(), &record.id).await;
    let content = content.or_not_found("File", &id)?;
    let length = [(header::CONTENT_LENGTH, HeaderValue::from(record.bytes))];
    Ok((only_to_keep(), length, Body::from_stream(content)).into_response())
}

/// Headers that make a browser save the bytes and never display them: an uploaded page would
/// otherwise run in the origin of this server.
fn only_to_keep() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ]
}

pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<FileRecord> {
    app.library().file(caller.tenant(), &FileId::from(id)).await.or_not_found("File", id)
}

/// A timestamp in Unix seconds.
pub(crate) fn seconds(moment: Timestamp) -> i64 {
    moment.as_micros() / 1_000_000
}
