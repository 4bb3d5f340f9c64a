//! Entry point for fuzzing: `turnwire.toml`, with what is told of its mistakes.

use turnwire_surfaces::clean;

use super::{
    ServeSettings,
    file::{DEFAULT_FILE, SettingsFile},
};
use crate::{args::ServeArguments, environment::Environment};

/// Keys with names of other files, which are not opened here.
const OTHER_FILES: [&str; 3] = ["files", "parameters_file", "key_file"];

/// Reads the settings of `turnwire serve`.
pub fn settings(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    if OTHER_FILES.iter().any(|key| text.contains(key)) {
        return;
    }
    let file = SettingsFile { path: DEFAULT_FILE.into(), text };
    let environment: Environment = [("OPENAI_API_KEY", "secret")].into_iter().collect();
    match ServeSettings::of(&ServeArguments::default(), &environment, Some(&file)) {
        Ok(settings) => drop(settings),
        Err(problem) => drop(clean(&problem.to_string()).into_owned()),
    }
}
