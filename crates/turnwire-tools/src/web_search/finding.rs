//! Finds a text in a page, whatever the letters' case.

/// How many places are shown, and how much around each.
const MAX_PLACES: usize = 10;
const AROUND: usize = 160;

/// Where a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    /// How often it is there.
    pub(super) total: usize,
    /// The first of them, with what stands around.
    pub(super) shown: Vec<String>,
}

/// Every place of `pattern` in `text`. Places do not overlap.
pub(super) fn find(text: &str, pattern: &str) -> Places {
    let letters: Vec<char> = text.chars().collect();
    // One letter for one letter, so that a place in the one is a place in the other.
    let folded: Vec<char> = letters.iter().map(|letter| fold(*letter)).collect();
    let wanted: Vec<char> = pattern.trim().chars().map(fold).collect();
    let (mut total, mut shown) = (0, Vec::new());
    if wanted.is_empty() {
        return Places { total, shown };
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
    Places { total, shown }
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
