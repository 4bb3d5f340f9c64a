//! Errors in a request, with what the client needs to repair them.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::json::JsonError;

/// Minimum similarity for suggesting a known field instead of an unknown one.
const ALIKE: f64 = 0.8;

/// A request that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// One or two sentences for people.
    pub message: String,
    /// Path of the field, such as `input[2].content[0].image_url`.
    pub param: Option<String>,
    pub code: &'static str,
    /// HTTP status: 400, or 404 for a missing object.
    pub status: u16,
}

impl ClientError {
    /// An error about `param`.
    pub fn new(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), param: Some(param.into()), code, status: 400 }
    }

    /// A value of the right type that is not accepted.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("invalid_value", param, message)
    }

    pub(crate) fn wrong_type(param: impl Into<String>, expected: &str, got: &Value) -> Self {
        let param = param.into();
        let message = format!("`{param}` must be {expected}, not {}.", type_of(got));
        Self::new("invalid_type", param, message)
    }

    /// A required field that is missing.
    pub fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("`{param}` is missing.");
        Self::new("missing_required_parameter", param, message)
    }

    /// An unknown field of the object at `path`, with a suggestion from `known`.
    pub fn unknown<'a>(path: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let likeness = |known: &str| strsim::jaro_winkler(name, known);
        let nearest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = nearest.filter(|nearest| likeness(nearest) >= ALIKE);
        let hint = nearest.map(|nearest| format!(" Did you mean '{}'?", join(path, nearest)));
        let field = join(path, &shown(name));
        let message = format!("Unknown parameter: '{field}'.{}", hint.unwrap_or_default());
        Self::new("unknown_parameter", field, message)
    }

    /// A reference to something that does not exist.
    pub fn not_found(
        code: &'static str,
        param: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { status: 404, ..Self::new(code, param, message) }
    }
}

impl From<JsonError> for ClientError {
    fn from(JsonError { code, message }: JsonError) -> Self {
        Self { message, param: None, code, status: 400 }
    }
}

/// Refuses a body with a field that is not in `known`.
pub fn refuse_unknown(body: &Map<String, Value>, known: &[&str]) -> Result<(), ClientError> {
    let is_unknown =
        |(name, value): &(&String, &Value)| !known.contains(&name.as_str()) && !value.is_null();
    match body.iter().find(is_unknown) {
        Some((name, _)) => Err(ClientError::unknown("", name, known.iter().copied())),
        None => Ok(()),
    }
}

/// The path of the field `name` of the object at `path`. An empty name is the object itself.
pub(crate) fn join(path: &str, name: &str) -> String {
    match (path, name) {
        ("", name) => name.to_owned(),
        (path, "") => path.to_owned(),
        (path, name) => format!("{path}.{name}"),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Client input for use in a message: shortened, and without control characters.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 64;
    let is_tame = |c: char| !c.is_control();
    if text.chars().count() <= MAX_CHARS && text.chars().all(is_tame) {
        return Cow::Borrowed(text);
    }
    let begin: String = text.chars().filter(|c| is_tame(*c)).take(MAX_CHARS).collect();
    Cow::Owned(begin + "…")
}
