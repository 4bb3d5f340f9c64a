//! Shows invisible characters as what they are: U+202E is shown as `\u{202e}`.
//!
//! A model, a tool or a file name can have characters that are not seen but change what is: they
//! reverse the order of others, join or separate words, or carry text of their own. So a text that
//! a person decides on, and every name, is [`exact`]. Prose keeps them, because people write with
//! them: Persian needs joiners, families of emoji too. Of prose beside a name on one line, only
//! what reorders a line is shown ([`in_order`]), so that it cannot change how the name reads.
//! Control characters are removed from both, as by [`clean`].

use std::{borrow::Cow, fmt::Write};

use crate::clean::clean;

/// `text` with every invisible character shown as what it is.
pub fn exact(text: &str) -> Cow<'_, str> {
    shown(clean(text), is_invisible)
}

/// `text` with every character shown as what it is that changes the order of others.
pub fn in_order(text: &str) -> Cow<'_, str> {
    shown(clean(text), reorders)
}

/// A JSON text with its invisible characters as escape sequences of JSON. It has the same value.
pub fn exact_json(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for character in json.chars() {
        if is_invisible(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(character);
        }
    }
    escaped
}

fn shown(text: Cow<'_, str>, must_be_shown: impl Fn(char) -> bool) -> Cow<'_, str> {
    if text.is_ascii() || !text.chars().any(&must_be_shown) {
        return text;
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if must_be_shown(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// Whether a character sets the direction of others, for more than itself, or begins a line.
fn reorders(character: char) -> bool {
    matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether a character is not seen itself: those that Unicode lets a program ignore, and those that
/// begin a line.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
#[path = "visible_tests.rs"]
mod tests;
