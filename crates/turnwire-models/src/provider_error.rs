//! What providers say when something went wrong, in our words.
//!
//! Every provider wraps its complaint in another shape, and every proxy in front of it in yet
//! another. What the engine needs to know is only whether asking again makes sense.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::ModelError;

use crate::{lenient_json, secret::CUT_MARK};

/// How much of a provider's own words is repeated.
const MAX_QUOTED_CHARACTERS: usize = 300;

/// A complaint, as far as it could be understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Complaint {
    message: Option<String>,
    /// Everything that names the kind of the error: its type, its code, its status.
    names: Vec<String>,
}

impl Complaint {
    /// Looks for a complaint in a JSON text.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let body: ErrorBody = lenient_json::from_str(text).ok()?;
        match body.error {
            Some(Value::Null) | None if body.says_error() => Some(Self::of_fields(body.fields)),
            Some(Value::Null) | None => None,
            Some(error) => Some(Self::of(error)),
        }
    }

    /// Reads the value of an `error` field.
    pub(crate) fn of(error: Value) -> Self {
        match error {
            Value::String(message) => Self { message: Some(message), names: Vec::new() },
            error => serde_json::from_value(error).map(Self::of_fields).unwrap_or_default(),
        }
    }

    fn of_fields(fields: ErrorFields) -> Self {
        let names = [fields.kind, fields.code, fields.status];
        Self {
            message: fields.message.or(fields.detail).map(|message| match message {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            names: names.into_iter().flatten().map(|name| word(&name)).collect(),
        }
    }

    /// The error for a stream in the middle of which the provider complained.
    pub(crate) fn in_mid_stream(&self) -> ModelError {
        let message = self.sentence("the provider reported an error");
        if self.will_pass() {
            ModelError::Unavailable { message, retry_after: None }
        } else {
            ModelError::Broken { message }
        }
    }

    /// The error for a complaint that came in place of an answer.
    pub(crate) fn instead_of_answer(&self) -> ModelError {
        let message = self.sentence("the provider reported an error");
        if self.will_pass() {
            ModelError::Unavailable { message, retry_after: None }
        } else {
            ModelError::Rejected { message }
        }
    }

    /// Our words, and the provider's if it has any.
    pub(crate) fn sentence(&self, ours: &str) -> String {
        match (&self.message, self.names.first()) {
            (Some(message), _) if !message.trim().is_empty() => {
                format!("{ours}: {}", shortened(message))
            }
            (_, Some(name)) => format!("{ours}: {}", shortened(name)),
            _ => ours.to_owned(),
        }
    }

    fn will_pass(&self) -> bool {
        self.names.iter().any(|name| match name.parse::<u16>() {
            Ok(status) => is_passing_status(status),
            Err(_) => PASSING_NAMES.iter().any(|passing| name.contains(passing)),
        })
    }
}

/// Parts of error names that mean: later.
const PASSING_NAMES: &[&str] = &[
    "api_error",
    "exhausted",
    "internal",
    "overloaded",
    "rate_limit",
    "server_error",
    "timeout",
    "too_many_requests",
    "unavailable",
];

/// The error for an HTTP status that is not a success.
pub(crate) fn error_of_status(
    status: u16,
    retry_after: Option<Duration>,
    body: &str,
) -> ModelError {
    let complaint = Complaint::in_text(body).unwrap_or_default();
    let message = complaint.sentence(&format!("{} (HTTP {status})", meaning_of_status(status)));
    if is_passing_status(status) {
        ModelError::Unavailable { message, retry_after }
    } else {
        ModelError::Rejected { message }
    }
}

fn is_passing_status(status: u16) -> bool {
    matches!(status, 408 | 409 | 425 | 429 | 500..=599)
}

fn meaning_of_status(status: u16) -> &'static str {
    match status {
        300..=399 => "the address leads elsewhere; check the base URL",
        400 | 422 => "the provider did not accept the request",
        401 | 403 => "the provider did not accept the key",
        404 | 405 => "the provider knows no such address or model",
        413 => "the request is too big for the provider",
        408 | 504 => "the provider took too long",
        429 => "the provider asks to slow down",
        529 => "the provider is overloaded",
        500..=599 => "the provider has a problem of its own",
        _ => "the provider did not answer",
    }
}

/// At most [`MAX_QUOTED_CHARACTERS`] of `text`, on one line.
pub(crate) fn shortened(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}{CUT_MARK}", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_lowercase(),
        other => other.to_string(),
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    #[serde(default)]
    error: Option<Value>,
    #[serde(default)]
    object: Option<Value>,
    #[serde(flatten)]
    fields: ErrorFields,
}

impl ErrorBody {
    /// Some servers put the complaint at the top and mark it.
    fn says_error(&self) -> bool {
        let marks = [&self.object, &self.fields.kind];
        marks.into_iter().flatten().any(|mark| mark == "error") || self.fields.detail.is_some()
    }
}

#[derive(Deserialize)]
struct ErrorFields {
    #[serde(default)]
    message: Option<Value>,
    #[serde(default)]
    detail: Option<Value>,
    #[serde(default, rename = "type")]
    kind: Option<Value>,
    #[serde(default)]
    code: Option<Value>,
    #[serde(default)]
    status: Option<Value>,
}

#[cfg(test)]
#[path = "provider_error_tests.rs"]
mod tests;
