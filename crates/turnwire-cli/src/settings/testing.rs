//! Helpers for the tests of the sections.

use super::{
    RunSettings, ServeSettings,
    file::{DEFAULT_FILE, RawTable, SettingsFile},
};
use crate::{
    args::{RunArguments, ServeArguments},
    exit::{Exit, Problem},
};

pub(super) fn file(text: &str) -> SettingsFile {
    SettingsFile { path: DEFAULT_FILE.into(), text: text.to_owned() }
}

/// Returns the settings of `run` for a file, variables and `--model`.
pub(super) fn run_settings(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> Result<RunSettings, Problem> {
    let arguments = RunArguments { model: model.map(str::to_owned), ..RunArguments::default() };
    let environment = variables.iter().copied().collect();
    RunSettings::of(&arguments, &environment, Some(&file(text)), false)
}

/// Returns the settings of `serve --demo` for a file and variables.
pub(super) fn demo_settings(
    text: &str,
    variables: &[(&str, &str)],
) -> Result<ServeSettings, Problem> {
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
    let details: Vec<String> = problem.details.iter().map(|detail| without_line(detail)).collect();
    assert_eq!(details, expected);
    assert_eq!(problem.exit, Exit::Usage);
}

/// Checks that the known keys are the keys that are read, and that each is documented. `section` is
/// the table as in docs/settings.md, with `NAME` and `TOOL` as placeholders.
pub(super) fn check_keys<T: RawTable>(section: &str) {
    use toml::{Table, Value};

    for key in T::KEYS {
        assert!(has_example(section, key), "examples/turnwire.toml has no `{key}` of [{section}]");
        assert!(has_row(section, key), "docs/settings.md has no `{key}` of [{section}]");
    }
    for key in T::KEYS {
        let alone = Table::from_iter([((*key).to_owned(), Value::Boolean(true))]);
        let error = alone.try_into::<T>().err();
        let is_known = error.is_none_or(|error| !error.message().contains("unknown field"));
        assert!(is_known, "{key}");
    }
    let unknown = Table::from_iter([("no_such_key".to_owned(), Value::Boolean(true))]);
    let message = unknown.try_into::<T>().err().unwrap().message().to_owned();
    for key in T::KEYS {
        assert!(message.contains(&format!("`{key}`")), "{message}");
    }
    assert_eq!(message.matches('`').count(), 2 * (T::KEYS.len() + 1), "{message}");
}

/// Whether the example file has a line for a setting: active, commented (`# key = …`), or as an
/// alternative (`# or: key = …`).
fn has_example(section: &str, key: &str) -> bool {
    let wanted: Vec<&str> =
        section.split('.').filter(|part| !part.is_empty()).chain([key]).collect();
    let fits = |path: &[String]| {
        let mut pairs = wanted.iter().zip(path);
        path.len() >= wanted.len()
            && pairs.all(|(wanted, part)| ["NAME", "TOOL"].contains(wanted) || part == wanted)
    };
    let mut table: Vec<String> = Vec::new();
    for line in include_str!("../../../../examples/turnwire.toml").lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let line = line.strip_prefix("or: ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_start_matches('[').split(']').next().unwrap_or_default();
            table = name.split('.').map(str::to_owned).collect();
            if fits(&table) {
                return true;
            }
        } else if let Ok(setting) = line.parse::<toml::Table>() {
            let paths = paths_in(&toml::Value::Table(setting));
            if paths.into_iter().any(|path| fits(&[table.clone(), path].concat())) {
                return true;
            }
        }
    }
    false
}

/// Returns the path of every value in `value`.
fn paths_in(value: &toml::Value) -> Vec<Vec<String>> {
    let toml::Value::Table(table) = value else { return vec![Vec::new()] };
    let below = |(key, value): (&String, &toml::Value)| {
        let rest = paths_in(value).into_iter();
        rest.map(|rest| [vec![key.clone()], rest].concat()).collect::<Vec<_>>()
    };
    table.iter().flat_map(below).collect()
}

/// Whether docs/settings.md has a row for a setting, or a heading for a section.
fn has_row(section: &str, key: &str) -> bool {
    let reference = include_str!("../../../../docs/settings.md");
    if section.is_empty() {
        return reference.lines().any(|line| {
            let chapter = line.strip_prefix("## `[").map(|rest| rest.trim_start_matches('['));
            let name = chapter.and_then(|rest| rest.split([']', '.']).next());
            name == Some(key)
        });
    }
    let chapters = reference.split("\n## ").skip(1);
    let mut chapters = chapters.filter(|chapter| {
        let title = chapter.lines().next().unwrap_or_default();
        title.trim_matches('`').trim_matches(['[', ']']) == section
    });
    chapters.any(|chapter| chapter.lines().any(|line| line.starts_with(&format!("| `{key}` |"))))
}

/// Every table is checked, so that every setting is documented.
#[test]
fn every_table_is_checked() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/settings");
    let (mut tables, mut checked) = (Vec::new(), Vec::new());
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let names = |before: &str, end: char| -> Vec<String> {
            let found = text.split(before).skip(1).filter_map(|rest| rest.split(end).next());
            found.filter(|name| name.starts_with("Raw")).map(str::to_owned).collect()
        };
        tables.extend(names("impl RawTable for ", ' '));
        checked.extend(names("check_keys::<", '>'));
    }
    tables.sort();
    checked.sort();
    assert!(tables.len() > 10, "{tables:?}");
    assert_eq!(tables, checked);
}
