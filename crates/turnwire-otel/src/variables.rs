//! The standard variables of OpenTelemetry: how their values are read.
//!
//! A value that cannot be used is an error: a server that starts and exports nothing would be
//! noticed when the data is needed.

use std::{collections::BTreeMap, str::FromStr, time::Duration};

use percent_encoding::percent_decode_str;
use thiserror::Error;

/// A variable with a value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{name}: {reason}")]
pub struct VariableError {
    /// The variable.
    pub name: &'static str,
    /// What it must be. The value is not repeated if it may be a secret.
    pub reason: String,
}

impl VariableError {
    pub(crate) fn new(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into() }
    }
}

/// Looks a variable up.
pub(crate) struct Variables<'f, 'a>(pub(crate) &'f dyn Fn(&str) -> Option<&'a str>);

impl<'a> Variables<'_, 'a> {
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        (self.0)(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The first of these variables that is set.
    pub(crate) fn first(&self, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
        names.iter().find_map(|name| Some((*name, self.get(name)?)))
    }

    pub(crate) fn number<T: FromStr>(
        &self,
        name: &'static str,
        usual: T,
    ) -> Result<T, VariableError> {
        let Some(text) = self.get(name) else { return Ok(usual) };
        text.parse().map_err(|_| VariableError::new(name, format!("`{text}` is not a number")))
    }

    pub(crate) fn millis(
        &self,
        names: &[&'static str],
        usual: u64,
    ) -> Result<Duration, VariableError> {
        let name = self.first(names).map_or("", |(name, _)| name);
        self.number(name, usual).map(Duration::from_millis)
    }

    /// Reads `name=value,…` with percent-encoded values.
    pub(crate) fn pairs(
        &self,
        names: &[&'static str],
    ) -> Result<BTreeMap<String, String>, VariableError> {
        let Some((name, text)) = self.first(names) else { return Ok(BTreeMap::new()) };
        let wrong = || VariableError::new(name, "it must be `name=value,name=value`");
        let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
        let read = |pair: &str| {
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let decoded = |text: &str| {
                let text = percent_decode_str(text.trim()).decode_utf8().map_err(|_| wrong())?;
                Ok::<_, VariableError>(text.into_owned())
            };
            Ok((decoded(key)?, decoded(value)?))
        };
        pairs.map(read).collect()
    }
}
