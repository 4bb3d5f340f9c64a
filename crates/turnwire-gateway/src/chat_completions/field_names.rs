//! What the client calls a field that the reader of requests knows under another name.

use crate::api_error::ApiError;

/// Pairs of paths: in the translated request, and in the one that the client sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldNames(Vec<(String, String)>);

impl FieldNames {
    /// Remembers that the field at `translated` was made of the one at `sent`.
    pub(super) fn add(&mut self, translated: &str, sent: &str) {
        self.0.push((translated.to_owned(), sent.to_owned()));
    }

    /// The path that the client sent, for a path of the translated request. The longest known
    /// beginning decides, and the latest entry among equals.
    pub(super) fn sent(&self, path: &str) -> String {
        let rest_of = |translated: &str| {
            let rest = path.strip_prefix(translated)?;
            (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
        };
        let known = self
            .0
            .iter()
            .filter_map(|(translated, sent)| Some((translated.len(), sent, rest_of(translated)?)));
        match known.max_by_key(|(length, ..)| *length) {
            Some((_, sent, rest)) => format!("{sent}{rest}"),
            None => path.to_owned(),
        }
    }

    /// The error in the words of the client.
    pub(super) fn in_error(&self, error: ApiError) -> ApiError {
        let Some(param) = &error.param else { return error };
        let sent = self.sent(param);
        let message = error.message.replace(&format!("`{param}`"), &format!("`{sent}`"));
        let message = message.replace(&format!("'{param}'"), &format!("'{sent}'"));
        ApiError { message, param: Some(sent), ..error }
    }
}
