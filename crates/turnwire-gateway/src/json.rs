//! Parses JSON from untrusted clients within limits.
//!
//! A few bytes can cause much work: ten thousand brackets in a row are a tree as deep, and a deep
//! tree uses stack wherever it is traversed. So a body is measured before it is parsed, byte by
//! byte and without recursion, and refused at the first bracket, key or value too many.

use std::slice;

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::Value;
use turnwire_surfaces::wire_json;

/// Limits on the structure of a JSON body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonLimits {
    /// Maximum nesting depth of objects and arrays.
    pub depth: usize,
    /// Maximum number of keys in all objects together.
    pub keys: usize,
    /// Maximum number of values in all objects and arrays together. A value of two bytes on the
    /// wire needs thirty in memory.
    pub values: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { depth: 64, keys: 10_000, values: 100_000 }
    }
}

/// Why a body was not parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// `invalid_json`, `json_too_deep`, `json_too_many_keys` or `json_too_many_values`.
    pub code: &'static str,
    /// A sentence for people.
    pub message: String,
}

/// Parses `body` if it is JSON within the limits.
pub fn read(body: &[u8], limits: &JsonLimits) -> Result<Value, JsonError> {
    measure(body, limits)?;
    serde_json::from_slice(body).map_err(|error| {
        let message = if body.trim_ascii().is_empty() {
            "The body is empty; JSON was expected.".to_owned()
        } else {
            format!("The body is not valid JSON: {error}.")
        };
        JsonError { code: "invalid_json", message }
    })
}

/// Measures the bytes in one pass. Invalid JSON is measured wrongly, which is harmless: the parser
/// refuses it.
fn measure(body: &[u8], limits: &JsonLimits) -> Result<(), JsonError> {
    let JsonLimits { depth: max_depth, keys: max_keys, values: max_values } = *limits;
    let (mut depth, mut n_keys, mut n_values) = (0_usize, 0_usize, 1_usize);
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // Outside of strings, a colon follows each key and nothing else.
            b':' => n_keys += 1,
            // A comma precedes each value but the first of its object or array.
            b',' => n_values += 1,
            _ => {}
        }
        if depth > max_depth {
            let message = format!("The body is nested too deeply; at most {max_depth} levels.");
            return Err(JsonError { code: "json_too_deep", message });
        }
        if n_keys > max_keys {
            let message = format!("The body has too many keys; at most {max_keys}.");
            return Err(JsonError { code: "json_too_many_keys", message });
        }
        if n_values > max_values {
            let message = format!("The body has too many values; at most {max_values}.");
            return Err(JsonError { code: "json_too_many_values", message });
        }
    }
    Ok(())
}

/// Advances past the closing quotation mark.
fn skip_string(bytes: &mut slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => return,
            _ => {}
        }
    }
}

/// A JSON response. Unlike axum's own, it escapes the line separators that JSON allows in strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        ([(header::CONTENT_TYPE, json)], wire_json(&self.0)).into_response()
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
