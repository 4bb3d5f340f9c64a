//! `turnwire.toml`: located, parsed and validated by section.
//!
//! Every command validates the whole file. The environment is read only for the sections that a
//! command uses: a missing key for `serve` must not stop `run`.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use toml::{Table, Value};
use turnwire_gateway::content_hash;

use super::{
    lines::Places, schema::schema_of, shape::check_table, syntax::parse, words::MOST_TOLD,
};
use crate::exit::{Mistake, Problem, Result};

pub(crate) const DEFAULT_FILE: &str = "turnwire.toml";
/// Hint after an error.
const REPAIR: &str = "repair it, or name another settings file with --config FILE";

/// The file on disk.
#[derive(Debug, Clone)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SettingsFile {
    /// SHA-256 of the file, in hexadecimal.
    pub(super) fn digest(&self) -> String {
        content_hash(self.text.as_bytes())
    }

    /// Reads the file. A named file must exist; the default one may be missing.
    pub(super) fn find(named: Option<&Path>) -> Result<Option<Self>> {
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
        located_in(mistake, Some(&Located::of(self))).to_string()
    }

    /// Parses the file. Returns nothing if it cannot be checked further.
    pub(super) fn table(&self, mistakes: &mut Vec<String>) -> Option<Table> {
        parse(&self.path.display().to_string(), &self.text, mistakes)
    }
}

/// A table of the file. Its keys are the fields.
pub(super) trait RawTable: DeserializeOwned + Default + JsonSchema {}

impl<T: DeserializeOwned + Default + JsonSchema> RawTable for T {}

/// Reads the table at `path`. What is wrong is reported and left out.
pub(super) fn read_table<T: RawTable>(
    path: &str,
    mut table: Table,
    mistakes: &mut Vec<String>,
) -> T {
    check_table(path, &mut table, &schema_of::<T>(), mistakes);
    table.try_into().unwrap_or_else(|error: toml::de::Error| {
        // The schema and the type disagree, which is our mistake. The message would quote the value.
        drop(error);
        mistakes.push(format!("{path}: it cannot be read; please report this"));
        T::default()
    })
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

/// A file, to look for the lines of settings.
struct Located<'a> {
    name: String,
    places: Places<'a>,
}

impl<'a> Located<'a> {
    fn of(file: &'a SettingsFile) -> Self {
        Self { name: file.path.display().to_string(), places: Places::of(&file.text) }
    }
}

/// Combines all errors, with their location, in the order of the lines: the first ones, if there
/// are very many.
pub(super) fn all_of(
    in_file: Vec<String>,
    in_environment: Vec<String>,
    file: Option<&SettingsFile>,
) -> Problem {
    let has_file = !in_file.is_empty();
    let has_environment = !in_environment.is_empty();
    let n_mistakes = in_file.len() + in_environment.len();
    let file = file.map(Located::of);
    let in_file = in_file.iter().map(|mistake| located_in(mistake, file.as_ref()));
    let in_environment = in_environment.iter().map(|mistake| located_in(mistake, None));
    let mut mistakes: Vec<Mistake> = in_file.chain(in_environment).take(MOST_TOLD).collect();
    let own = file.map(|file| file.name);
    // Those of the settings file first, then those of other files, then those without a place.
    mistakes.sort_by_cached_key(|mistake| {
        (rank(mistake, own.as_deref()), mistake.line, mistake.path.clone())
    });
    let environment = has_environment.then(|| "the environment".to_owned());
    let places: Vec<String> = own.filter(|_| has_file).into_iter().chain(environment).collect();
    let count = match n_mistakes {
        1 => "a mistake".to_owned(),
        n_mistakes if n_mistakes > MOST_TOLD => format!("more than {MOST_TOLD} mistakes"),
        n_mistakes => format!("{n_mistakes} mistakes"),
    };
    let message = format!("{count} in {}", places.join(" and "));
    let details = mistakes.iter().map(Mistake::to_string).collect();
    Problem { details, mistakes, ..Problem::usage(message).hint(REPAIR) }
}

fn rank(mistake: &Mistake, own: Option<&str>) -> (u8, Option<String>) {
    match &mistake.file {
        Some(file) if Some(file.as_str()) == own => (0, None),
        Some(file) => (1, Some(file.clone())),
        None => (2, None),
    }
}

/// Splits an error into its parts: `path: words`, or with its place, `file:line: path: words`.
fn located_in(mistake: &str, file: Option<&Located<'_>>) -> Mistake {
    if let Some((place, line, rest)) = placed(mistake) {
        let (path, message) = path_and_words(rest);
        return Mistake { file: Some(place.to_owned()), line: Some(line), path, message };
    }
    let (path, message) = path_and_words(mistake);
    let line = path.as_deref().zip(file).and_then(|(path, file)| file.places.line_of(path));
    let file = line.and(file).map(|file| file.name.clone());
    Mistake { file, line, path, message }
}

/// Splits off `file:line: `. The path of a setting has no colon outside of quotes.
fn placed(mistake: &str) -> Option<(&str, usize, &str)> {
    let (file, rest) = split_outside_quotes(mistake, ":")?;
    let (line, rest) = rest.split_once(": ")?;
    Some((file, line.parse().ok()?, rest))
}

fn path_and_words(text: &str) -> (Option<String>, String) {
    match split_outside_quotes(text, ": ") {
        Some((path, words)) if is_path(path) => (Some(path.to_owned()), words.to_owned()),
        _ => (None, text.to_owned()),
    }
}

/// Whether a text is a path or the name of a variable, and not the begin of a sentence.
fn is_path(text: &str) -> bool {
    let mut is_quoted = false;
    text.chars().all(|c| {
        is_quoted ^= c == '"';
        is_quoted || !c.is_whitespace()
    })
}

fn split_outside_quotes<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let place = text.match_indices(separator).map(|(place, _)| place).find(|place| {
        let before = text.get(..*place).unwrap_or_default();
        before.replace("\\\"", "").matches('"').count() % 2 == 0
    })?;
    Some((text.get(..place)?, text.get(place + separator.len()..)?))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
