//! `[secrets]`: the keys that encrypt what requests bring for their MCP servers.

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

/// Where the keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SecretsSection {
    Variable(String),
    File(PathBuf),
}

impl SecretsSection {
    pub(super) fn read(
        table: Table,
        file: &SettingsFile,
        mistakes: &mut Vec<String>,
    ) -> Option<Self> {
        let raw: RawSecrets = read_table("secrets", table, mistakes);
        match (raw.key_env, raw.key_file) {
            (Some(variable), None) => Some(Self::Variable(variable)),
            // Relative to the file that names it.
            (None, Some(path)) => {
                let folder = file.path.parent().unwrap_or(Path::new(""));
                Some(Self::File(folder.join(path)))
            }
            (Some(_), Some(_)) => {
                mistakes.push("secrets.key_file: there is key_env, too; leave out one".to_owned());
                None
            }
            (None, None) => {
                if !is_told("secrets", mistakes) {
                    mistakes.push(
                        "secrets.key_env: missing; name a variable with a key, or a file with \
                         key_file"
                            .to_owned(),
                    );
                }
                None
            }
        }
    }

    /// Reads the keys. Errors do not contain them.
    pub(super) fn keys(
        &self,
        environment: &Environment,
        mistakes: &mut Vec<String>,
    ) -> Option<SecretKeys> {
        let read = match self {
            Self::Variable(name) => environment
                .get(name)
                .ok_or_else(|| not_set(name))
                .and_then(|text| keys_of(text).map_err(|why| format!("`{name}`: {why}"))),
            Self::File(path) => keys_in(path).map_err(|why| format!("`{}`: {why}", path.display())),
        };
        let key = match self {
            Self::Variable(_) => "key_env",
            Self::File(_) => "key_file",
        };
        read.map_err(|why| mistakes.push(format!("secrets.{key}: {why}"))).ok()
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
