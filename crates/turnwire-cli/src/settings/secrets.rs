//! `[secrets]`: the keys that encrypt what requests bring for their MCP servers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::Table;
use turnwire_stores::SecretKeys;

use super::{
    file::{RawTable, SettingsFile, read_table},
    words::not_set,
};
use crate::environment::Environment;

/// The section as written in the file. It names where the keys are, and never contains one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSecrets {
    key_env: Option<String>,
    key_file: Option<PathBuf>,
}

impl RawTable for RawSecrets {
    const KEYS: &'static [&'static str] = &["key_env", "key_file"];
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
        let n_before = mistakes.len();
        let raw: RawSecrets = read_table("secrets.", table, mistakes);
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
                if mistakes.len() == n_before {
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
