//! Reads what clients send about vector stores and the files in them.

use std::{collections::BTreeMap, ops::RangeInclusive};

use serde::Deserialize;
use serde_json::{Map, Value};
use turnwire_contract::{Chunking, FileId};
use turnwire_surfaces::responses::response::ResponseNote;
use utoipa::ToSchema;

use super::attached::Wanted;
use crate::{
    body::typed,
    refusal::Refusal,
    responses::request::{ClientError, read_metadata},
};

/// How many files can be attached at once.
pub(super) const MAX_FILES: usize = 2_000;

/// How many characters the name of a store may have.
pub(super) const MAX_NAME: usize = 256;

/// How many attributes a file may have, and how many characters a key and a value.
pub(super) const MAX_ATTRIBUTES: usize = 16;
pub(super) const MAX_KEY: usize = 64;
pub(super) const MAX_VALUE: usize = 512;

/// After how many days without a use a store may expire.
const DAYS: RangeInclusive<u32> = 1..=365;

/// How long passages may be.
const PASSAGE_TOKENS: RangeInclusive<u32> = 100..=4_096;

/// What a client sends to open or change a vector store. A change leaves alone what it does not
/// name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreBody {
    /// At most 256 characters.
    pub(super) name: Option<String>,
    /// Files to attach at once; only when a store is opened.
    #[schema(value_type = Option<Vec<String>>)]
    pub(super) file_ids: Option<Vec<FileId>>,
    /// At most 16 notes.
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// After how many days without a use it expires; null takes that back.
    pub(super) expires_after: Option<ExpiryBody>,
    /// How the `file_ids` are cut into passages; only when a store is opened.
    pub(super) chunking_strategy: Option<ChunkingBody>,
    /// Not heeded: a store has a name.
    description: Option<String>,
}

impl StoreBody {
    /// What of it is not heeded.
    pub(super) fn note(&self) -> Option<ResponseNote> {
        let description = self.description.as_ref()?;
        (!description.is_empty()).then(|| ResponseNote { ignored: vec!["description".to_owned()] })
    }

    /// Refuses what a store can only be opened with.
    pub(super) fn refuse_what_comes_too_late(&self) -> Result<(), ClientError> {
        let late = [
            ("file_ids", self.file_ids.is_some()),
            ("chunking_strategy", self.chunking_strategy.is_some()),
        ];
        match late.iter().find(|(_, is_there)| *is_there) {
            Some((name, _)) => {
                let message = format!(
                    "`{name}` is for a new vector store; attach files with \
                     /v1/vector_stores/{{vector_store_id}}/files."
                );
                Err(ClientError::new("unsupported_parameter", *name, message))
            }
            None => Ok(()),
        }
    }
}

/// When a store expires.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExpiryBody {
    /// Always `last_active_at`.
    anchor: Option<String>,
    /// 1 to 365.
    days: Option<u32>,
}

impl ExpiryBody {
    /// After how many days.
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

/// How files are cut into passages: `auto`, or `static` with two numbers.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChunkingBody {
    /// `auto` or `static`.
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(rename = "static")]
    tokens: Option<TokensBody>,
}

/// How long passages are.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokensBody {
    /// 100 to 4096.
    max_chunk_size_tokens: Option<u32>,
    /// At most half of that.
    chunk_overlap_tokens: Option<u32>,
}

/// What a client sends to attach a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttachBody {
    /// The file.
    #[schema(value_type = String)]
    file_id: Option<FileId>,
    /// At most 16 texts, numbers and truths that a search can be narrowed by.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
    chunking_strategy: Option<ChunkingBody>,
}

/// What a client sends to attach many files: `file_ids` or `files`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BatchBody {
    /// The files, at most 2000.
    #[schema(value_type = Option<Vec<String>>)]
    file_ids: Option<Vec<FileId>>,
    /// The attributes of all `file_ids`.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
    /// How all `file_ids` are cut into passages.
    chunking_strategy: Option<ChunkingBody>,
    /// The files, at most 2000, each with its own attributes.
    files: Option<Vec<AttachBody>>,
}

/// What a client sends to change the attributes of a file.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AttributesBody {
    /// All attributes that the file is to have.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
}

pub(super) fn read_store(body: Value) -> Result<StoreBody, Refusal> {
    if let Value::Object(fields) = &body {
        // Sees to the limits, and to the names of what is wrong.
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

/// How a client wants files to be cut.
pub(super) fn read_chunking(body: Option<ChunkingBody>) -> Result<Chunking, Refusal> {
    read_chunking_at(body, "")
}

fn read_chunking_at(body: Option<ChunkingBody>, at: &str) -> Result<Chunking, Refusal> {
    let Some(ChunkingBody { kind, tokens }) = body else { return Ok(Chunking::Auto) };
    let invalid = |field: &str, wanted: String| {
        let path = format!("{at}chunking_strategy.{field}");
        Refusal::from(ClientError::invalid(path.as_str(), format!("`{path}` {wanted}.")))
    };
    match kind.as_deref() {
        Some("auto") => return Ok(Chunking::Auto),
        Some("static") => {}
        _ => return Err(invalid("type", "must be `auto` or `static`".to_owned())),
    }
    let tokens = tokens.ok_or_else(|| {
        Refusal::from(ClientError::missing(format!("{at}chunking_strategy.static")))
    })?;
    let max_tokens = tokens.max_chunk_size_tokens.filter(|n| PASSAGE_TOKENS.contains(n));
    let max_tokens = max_tokens.ok_or_else(|| {
        let (least, most) = (PASSAGE_TOKENS.start(), PASSAGE_TOKENS.end());
        invalid("static.max_chunk_size_tokens", format!("must be between {least} and {most}"))
    })?;
    let overlap_tokens = tokens.chunk_overlap_tokens.filter(|n| *n <= max_tokens / 2);
    let overlap_tokens = overlap_tokens.ok_or_else(|| {
        let wanted = "must be at most half of `max_chunk_size_tokens`".to_owned();
        invalid("static.chunk_overlap_tokens", wanted)
    })?;
    Ok(Chunking::Static { max_tokens, overlap_tokens })
}

pub(super) fn read_attach(body: Value) -> Result<Wanted, Refusal> {
    wanted(typed(body)?, "")
}

pub(super) fn read_attributes(body: Value) -> Result<Map<String, Value>, Refusal> {
    let AttributesBody { attributes } = typed(body)?;
    checked(attributes, "attributes")
}

pub(super) fn read_batch(body: Value) -> Result<Vec<Wanted>, Refusal> {
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
            let message = "`file_ids` and `files` do not go together.";
            Err(ClientError::invalid("files", message).into())
        }
    }
}

fn wanted(body: AttachBody, at: &str) -> Result<Wanted, Refusal> {
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

/// Attributes within their limits.
fn checked(
    attributes: Option<Map<String, Value>>,
    path: &str,
) -> Result<Map<String, Value>, Refusal> {
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
