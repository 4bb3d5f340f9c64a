//! Removes terminal control sequences from a text: colors, cursor moves, window titles, bells.
//!
//! A model or a tool can write `ESC ]0;…` as easily as any other text. Such sequences are removed,
//! even if they are split over two deltas, together with all control characters but tab, line feed
//! and carriage return. The journal has the original text.
//!
//! No sequence extends past its line: a terminal would swallow everything after an `ESC ]` that is
//! never closed; here at most the rest of that line is lost.
//!
//! `anstream`'s `StripStr` does not work for this: at the end of a piece it forgets that it was
//! inside a sequence. Its `StripBytes` remembers.

use std::borrow::Cow;

use anstream::adapter::StripBytes;

/// Cleans one text that arrives in pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    strip: StripBytes,
}

impl Cleaner {
    /// Creates a cleaner for a new text.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cleans the next piece. Borrows it if nothing has to be removed.
    pub fn clean<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if self.strip == StripBytes::new() && !contains_unwanted(text) {
            return Cow::Borrowed(text);
        }
        let mut kept = Vec::with_capacity(text.len());
        for (n_line, line) in text.split('\n').enumerate() {
            if n_line > 0 {
                self.strip = StripBytes::new();
                kept.push(b'\n');
            }
            // One character at a time, so that the result does not depend on how a text was cut
            // into pieces.
            for character in line.chars() {
                let mut bytes = [0; 4];
                let bytes = character.encode_utf8(&mut bytes).as_bytes();
                kept.extend(self.strip.strip_next(bytes).flatten());
            }
        }
        let mut kept = match String::from_utf8(kept) {
            Ok(kept) => kept,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        kept.retain(|character| !is_unwanted(character));
        Cow::Owned(kept)
    }

    /// Starts a new text and forgets an open sequence of the old one.
    pub fn reset(&mut self) {
        self.strip = StripBytes::new();
    }
}

/// Cleans a whole text.
pub fn clean(text: &str) -> Cow<'_, str> {
    Cleaner::new().clean(text)
}

/// Checks bytes first, because nearly all texts pass that check. C1 controls start with 0xC2, and
/// so do many harmless characters.
fn contains_unwanted(text: &str) -> bool {
    let suspicious = |byte: u8| {
        (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7f || byte == 0xc2
    };
    text.bytes().any(suspicious) && text.chars().any(is_unwanted)
}

fn is_unwanted(character: char) -> bool {
    character.is_control() && !matches!(character, '\t' | '\n' | '\r')
}

#[cfg(test)]
#[path = "clean_tests.rs"]
mod tests;
