//! Parses `turnwire.toml`. All errors are found, not only the first.
//!
//! Lines of the file are not quoted: there may be a key in them.

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::{lines::line_at, words::child};

/// Parses a file called `name`. Returns nothing if its tables cannot be told apart: further checks
/// would then report what is not there.
pub(super) fn parse(name: &str, text: &str, told: &mut Vec<String>) -> Option<Table> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut is_readable = true;
    let mut lines = Vec::new();
    for error in errors {
        let place = error.span().map_or(text.len(), |span| span.start);
        let line = line_at(text, place);
        let words = if let Some((path, is_header)) = twice(document.get_ref(), text, &error) {
            is_readable &= !is_header;
            format!("{path}: it is there twice; keep one of them")
        } else {
            is_readable = false;
            format!("not TOML: {}", error.message())
        };
        // What follows a mistake in the same line is often a consequence of it.
        if !lines.contains(&line) {
            lines.push(line);
            told.push(format!("{name}:{line}: {words}"));
        }
    }
    is_readable.then(|| table("", document.into_inner(), told))
}

/// The path of a key that is there twice, and whether it is the name of a table.
fn twice(document: &DeTable<'_>, text: &str, error: &toml::de::Error) -> Option<(String, bool)> {
    let span = error.span().filter(|_| error.message().starts_with("duplicate key"))?;
    let line = text.get(..span.start)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(line..)?.lines().next()?.trim();
    if let Some(header) = line.strip_prefix('[') {
        let header = header.trim_start_matches('[').split(']').next()?;
        return Some((header.trim().to_owned(), true));
    }
    let key = text.get(span.clone())?.trim_matches(['"', '\'']);
    let (_, path, found) = innermost(document, text, span.start)?;
    Some((child(&below(&path, found, span.start), key), false))
}

/// The table that the line at `place` belongs to, with its own line and path.
fn innermost<'a>(
    document: &'a DeTable<'a>,
    text: &str,
    place: usize,
) -> Option<(usize, String, &'a DeTable<'a>)> {
    let mut tables = vec![(0, String::new(), document)];
    let mut n_seen = 0;
    while let Some((_, path, table)) = tables.get(n_seen).cloned() {
        n_seen += 1;
        for (key, value) in table {
            let path = child(&path, key.get_ref());
            match value.get_ref() {
                DeValue::Table(table) => {
                    tables.push((line_at(text, value.span().start), path, table));
                }
                DeValue::Array(list) => {
                    let found = list.iter().enumerate().filter_map(|(n, value)| {
                        let table = value.get_ref().as_table()?;
                        Some((line_at(text, value.span().start), format!("{path}[{n}]"), table))
                    });
                    tables.extend(found);
                }
                _ => {}
            }
        }
    }
    let line = line_at(text, place);
    let before = tables.into_iter().filter(|(begin, ..)| *begin <= line);
    // Of tables that begin in the same line, the last one is the innermost.
    before.enumerate().max_by_key(|(n, (begin, ..))| (*begin, *n)).map(|(_, found)| found)
}

/// The path of the inline table around `place`.
fn below(path: &str, table: &DeTable<'_>, place: usize) -> String {
    for (key, value) in table {
        if let DeValue::Table(inner) = value.get_ref()
            && value.span().contains(&place)
        {
            return below(&child(path, key.get_ref()), inner, place);
        }
    }
    path.to_owned()
}

fn table(path: &str, document: DeTable<'_>, told: &mut Vec<String>) -> Table {
    let entries = document.into_iter().filter_map(|(key, value)| {
        let key = key.into_inner().into_owned();
        let value = value_of(&child(path, &key), value, told)?;
        Some((key, value))
    });
    entries.collect()
}

fn value_of(path: &str, value: Spanned<DeValue<'_>>, told: &mut Vec<String>) -> Option<Value> {
    Some(match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            let Ok(parsed) = i64::from_str_radix(number.as_str(), number.radix()) else {
                told.push(format!("{path}: no number may be as large as {number}"));
                return None;
            };
            Value::Integer(parsed)
        }
        DeValue::Float(number) => Value::Float(number.as_str().parse().ok()?),
        DeValue::Boolean(choice) => Value::Boolean(choice),
        DeValue::Datetime(time) => Value::Datetime(time),
        DeValue::Array(list) => {
            let list = list.into_iter().enumerate();
            let list: Vec<Option<Value>> =
                list.map(|(n, value)| value_of(&format!("{path}[{n}]"), value, told)).collect();
            Value::Array(list.into_iter().collect::<Option<_>>()?)
        }
        DeValue::Table(inner) => Value::Table(table(path, inner, told)),
    })
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
