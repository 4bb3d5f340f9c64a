//! Counting characters.

/// The first `max` characters, and whether there are more. The cost is linear in the result.
pub(crate) fn first_chars(text: &str, max: usize) -> (&str, bool) {
    let end = text.char_indices().nth(max).map_or(text.len(), |(at, _)| at);
    let (beginning, rest) = text.split_at(end);
    (beginning, !rest.is_empty())
}
