//! Receiving a file.
//!
//! Official clients send a multipart form. It is read part by part and never beyond the limit,
//! whatever its headers claim. The file is passed to the library as it arrives and is never in
//! memory as a whole.

use std::ops::RangeInclusive;

use axum::{
    extract::{
        DefaultBodyLimit, FromRequest, Multipart, Request,
        multipart::{Field, MultipartError},
    },
    http::{HeaderMap, StatusCode, header},
};
use turnwire_contract::{FileId, FileRecord, FileUpload, Timestamp};
use utoipa::ToSchema;

use crate::{
    ApiError, App, Caller, Result, body::in_time, client_error::ClientError, start_run::used_up,
};

/// Maximum size of the form apart from the file: the other fields and the boundaries.
pub(crate) const FORM_BYTES: usize = 64 * 1024;

/// Maximum size of a field other than the file, in bytes.
const FIELD_BYTES: usize = 1024;

/// Maximum length of a file name, in characters.
const NAME_LENGTH: usize = 255;

/// Range of `expires_after[seconds]`.
const LIFETIME_SECONDS: RangeInclusive<u32> = 3_600..=2_592_000;

/// Name of a file that was sent without one.
const NO_NAME: &str = "upload";

/// Multipart form for uploading a file.
#[derive(Debug, ToSchema)]
#[expect(dead_code, reason = "describes the wire for the OpenAPI document")]
pub(super) struct UploadBody {
    /// Content of the file.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// Purpose of the file, such as `assistants` or `user_data`.
    purpose: String,
    /// Lifetime of the file, in seconds after `created_at`: 3600 (one hour) to 2592000 (30 days).
    /// If omitted, the file does not expire.
    #[schema(rename = "expires_after[seconds]")]
    expires_after_seconds: Option<u32>,
    /// Start of the lifetime. Always `created_at`.
    #[schema(rename = "expires_after[anchor]")]
    expires_after_anchor: Option<String>,
}

/// Receives the file of a request and stores it.
pub(super) async fn receive(
    app: &App,
    caller: &Caller,
    mut request: Request,
) -> Result<FileRecord> {
    let limit = app.options().upload_limit;
    let quota = app.stored_bytes(caller.tenant()).await?;
    if let Some(quota) = quota.filter(|quota| quota.remaining == 0) {
        return Err(used_up(&quota));
    }
    let most = limit.saturating_add(FORM_BYTES);
    if announced(request.headers()).is_some_and(|announced| announced > most) {
        return Err(too_large(limit));
    }
    DefaultBodyLimit::max(most).apply(&mut request);
    let form = Multipart::from_request(request, app).await;
    let form = form.map_err(|error| {
        tracing::debug!(%error, "multipart form not read");
        let message = "The body must be `multipart/form-data` with a `file` and a `purpose`.";
        ApiError::bad_request("invalid_form", message)
    })?;
    let file_id = FileId::new(app.runs().new_id("file"));
    let (time, limit) = (app.options().requests.upload_time, "limits.upload_timeout_sec");
    let reading = read(app, caller, &file_id, form);
    let Form { file, purpose, lifetime } = in_time(time, limit, reading).await?;
    let (name, upload, n_bytes) = file.ok_or_else(|| ClientError::missing("file"))?;
    let purpose = purpose.ok_or_else(|| ClientError::missing("purpose"))?;
    if let Some(quota) = quota.filter(|quota| quota.remaining < n_bytes) {
        return Err(used_up(&quota));
    }
    let created_at = app.runs().now();
    let expires_at = lifetime.map(|seconds| {
        Timestamp::from_micros(created_at.as_micros() + i64::from(seconds) * 1_000_000)
    });
    let record = FileRecord { id: file_id, name, bytes: n_bytes, purpose, created_at, expires_at };
    upload.finish(record.clone()).await?;
    Ok(record)
}

/// The parts of the form read so far.
#[derive(Default)]
struct Form {
    /// The file: its name without folders, the upload it is written to, and its size.
    file: Option<(String, Box<dyn FileUpload>, u64)>,
    purpose: Option<String>,
    /// Lifetime in seconds.
    lifetime: Option<u32>,
}

/// Size of the body according to its headers.
fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn read(app: &App, caller: &Caller, file_id: &FileId, mut form: Multipart) -> Result<Form> {
    let limit = app.options().upload_limit;
    let mut read = Form::default();
    while let Some(field) = form.next_field().await.map_err(|error| not_read(error, limit))? {
        match field.name() {
            Some("file") => {
                if read.file.is_some() {
                    return Err(ClientError::invalid("file", "Only one `file` at a time.").into());
                }
                let name = clean(field.file_name().unwrap_or_default());
                let mut upload = app.library().upload(caller.tenant(), file_id).await?;
                let n_bytes = copy(field, &mut *upload, limit).await?;
                read.file = Some((name, upload, n_bytes));
            }
            Some("purpose") => {
                let bytes = bytes_of(field, FIELD_BYTES, limit).await?;
                read.purpose = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
                if read.purpose.as_ref().is_none_or(String::is_empty) {
                    let message =
                        format!("`purpose` must be a word of at most {FIELD_BYTES} bytes.");
                    return Err(ClientError::invalid("purpose", message).into());
                }
            }
            Some("expires_after[seconds]") => {
                read.lifetime = Some(lifetime_of(bytes_of(field, FIELD_BYTES, limit).await?)?);
            }
            Some("expires_after[anchor]") => {
                let anchor = bytes_of(field, FIELD_BYTES, limit).await?;
                if anchor.as_deref() != Some(b"created_at") {
                    let message = "`expires_after[anchor]` must be `created_at`.";
                    return Err(ClientError::invalid("expires_after[anchor]", message).into());
                }
            }
            name => {
                let known = ["file", "purpose", "expires_after[seconds]", "expires_after[anchor]"];
                let name = name.unwrap_or_default();
                return Err(ClientError::unknown("", name, known.into_iter()).into());
            }
        }
    }
    Ok(read)
}

/// Passes the bytes of a field on as they arrive. Returns their number.
async fn copy(mut field: Field<'_>, upload: &mut dyn FileUpload, limit: usize) -> Result<u64> {
    let mut n_bytes = 0;
    while let Some(chunk) = field.chunk().await.map_err(|error| not_read(error, limit))? {
        n_bytes += chunk.len();
        if n_bytes > limit {
            return Err(too_large(limit));
        }
        upload.write(&chunk).await?;
    }
    Ok(n_bytes as u64)
}

fn lifetime_of(written: Option<Vec<u8>>) -> Result<u32, ClientError> {
    let seconds = written.and_then(|bytes| String::from_utf8(bytes).ok()?.parse().ok());
    seconds.filter(|seconds| LIFETIME_SECONDS.contains(seconds)).ok_or_else(|| {
        let (least, most) = (LIFETIME_SECONDS.start(), LIFETIME_SECONDS.end());
        let message = format!("`expires_after[seconds]` must be between {least} and {most}.");
        ClientError::invalid("expires_after[seconds]", message)
    })
}

/// The bytes of a field, or `None` if there are more than `most`.
async fn bytes_of(mut field: Field<'_>, most: usize, limit: usize) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| not_read(error, limit))? {
        if chunk.len() > most - bytes.len() {
            return Ok(None);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(Some(bytes))
}

fn not_read(error: MultipartError, limit: usize) -> ApiError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large(limit);
    }
    tracing::debug!(%error, "multipart form not read");
    ApiError::bad_request("invalid_form", "The multipart form is not valid, or it is incomplete.")
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("The file is bigger than {limit} bytes, which is the limit.");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "file_too_large", message).about("file")
}

/// The last part of a name, which may be a path of any operating system, without control
/// characters. If it is too long its end is kept, because that has the file extension.
fn clean(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let tame: Vec<char> = last.chars().filter(|c| !c.is_control()).collect();
    let end = tame.get(tame.len().saturating_sub(NAME_LENGTH)..).unwrap_or_default();
    let cleaned: String = end.iter().collect();
    match cleaned.trim() {
        "" | "." | ".." => NO_NAME.to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
