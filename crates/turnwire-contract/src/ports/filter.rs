//! Filters on file attributes: parsing and evaluation.

use std::cmp::Ordering;

use serde::{
    Deserialize, Serialize,
    de::{IntoDeserializer, value::StrDeserializer},
};
use serde_json::{Map, Value};

/// A condition on the attributes of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// Compares one attribute with a value.
    Compare {
        /// Name of the attribute. A file without this attribute does not match.
        key: String,
        /// The comparison.
        comparison: Comparison,
        /// The value to compare with; a list for [`Comparison::In`] and [`Comparison::NotIn`].
        value: Value,
    },
    /// All filters must match.
    All(Vec<Filter>),
    /// At least one filter must match.
    Any(Vec<Filter>),
}

impl Filter {
    /// Parses a filter from its JSON form: a comparison such as `{"type": "eq", "key": "year",
    /// "value": 2024}`, or filters combined with `{"type": "and", "filters": […]}` or `or`.
    ///
    /// Unknown syntax is an error. Ignoring it would return files that the client wanted to
    /// exclude. `path` is the location of the filter in the request; the error's path starts with
    /// it.
    pub fn read(written: &Value, path: &str) -> Result<Self, FilterMistake> {
        let Value::Object(fields) = written else {
            return Err(FilterMistake::new(path, "must be an object"));
        };
        let field = |name: &str| (fields.get(name), format!("{path}.{name}"));
        let (kind, at) = field("type");
        match kind.and_then(Value::as_str) {
            Some("and") => Ok(Self::All(read_joined(field("filters"))?)),
            Some("or") => Ok(Self::Any(read_joined(field("filters"))?)),
            Some(word) => Self::read_comparison(Comparison::of(word, at)?, field),
            None => Err(FilterMistake::new(at, KINDS)),
        }
    }

    fn read_comparison<'a>(
        comparison: Comparison,
        field: impl Fn(&str) -> (Option<&'a Value>, String),
    ) -> Result<Self, FilterMistake> {
        let (Some(Value::String(key)), _) = field("key") else {
            return Err(FilterMistake::new(field("key").1, "must be the name of an attribute"));
        };
        let (value, at) = field("value");
        let value = value.filter(|value| comparison.fits(value)).ok_or_else(|| {
            let wanted = "must be a text, a number, `true` or `false`; for `in` and `nin` a list \
                          of those";
            FilterMistake::new(at, wanted)
        })?;
        Ok(Self::Compare { key: key.clone(), comparison, value: value.clone() })
    }

    /// Whether a file with these attributes matches.
    pub fn passes(&self, attributes: &Map<String, Value>) -> bool {
        match self {
            Self::Compare { key, comparison, value } => {
                attributes.get(key).is_some_and(|found| comparison.matches(found, value))
            }
            Self::All(filters) => filters.iter().all(|filter| filter.passes(attributes)),
            Self::Any(filters) => filters.iter().any(|filter| filter.passes(attributes)),
        }
    }
}

fn read_joined((joined, at): (Option<&Value>, String)) -> Result<Vec<Filter>, FilterMistake> {
    match joined {
        Some(Value::Array(filters)) if !filters.is_empty() => {
            let each = filters.iter().enumerate();
            each.map(|(n, filter)| Filter::read(filter, &format!("{at}[{n}]"))).collect()
        }
        _ => Err(FilterMistake::new(at, "must be a list of at least one filter")),
    }
}

const KINDS: &str = "must be one of `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `nin`, `and`, `or`";

/// A syntax error in a filter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` {wanted}")]
pub struct FilterMistake {
    /// Location of the error, such as `filters.filters[0].key`.
    pub path: String,
    /// What is required there, as the end of a sentence without its full stop.
    pub wanted: &'static str,
}

impl FilterMistake {
    fn new(path: impl Into<String>, wanted: &'static str) -> Self {
        Self { path: path.into(), wanted }
    }
}

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Comparison {
    /// Equal.
    #[serde(rename = "eq")]
    Equal,
    /// Not equal.
    #[serde(rename = "ne")]
    NotEqual,
    /// Greater.
    #[serde(rename = "gt")]
    Greater,
    /// Greater or equal.
    #[serde(rename = "gte")]
    GreaterOrEqual,
    /// Less.
    #[serde(rename = "lt")]
    Less,
    /// Less or equal.
    #[serde(rename = "lte")]
    LessOrEqual,
    /// Contained in the list.
    #[serde(rename = "in")]
    In,
    /// Not contained in the list.
    #[serde(rename = "nin")]
    NotIn,
}

impl Comparison {
    /// Parses the operator `word`, which is at `path`.
    fn of(word: &str, path: String) -> Result<Self, FilterMistake> {
        let word: StrDeserializer<'_, serde::de::value::Error> = word.into_deserializer();
        Self::deserialize(word).map_err(|_| FilterMistake::new(path, KINDS))
    }

    /// Whether the operator can be applied to `value`.
    fn fits(self, value: &Value) -> bool {
        let is_plain = |value: &Value| value.is_string() || value.is_number() || value.is_boolean();
        match self {
            Self::In | Self::NotIn => value.as_array().is_some_and(|all| all.iter().all(is_plain)),
            Self::Equal
            | Self::NotEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::Less
            | Self::LessOrEqual => is_plain(value),
        }
    }

    fn matches(self, found: &Value, wanted: &Value) -> bool {
        let order = compare(found, wanted);
        let listed = || wanted.as_array().map(|list| list.iter().any(|one| same(found, one)));
        match self {
            Self::Equal => same(found, wanted),
            Self::NotEqual => !same(found, wanted),
            Self::Greater => order == Some(Ordering::Greater),
            Self::GreaterOrEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
            Self::Less => order == Some(Ordering::Less),
            Self::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
            Self::In => listed() == Some(true),
            Self::NotIn => listed() == Some(false),
        }
    }
}

/// Integers and floats of equal value, such as 1 and 1.0, are equal.
fn same(one: &Value, other: &Value) -> bool {
    one == other || compare(one, other) == Some(Ordering::Equal)
}

fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;
