//! Extracts the text from `{"input": "…"}` while it is streamed.

use serde_json::Value;

use super::INPUT;

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
            self.state = match start_of_input(&self.written) {
                InputStart::At(n_returned) => ReadState::Inside { n_returned },
                InputStart::NotYet => ReadState::Before,
                InputStart::Never => ReadState::Elsewhere,
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

enum InputStart {
    At(usize),
    NotYet,
    Never,
}

/// Returns the start of the text after `{"input":"`, with optional whitespace.
fn start_of_input(written: &str) -> InputStart {
    let mut rest = written;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return InputStart::NotYet,
            None => return InputStart::Never,
        }
    }
    InputStart::At(written.len() - rest.len())
}

/// Returns the number of bytes of a JSON string that can be unescaped without knowing what follows,
/// and whether the string ends there.
fn whole_part(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut index = 0;
    loop {
        match bytes.get(index) {
            None => return (index, false),
            Some(b'"') => return (index, true),
            Some(b'\\') => match escape_at(bytes, index) {
                Some(length) => index += length,
                None => return (index, false),
            },
            Some(_) => index += 1,
        }
    }
}

/// Returns the length of the escape at `index`, including both halves of a surrogate pair; `None`
/// if it is incomplete.
fn escape_at(bytes: &[u8], index: usize) -> Option<usize> {
    if *bytes.get(index + 1)? != b'u' {
        return Some(2);
    }
    let digits = bytes.get(index + 2..index + 6)?;
    let is_first_half =
        matches!(digits, [b'd' | b'D', b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B', ..]);
    if !is_first_half {
        return Some(6);
    }
    match (bytes.get(index + 6), bytes.get(index + 7)) {
        (None, _) | (Some(b'\\'), None) => None,
        (Some(b'\\'), Some(b'u')) => bytes.get(index + 8..index + 12).map(|_| 12),
        _ => Some(6),
    }
}

/// Unescapes a piece of a JSON string. Unescaped line breaks are kept, and an invalid piece is
/// returned unchanged.
fn unescaped(piece: &str) -> String {
    let mut string = String::with_capacity(piece.len() + 2);
    string.push('"');
    for c in piece.chars() {
        match c {
            '\n' => string.push_str("\\n"),
            '\r' => string.push_str("\\r"),
            '\t' => string.push_str("\\t"),
            c => string.push(c),
        }
    }
    string.push('"');
    serde_json::from_str(&string).unwrap_or_else(|_| piece.to_owned())
}
