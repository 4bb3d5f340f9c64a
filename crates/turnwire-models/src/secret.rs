//! API keys that must not be logged.

use std::fmt;

/// Replacement for a key in logs and messages.
const MASK: &str = "***";

/// Minimum length of a key that is removed from texts. Placeholder keys of local servers (`none`,
/// `x`, `ollama`) are not secret and occur in ordinary text.
const SHORTEST_MASKED: usize = 8;

/// Marks the end of a truncated quotation.
pub(crate) const CUT_MARK: char = '…';

/// An API key. Its `Debug` output does not contain the key.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// Returns the key, for a header.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Removes the key from a provider's text. In a truncated quotation, a sufficiently long prefix
    /// of the key at the end is also removed.
    pub(crate) fn hidden_in(&self, text: &str) -> String {
        if self.0.len() < SHORTEST_MASKED {
            return text.to_owned();
        }
        let text = text.replace(&self.0, MASK);
        let starts = (SHORTEST_MASKED..self.0.len()).rev().filter_map(|end| self.0.get(..end));
        let cut = text.strip_suffix(CUT_MARK);
        let shown =
            cut.and_then(|cut| starts.into_iter().find_map(|start| cut.strip_suffix(start)));
        shown.map_or(text.clone(), |shown| format!("{shown}{MASK}{CUT_MARK}"))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl From<&str> for Secret {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

impl From<String> for Secret {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
