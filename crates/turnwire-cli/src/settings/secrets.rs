//! `[secrets]` and `[encryption]`: the keys that encrypt what requests bring for their MCP servers, and
//! the keys that encrypt the keys of tenants.

use std::{
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_stores::SecretKeys;

use super::{
    file::{SettingsFile, read_table},
    words::{is_told, not_set},
};
use crate::environment::Environment;

/// The keys that encrypt the `headers` and `authorization` that a request brings for its own MCP
/// server, until the run ends; see mcp.md. Without this section such requests are rejected. All
/// servers of a store need the same keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSecrets {
    /// The variable with the keys
    key_env: Option<String>,
    /// The file with the keys, relative to the settings file; in place of `key_env`
    key_file: Option<PathBuf>,
}

/// Encrypts what is stored for each tenant with a key of its own, and these keys with yours; see
/// encryption.md. Without this section nothing is encrypted. All servers of a store need the same
/// keys.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawEncryption {
    /// The variable with the keys
    key_env: Option<String>,
    /// The file with the keys, relative to the settings file; in place of `key_env`
    key_file: Option<PathBuf>,
}

/// Where the keys of a section are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeysSection {
    section: &'static str,
    source: KeySource,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum KeySource {
    Variable(String),
    File(PathBuf),
}

impl KeysSection {
    pub(super) fn secrets(
        table: Table,
        file: &SettingsFile,
        mistakes: &mut Vec<String>,
    ) -> Option<Self> {
        let RawSecrets { key_env, key_file } = read_table("secrets", table, mistakes);
        Self::read("secrets", key_env, key_file, file, mistakes)
    }

    pub(super) fn encryption(
        table: Table,
        file: &SettingsFile,
        mistakes: &mut Vec<String>,
    ) -> Option<Self> {
        let RawEncryption { key_env, key_file } = read_table("encryption", table, mistakes);
        Self::read("encryption", key_env, key_file, file, mistakes)
    }

    fn read(
        section: &'static str,
        key_env: Option<String>,
        key_file: Option<PathBuf>,
        file: &SettingsFile,
        mistakes: &mut Vec<String>,
    ) -> Option<Self> {
        let source = match (key_env, key_file) {
            (Some(variable), None) => Some(KeySource::Variable(variable)),
            // Relative to the file that names it.
            (None, Some(path)) => {
                let folder = file.path.parent().unwrap_or(Path::new(""));
                Some(KeySource::File(folder.join(path)))
            }
            (Some(_), Some(_)) => {
                mistakes.push(format!("{section}.key_file: there is key_env, too; leave out one"));
                None
            }
            (None, None) => {
                if !is_told(section, mistakes) {
                    mistakes.push(format!(
                        "{section}.key_env: missing; name a variable with a key, or a file with \
                         key_file"
                    ));
                }
                None
            }
        };
        source.map(|source| Self { section, source })
    }

    /// Reads the keys. Errors do not contain them.
    pub(super) fn keys(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> Option<SecretKeys> {
        let read = match &self.source {
            KeySource::Variable(name) => environment
                .get(name)
                .ok_or_else(|| not_set(name))
                .and_then(|text| keys_of(text).map_err(|why| format!("`{name}`: {why}"))),
            KeySource::File(path) => {
                keys_in(path).map_err(|why| format!("`{}`: {why}", path.display()))
            }
        };
        let key = match self.source {
            KeySource::Variable(_) => "key_env",
            KeySource::File(_) => "key_file",
        };
        read.map_err(|why| mistakes.push(format!("{}.{key}: {why}", self.section))).ok()
    }
}

fn keys_of(text: &str) -> Result<SecretKeys, String> {
    SecretKeys::read(text).map_err(|error| error.to_string())
}

fn keys_in(path: &Path) -> Result<SecretKeys, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    keys_of(&text)
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
