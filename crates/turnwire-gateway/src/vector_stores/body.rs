//! Request bodies for vector stores and their files.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{Chunking, FileId};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;

use crate::{
    ApiError, Result,
    responses::request::{ClientError, read_metadata},
    typed,
};

/// Maximum number of files that can be attached at once.
pub(super) const MAX_FILES: usize = 2_000;

/// Maximum length of the name of a store, in characters.
pub(super) const MAX_NAME: usize = 256;

/// Maximum number of attributes of a file, and maximum length of a key and of a value, in
/// characters.
pub(super) const MAX_ATTRIBUTES: usize = 16;
pub(super) const MAX_KEY: usize = 64;
pub(super) const MAX_VALUE: usize = 512;

/// Range of `expires_after.days`.
const DAYS: RangeInclusive<u32> = 1..=365;

/// Range of `max_chunk_size_tokens`.
const CHUNK_TOKENS: RangeInclusive<u32> = 100..=4_096;

/// Request body for creating or updating a vector store. An update does not change omitted fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreBody {
    /// Name of the vector store, at most 256 characters.
    pub(super) name: Option<String>,
    /// IDs of files to attach, at most 2000. Only when creating a vector store.
    #[schema(value_type = Option<Vec<String>>)]
    pub(super) file_ids: Option<Vec<FileId>>,
    /// Up to 16 key-value pairs.
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// When the vector store expires. Null removes the expiry.
    pub(super) expires_after: Option<ExpiryBody>,
    /// How `file_ids` are split into chunks. Only when creating a vector store. Default: `auto`.
    pub(super) chunking_strategy: Option<ChunkingBody>,
    /// Accepted and ignored.
    description: Option<String>,
}

impl StoreBody {
    /// The fields that were ignored.
    pub(super) fn note(&self) -> Option<ResponseNote> {
        let description = self.description.as_ref()?;
        (!description.is_empty()).then(|| ResponseNote { ignored: vec!["description".to_owned()] })
    }

    /// Refuses fields that are only allowed when creating a store.
    pub(super) fn refuse_what_comes_too_late(&self) -> Result<(), ClientError> {
        let late = [
            ("file_ids", self.file_ids.is_some()),
            ("chunking_strategy", self.chunking_strategy.is_some()),
        ];
        let Some((name, _)) = late.iter().find(|(_, is_there)| *is_there) else { return Ok(()) };
        let message = format!(
            "`{name}` is for a new vector store; attach files with \
             /v1/vector_stores/{{vector_store_id}}/files."
        );
        Err(ClientError::new("unsupported_parameter", *name, message))
    }
}

/// Expiry of a vector store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpiryBody {
    /// Start of the period. Must be `last_active_at`.
    anchor: Option<String>,
    /// Number of days without use, 1 to 365.
    days: Option<u32>,
}

impl ExpiryBody {
    /// The number of days, validated.
    pub(super) fn days(&self) -> Result<u32, ClientError> {
        if self.anchor.as_deref() != Some("last_active_at") {
            let message = "`expires_after.anchor` must be `last_active_at`.";
            return Err(ClientError::invalid("expires_after.anchor", message));
        }
        self.days.filter(|days| DAYS.contains(days)).ok_or_else(|| {
            let message = "`expires_after.days` must be between 1 and 365.";
            ClientError::invalid("expires_after.days", message)
        })
    }
}

/// How files are split into chunks.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChunkingBody {
    /// `auto` (chunks of 256 tokens that overlap by 32) or `static` (sizes given in `static`).
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Chunk sizes. Required if `type` is `static`.
    #[serde(rename = "static")]
    tokens: Option<TokensBody>,
}

/// Size of the chunks.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokensBody {
    /// Maximum size of a chunk in tokens, 100 to 4096.
    max_chunk_size_tokens: Option<u32>,
    /// Number of tokens that consecutive chunks share, at most half of `max_chunk_size_tokens`.
    chunk_overlap_tokens: Option<u32>,
}

/// Request body for attaching a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachBody {
    /// ID of the file. Required.
    #[schema(value_type = String)]
    file_id: Option<FileId>,
    /// Up to 16 key-value pairs that a search can filter by. Values are strings of up to 512
    /// characters, numbers or booleans; keys have up to 64 characters.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
    /// How the file is split into chunks. Default: `auto`.
    chunking_strategy: Option<ChunkingBody>,
}

/// Request body for attaching several files. Either `file_ids` or `files` is required, not both.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody {
    /// IDs of the files, at most 2000.
    #[schema(value_type = Option<Vec<String>>)]
    file_ids: Option<Vec<FileId>>,
    /// Attributes of all `file_ids`.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
    /// How all `file_ids` are split into chunks. Default: `auto`.
    chunking_strategy: Option<ChunkingBody>,
    /// Files with their own attributes and chunking, at most 2000.
    files: Option<Vec<AttachBody>>,
}

/// Request body for replacing the attributes of a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttributesBody {
    /// The new attributes. They replace all existing ones.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
}

pub(crate) fn read_store(body: Value) -> Result<StoreBody> {
    if let Value::Object(fields) = &body {
        // Checks the limits, and names the field that is wrong.
        read_metadata(fields)?;
    }
    let body: StoreBody = typed(body)?;
    if body.name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME) {
        let message = format!("`name` may have at most {MAX_NAME} characters.");
        return Err(ClientError::invalid("name", message).into());
    }
    check_number(body.file_ids.as_deref().unwrap_or_default(), "file_ids")?;
    Ok(body)
}

/// Validates the chunking of a request.
pub(super) fn read_chunking(body: Option<ChunkingBody>) -> Result<Chunking> {
    read_chunking_at(body, "")
}

fn read_chunking_at(body: Option<ChunkingBody>, at: &str) -> Result<Chunking> {
    let Some(ChunkingBody { kind, tokens }) = body else { return Ok(Chunking::Auto) };
    let invalid = |field: &str, wanted: String| {
        let path = format!("{at}chunking_strategy.{field}");
        ApiError::from(ClientError::invalid(path.as_str(), format!("`{path}` {wanted}.")))
    };
    match kind.as_deref() {
        Some("auto") => return Ok(Chunking::Auto),
        Some("static") => {}
        _ => return Err(invalid("type", "must be `auto` or `static`".to_owned())),
    }
    let tokens = tokens.ok_or_else(|| {
        ApiError::from(ClientError::missing(format!("{at}chunking_strategy.static")))
    })?;
    let max_tokens = tokens.max_chunk_size_tokens.filter(|n| CHUNK_TOKENS.contains(n));
    let max_tokens = max_tokens.ok_or_else(|| {
        let (least, most) = (CHUNK_TOKENS.start(), CHUNK_TOKENS.end());
        invalid("static.max_chunk_size_tokens", format!("must be between {least} and {most}"))
    })?;
    let overlap_tokens = tokens.chunk_overlap_tokens.filter(|n| *n <= max_tokens / 2);
    let overlap_tokens = overlap_tokens.ok_or_else(|| {
        let wanted = "must be at most half of `max_chunk_size_tokens`".to_owned();
        invalid("static.chunk_overlap_tokens", wanted)
    })?;
    Ok(Chunking::Static { max_tokens, overlap_tokens })
}

/// A file to attach.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wanted {
    pub(super) file_id: FileId,
    pub(super) attributes: Map<String, Value>,
    pub(super) chunking: Chunking,
}

pub(crate) fn read_attach(body: Value) -> Result<Wanted> {
    wanted(typed(body)?, "")
}

pub(super) fn read_attributes(body: Value) -> Result<Map<String, Value>> {
    let AttributesBody { attributes } = typed(body)?;
    checked(attributes, "attributes")
}

pub(crate) fn read_batch(body: Value) -> Result<Vec<Wanted>> {
    let BatchBody { file_ids, attributes, chunking_strategy, files } = typed(body)?;
    match (file_ids, files) {
        (Some(ids), None) => {
            check_number(&ids, "file_ids")?;
            let attributes = checked(attributes, "attributes")?;
            let chunking = read_chunking(chunking_strategy)?;
            let with = |file_id| Wanted { file_id, attributes: attributes.clone(), chunking };
            Ok(ids.into_iter().map(with).collect())
        }
        (None, Some(files)) => {
            check_number(&files, "files")?;
            let each = files.into_iter().enumerate();
            each.map(|(n, file)| wanted(file, &format!("files[{n}]."))).collect()
        }
        (None, None) => Err(ClientError::missing("file_ids").into()),
        (Some(_), Some(_)) => {
            let message = "`file_ids` and `files` cannot be used together.";
            Err(ClientError::invalid("files", message).into())
        }
    }
}

fn wanted(body: AttachBody, at: &str) -> Result<Wanted> {
    let AttachBody { file_id, attributes, chunking_strategy } = body;
    let file_id = file_id.ok_or_else(|| ClientError::missing(format!("{at}file_id")))?;
    let chunking = read_chunking_at(chunking_strategy, at)?;
    Ok(Wanted { file_id, attributes: checked(attributes, &format!("{at}attributes"))?, chunking })
}

fn check_number<T>(files: &[T], path: &str) -> Result<(), ClientError> {
    if files.len() > MAX_FILES {
        let message = format!("`{path}` may have at most {MAX_FILES} files.");
        return Err(ClientError::invalid(path, message));
    }
    Ok(())
}

fn checked(attributes: Option<Map<String, Value>>, path: &str) -> Result<Map<String, Value>> {
    let attributes = attributes.unwrap_or_default();
    if let Some(wrong) = wrong_with(&attributes) {
        return Err(ClientError::invalid(path, format!("`{path}` {wrong}.")).into());
    }
    Ok(attributes)
}

fn wrong_with(attributes: &Map<String, Value>) -> Option<String> {
    if attributes.len() > MAX_ATTRIBUTES {
        return Some(format!("may have at most {MAX_ATTRIBUTES} pairs"));
    }
    let wrong = |(key, value): (&String, &Value)| match value {
        _ if key.chars().count() > MAX_KEY => {
            Some(format!("may have keys of at most {MAX_KEY} characters"))
        }
        Value::String(text) if text.chars().count() > MAX_VALUE => {
            Some(format!("may have texts of at most {MAX_VALUE} characters"))
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_) => None,
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Some("may have texts, numbers, `true` and `false`, and nothing else".to_owned())
        }
    };
    attributes.iter().find_map(wrong)
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
