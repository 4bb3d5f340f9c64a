//! Reasoning that a provider wants back, in the form that a journal keeps it.
//!
//! What a provider gives is opaque, and only the account and the model that made it can open it.
//! So it is kept as `kind@origin:content`: the kind says which field it came in, the origin stands
//! for address, key and model. A seal without an origin is one of an earlier version, and is given
//! back by its kind alone.

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// Maximum size of what one answer has sealed piece by piece: nobody sees it before it is whole, so
/// nobody else counts it. What is longer is not given back.
pub(crate) const MAX_SEALED_BYTES: usize = 1024 * 1024;

/// Bytes of a hash that are kept: enough to tell things apart that are not made to collide.
const KEPT_BYTES: usize = 6;

/// An account and a model, as a hash. The default is an unknown one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Origin(Option<String>);

impl Origin {
    pub(crate) const UNKNOWN: Self = Self(None);

    /// The model `model` behind `base_url`, for the account of `key`.
    pub(crate) fn new(base_url: &str, key: Option<&str>, model: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [base_url, key.unwrap_or_default(), model] {
            hash.update(part.as_bytes());
            hash.update([0]);
        }
        Self(Some(short(hash)))
    }

    /// Seals what the provider gave in the field `kind`.
    pub(crate) fn seal(&self, kind: &str, content: &str) -> String {
        match &self.0 {
            Some(origin) => format!("{kind}@{origin}:{content}"),
            None => format!("{kind}:{content}"),
        }
    }

    /// Opens a seal of this kind that this origin made.
    pub(crate) fn open<'a>(&self, kind: &str, seal: &'a str) -> Option<&'a str> {
        let (label, content) = seal.split_once(':')?;
        match (label.strip_prefix(kind)?, &self.0) {
            ("", _) => Some(content),
            (made_by, Some(origin)) => (made_by.strip_prefix('@')? == origin).then_some(content),
            (_, None) => None,
        }
    }

    /// Seals what was given in answer to `prefix`.
    pub(crate) fn seal_over(&self, prefix: &str, kind: &str, content: &str) -> String {
        match &self.0 {
            Some(origin) => format!("{kind}@{origin}.{prefix}:{content}"),
            None => format!("{kind}:{content}"),
        }
    }

    /// Opens a seal of this kind that this origin made, and returns what it was given in answer to,
    /// if that is known.
    pub(crate) fn open_over<'a>(
        &self,
        kind: &str,
        seal: &'a str,
    ) -> Option<(Option<&'a str>, &'a str)> {
        let (label, content) = seal.split_once(':')?;
        let made_by = label.strip_prefix(kind)?;
        if made_by.is_empty() {
            return Some((None, content));
        }
        let prefix = made_by.strip_prefix('@')?.strip_prefix(self.0.as_ref()?.as_str())?;
        Some((Some(prefix.strip_prefix('.')?), content))
    }
}

/// The first bytes of a hash, as text.
pub(crate) fn short(hash: Sha256) -> String {
    hash.finalize().iter().take(KEPT_BYTES).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning is opened by the account and the model that made it, and by nobody else.
    #[test]
    fn only_its_origin_opens_a_seal() {
        let ours = Origin::new("https://a.example/v1", Some("key"), "m");
        let seal = ours.seal("chat.reasoning", "thought: yes");
        assert_eq!(ours.open("chat.reasoning", &seal), Some("thought: yes"));
        assert_eq!(ours.open("chat", &seal), None, "another kind");
        let others = [
            Origin::new("https://b.example/v1", Some("key"), "m"),
            Origin::new("https://a.example/v1", Some("other"), "m"),
            Origin::new("https://a.example/v1", Some("key"), "n"),
            Origin::new("https://a.example/v1", None, "m"),
            Origin::default(),
        ];
        for other in others {
            assert_eq!(other.open("chat.reasoning", &seal), None, "{other:?}");
        }
        assert_eq!(ours.open("chat.reasoning", "chat.reasoning:old"), Some("old"));
        assert!(!seal.contains("key"), "{seal}");
    }
}
