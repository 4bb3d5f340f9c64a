//! Locates settings in their file, for error messages with line numbers.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::words::{child, told_key};

/// Where the lines of a text begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(end, _)| end).collect())
    }

    /// Returns the line, counted from 1, of the byte at `place`.
    pub(super) fn at(&self, place: usize) -> usize {
        self.0.partition_point(|end| *end < place) + 1
    }
}

/// A settings file, to look for the lines of settings.
pub(super) struct Places<'a> {
    document: Spanned<DeTable<'a>>,
    lines: Lines,
}

impl<'a> Places<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { document: DeTable::parse_recoverable(text).0, lines: Lines::of(text) }
    }

    /// Returns the line, counted from 1, of the setting at `path` (such as `server.listen` or
    /// `mcp.on_request[0].url`), or of the innermost existing table on that path.
    pub(super) fn line_of(&self, path: &str) -> Option<usize> {
        Some(self.lines.at(place_in(self.document.get_ref(), path)?))
    }
}

/// Returns the line, counted from 1, of the byte at `place`.
fn line_at(text: &str, place: usize) -> usize {
    let before = text.as_bytes().iter().take(place);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the byte offset of the setting at `path`.
fn place_in(table: &DeTable<'_>, path: &str) -> Option<usize> {
    // One key may begin like another one, so the longest match is used.
    let fits = table.iter().filter_map(|(key, value)| {
        let rest = path.strip_prefix(&*told_key(key.get_ref()))?;
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

/// Returns the line, counted from 1, of the value at `path` in a JSON text, or of the innermost
/// object or list on that path that exists.
pub(super) fn line_of_json(text: &str, path: &str) -> usize {
    // The path of each open object or list, and the number of the entry that comes next.
    let mut open: Vec<(String, usize)> = Vec::new();
    let mut found = (0, 1);
    let mut key: Option<String> = None;
    let mut rest = text.char_indices();
    while let Some((place, c)) = rest.next() {
        if matches!(c, '}' | ']') {
            open.pop();
        }
        if c == ','
            && let Some((_, n_before)) = open.last_mut()
        {
            *n_before += 1;
            key = None;
        }
        if !matches!(c, '"' | '{' | '[' | '0'..='9' | '-' | 't' | 'f' | 'n') {
            continue;
        }
        let string = (c == '"').then(|| string_at(&mut rest));
        let is_key = string.is_some() && rest.as_str().trim_start().starts_with(':');
        let at = match open.last() {
            Some((path, _)) if is_key => {
                key = string;
                child(path, key.as_deref().unwrap_or_default())
            }
            Some((path, n_before)) => match &key {
                Some(key) => child(path, key),
                None => format!("{path}[{n_before}]"),
            },
            None => String::new(),
        };
        let is_on_path = path
            .strip_prefix(&at)
            .is_some_and(|rest| rest.is_empty() || at.is_empty() || rest.starts_with(['.', '[']));
        if is_on_path && at.len() > found.0 {
            found = (at.len(), line_at(text, place));
        }
        if matches!(c, '{' | '[') {
            open.push((at, 0));
            key = None;
        }
    }
    found.1
}

/// Returns the string that has begun.
fn string_at(rest: &mut std::str::CharIndices<'_>) -> String {
    let mut string = String::new();
    while let Some((_, c)) = rest.next() {
        match c {
            '"' => break,
            '\\' => string.extend(rest.next().map(|(_, c)| c)),
            c => string.push(c),
        }
    }
    string
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
