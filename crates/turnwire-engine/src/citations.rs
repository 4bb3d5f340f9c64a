//! Finds where an answer cites results of the run's tools.
//!
//! Pure: sources are derived from events, and citations from sources and text. After a takeover, a
//! worker finds the same citations.
//!
//! An answer cites a page by a link, in Markdown or bare. It cites any source by its number in the
//! list shown to the model, in brackets: `[1]`, `[1, 3]`, `【1】`. It can also cite a file by its
//! name or id in brackets. Numbering restarts with every list. A number that means different
//! sources in different lists cites none of them. Nothing inside code is a citation.
//!
//! Positions are Unicode code points, as in Python. The end position is exclusive. See
//! `docs/decisions/012-citations.md`.

use std::ops::Range;

use pulldown_cmark::{Event as Markdown, Parser, Tag};
use serde_json::{Value, json};
use turnwire_contract::{Annotation, ToolKind, ToolOutput};

/// A tool result that an answer may cite.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Page { url: String, title: String },
    File { id: String, name: String },
}

/// The sources found by the run's tools so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The numbered lists shown to the model.
    numbered: Vec<Vec<Source>>,
    /// All sources, in the order they were found.
    all: Vec<Source>,
}

impl Sources {
    /// Adds the sources in the output of a tool of this kind.
    pub(crate) fn note(&mut self, kind: ToolKind, output: &ToolOutput) {
        let Some(found) = &output.structured else { return };
        let sources = match kind {
            ToolKind::WebSearch => list(found, "sources", page),
            ToolKind::FileSearch => list(found, "results", file),
            ToolKind::Function | ToolKind::Client | ToolKind::Custom | ToolKind::Mcp => return,
        };
        for source in &sources {
            if !self.all.contains(source) {
                self.all.push(source.clone());
            }
        }
        // An opened page has no number.
        let action = found.get("action").and_then(Value::as_str);
        if action.is_none_or(|action| action == "search") {
            self.numbered.push(sources);
        }
    }

    /// Finds a source by the content of brackets: a number, a file name or a file id.
    fn by_mark(&self, mark: &str) -> Option<&Source> {
        let Ok(number) = mark.parse::<usize>() else {
            let is_it = |source: &&Source| match source {
                Source::File { id, name } => mark == id || mark == name,
                Source::Page { .. } => false,
            };
            return self.all.iter().find(is_it);
        };
        let seq = number.checked_sub(1)?;
        let mut meant = self.numbered.iter().filter_map(|list| list.get(seq));
        let first = meant.next()?;
        meant.all(|other| other == first).then_some(first)
    }

    fn by_url(&self, url: &str) -> Option<&Source> {
        let wanted = place_of(url);
        let is_it = |source: &&Source| match source {
            Source::Page { url, .. } => place_of(url) == wanted,
            Source::File { .. } => false,
        };
        self.all.iter().find(is_it)
    }
}

fn list(found: &Value, key: &str, source: fn(&Value) -> Option<Source>) -> Vec<Source> {
    let entries = found.get(key).and_then(Value::as_array);
    entries.into_iter().flatten().filter_map(source).collect()
}

fn text_of(entry: &Value, key: &str) -> Option<String> {
    Some(entry.get(key)?.as_str()?.to_owned())
}

fn page(entry: &Value) -> Option<Source> {
    let url = text_of(entry, "url")?;
    let title = text_of(entry, "title").unwrap_or_else(|| url.clone());
    Some(Source::Page { url, title })
}

fn file(entry: &Value) -> Option<Source> {
    let id = text_of(entry, "file_id")?;
    let name = text_of(entry, "filename").unwrap_or_else(|| id.clone());
    Some(Source::File { id, name })
}

/// Normalizes a URL: drops the fragment and a trailing slash, lowercases the host.
fn place_of(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let end_of_host = url.find("://").map(|scheme| {
        let rest = url.get(scheme + 3..).unwrap_or_default();
        scheme + 3 + rest.find(['/', '?']).unwrap_or(rest.len())
    });
    let (host, path) = url.split_at_checked(end_of_host.unwrap_or(0)).unwrap_or(("", url));
    format!("{}{}", host.to_ascii_lowercase(), path.trim_end_matches('/'))
}

/// Returns all citations of `sources` in `text`, in text order.
pub(crate) fn citations(text: &str, sources: &Sources) -> Vec<Annotation> {
    if sources.all.is_empty() {
        return Vec::new();
    }
    let ParsedMarkdown { links, closed } = read_markdown(text);
    let is_free = |range: &Range<usize>| {
        let overlaps = |other: &Range<usize>| range.start < other.end && other.start < range.end;
        !closed.iter().any(overlaps) && !links.iter().any(|(link, _)| overlaps(link))
    };
    let linked = links.iter().map(|(range, url)| (range.clone(), sources.by_url(url)));
    let bare = bare_urls(text).into_iter().filter(|(range, _)| is_free(range));
    let bare = bare.map(|(range, url)| (range, sources.by_url(url)));
    let marked = marks(text).into_iter().filter(|(range, _)| is_free(range));
    let marked = marked.map(|(range, mark)| (range, sources.by_mark(mark)));
    let mut cited: Vec<(Range<usize>, &Source)> = linked
        .chain(bare)
        .chain(marked)
        .filter_map(|(range, source)| Some((range, source?)))
        .collect();
    // A stable sort keeps the order of `[2, 1]`.
    cited.sort_by_key(|(range, _)| (range.start, range.end));
    cited.dedup();
    let mut count = Count { text, byte: 0, characters: 0 };
    cited.into_iter().map(|(range, source)| annotation(&mut count, &range, source)).collect()
}

fn annotation(count: &mut Count<'_>, range: &Range<usize>, source: &Source) -> Annotation {
    let start = count.until(range.start);
    match source {
        Source::Page { url, title } => {
            let cited = count.text.get(range.clone()).unwrap_or_default();
            let end = start + cited.chars().count();
            let source =
                json!({ "start_index": start, "end_index": end, "url": url, "title": title });
            Annotation { kind: "url_citation".to_owned(), source }
        }
        Source::File { id, name } => {
            let source = json!({ "index": start, "file_id": id, "filename": name });
            Annotation { kind: "file_citation".to_owned(), source }
        }
    }
}

/// Counts code points from left to right in a single pass.
struct Count<'a> {
    text: &'a str,
    byte: usize,
    characters: usize,
}

impl Count<'_> {
    /// Returns the number of code points before `byte`. `byte` must not decrease between calls.
    fn until(&mut self, byte: usize) -> usize {
        let more = self.text.get(self.byte..byte).unwrap_or_default();
        self.characters += more.chars().count();
        self.byte = byte.max(self.byte);
        self.characters
    }
}

/// A text parsed as Markdown.
struct ParsedMarkdown {
    /// Links and their targets.
    links: Vec<(Range<usize>, String)>,
    /// Ranges without citations: code, images, raw HTML.
    closed: Vec<Range<usize>>,
}

fn read_markdown(text: &str) -> ParsedMarkdown {
    let mut reading = ParsedMarkdown { links: Vec::new(), closed: Vec::new() };
    for (event, range) in Parser::new(text).into_offset_iter() {
        if let Markdown::Start(Tag::Link { dest_url, .. }) = event {
            reading.links.push((range, dest_url.into_string()));
        } else if is_closed(&event) {
            reading.closed.push(range);
        }
    }
    reading
}

fn is_closed(event: &Markdown<'_>) -> bool {
    matches!(
        event,
        Markdown::Start(Tag::CodeBlock(_) | Tag::Image { .. })
            | Markdown::Code(_)
            | Markdown::Html(_)
            | Markdown::InlineHtml(_)
    )
}

/// Returns bare URLs without trailing punctuation.
fn bare_urls(text: &str) -> Vec<(Range<usize>, &str)> {
    let starts = text.match_indices("http").map(|(start, _)| start);
    let url_at = |start: usize| {
        let rest = text.get(start..)?;
        if !(rest.starts_with("http://") || rest.starts_with("https://")) {
            return None;
        }
        let is_end = |c: char| !c.is_ascii_graphic() || "<>\"`|{}[]".contains(c);
        let url = rest.get(..rest.find(is_end).unwrap_or(rest.len()))?;
        let url = without_punctuation(url);
        Some((start..start + url.len(), url))
    };
    starts.filter_map(url_at).collect()
}

/// A closing bracket is part of the URL only if it is opened inside the URL.
fn without_punctuation(mut url: &str) -> &str {
    loop {
        let shorter = match url.chars().next_back() {
            Some('.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '_') => true,
            Some(')') => url.matches(')').count() > url.matches('(').count(),
            _ => false,
        };
        match url.char_indices().next_back() {
            Some((end, _)) if shorter => url = url.get(..end).unwrap_or_default(),
            _ => return url,
        }
    }
}

/// Returns each element of a bracketed list, with the range of the whole bracket.
fn marks(text: &str) -> Vec<(Range<usize>, &str)> {
    let mut found = Vec::new();
    for (open, close) in [('[', ']'), ('【', '】')] {
        for (start, _) in text.match_indices(open) {
            let inner = start + open.len_utf8();
            let Some(rest) = text.get(inner..) else { continue };
            let Some(length) = rest.find([open, close, '\n']) else { continue };
            let Some(content) = rest.get(..length) else { continue };
            if !rest.get(length..).is_some_and(|rest| rest.starts_with(close)) {
                continue;
            }
            let end = inner + length + close.len_utf8();
            if is_definition(text, start, end) {
                continue;
            }
            // Some models write `【4†source】`.
            let content = content.split('†').next().unwrap_or_default();
            let whole = [content].into_iter().filter(|content| content.contains(','));
            let parts = whole.chain(content.split(','));
            found.extend(parts.map(|mark| (start..end, mark.trim().trim_start_matches('^'))));
        }
    }
    found
}

/// Returns whether the range is a link definition: `[1]: https://…` at the start of a line.
fn is_definition(text: &str, start: usize, end: usize) -> bool {
    let begins_line =
        text.get(..start).is_some_and(|before| before.is_empty() || before.ends_with('\n'));
    begins_line && text.get(end..).is_some_and(|after| after.starts_with(':'))
}

#[cfg(test)]
#[path = "citations_tests.rs"]
mod tests;
