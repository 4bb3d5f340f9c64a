//! Extracts the text from `{"input": "…"}` while it is streamed.

use serde_json::Value;

use super::INPUT;
use crate::json_text::{TextStart, start_of_text, unescaped, whole_part};

/// The arguments of one call so far. Each byte is examined once, because an input may be long and
/// arrive in thousands of pieces.
#[derive(Debug, Default)]
pub(super) struct InputReader {
    written: String,
    state: ReadState,
}

#[derive(Debug, Clone, Copy, Default)]
enum ReadState {
    /// Before the text.
    #[default]
    Before,
    /// In the text. `n_returned` is the number of bytes that have been returned.
    Inside { n_returned: usize },
    /// After the text.
    Behind,
    /// Not of the expected form; the arguments are examined at the end.
    Elsewhere,
}

impl InputReader {
    /// Appends arguments, and returns the new part of the input.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.written.push_str(text);
        if let ReadState::Before = self.state {
            self.state = match start_of_text(&self.written, INPUT) {
                TextStart::At(n_returned) => ReadState::Inside { n_returned },
                TextStart::NotYet => ReadState::Before,
                TextStart::Never => ReadState::Elsewhere,
            };
        }
        let ReadState::Inside { n_returned } = self.state else { return String::new() };
        let rest = self.written.get(n_returned..).unwrap_or_default();
        let (whole, ends) = whole_part(rest);
        let unpacked = unescaped(rest.get(..whole).unwrap_or_default());
        self.state = if ends {
            ReadState::Behind
        } else {
            ReadState::Inside { n_returned: n_returned + whole }
        };
        unpacked
    }

    /// Returns the rest of the input at the end of the arguments.
    pub(super) fn rest(self) -> String {
        match self.state {
            ReadState::Inside { .. } | ReadState::Behind => String::new(),
            ReadState::Before | ReadState::Elsewhere => match serde_json::from_str(&self.written) {
                Ok(Value::Object(mut object)) => match object.shift_remove(INPUT) {
                    Some(Value::String(input)) => input,
                    Some(other) => other.to_string(),
                    // Missing arguments are an empty object.
                    None if object.is_empty() => String::new(),
                    None => self.written,
                },
                // The model may write the text without JSON.
                _ => self.written,
            },
        }
    }
}
