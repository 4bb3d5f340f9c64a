//! What the tests of the sections have in common.

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

/// The settings of `run` that follow from a file, variables and `--model`.
pub(super) fn run_settings(
    text: &str,
    variables: &[(&str, &str)],
    model: Option<&str>,
) -> Result<RunSettings, Problem> {
    let arguments = RunArguments { model: model.map(str::to_owned), ..RunArguments::default() };
    let environment = variables.iter().copied().collect();
    RunSettings::of(&arguments, &environment, Some(&file(text)), false)
}

/// The settings of `serve --demo` that follow from a file and variables.
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
    check_problem(&run_settings(text, variables, model).unwrap_err(), expected);
}

pub(super) fn check_problem(problem: &Problem, expected: &[&str]) {
    assert_eq!(problem.to_string().lines().collect::<Vec<_>>(), expected);
    assert_eq!(problem.exit, Exit::Usage);
}

/// Checks that `serve` finds exactly these mistakes in a file.
pub(super) fn check_mistakes(text: &str, variables: &[(&str, &str)], expected: &[&str]) {
    let problem = demo_settings(text, variables).unwrap_err();
    assert_eq!(problem.details, expected);
    assert_eq!(problem.exit, Exit::Usage);
}

/// Checks that the keys that are known are the keys that are read.
pub(super) fn check_keys<T: RawTable>() {
    use toml::{Table, Value};

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
