//! Classification of provider errors.
//!
//! Every provider and every proxy has its own error format. [`ParsedError::meaning`] classifies an
//! error by its names (type, code, status), then by its text if the names are not specific, then by
//! the HTTP status.
//!
//! Text from a provider is never part of a [`ModelError`], because it may contain a key, a prompt
//! or a URL. It is stored in the [`Fault`] and logged at debug level only.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use turnwire_contract::ModelError;

use crate::{lenient_json, secret::CUT_MARK};

/// Maximum length of provider text in the log.
const MAX_QUOTED_CHARACTERS: usize = 300;

/// An error that ends an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The error without provider text.
    pub(crate) error: ModelError,
    /// Text of the provider, for the log.
    pub(crate) provider_text: Option<String>,
    /// Whether the provider refuses reasoning that was given back to it.
    pub(crate) is_about_reasoning: bool,
}

impl From<ModelError> for Fault {
    fn from(error: ModelError) -> Self {
        Self { error, provider_text: None, is_about_reasoning: false }
    }
}

impl Fault {
    /// Returns the fault of a provider that says that a retry does not help.
    pub(crate) fn not_retried(mut self) -> Self {
        self.error = match self.error {
            ModelError::RateLimited { message, .. } => ModelError::Misconfigured { message },
            ModelError::Unavailable { message, .. } => ModelError::Rejected { message },
            error => error,
        };
        self
    }
}

/// A parsed error of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedError {
    message: Option<String>,
    /// Everything that names the kind of the error: type, code and status.
    names: Vec<String>,
    /// The delay that Google asks for.
    retry_delay: Option<Duration>,
}

/// Class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Unavailable,
    RateLimited,
    Misconfigured,
    UnknownModel,
    ContextTooLong,
    ContentFiltered,
    Rejected,
    Broken,
}

impl ParsedError {
    /// Parses an error from a JSON text.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let body: Value = lenient_json::from_str(text).ok()?;
        // Google wraps the error in a list.
        let body = match body {
            Value::Array(bodies) => bodies.into_iter().next()?,
            body => body,
        };
        let body: ErrorBody = serde_json::from_value(body).ok()?;
        match body.error {
            Some(Value::Null) | None if body.says_error() => Some(Self::of_fields(body.fields)),
            Some(Value::Null) | None => None,
            Some(Value::String(message)) => {
                Some(Self { message: Some(message), ..Self::of_fields(body.fields) })
            }
            Some(error) => Some(Self::of(error)),
        }
    }

    /// Parses the value of an `error` field.
    pub(crate) fn of(error: Value) -> Self {
        match error {
            Value::String(message) => Self { message: Some(message), ..Self::default() },
            error => serde_json::from_value(error).map(Self::of_fields).unwrap_or_default(),
        }
    }

    fn of_fields(fields: ErrorFields) -> Self {
        let inner = fields.inner_error.and_then(|inner| inner.get("code").cloned());
        let names = [fields.kind, fields.code, fields.status, fields.error_type, inner];
        Self {
            message: fields.message.or(fields.detail).map(|message| match message {
                Value::String(text) => text,
                other => other.to_string(),
            }),
            names: names.into_iter().flatten().map(|name| word(&name)).collect(),
            retry_delay: fields.details.and_then(|details| {
                let delays =
                    details.as_array()?.iter().filter_map(|detail| detail.get("retryDelay"));
                let mut delays = delays.filter_map(Value::as_str);
                let seconds = delays.next()?.strip_suffix('s')?;
                Duration::try_from_secs_f64(seconds.parse().ok()?).ok()
            }),
        }
    }

    /// Returns the fault for an error within a stream.
    pub(crate) fn in_mid_stream(&self) -> Fault {
        let meaning = self.meaning(None).unwrap_or(Meaning::Broken);
        self.fault(meaning, "the provider reported an error".to_owned(), None)
    }

    /// Returns the fault for an error instead of an answer.
    pub(crate) fn instead_of_answer(&self) -> Fault {
        let meaning = self.meaning(None).unwrap_or(Meaning::Rejected);
        self.fault(meaning, "the provider reported an error".to_owned(), None)
    }

    fn fault(&self, meaning: Meaning, message: String, retry_after: Option<Duration>) -> Fault {
        let asked = retry_after.or(self.retry_delay);
        let wait = || asked.or_else(|| waiting_time_in(self.message.as_deref()?));
        let error = match meaning {
            Meaning::Unavailable => ModelError::Unavailable { message, retry_after: wait() },
            Meaning::RateLimited => ModelError::RateLimited { message, retry_after: wait() },
            Meaning::Misconfigured => ModelError::Misconfigured { message },
            Meaning::UnknownModel => ModelError::UnknownModel { message },
            Meaning::ContextTooLong => ModelError::ContextTooLong { message },
            Meaning::ContentFiltered => ModelError::ContentFiltered { message },
            Meaning::Rejected => ModelError::Rejected { message },
            Meaning::Broken => ModelError::Broken { message },
        };
        let is_about_reasoning = meaning == Meaning::Rejected && self.is_about_reasoning();
        Fault { error, provider_text: self.text(), is_about_reasoning }
    }

    fn text(&self) -> Option<String> {
        let message = self.message.as_deref().filter(|message| !message.trim().is_empty());
        message.or(self.names.first().map(String::as_str)).map(shortened)
    }

    /// Returns the class, if it can be determined: from the names, then from the text if the status
    /// is ambiguous, then from the status.
    fn meaning(&self, status: Option<u16>) -> Option<Meaning> {
        let named = self.names.iter().find_map(|name| name.parse().ok());
        let status = status.or(named);
        let of_names = || {
            // A type may be less specific than the code beside it, so the table decides.
            let is_named = |part: &str| self.names.iter().any(|name| name.contains(part));
            NAMES.iter().find(|(part, _)| is_named(part)).map(|(_, meaning)| *meaning)
        };
        let of_text = || {
            let text = self.message.as_deref()?.to_lowercase();
            meaning_in(TEXTS, &text).filter(|_| leaves_it_open(status))
        };
        let of_family = || {
            let family = self.names.iter().find_map(|name| meaning_in(FAMILIES, name));
            family.filter(|_| status.is_none())
        };
        of_names().or_else(of_text).or_else(|| self.of_status(status?)).or_else(of_family)
    }

    fn of_status(&self, status: u16) -> Option<Meaning> {
        match status {
            429 => Some(Meaning::RateLimited),
            408 | 409 | 424 | 425 | 498 | 500..=599 => Some(Meaning::Unavailable),
            404 if self.is_about_a_model() => Some(Meaning::UnknownModel),
            300..=399 | 401..=407 => Some(Meaning::Misconfigured),
            413 => Some(Meaning::ContextTooLong),
            _ => None,
        }
    }

    fn is_about_reasoning(&self) -> bool {
        let says_so = |text: &String| {
            let text = text.to_lowercase();
            OF_REASONING.iter().any(|part| text.contains(part))
        };
        self.message.iter().chain(&self.names).any(says_so)
    }

    /// An error about an unknown model mentions the model; an error about an unknown path does not.
    fn is_about_a_model(&self) -> bool {
        self.message.iter().chain(&self.names).any(|text| text.to_lowercase().contains("model"))
    }
}

/// Whether the status alone is ambiguous.
fn leaves_it_open(status: Option<u16>) -> bool {
    matches!(status, None | Some(400 | 402 | 403 | 413 | 422 | 500))
}

/// Substrings of error names, and their class. The first match counts.
const NAMES: &[(&str, Meaning)] = &[
    ("context_length", Meaning::ContextTooLong),
    ("context_window", Meaning::ContextTooLong),
    ("exceed_context", Meaning::ContextTooLong),
    ("request_too_large", Meaning::ContextTooLong),
    ("content_filter", Meaning::ContentFiltered),
    ("content_policy", Meaning::ContentFiltered),
    ("policyviolation", Meaning::ContentFiltered),
    ("policy_violation", Meaning::ContentFiltered),
    ("bio_policy", Meaning::ContentFiltered),
    ("cyber_policy", Meaning::ContentFiltered),
    ("invalid_prompt", Meaning::ContentFiltered),
    ("insufficient_quota", Meaning::Misconfigured),
    ("credit_balance", Meaning::Misconfigured),
    ("spend_limit", Meaning::Misconfigured),
    ("usage_limit", Meaning::Misconfigured),
    ("insufficient_balance", Meaning::Misconfigured),
    ("billing", Meaning::Misconfigured),
    ("api_key", Meaning::Misconfigured),
    ("authentication", Meaning::Misconfigured),
    ("unauthenticated", Meaning::Misconfigured),
    ("unauthorized", Meaning::Misconfigured),
    ("permission", Meaning::Misconfigured),
    ("model_not_found", Meaning::UnknownModel),
    ("rate_limit", Meaning::RateLimited),
    ("ratelimit", Meaning::RateLimited),
    ("too_many_requests", Meaning::RateLimited),
    ("resource_exhausted", Meaning::RateLimited),
    ("slow_down", Meaning::RateLimited),
    ("throttl", Meaning::RateLimited),
    ("overloaded", Meaning::Unavailable),
    // The model wrote a call that the provider cannot read; the next time it may not.
    ("tool_use_failed", Meaning::Unavailable),
];

/// Substrings of error texts, for providers whose names are not specific.
const TEXTS: &[(&str, Meaning)] = &[
    ("context length", Meaning::ContextTooLong),
    ("context size", Meaning::ContextTooLong),
    ("context window", Meaning::ContextTooLong),
    ("context limit", Meaning::ContextTooLong),
    ("contextwindowexceeded", Meaning::ContextTooLong),
    ("prompt is too long", Meaning::ContextTooLong),
    ("prompt too long", Meaning::ContextTooLong),
    ("input is too long", Meaning::ContextTooLong),
    ("`inputs` tokens + `max_new_tokens`", Meaning::ContextTooLong),
    ("content filter", Meaning::ContentFiltered),
    ("content management policy", Meaning::ContentFiltered),
    ("contentpolicyviolation", Meaning::ContentFiltered),
    ("content policy", Meaning::ContentFiltered),
    ("usage policy", Meaning::ContentFiltered),
    ("was flagged", Meaning::ContentFiltered),
    ("credit balance", Meaning::Misconfigured),
    ("insufficient balance", Meaning::Misconfigured),
    ("api key", Meaning::Misconfigured),
];

/// Substrings of errors about reasoning that was given back: it is not the provider's own, was
/// changed, or stands in another conversation.
const OF_REASONING: &[&str] = &[
    "signature",
    "invalid_encrypted_content",
    "encrypted content",
    "thinking block",
    "`thinking`",
    "reasoning_content",
    "reasoning_details",
    "bound to a different conversation",
    "cannot be modified",
];

/// Substrings of generic error names. They count only if nothing else matches.
const FAMILIES: &[(&str, Meaning)] = &[
    ("invalid_request", Meaning::Rejected),
    ("api_error", Meaning::Unavailable),
    ("exhausted", Meaning::Unavailable),
    ("internal", Meaning::Unavailable),
    ("server_error", Meaning::Unavailable),
    ("timeout", Meaning::Unavailable),
    ("unavailable", Meaning::Unavailable),
];

fn meaning_in(table: &[(&str, Meaning)], text: &str) -> Option<Meaning> {
    table.iter().find(|(part, _)| text.contains(part)).map(|(_, meaning)| *meaning)
}

/// Returns the fault for an HTTP error status.
pub(crate) fn fault_of_status(status: u16, retry_after: Option<Duration>, body: &str) -> Fault {
    let parsed = ParsedError::in_text(body).unwrap_or_default();
    let meaning = parsed.meaning(Some(status)).unwrap_or(Meaning::Rejected);
    let message = format!("{} (HTTP {status})", words_for(meaning, status));
    parsed.fault(meaning, message, retry_after)
}

/// Returns the message for a class and status.
fn words_for(meaning: Meaning, status: u16) -> &'static str {
    match (meaning, status) {
        (Meaning::RateLimited, _) => "the provider's rate limit is reached",
        (Meaning::ContextTooLong, _) => "the request is too large for the provider",
        (Meaning::ContentFiltered, _) => "the provider filtered the request",
        (Meaning::UnknownModel, _) => "the provider does not have this model",
        (_, 300..=399) => "the address redirects to another one; check the base URL",
        (Meaning::Misconfigured, 404 | 405) => {
            "the provider has nothing at this address; check the base URL"
        }
        (Meaning::Misconfigured, _) => {
            "the provider rejected the key, or the account has no credit"
        }
        (_, 408 | 504) => "the provider timed out",
        (_, 529) => "the provider is overloaded",
        (_, 500..=599) => "the provider returned a server error",
        (_, 400 | 422) => "the provider rejected the request",
        _ => "the provider did not respond",
    }
}

/// Parses a delay from the text, as in `try again in 1.5s`.
fn waiting_time_in(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("try again in ")?;
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
    let (number, unit) = rest.split_at_checked(end)?;
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let unit = unit.trim_start();
    let seconds = match unit {
        _ if unit.starts_with("ms") => number / 1_000.0,
        _ if unit.starts_with('m') => number * 60.0,
        _ if unit.starts_with('s') => number,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Truncates `text` to [`MAX_QUOTED_CHARACTERS`], on one line.
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
    error: Option<Value>,
    object: Option<Value>,
    #[serde(flatten)]
    fields: ErrorFields,
}

impl ErrorBody {
    /// vLLM and Mistral put the error at the top level: vLLM marks it with `object`, Mistral uses
    /// `detail`.
    fn says_error(&self) -> bool {
        let marks = [&self.object, &self.fields.kind];
        marks.into_iter().flatten().any(|mark| mark == "error") || self.fields.detail.is_some()
    }
}

#[derive(Default, Deserialize)]
struct ErrorFields {
    message: Option<Value>,
    detail: Option<Value>,
    #[serde(default, rename = "type")]
    kind: Option<Value>,
    code: Option<Value>,
    status: Option<Value>,
    error_type: Option<Value>,
    #[serde(default, rename = "innererror")]
    inner_error: Option<Value>,
    /// Google's.
    details: Option<Value>,
}

#[cfg(test)]
#[path = "provider_error_tests.rs"]
mod tests;
