//! API keys that must not be logged.

pub use turnwire_contract::SecretText as Secret;

/// Replacement for a key in logs and messages.
const MASK: &str = "***";

/// Minimum length of a key that is removed from texts. Placeholder keys of local servers (`none`,
/// `x`, `ollama`) are not secret and occur in ordinary text.
const SHORTEST_MASKED: usize = 8;

/// Marks the end of a truncated quotation.
pub(crate) const CUT_MARK: char = '…';

/// Removes the key from a provider's text. In a truncated quotation, a sufficiently long prefix
/// of the key at the end is also removed.
pub(crate) fn hidden_in(text: &str, key: &Secret) -> String {
    let key = key.reveal();
    if key.len() < SHORTEST_MASKED {
        return text.to_owned();
    }
    let text = text.replace(key, MASK);
    let starts = (SHORTEST_MASKED..key.len()).rev().filter_map(|end| key.get(..end));
    let cut = text.strip_suffix(CUT_MARK);
    let shown = cut.and_then(|cut| starts.into_iter().find_map(|start| cut.strip_suffix(start)));
    shown.map_or(text.clone(), |shown| format!("{shown}{MASK}{CUT_MARK}"))
}

#[cfg(test)]
#[path = "secret_tests.rs"]
mod tests;
