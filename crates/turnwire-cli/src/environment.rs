//! The environment variables, read once at the start.

use std::collections::BTreeMap;

/// Variables with the filter of the log, in order of precedence.
const LOG_FILTERS: [&str; 2] = ["TURNWIRE_LOG", "RUST_LOG"];
/// Variable with the format of log lines.
const LOG_FORMAT: &str = "TURNWIRE_LOG_FORMAT";

/// The environment variables that are valid UTF-8. Empty ones count as not set, as in `NO_COLOR=
/// turnwire …`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment(BTreeMap<String, String>);

impl Environment {
    pub(crate) fn of_this_process() -> Self {
        let texts = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        texts.collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns the variable that asks for a log, and its filter.
    pub(crate) fn log_filter(&self) -> Option<(&'static str, &str)> {
        LOG_FILTERS.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    /// Whether log lines are JSON. The error says what the variable must be.
    pub(crate) fn logs_json(&self) -> Result<bool, String> {
        match self.get(LOG_FORMAT) {
            None | Some("text") => Ok(false),
            Some("json") => Ok(true),
            Some(other) => Err(format!("{LOG_FORMAT}: `{other}`: there are `text`, `json`")),
        }
    }

    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Environment {
    fn from_iter<T: IntoIterator<Item = (N, V)>>(variables: T) -> Self {
        let variables = variables.into_iter().map(|(name, value)| (name.into(), value.into()));
        Self(variables.filter(|(_, value): &(String, String)| !value.trim().is_empty()).collect())
    }
}
