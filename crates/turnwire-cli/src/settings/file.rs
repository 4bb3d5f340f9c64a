//! `turnwire.toml`: located, parsed and validated by section.
//!
//! Every command validates the whole file. The environment is read only for the sections that a
//! command uses: a missing key for `serve` must not stop `run`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::de::DeserializeOwned;
use toml::{Table, Value};
use turnwire_gateway::content_hash;

use super::{lines::line_of, words::did_you_mean};
use crate::exit::Problem;

pub(super) const DEFAULT_FILE: &str = "turnwire.toml";
/// Hint after an error.
const REPAIR: &str = "repair it, or name another settings file with --config FILE";

/// The file on disk.
#[derive(Debug, Clone)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SettingsFile {
    /// Reads the file. A named file must exist; the default one may be missing.
    /// SHA-256 of the file, in hexadecimal.
    pub(super) fn digest(&self) -> String {
        content_hash(self.text.as_bytes())
    }

    pub(super) fn find(named: Option<&Path>) -> Result<Option<Self>, Problem> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE)).to_owned();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Problem::usage(format!("{} cannot be read: {error}", path.display()))
                    .hint("name a settings file that can be read with --config FILE"))
            }
        }
    }

    /// Adds file and line to an error that starts with the path of a setting. Returns any other
    /// error unchanged.
    pub(super) fn located(&self, mistake: &str) -> String {
        let line = mistake.split_once(": ").and_then(|(path, _)| line_of(&self.text, path));
        match line {
            Some(line) => format!("{}:{line}: {mistake}", self.path.display()),
            None => mistake.to_owned(),
        }
    }

    pub(super) fn table(&self) -> Result<Table, Problem> {
        self.text.parse().map_err(|error: toml::de::Error| {
            let mut problem = Problem::usage(format!("{} is not TOML", self.path.display()));
            problem.details = error.to_string().lines().map(str::to_owned).collect();
            problem.hint(REPAIR)
        })
    }
}

/// A table of the file.
pub(super) trait RawTable: DeserializeOwned + Default {
    /// All keys of the table. Each is listed in examples/turnwire.toml and docs/settings.md.
    const KEYS: &'static [&'static str];
}

/// Reads a table key by key, so that all errors are reported.
pub(super) fn read_table<T: RawTable>(path: &str, table: Table, mistakes: &mut Vec<String>) -> T {
    let mut good = Table::new();
    for (key, value) in table {
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        match alone.try_into::<T>() {
            Ok(_) => {
                good.insert(key, value);
            }
            Err(_) if !T::KEYS.contains(&key.as_str()) => {
                let advice = did_you_mean(&key, T::KEYS);
                mistakes.push(format!("{path}{key}: there is no such setting; {advice}"));
            }
            Err(error) => mistakes.push(format!("{path}{key}: {}", error.message().trim())),
        }
    }
    good.try_into().unwrap_or_default()
}

/// Returns the value as a table, or reports an error.
pub(super) fn table_of(
    path: &str,
    value: Option<Value>,
    mistakes: &mut Vec<String>,
) -> Option<Table> {
    if let Value::Table(table) = value? {
        return Some(table);
    }
    mistakes.push(format!("{path}: not a table; write [{path}] above its settings"));
    None
}

/// Adds the line to an error about a single setting.
pub(super) fn located(mut problem: Problem, file: Option<&SettingsFile>) -> Problem {
    if let Some(file) = file {
        problem.message = file.located(&problem.message);
    }
    problem
}

/// Combines all errors, with their location.
pub(super) fn all_of(
    mut in_file: Vec<String>,
    in_environment: Vec<String>,
    file: Option<&SettingsFile>,
) -> Problem {
    if let Some(file) = file {
        in_file = in_file.iter().map(|mistake| file.located(mistake)).collect();
    }
    let file = file.map(|file| file.path.display().to_string()).filter(|_| !in_file.is_empty());
    let environment = (!in_environment.is_empty()).then(|| "the environment".to_owned());
    let places: Vec<String> = file.into_iter().chain(environment).collect();
    in_file.extend(in_environment);
    let count = match in_file.len() {
        1 => "a mistake".to_owned(),
        n_mistakes => format!("{n_mistakes} mistakes"),
    };
    let message = format!("{count} in {}", places.join(" and "));
    Problem { details: in_file, ..Problem::usage(message).hint(REPAIR) }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
