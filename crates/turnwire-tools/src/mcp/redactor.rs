//! Takes the secrets of a server out of what it returns.
//!
//! Some servers repeat the headers they received, for example in an error. What a server returns is
//! recorded, shown and sent to the model, so the secrets that were sent to it are replaced before
//! anything else sees the message. This is for mistakes: a server that wants to pass a secret on
//! can encode it.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::VecDeque,
    fmt, io,
    sync::{Arc, Mutex},
};

use memchr::memmem::Finder;
use reqwest::Url;
use rmcp::{RoleClient, service::RxJsonRpcMessage};
use serde_json::Value;
use turnwire_contract::{SecretText, ServerSecrets};

use super::options::{Grant, McpServerOptions, McpTransport};
use crate::{secret::is_secret_name, sync::lock};

/// Replaces a secret.
const REPLACEMENT: &str = "[secret]";
/// Minimum length of a secret that is replaced. Shorter texts occur in other meanings.
const MIN_LENGTH: usize = 8;
/// Maximum length of an error in the log, in characters.
const MAX_ERROR_CHARS: usize = 4_000;
/// Size of the blocks in which secrets are looked for.
const BLOCK_BYTES: usize = 64 * 1024;
/// Number of tokens that are remembered. A server may still repeat one that was replaced.
const MAX_LEARNED: usize = 32;

/// The secrets of one server.
#[derive(Default)]
pub(super) struct Redactor {
    /// From the settings and the request.
    fixed: Vec<SecretText>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Tokens that were obtained meanwhile, the oldest first.
    learned: VecDeque<SecretText>,
    /// All secrets. Longer ones come first, because a shorter one may be a part of them.
    all: Arc<[SecretText]>,
}

impl Redactor {
    /// Creates a redactor for what `options` and a request send to a server.
    pub(super) fn new(options: &McpServerOptions, supplied: Option<&ServerSecrets>) -> Self {
        let mut redactor = Self::default();
        let named = match &options.transport {
            McpTransport::Stdio { env, .. } => env,
            McpTransport::Http { url, bearer_token, headers, oauth } => {
                redactor.add_url(url);
                let client_secret = oauth.as_ref().and_then(|oauth| oauth.client_secret.as_ref());
                for secret in bearer_token.iter().chain(client_secret) {
                    redactor.add(secret.reveal());
                }
                if let Some(Grant::ClientCredentialsWithKey { key, .. }) =
                    oauth.as_ref().map(|oauth| &oauth.grant)
                {
                    redactor.add_key(key.reveal());
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
        redactor.sort();
        redactor
    }

    /// Adds a token that was obtained for the server.
    pub(super) fn learn(&self, token: &str) {
        let mut known = lock(&self.known);
        let is_known = known.all.iter().any(|secret| secret.reveal() == token);
        if is_known || token.len() < MIN_LENGTH {
            return;
        }
        known.learned.push_back(SecretText::new(token));
        if known.learned.len() > MAX_LEARNED {
            known.learned.pop_front();
        }
        drop(known);
        self.sort();
    }

    fn sort(&self) {
        let mut known = lock(&self.known);
        let mut all: Vec<SecretText> = self.fixed.iter().chain(&known.learned).cloned().collect();
        all.sort_by_key(|secret| Reverse(secret.reveal().len()));
        known.all = all.into();
    }

    fn all(&self) -> Arc<[SecretText]> {
        Arc::clone(&lock(&self.known).all)
    }

    /// Length of the longest secret, in bytes.
    pub(super) fn longest(&self) -> usize {
        self.all().first().map_or(0, |secret| secret.reveal().len())
    }

    /// Adds the lines of a private key in PEM.
    fn add_key(&mut self, key: &str) {
        for line in key.lines().filter(|line| !line.starts_with("-----")) {
            self.add(line);
        }
    }

    /// Adds the password and the query of a URL, which errors of the connection contain.
    fn add_url(&mut self, url: &str) {
        let Ok(url) = Url::parse(url) else { return };
        self.add(url.password().unwrap_or_default());
        for pair in url.query().unwrap_or_default().split('&') {
            self.add(pair.split_once('=').map_or(pair, |(_, value)| value));
        }
    }

    /// Adds the value of a header: without its scheme if it has one, otherwise as a whole and by
    /// its cookies.
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
        self.fixed.extend(parts.map(SecretText::new));
    }

    /// Returns the text without the secrets.
    pub(super) fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        without(&self.all(), text)
    }

    /// Returns an error of the protocol library and its causes without the secrets, for the log.
    pub(super) fn error(&self, error: &dyn std::error::Error) -> String {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        // It may repeat what the server said, which has its own limits.
        self.text(&text).chars().take(MAX_ERROR_CHARS).collect()
    }

    /// Returns the message without the secrets; `None` if it is no message without them.
    pub(super) fn message(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let secrets = self.all();
        // Almost no message has one, and large ones are not copied to find out.
        if secrets.is_empty() || !contains_any(&secrets, &message) {
            return Some(message);
        }
        let mut value = serde_json::to_value(&message).ok()?;
        if !clean(&secrets, &mut value) {
            return Some(message);
        }
        serde_json::from_value(value).ok()
    }
}

/// Whether a message in JSON contains a secret. It is not stored.
fn contains_any(secrets: &[SecretText], message: &RxJsonRpcMessage<RoleClient>) -> bool {
    let mut search = Search::new(secrets);
    serde_json::to_writer(&mut search, message).is_err() || search.check().is_err()
}

/// A writer that fails when a secret is written. Keeps a block, with the end of the one before.
struct Search {
    finders: Vec<Finder<'static>>,
    overlap: usize,
    block: Vec<u8>,
}

impl Search {
    fn new(secrets: &[SecretText]) -> Self {
        let finder = |secret: &SecretText| {
            // As it is in JSON, without the quotes.
            let text = serde_json::to_string(secret.reveal()).unwrap_or_default();
            let end = text.len().saturating_sub(1);
            Finder::new(text.get(1..end).unwrap_or_default()).into_owned()
        };
        let finders: Vec<_> = secrets.iter().map(finder).collect();
        let overlap = finders.iter().map(|finder| finder.needle().len()).max().unwrap_or(0);
        Self { finders, overlap, block: Vec::new() }
    }

    fn check(&self) -> io::Result<()> {
        let is_found = self.finders.iter().any(|finder| finder.find(&self.block).is_some());
        if is_found { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

impl io::Write for Search {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (piece, _) = bytes.split_at(bytes.len().min(BLOCK_BYTES));
        self.block.extend_from_slice(piece);
        if self.block.len() >= BLOCK_BYTES + self.overlap {
            self.check()?;
            self.block.drain(..self.block.len() - self.overlap);
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn without<'a>(secrets: &[SecretText], text: &'a str) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in secrets {
        if text.contains(secret.reveal()) {
            text = Cow::Owned(text.replace(secret.reveal(), REPLACEMENT));
        }
    }
    text
}

/// Replaces the secrets in all texts and names. Returns whether there were any.
fn clean(secrets: &[SecretText], value: &mut Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => match without(secrets, text) {
            Cow::Borrowed(_) => false,
            Cow::Owned(cleaned) => {
                *text = cleaned;
                true
            }
        },
        Value::Array(list) => {
            let mut found = false;
            for value in list {
                found |= clean(secrets, value);
            }
            found
        }
        Value::Object(fields) => {
            let mut found = false;
            for value in fields.values_mut() {
                found |= clean(secrets, value);
            }
            if fields.keys().any(|name| matches!(without(secrets, name), Cow::Owned(_))) {
                let named = std::mem::take(fields).into_iter();
                *fields = named
                    .map(|(name, value)| (without(secrets, &name).into_owned(), value))
                    .collect();
                found = true;
            }
            found
        }
    }
}

/// Whether a value is a scheme and one word, such as `Bearer TOKEN`.
fn is_token(value: &str) -> bool {
    value.matches(' ').count() == 1 && !value.contains(';')
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("n_secrets", &self.all().len()).finish()
    }
}

#[cfg(test)]
#[path = "redactor_tests.rs"]
mod tests;
