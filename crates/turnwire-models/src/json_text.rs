//! Reads the first text of a JSON object while it is streamed: each byte of it is examined once,
//! because it may be long and arrive in thousands of pieces.

/// Where the text begins.
pub(crate) enum TextStart {
    At(usize),
    NotYet,
    Never,
}

/// Returns the start of the text after `{"key":"`, with optional whitespace.
pub(crate) fn start_of_text(written: &str, key: &str) -> TextStart {
    let mut rest = written;
    for token in ["{", &format!("\"{key}\""), ":", "\""] {
        rest = rest.trim_start();
        match rest.strip_prefix(token) {
            Some(behind) => rest = behind,
            None if token.starts_with(rest) => return TextStart::NotYet,
            None => return TextStart::Never,
        }
    }
    TextStart::At(written.len() - rest.len())
}

/// Returns the number of bytes of a JSON string that can be unescaped without knowing what follows,
/// and whether the string ends there.
pub(crate) fn whole_part(text: &str) -> (usize, bool) {
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
pub(crate) fn unescaped(piece: &str) -> String {
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
