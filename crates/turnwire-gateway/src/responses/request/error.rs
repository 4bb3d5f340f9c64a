//! What is wrong with a request, so that whoever sent it can repair it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::json::NotRead;

/// How alike a field and a known one must be for the one to be meant by the other.
const ALIKE: f64 = 0.8;

/// A request that cannot be carried out as it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClientError {
    /// One or two sentences for people.
    pub message: String,
    /// Where, such as `input[2].content[0].image_url`.
    pub param: Option<String>,
    /// Stable, for programs.
    pub code: &'static str,
    /// The HTTP status: 400, or 404 for what is not there.
    pub status: u16,
}

impl ClientError {
    /// An error at `param`.
    pub fn new(code: &'static str, param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { message: message.into(), param: Some(param.into()), code, status: 400 }
    }

    /// The value is of the right type, but not one that will do.
    pub fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("invalid_value", param, message)
    }

    /// A value of another type.
    pub(super) fn wrong_type(param: impl Into<String>, expected: &str, got: &Value) -> Self {
        let param = param.into();
        let message = format!("`{param}` must be {expected}, not {}.", type_of(got));
        Self::new("invalid_type", param, message)
    }

    /// Nothing where something must be.
    pub fn missing(param: impl Into<String>) -> Self {
        let param = param.into();
        let message = format!("`{param}` is missing.");
        Self::new("missing_required_parameter", param, message)
    }

    /// A field of the object at `path` that nobody knows, with the one of the `known` that was
    /// probably meant.
    pub fn unknown<'a>(path: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Self {
        let likeness = |known: &str| strsim::jaro_winkler(name, known);
        let nearest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = nearest.filter(|nearest| likeness(nearest) >= ALIKE);
        let hint = nearest.map(|nearest| format!(" Did you mean '{}'?", join(path, nearest)));
        let field = join(path, &shown(name));
        let message = format!("Unknown parameter: '{field}'.{}", hint.unwrap_or_default());
        Self::new("unknown_parameter", field, message)
    }

    /// Something named that is not there.
    pub fn not_found(
        code: &'static str,
        param: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { status: 404, ..Self::new(code, param, message) }
    }
}

impl From<NotRead> for ClientError {
    fn from(NotRead { code, message }: NotRead) -> Self {
        Self { message, param: None, code, status: 400 }
    }
}

/// Refuses a body with a field that is not `known`.
pub fn refuse_unknown(body: &Map<String, Value>, known: &[&str]) -> Result<(), ClientError> {
    let is_unknown =
        |(name, value): &(&String, &Value)| !known.contains(&name.as_str()) && !value.is_null();
    match body.iter().find(is_unknown) {
        Some((name, _)) => Err(ClientError::unknown("", name, known.iter().copied())),
        None => Ok(()),
    }
}

/// The path of the field `name` of the object at `path`; the object's own if there is no name.
pub(super) fn join(path: &str, name: &str) -> String {
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

/// The client's own word, short enough and tame enough to be repeated in a message.
pub(super) fn shown(text: &str) -> Cow<'_, str> {
    const MOST: usize = 64;
    let is_tame = |c: char| !c.is_control();
    if text.chars().count() <= MOST && text.chars().all(is_tame) {
        return Cow::Borrowed(text);
    }
    let begin: String = text.chars().filter(|c| is_tame(*c)).take(MOST).collect();
    Cow::Owned(begin + "…")
}
