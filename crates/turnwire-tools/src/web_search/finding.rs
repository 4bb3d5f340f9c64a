//! Finds a text in a page, ignoring case.

/// Maximum number of matches to show, and the number of characters around each.
const MAX_PLACES: usize = 10;
const AROUND: usize = 160;

/// Matches of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matches {
    /// Number of matches.
    pub(super) total: usize,
    /// The first matches, with the text around them.
    pub(super) shown: Vec<String>,
}

/// Returns all non-overlapping matches of `pattern` in `text`.
pub(super) fn find(text: &str, pattern: &str) -> Matches {
    let letters: Vec<char> = text.chars().collect();
    // Folds one character to one character, so that indexes are the same in both.
    let folded: Vec<char> = letters.iter().map(|letter| fold(*letter)).collect();
    let wanted: Vec<char> = pattern.trim().chars().map(fold).collect();
    let (mut total, mut shown) = (0, Vec::new());
    if wanted.is_empty() {
        return Matches { total, shown };
    }
    let mut place = 0;
    while let Some(rest) = folded.get(place..).filter(|rest| rest.len() >= wanted.len()) {
        if !rest.starts_with(&wanted) {
            place += 1;
            continue;
        }
        total += 1;
        if shown.len() < MAX_PLACES {
            shown.push(around(&letters, place, wanted.len()));
        }
        place += wanted.len();
    }
    Matches { total, shown }
}

fn fold(letter: char) -> char {
    if letter.is_whitespace() { ' ' } else { letter.to_lowercase().next().unwrap_or(letter) }
}

fn around(letters: &[char], place: usize, length: usize) -> String {
    let start = place.saturating_sub(AROUND);
    let end = (place + length + AROUND).min(letters.len());
    let middle: String = letters.get(start..end).unwrap_or_default().iter().collect();
    let line = middle.split_whitespace().collect::<Vec<_>>().join(" ");
    let (before, after) =
        (if start > 0 { "…" } else { "" }, if end < letters.len() { "…" } else { "" });
    format!("{before}{line}{after}")
}

#[cfg(test)]
#[path = "finding_tests.rs"]
mod tests;
