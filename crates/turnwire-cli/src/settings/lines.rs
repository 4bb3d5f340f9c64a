//! Locates settings in their file, for error messages with line numbers.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Returns the line, counted from 1, of the setting at `path` (such as `server.listen` or
/// `mcp.on_request[0].url`), or of the innermost existing table on that path.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    let (document, _) = DeTable::parse_recoverable(text);
    let place = place_in(document.get_ref(), path)?;
    Some(text.get(..place)?.matches('\n').count() + 1)
}

/// Returns the byte offset of the setting at `path`.
fn place_in(table: &DeTable<'_>, path: &str) -> Option<usize> {
    // A key may contain dots, so the longest match is used.
    let fits = table.iter().filter_map(|(key, value)| {
        let rest = path.strip_prefix(key.get_ref().as_ref())?;
        let is_whole = rest.is_empty() || rest.starts_with(['.', '[']);
        is_whole.then_some((key, value, rest))
    });
    let (key, value, rest) = fits.min_by_key(|(_, _, rest)| rest.len())?;
    Some(place_below(value, rest).unwrap_or_else(|| key.span().start))
}

/// Returns the byte offset of `rest` within `value`, if it exists.
fn place_below(value: &Spanned<DeValue<'_>>, rest: &str) -> Option<usize> {
    match value.get_ref() {
        DeValue::Table(table) => place_in(table, rest.strip_prefix('.')?),
        DeValue::Array(list) => {
            let (n, rest) = rest.strip_prefix('[')?.split_once(']')?;
            let entry = list.get(n.parse::<usize>().ok()?)?;
            Some(place_below(entry, rest).unwrap_or_else(|| entry.span().start))
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => None,
    }
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
