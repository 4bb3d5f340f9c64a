//! API keys that must not be logged.

use std::fmt;

/// Parts of the names of headers, variables and parameters of the settings whose values are secrets.
/// Others, such as the name of a team or a path, occur in results.
const SECRET_NAMES: [&str; 8] =
    ["auth", "cookie", "credential", "key", "passphrase", "password", "secret", "token"];

/// Returns whether what has this name in the settings is a secret.
pub(crate) fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

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
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
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
