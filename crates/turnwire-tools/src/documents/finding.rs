//! Finds a text in a page, ignoring case.

use memchr::memmem;
use serde::{Deserialize, Serialize};

/// Maximum number of matches to show, and the number of characters around each.
const MAX_PLACES: usize = 10;
const AROUND: usize = 160;

/// Matches of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Matches {
    /// Number of matches.
    pub(crate) total: usize,
    /// The first matches, with the text around them.
    pub(crate) shown: Vec<String>,
}

/// Returns all non-overlapping matches of `pattern` in `text`, in linear time.
pub(super) fn find(text: &str, pattern: &str) -> Matches {
    let wanted = folded(pattern.trim());
    let mut matches = Matches::default();
    if wanted.is_empty() {
        return matches;
    }
    let (text_folded, length) = (folded(text), wanted.chars().count());
    // Both have the same characters, but not the same bytes.
    let (mut seen, mut place) = (0, 0);
    for at in memmem::find_iter(text_folded.as_bytes(), &wanted) {
        matches.total += 1;
        if matches.shown.len() < MAX_PLACES {
            place += text_folded.get(seen..at).map_or(0, |before| before.chars().count());
            seen = at;
            matches.shown.push(around(text, place, length));
        }
    }
    matches
}

/// Folds one character to one character, so that their numbers stay the same.
fn folded(text: &str) -> String {
    let fold = |letter: char| {
        if letter.is_whitespace() { ' ' } else { letter.to_lowercase().next().unwrap_or(letter) }
    };
    text.chars().map(fold).collect()
}

fn around(text: &str, place: usize, length: usize) -> String {
    let start = place.saturating_sub(AROUND);
    let mut letters = text.chars().skip(start);
    let middle: String = letters.by_ref().take(place + length + AROUND - start).collect();
    let line = middle.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = if start > 0 { "…" } else { "" };
    let after = if letters.next().is_some() { "…" } else { "" };
    format!("{before}{line}{after}")
}

#[cfg(test)]
#[path = "finding_tests.rs"]
mod tests;
