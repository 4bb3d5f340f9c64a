//! A key that must not be shown.

use std::fmt;

/// What stands in place of a key wherever text might reach a log or a person.
const MASK: &str = "***";

/// The shortest text that is taken out of other texts. What local servers want for a key (`none`,
/// `x`, `ollama`) is no secret, and is found in ordinary words.
const SHORTEST_MASKED: usize = 8;

/// What stands at the end of a quotation that was cut.
pub(crate) const CUT_MARK: char = '…';

/// A key. It can be sent, but not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the key as it stands.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for the header that carries it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` without the key, for what a provider says about it. A quotation that was cut in
    /// the middle of the key loses the beginning of the key as well, if that is long enough to
    /// tell anything.
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
