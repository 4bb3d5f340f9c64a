//! Parses `turnwire.toml`. All errors are found, not only the first.
//!
//! Lines of the file are not quoted: there may be a key in them.

use toml::{
    Spanned, Table, Value,
    de::{DeTable, DeValue},
};

use super::{
    lines::Lines,
    words::{MOST_TOLD, child, told_key},
};

/// Parses a file called `name`. Returns nothing if its tables cannot be told apart: further checks
/// would then report what is not there.
pub(super) fn parse(name: &str, text: &str, told: &mut Vec<String>) -> Option<Table> {
    let (document, errors) = DeTable::parse_recoverable(text);
    let lines = Lines::of(text);
    let mut is_readable = true;
    let mut told_lines = Vec::new();
    // One more, so that it is known that there are more.
    for error in errors.into_iter().take(MOST_TOLD + 1) {
        let place = error.span().map_or(text.len(), |span| span.start);
        let line = lines.at(place);
        let found = twice(document.get_ref(), text, &lines, &error);
        let words = if let Some((path, is_header)) = found {
            is_readable &= !is_header;
            format!("{path}: it is there twice; keep one of them")
        } else {
            is_readable = false;
            format!("not TOML: {}", error.message())
        };
        // What follows a mistake in the same line is often a consequence of it.
        if !told_lines.contains(&line) {
            told_lines.push(line);
            told.push(format!("{name}:{line}: {words}"));
        }
    }
    is_readable.then(|| table(&mut Vec::new(), document.into_inner(), told))
}

/// The path of a key that is there twice, and whether it is the name of a table.
fn twice(
    document: &DeTable<'_>,
    text: &str,
    lines: &Lines,
    error: &toml::de::Error,
) -> Option<(String, bool)> {
    let span = error.span().filter(|_| error.message().starts_with("duplicate key"))?;
    let line = text.get(..span.start)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(line..)?.lines().next()?.trim();
    if let Some(header) = line.strip_prefix('[') {
        let header = header.trim_start_matches('[').split(']').next()?;
        return Some((header.trim().to_owned(), true));
    }
    let key = text.get(span.clone())?.trim_matches(['"', '\'']);
    let (_, path, found) = innermost(document, lines, span.start)?;
    Some((child(&below(&path, found, span.start), key), false))
}

/// A table of the file: the line where it begins, the index of the table that it is in, its key there
/// and its place in a list. Paths are made for few of them, because they may be long.
struct Place<'a> {
    begin: usize,
    parent: usize,
    key: &'a str,
    n: Option<usize>,
    table: &'a DeTable<'a>,
}

/// The table that the line at `place` belongs to, with its own line and path.
fn innermost<'a>(
    document: &'a DeTable<'a>,
    lines: &Lines,
    place: usize,
) -> Option<(usize, String, &'a DeTable<'a>)> {
    let mut tables = vec![Place { begin: 0, parent: 0, key: "", n: None, table: document }];
    let mut parent = 0;
    while let Some(&Place { table, .. }) = tables.get(parent) {
        for (key, value) in table {
            let found = |value: &'a Spanned<DeValue<'a>>, n| {
                let (begin, table) = (lines.at(value.span().start), value.get_ref().as_table()?);
                Some(Place { begin, parent, key: key.get_ref(), n, table })
            };
            match value.get_ref() {
                DeValue::Array(list) => {
                    let list = list.iter().enumerate();
                    tables.extend(list.filter_map(|(n, value)| found(value, Some(n))));
                }
                _ => tables.extend(found(value, None)),
            }
        }
        parent += 1;
    }
    let line = lines.at(place);
    let before = tables.iter().enumerate().filter(|(_, found)| found.begin <= line);
    // Of tables that begin in the same line, the last one is the innermost.
    let (n, found) = before.max_by_key(|(n, found)| (found.begin, *n))?;
    Some((found.begin, path_of(&tables, n), found.table))
}

fn path_of(tables: &[Place<'_>], n: usize) -> String {
    let (mut path, mut at) = (Path::new(), n);
    while at > 0
        && let Some(Place { parent, key, n, .. }) = tables.get(at)
    {
        path.extend(n.map(|n| format!("[{n}]")));
        path.push(told_key(key).into_owned());
        at = *parent;
    }
    path.reverse();
    told_path(&path)
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

/// Where a value is: the keys that lead to it, and the places in lists, such as `[0]`.
type Path = Vec<String>;

fn told_path(path: &Path) -> String {
    let (mut told, mut first) = (String::new(), true);
    for part in path {
        if !(first || part.starts_with('[')) {
            told.push('.');
        }
        told.push_str(part);
        first = false;
    }
    told
}

fn table(path: &mut Path, document: DeTable<'_>, told: &mut Vec<String>) -> Table {
    let entries = document.into_iter().filter_map(|(key, value)| {
        let key = key.into_inner().into_owned();
        path.push(told_key(&key).into_owned());
        let value = value_of(path, value, told);
        path.pop();
        Some((key, value?))
    });
    entries.collect()
}

fn value_of(path: &mut Path, value: Spanned<DeValue<'_>>, told: &mut Vec<String>) -> Option<Value> {
    Some(match value.into_inner() {
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Integer(number) => {
            let Ok(parsed) = i64::from_str_radix(number.as_str(), number.radix()) else {
                let path = told_path(path);
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
            let mut entry = |(n, value)| {
                path.push(format!("[{n}]"));
                let value = value_of(path, value, told);
                path.pop();
                value
            };
            let list: Vec<Option<Value>> = list.map(&mut entry).collect();
            Value::Array(list.into_iter().collect::<Option<_>>()?)
        }
        DeValue::Table(inner) => Value::Table(table(path, inner, told)),
    })
}

#[cfg(test)]
#[path = "syntax_tests.rs"]
mod tests;
