//! Reads a JSON body that a stranger sent.
//!
//! A few bytes can ask for much work: ten thousand brackets in a row are a tree as deep, and a
//! deep tree costs stack wherever it is walked. So a body is measured before it is read, byte
//! by byte and without recursion, and refused at the first bracket or key too many.

use std::slice;

use serde_json::Value;

/// How deep objects and lists may be nested.
pub const MAX_DEPTH: usize = 64;

/// How many keys all objects of a body may have together.
pub const MAX_KEYS: usize = 10_000;

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotRead {
    /// `invalid_json`, `json_too_deep` or `json_too_many_keys`.
    pub code: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// Reads `body`, if it is JSON within the limits.
pub fn read(body: &[u8]) -> Result<Value, NotRead> {
    measure(body)?;
    serde_json::from_slice(body).map_err(|error| {
        let message = if body.trim_ascii().is_empty() {
            "The body is empty; JSON was expected.".to_owned()
        } else {
            format!("The body is not valid JSON: {error}.")
        };
        NotRead { code: "invalid_json", message }
    })
}

/// Goes once over the bytes. What is not JSON is measured wrongly, which does no harm: it is
/// refused all the same.
fn measure(body: &[u8]) -> Result<(), NotRead> {
    let (mut depth, mut n_keys) = (0_usize, 0_usize);
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // Outside of strings a colon follows each key, and nothing else.
            b':' => n_keys += 1,
            _ => {}
        }
        if depth > MAX_DEPTH {
            let message = format!("The body is nested too deeply; at most {MAX_DEPTH} levels.");
            return Err(NotRead { code: "json_too_deep", message });
        }
        if n_keys > MAX_KEYS {
            let message = format!("The body has too many keys; at most {MAX_KEYS}.");
            return Err(NotRead { code: "json_too_many_keys", message });
        }
    }
    Ok(())
}

/// Moves behind the closing quotation mark.
fn skip_string(bytes: &mut slice::Iter<'_, u8>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => _ = bytes.next(),
            b'"' => return,
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
