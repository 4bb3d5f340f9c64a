//! Takes the secrets of a server out of what it returns.
//!
//! Some servers repeat the headers they received, for example in an error. What a server returns is
//! recorded, shown and sent to the model, so the secrets that were sent to it are replaced before
//! anything else sees the message. This is for mistakes: a server that wants to pass a secret on can
//! encode it.

use std::{borrow::Cow, cmp::Reverse, fmt};

use reqwest::Url;
use rmcp::{RoleClient, service::RxJsonRpcMessage};
use serde_json::Value;
use turnwire_contract::{SecretText, ServerSecrets};

use super::options::{McpServerOptions, McpTransport};
use crate::secret::is_secret_name;

/// What stands in the place of a secret.
const REPLACEMENT: &str = "[secret]";
/// Minimum length of a secret that is replaced. Shorter texts occur in other meanings.
const MIN_LENGTH: usize = 8;

/// The secrets of one server.
#[derive(Default)]
pub(super) struct Redactor {
    secrets: Vec<SecretText>,
}

impl Redactor {
    /// Creates a redactor for what `options` and a request send to a server.
    pub(super) fn new(options: &McpServerOptions, supplied: Option<&ServerSecrets>) -> Self {
        let mut redactor = Self::default();
        let named = match &options.transport {
            McpTransport::Stdio { env, .. } => env,
            McpTransport::Http { url, bearer_token, headers, .. } => {
                redactor.add_url(url);
                if let Some(token) = bearer_token {
                    redactor.add(token.reveal());
                }
                headers
            }
        };
        for (_, value) in named.iter().filter(|(name, _)| is_secret_name(name)) {
            redactor.add(value);
        }
        for (_, value) in supplied.into_iter().flat_map(ServerSecrets::headers) {
            redactor.add(value.reveal());
        }
        redactor
    }

    /// Adds the password and the query of a URL, which errors of the connection contain.
    fn add_url(&mut self, url: &str) {
        let Ok(url) = Url::parse(url) else { return };
        self.add(url.password().unwrap_or_default());
        for pair in url.query().unwrap_or_default().split('&') {
            self.add(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
    }

    /// Adds the value of a header: without its scheme if it has one, otherwise as a whole and by its
    /// cookies. Longer texts are replaced first, because a shorter one may be a part of them.
    fn add(&mut self, value: &str) {
        let value = value.trim();
        let parts = match value.split_once(' ') {
            Some((_, token)) if token.len() >= MIN_LENGTH && is_token(value) => vec![token],
            _ => {
                let cookies = value.split(';').filter_map(|cookie| cookie.split_once('='));
                cookies.map(|(_, value)| value.trim()).chain([value]).collect()
            }
        };
        let parts = parts.into_iter().filter(|part| part.len() >= MIN_LENGTH);
        self.secrets.extend(parts.map(SecretText::new));
        self.secrets.sort_by_key(|secret| Reverse(secret.reveal().len()));
    }

    /// Returns the text without the secrets.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for secret in &self.secrets {
            if text.contains(secret.reveal()) {
                text = Cow::Owned(text.replace(secret.reveal(), REPLACEMENT));
            }
        }
        text
    }

    /// Returns the message without the secrets; `None` if it is no message without them.
    pub(super) fn message(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        if self.secrets.is_empty() {
            return Some(message);
        }
        let mut value = serde_json::to_value(&message).ok()?;
        if !self.clean(&mut value) {
            return Some(message);
        }
        serde_json::from_value(value).ok()
    }

    /// Replaces the secrets in all texts and names. Returns whether there were any.
    fn clean(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => match self.text(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(cleaned) => {
                    *text = cleaned;
                    true
                }
            },
            Value::Array(list) => {
                let mut found = false;
                for value in list {
                    found |= self.clean(value);
                }
                found
            }
            Value::Object(fields) => {
                let mut found = false;
                for value in fields.values_mut() {
                    found |= self.clean(value);
                }
                if fields.keys().any(|name| matches!(self.text(name), Cow::Owned(_))) {
                    let named = std::mem::take(fields).into_iter();
                    *fields =
                        named.map(|(name, value)| (self.text(&name).into_owned(), value)).collect();
                    found = true;
                }
                found
            }
        }
    }
}

/// Whether a value is a scheme and one word, such as `Bearer TOKEN`.
fn is_token(value: &str) -> bool {
    value.matches(' ').count() == 1 && !value.contains(';')
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("n_secrets", &self.secrets.len()).finish()
    }
}

#[cfg(test)]
#[path = "redactor_tests.rs"]
mod tests;
