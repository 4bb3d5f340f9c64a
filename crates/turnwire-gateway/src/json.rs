//! Reads a JSON body that a stranger sent.
//!
//! A few bytes can ask for much work: ten thousand brackets in a row are a tree as deep, and a
//! deep tree costs stack wherever it is walked. So a body is measured before it is read, byte
//! by byte and without recursion, and refused at the first bracket or key too many.

use std::slice;

use serde_json::Value;

/// What a body may be like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonLimits {
    /// How deep objects and lists may be nested.
    pub depth: usize,
    /// How many keys all objects may have together.
    pub keys: usize,
    /// How many values all objects and lists may have together: two bytes on the wire are thirty
    /// in memory.
    pub values: usize,
}

impl Default for JsonLimits {
    fn default() -> Self {
        Self { depth: 64, keys: 10_000, values: 100_000 }
    }
}

/// Why a body was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NotRead {
    /// `invalid_json`, `json_too_deep`, `json_too_many_keys` or `json_too_many_values`.
    pub code: &'static str,
    /// One sentence for people.
    pub message: String,
}

/// Reads `body`, if it is JSON within the limits.
pub fn read(body: &[u8], limits: &JsonLimits) -> Result<Value, NotRead> {
    measure(body, limits)?;
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
fn measure(body: &[u8], limits: &JsonLimits) -> Result<(), NotRead> {
    let JsonLimits { depth: max_depth, keys: max_keys, values: max_values } = *limits;
    let (mut depth, mut n_keys, mut n_values) = (0_usize, 0_usize, 1_usize);
    let mut bytes = body.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            // Outside of strings a colon follows each key, and nothing else.
            b':' => n_keys += 1,
            // And a comma stands before each value but the first of its kind.
            b',' => n_values += 1,
            _ => {}
        }
        if depth > max_depth {
            let message = format!("The body is nested too deeply; at most {max_depth} levels.");
            return Err(NotRead { code: "json_too_deep", message });
        }
        if n_keys > max_keys {
            let message = format!("The body has too many keys; at most {max_keys}.");
            return Err(NotRead { code: "json_too_many_keys", message });
        }
        if n_values > max_values {
            let message = format!("The body has too many values; at most {max_values}.");
            return Err(NotRead { code: "json_too_many_values", message });
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
