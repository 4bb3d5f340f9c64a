//! `/v1/files`: files that people hand in.
//!
//! A file is bytes with an id. Its name is for people: nothing is ever looked up by it, and no
//! path is made of it.

pub(crate) mod upload;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use turnwire_contract::{FileId, FileRecord, LibraryError, Timestamp};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::upload::UploadBody;
use crate::{
    app::App,
    body::Json,
    door::Caller,
    page::{Order, Page, PageWish},
    path::PathParams,
    query::Asked,
    refusal::Refusal,
};

/// How many files a client may wish for at once, and how many it gets. The rest is on the next
/// page, which official clients turn by themselves.
const MOST_WISHED: usize = 10_000;
const MOST_ON_A_PAGE: usize = 100;

pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(retrieve, delete))
        .routes(routes!(content))
}

/// A file, without its content.
#[derive(Debug, Serialize, ToSchema)]
struct FileObject {
    id: String,
    /// Always `file`.
    object: &'static str,
    bytes: u64,
    created_at: i64,
    filename: String,
    purpose: String,
    /// Always `processed`: a file is there as soon as it has been handed in.
    status: &'static str,
    /// When it goes by itself; null if it stays until it is deleted.
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

/// What is left of something deleted.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Removed {
    id: String,
    object: &'static str,
    deleted: bool,
}

impl Removed {
    pub(crate) fn new(id: String, object: &'static str) -> Self {
        Self { id, object, deleted: true }
    }
}

/// Which files.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct FileWish {
    /// Only files handed in for this purpose.
    purpose: Option<String>,
}

#[utoipa::path(
    post,
    path = "/v1/files",
    tag = "files",
    request_body(content = UploadBody, content_type = "multipart/form-data"),
    responses((status = 200, description = "The file", body = FileObject))
)]
async fn create(
    State(app): State<App>,
    caller: Caller,
    request: Request,
) -> Result<Json<FileObject>, Refusal> {
    Ok(Json(upload::receive(&app, &caller, request).await?.into()))
}

#[utoipa::path(
    get,
    path = "/v1/files",
    tag = "files",
    params(FileWish, PageWish),
    responses((status = 200, description = "The files, newest first", body = Page<FileObject>))
)]
async fn list(
    State(app): State<App>,
    caller: Caller,
    Asked(FileWish { purpose }): Asked<FileWish>,
    Asked(mut wish): Asked<PageWish>,
) -> Result<Json<Page<FileObject>>, Refusal> {
    wish.limit = match wish.limit {
        None | Some(MOST_ON_A_PAGE..=MOST_WISHED) => Some(MOST_ON_A_PAGE),
        other => other,
    };
    let records = app.library().files(caller.tenant()).await?;
    let wanted =
        |file: &FileRecord| purpose.as_ref().is_none_or(|purpose| *purpose == file.purpose);
    let oldest_first = records.into_iter().rev().filter(wanted).map(FileObject::from).collect();
    Ok(Json(Page::of(oldest_first, &wish, Order::Desc, |file| file.id.clone())?))
}

#[utoipa::path(
    get,
    path = "/v1/files/{file_id}",
    tag = "files",
    params(("file_id" = String, Path)),
    responses((status = 200, description = "The file, without its content", body = FileObject))
)]
async fn retrieve(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<FileObject>, Refusal> {
    Ok(Json(find(&app, &caller, &id).await?.into()))
}

#[utoipa::path(
    delete,
    path = "/v1/files/{file_id}",
    tag = "files",
    params(("file_id" = String, Path)),
    responses((status = 200, description = "It is gone, also in all vector stores", body = Removed))
)]
async fn delete(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<Removed>, Refusal> {
    let removed = app.library().remove_file(caller.tenant(), &FileId::from(id.as_str())).await;
    removed.map_err(|error| missing("File", &id, error))?;
    Ok(Json(Removed::new(id, "file")))
}

#[utoipa::path(
    get,
    path = "/v1/files/{file_id}/content",
    tag = "files",
    params(("file_id" = String, Path)),
    responses((
        status = 200,
        description = "The very bytes that were handed in",
        body = String,
        content_type = "application/octet-stream"
    ))
)]
async fn content(
    State(app): State<App>,
    caller: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Response, Refusal> {
    let record = find(&app, &caller, &id).await?;
    let content = app.library().content_stream(caller.tenant(), &record.id).await;
    let content = content.map_err(|error| missing("File", &id, error))?;
    let length = [(header::CONTENT_LENGTH, HeaderValue::from(record.bytes))];
    Ok((only_to_keep(), length, Body::from_stream(content)).into_response())
}

/// A browser is to keep the bytes, never to show them: somebody else's page would run in our
/// name.
fn only_to_keep() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ]
}

/// A file of the caller.
pub(crate) async fn find(app: &App, caller: &Caller, id: &str) -> Result<FileRecord, Refusal> {
    let found = app.library().file(caller.tenant(), &FileId::from(id)).await;
    found.map_err(|error| missing("File", id, error))
}

/// What is not there is called by the id the client used, whether it is nobody's or somebody
/// else's (A1).
pub(crate) fn missing(what: &str, id: &str, error: LibraryError) -> Refusal {
    match error {
        LibraryError::NotFound(_) => Refusal::not_found(what, id),
        other => other.into(),
    }
}

/// A moment in whole seconds since 1970, as official clients read it.
pub(crate) fn seconds(moment: Timestamp) -> i64 {
    moment.as_micros() / 1_000_000
}
