//! The size of values in JSON, found out without a copy.

use std::io;

use serde::Serialize;

/// Returns the size of a value in JSON, if it is at most `limit`.
pub fn json_size(value: &impl Serialize, limit: usize) -> Option<usize> {
    let mut rest = Rest { n_bytes: limit, kept: None };
    serde_json::to_writer(&mut rest, value).ok()?;
    Some(limit - rest.n_bytes)
}

/// Returns the first `limit` bytes of a value in JSON.
pub fn json_start(value: &impl Serialize, limit: usize) -> String {
    let mut rest = Rest { n_bytes: limit, kept: Some(Vec::new()) };
    // It fails at the limit.
    let _ = serde_json::to_writer(&mut rest, value);
    String::from_utf8_lossy(&rest.kept.unwrap_or_default()).into_owned()
}

/// A writer that fails after this number of bytes.
struct Rest {
    n_bytes: usize,
    /// What was written, if it is of interest.
    kept: Option<Vec<u8>>,
}

impl io::Write for Rest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (fitting, _) = bytes.split_at(bytes.len().min(self.n_bytes));
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(fitting);
        }
        let rest = self.n_bytes.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.n_bytes = rest;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
