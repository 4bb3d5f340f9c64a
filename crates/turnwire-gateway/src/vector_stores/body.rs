//! Reads what clients send about vector stores and the files in them.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use turnwire_contract::FileId;
use utoipa::ToSchema;

use super::attached::Wanted;
use crate::{
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

/// What a client sends to open or change a vector store. A change leaves alone what it does not
/// name.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct StoreBody {
    /// At most 256 characters.
    pub(super) name: Option<String>,
    /// Files to attach at once; only when a store is opened.
    #[schema(value_type = Option<Vec<String>>)]
    pub(super) file_ids: Option<Vec<FileId>>,
    /// At most 16 notes.
    pub(super) metadata: Option<BTreeMap<String, String>>,
}

/// What a client sends to attach a file.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct AttachBody {
    /// The file.
    #[schema(value_type = String)]
    file_id: Option<FileId>,
    /// At most 16 texts, numbers and truths that a search can be narrowed by.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
}

/// What a client sends to attach many files: `file_ids` or `files`.
#[derive(Debug, Deserialize, ToSchema)]
pub(super) struct BatchBody {
    /// The files, at most 2000.
    #[schema(value_type = Option<Vec<String>>)]
    file_ids: Option<Vec<FileId>>,
    /// The attributes of all `file_ids`.
    #[schema(value_type = Option<Object>)]
    attributes: Option<Map<String, Value>>,
    /// The files, at most 2000, each with its own attributes.
    files: Option<Vec<AttachBody>>,
}

/// What a client sends to change the attributes of a file.
#[derive(Debug, Deserialize, ToSchema)]
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

pub(super) fn read_attach(body: Value) -> Result<Wanted, Refusal> {
    wanted(typed(body)?, "")
}

pub(super) fn read_attributes(body: Value) -> Result<Map<String, Value>, Refusal> {
    let AttributesBody { attributes } = typed(body)?;
    checked(attributes, "attributes")
}

pub(super) fn read_batch(body: Value) -> Result<Vec<Wanted>, Refusal> {
    let BatchBody { file_ids, attributes, files } = typed(body)?;
    match (file_ids, files) {
        (Some(ids), None) => {
            check_number(&ids, "file_ids")?;
            let attributes = checked(attributes, "attributes")?;
            let with = |file_id| Wanted { file_id, attributes: attributes.clone() };
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

/// The body as a `T`.
pub(super) fn typed<T: DeserializeOwned>(body: Value) -> Result<T, Refusal> {
    if !body.is_object() {
        return Err(Refusal::bad_request("invalid_type", "The body must be a JSON object."));
    }
    serde_path_to_error::deserialize(body).map_err(|error| {
        // The cause repeats what the client sent, however long it is.
        let path = error.path().to_string();
        let message = format!("`{path}` is not of the right type. See /openapi.json for it.");
        Refusal::bad_request("invalid_type", message).about(path)
    })
}

fn wanted(AttachBody { file_id, attributes }: AttachBody, at: &str) -> Result<Wanted, Refusal> {
    let file_id = file_id.ok_or_else(|| ClientError::missing(format!("{at}file_id")))?;
    Ok(Wanted { file_id, attributes: checked(attributes, &format!("{at}attributes"))? })
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
