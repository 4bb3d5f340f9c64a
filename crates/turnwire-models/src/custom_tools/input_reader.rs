//! Extracts the text from `{"input": "…"}` while it is streamed.

use serde_json::Value;

use super::INPUT;

/// The arguments of one call so far. Each byte is examined once, because an input may be long and
/// arrive in thousands of pieces.
#[derive(Debug, Default)]
pub(super) struct InputReader {
    written: String,
    place: Place,
}

#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// Before the text.
    #[default]
    Before,
    /// In the text. `told` is the number of bytes that have been returned.
    Inside { told: usize },
    /// After the text.
    Behind,
    /// Not of the expected form; the arguments are examined at the end.
    Elsewhere,
}

impl InputReader {
    /// Appends arguments, and returns the new part of the input.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.written.push_str(text);
        if let Place::Before = self.place {
            self.place = match begin_of_input(&self.written) {
                Begin::At(told) => Place::Inside { told },
                Begin::NotYet => Place::Before,
                Begin::Never => Place::Elsewhere,
            };
        }
        let Place::Inside { told } = self.place else { return String::new() };
        let untold = self.written.get(told..).unwrap_or_default();
        let (whole, ends) = whole_part(untold);
        let unpacked = unescaped(untold.get(..whole).unwrap_or_default());
        self.place = if ends { Place::Behind } else { Place::Inside { told: told + whole } };
        unpacked
    }

    /// Returns the rest of the input at the end of the arguments.
    pub(super) fn rest(self) -> String {
        match self.place {
            Place::Inside { .. } | Place::Behind => String::new(),
            Place::Before | Place::Elsewhere => match serde_json::from_str(&self.written) {
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

enum Begin {
    At(usize),
    NotYet,
    Never,
}

/// Returns the start of the text after `{"input":"`, with optional whitespace.
fn begin_of_input(written: &str) -> Begin {
    let mut rest = written;
    for token in ["{", "\"input\"", ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return Begin::NotYet,
            None => return Begin::Never,
        }
    }
    Begin::At(written.len() - rest.len())
}

/// Returns the number of bytes of a JSON string that can be unescaped without knowing what follows,
/// and whether the string ends there.
fn whole_part(text: &str) -> (usize, bool) {
    let bytes = text.as_bytes();
    let mut place = 0;
    loop {
        match bytes.get(place) {
            None => return (place, false),
            Some(b'"') => return (place, true),
            Some(b'\\') => match escape_at(bytes, place) {
                Some(length) => place += length,
                None => return (place, false),
            },
            Some(_) => place += 1,
        }
    }
}

/// Returns the length of the escape at `place`, including both halves of a surrogate pair; `None`
/// if it is incomplete.
fn escape_at(bytes: &[u8], place: usize) -> Option<usize> {
    if *bytes.get(place + 1)? != b'u' {
        return Some(2);
    }
    let digits = bytes.get(place + 2..place + 6)?;
    let is_first_half =
        matches!(digits, [b'd' | b'D', b'8' | b'9' | b'a'..=b'b' | b'A'..=b'B', ..]);
    if !is_first_half {
        return Some(6);
    }
    match (bytes.get(place + 6), bytes.get(place + 7)) {
        (None, _) | (Some(b'\\'), None) => None,
        (Some(b'\\'), Some(b'u')) => bytes.get(place + 8..place + 12).map(|_| 12),
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
