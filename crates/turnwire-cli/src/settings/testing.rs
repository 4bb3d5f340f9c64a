//! Helpers for the tests of the sections.

use super::{
    RunSettings, ServeSettings,
    file::{DEFAULT_FILE, SettingsFile},
};
use crate::{
    args::{RunArguments, ServeArguments},
    exit::{Exit, Problem, Result},
};

/// The keys of a table.
pub(super) fn keys_of<T: schemars::JsonSchema>() -> Vec<String> {
    let schema = super::schema::schema_of::<T>();
    schema["properties"].as_object().unwrap().keys().cloned().collect()
}

pub(super) fn file(text: &str) -> SettingsFile {
    SettingsFile { path: DEFAULT_FILE.into(), text: text.to_owned() }
}

/// Returns the settings of `run` for a file, variables and `--model`.
pub(super) fn run_settings(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> Result<RunSettings> {
    let arguments = RunArguments { model: model.map(str::to_owned), ..RunArguments::default() };
    let environment = variables.iter().copied().collect();
    RunSettings::of(&arguments, &environment, Some(&file(text)), false)
}

/// Returns the settings of `serve --demo` for a file and variables.
pub(super) fn demo_settings(text: &str, variables: &[(&str, &str)]) -> Result<ServeSettings> {
    let arguments = ServeArguments { demo: true, ..ServeArguments::default() };
    ServeSettings::of(&arguments, &variables.iter().copied().collect(), Some(&file(text)))
}

pub(super) fn check_run_problem(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
    expected: &[&str],
) {
    let problem = run_settings(text, variables, model).unwrap_err();
    check_lines(text, &problem);
    check_problem(&problem, expected);
}

/// Checks the errors, ignoring line numbers.
pub(super) fn check_problem(problem: &Problem, expected: &[&str]) {
    let told = problem.to_string();
    let told: Vec<String> = told.lines().map(without_line).collect();
    assert_eq!(told, expected);
    assert_eq!(problem.exit, Exit::Usage);
}

/// Checks that every error has a line number, and that the line contains part of its path.
pub(super) fn check_lines(text: &str, problem: &Problem) {
    let sections: Vec<String> = text
        .parse::<toml::Table>()
        .map(|table| table.keys().cloned().collect())
        .unwrap_or_default();
    for mistake in problem.details.iter().chain([&problem.message]) {
        let path = without_line(mistake);
        let Some((path, _)) = path.split_once(": ") else { continue };
        if !sections.iter().any(|name| path.split(['.', '[']).next() == Some(name)) {
            continue;
        }
        let line = mistake.strip_prefix("turnwire.toml:").and_then(|rest| rest.split_once(": "));
        let line: usize = line.expect(mistake).0.parse().expect(mistake);
        let line = text.lines().nth(line - 1).expect(mistake);
        let is_there =
            path.split(['.', '[', ']']).any(|name| !name.is_empty() && line.contains(name));
        assert!(is_there, "{mistake} is not at `{line}`");
    }
}

/// Removes file and line from an error.
fn without_line(mistake: &str) -> String {
    let indent: String = mistake.chars().take_while(|c| *c == ' ').collect();
    let located = mistake.trim_start().strip_prefix("turnwire.toml:");
    let rest = located.and_then(|rest| rest.split_once(": ")).map(|(_, rest)| rest);
    rest.map_or_else(|| mistake.to_owned(), |rest| indent + rest)
}

/// Checks that `serve` reports exactly these errors for a file.
pub(super) fn check_mistakes(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let problem = demo_settings(text, variables).unwrap_err();
    check_lines(text, &problem);
    // They are in the order of their lines, which `file_tests` checks.
    let mut details: Vec<String> =
        problem.details.iter().map(|detail| without_line(detail)).collect();
    let mut expected = expected.to_vec();
    details.sort();
    expected.sort_unstable();
    assert_eq!(details, expected);
    assert_eq!(problem.exit, Exit::Usage);
}
