//! Deduplication of long requests: a common prefix of several requests is stored once.
//!
//! A client that keeps a conversation itself sends all of it with every turn: its instructions, its
//! tools, and every message so far. Of a request whose such parts take [`SHARED_FROM`] bytes or
//! more, the items form a list. A list is stored as its last item and its parent, the list before
//! that item, and its ID is a hash of everything in it. So what of a request is stored already is
//! found by IDs, and only what is new is stored: a conversation of 200 turns grows with what is
//! said, not with its square. Instructions and tools are a value of their own, the preamble, with
//! an ID of the same kind: they are the same for many conversations, and may change within one. The
//! rest of the request is stored with the run and with the first event of its journal, next to
//! these IDs.
//!
//! A list is stored as long as a run refers to it or another list continues it ([`rows`]). If
//! contents are encrypted, so are lists, and the hash has a key: an ID does not tell what is in a
//! list.
//!
//! Lists are internal to this crate: a request is always returned whole.

mod rows;

pub(crate) use rows::{
    ListKey, Shared, delete_unused, find_unused, hold, list_key, read, read_items,
};

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::Sha256;
use turnwire_contract::{Item, RunRequest, ToolSpec};

use crate::{database::DatabaseError, failures::encode, sealing::DataKey};

/// Requests that have fewer bytes to share are stored whole.
pub(crate) const SHARED_FROM: usize = 4 * 1024;

/// Texts and lists of [`RunRequest::surface_data`] of at least this many bytes are in the preamble,
/// with the instructions and the tools that they repeat.
const LONG_SURFACE_DATA: usize = 512;

/// Key of the hash, if contents are not encrypted.
const NO_KEY: &[u8] = b"turnwire input lists 1";

/// Stands for the parent in the hash of a preamble, so that no list has its ID.
const PREAMBLE: &str = "preamble";

/// Bytes of an ID. Two lists of one tenant with the same ID would be taken for one.
const ID_LENGTH: usize = 24;

/// Instructions and tools.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
struct Preamble {
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Arc<ToolSpec>>,
    #[serde(rename = "echo", skip_serializing_if = "Map::is_empty")]
    surface_data: Map<String, Value>,
}

/// Where the parts of a request are that it shares with others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SharedIds {
    pub(crate) preamble: String,
    /// Not set if the request has no input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input_list: Option<String>,
}

/// What is to be stored of a long request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SharedRequest {
    /// The request without the other parts.
    pub(crate) rest: RunRequest,
    preamble: Part,
    /// Each item, with the ID of the list up to it.
    items: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    id: String,
    body: String,
}

/// What is in a preamble and a list.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct SharedParts {
    preamble: Preamble,
    input: Vec<Item>,
}

impl SharedRequest {
    /// Takes out of a request what it may share with others. `None` if that is not worth it.
    pub(crate) fn of(
        request: &RunRequest,
        key: Option<&DataKey>,
    ) -> Result<Option<Self>, DatabaseError> {
        // A response that is not stored is deleted with its run, mostly before the next turn.
        if request.surface_data.get("store") == Some(&Value::Bool(false)) {
            return Ok(None);
        }
        let mut rest = request.clone();
        let items = std::mem::take(&mut rest.input);
        // Its place is kept, so that the keys come back in the same order.
        let long = rest.surface_data.iter_mut().filter(|(_, value)| is_long(value));
        let long = long.map(|(name, value)| (name.clone(), value.take())).collect();
        let preamble = encode(&Preamble {
            instructions: rest.instructions.take(),
            tools: std::mem::take(&mut rest.tools),
            surface_data: long,
        })?;
        let items = items.iter().map(encode).collect::<Result<Vec<_>, _>>()?;
        if preamble.len() + items.iter().map(String::len).sum::<usize>() < SHARED_FROM {
            return Ok(None);
        }
        let key = key.map(DataKey::for_list_ids);
        let key = key.as_ref().map_or(NO_KEY, |key| key.as_slice());
        let preamble = Part { id: list_id(key, PREAMBLE, &preamble)?, body: preamble };
        let mut parts: Vec<Part> = Vec::with_capacity(items.len());
        for body in items {
            let parent = parts.last().map_or("", |parent| &parent.id);
            parts.push(Part { id: list_id(key, parent, &body)?, body });
        }
        Ok(Some(Self { rest, preamble, items: parts }))
    }

    pub(crate) fn ids(&self) -> SharedIds {
        let input_list = self.items.last().map(|last| last.id.clone());
        SharedIds { preamble: self.preamble.id.clone(), input_list }
    }
}

impl SharedParts {
    /// Puts back what was taken out of a request.
    pub(crate) fn join(self, rest: &mut RunRequest) {
        rest.input = self.input;
        rest.instructions = self.preamble.instructions;
        rest.tools = self.preamble.tools;
        rest.surface_data.extend(self.preamble.surface_data);
    }
}

/// Objects are left where they are: they differ from request to request.
fn is_long(value: &Value) -> bool {
    match value {
        Value::String(text) => text.len() >= LONG_SURFACE_DATA,
        Value::Array(_) => value.to_string().len() >= LONG_SURFACE_DATA,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

/// Returns the ID of a value that is stored once per tenant: a hash of its kind and its content.
pub(crate) fn content_id(
    key: Option<&DataKey>,
    kind: &str,
    body: &str,
) -> Result<String, DatabaseError> {
    let key = key.map(DataKey::for_list_ids);
    list_id(key.as_ref().map_or(NO_KEY, |key| key.as_slice()), kind, body)
}

/// Returns the ID of the list that continues `parent` with `item`.
fn list_id(key: &[u8], parent: &str, item: &str) -> Result<String, DatabaseError> {
    let failed = |error: hmac::digest::InvalidLength| DatabaseError::Failed(error.to_string());
    let mut hash = Hmac::<Sha256>::new_from_slice(key).map_err(failed)?;
    hash.update(parent.as_bytes());
    hash.update(b"\0");
    hash.update(item.as_bytes());
    let hash = hash.finalize().into_bytes();
    Ok(URL_SAFE_NO_PAD.encode(hash.get(..ID_LENGTH).unwrap_or_default()))
}

#[cfg(test)]
#[path = "input_lists_tests.rs"]
mod tests;
