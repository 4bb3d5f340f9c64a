//! Secrets: keys of the settings, and what a request brings for a tool server. They have no
//! `Serialize`, so that no event, record or answer can contain one, and are overwritten in memory
//! when they are dropped.

use std::{collections::BTreeMap, fmt};

use zeroize::Zeroizing;

/// A text that must not be logged or stored in the clear.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Zeroizing::new(secret.into()))
    }

    /// Returns the secret, for a header.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<&str> for SecretText {
    fn from(secret: &str) -> Self {
        Self::new(secret)
    }
}

impl From<String> for SecretText {
    fn from(secret: String) -> Self {
        Self::new(secret)
    }
}

/// Headers that a request supplies for one tool server, by their names in lower case.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerSecrets(BTreeMap<String, SecretText>);

impl ServerSecrets {
    /// Adds a header. Returns `false` if there is one of that name.
    pub fn add(&mut self, name: &str, value: SecretText) -> bool {
        let name = name.to_ascii_lowercase();
        let is_new = !self.0.contains_key(&name);
        if is_new {
            self.0.insert(name, value);
        }
        is_new
    }

    /// Whether there are no headers.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &SecretText)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns all headers as bytes, for encryption. Headers contain no zero bytes.
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let length = |(name, value): (&str, &SecretText)| name.len() + value.reveal().len() + 2;
        // Allocated once: a vector that grows leaves copies behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(self.headers().map(length).sum()));
        for (name, value) in self.headers() {
            for part in [name, value.reveal()] {
                bytes.extend_from_slice(part.as_bytes());
                bytes.push(0);
            }
        }
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut secrets = Self::default();
        let mut parts = text.split_terminator('\0');
        while let Some(name) = parts.next() {
            secrets.add(name, SecretText::new(parts.next()?));
        }
        Some(secrets)
    }
}

impl fmt::Debug for ServerSecrets {
    /// Prints the names, never the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
