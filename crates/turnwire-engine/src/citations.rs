//! Where an answer cites what tools of its run have found.
//!
//! Pure: the sources follow from the events, and the citations from the sources and the text. So
//! whoever takes a run over finds the same ones.
//!
//! An answer cites a page by a link to it, in Markdown or bare, and any source by the number it
//! had in the list that the model was shown, in brackets: `[1]`, `[1, 3]`, `【1】`. A file can be
//! cited by its name or its id in brackets, too. Numbers begin anew with every list; one that
//! means different sources in different lists cites none of them. What stands in code is code.
//!
//! Places are counted in Unicode code points, as Python counts them; the end is the first one
//! past the citation. See `docs/decisions/012-citations.md`.

use std::ops::Range;

use pulldown_cmark::{Event as Markdown, Parser, Tag};
use serde_json::{Value, json};
use turnwire_contract::{Annotation, ToolKind, ToolOutput};

/// Something that a tool found and an answer may cite.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Page { url: String, title: String },
    File { id: String, name: String },
}

/// What the tools of a run have found so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The lists whose entries the model was shown with numbers.
    numbered: Vec<Vec<Source>>,
    /// Everything, in the order it was found.
    all: Vec<Source>,
}

impl Sources {
    /// Takes note of what a tool of this kind returned.
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
        // A page that was opened has no number.
        let action = found.get("action").and_then(Value::as_str);
        if action.is_none_or(|action| action == "search") {
            self.numbered.push(sources);
        }
    }

    /// What stands between brackets: a number, or the name or id of a file.
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

/// The page that a URL means: without a fragment, whatever the case of its host, and with or
/// without a slash at its end.
fn place_of(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let end_of_host = url.find("://").map(|scheme| {
        let rest = url.get(scheme + 3..).unwrap_or_default();
        scheme + 3 + rest.find(['/', '?']).unwrap_or(rest.len())
    });
    let (host, path) = url.split_at_checked(end_of_host.unwrap_or(0)).unwrap_or(("", url));
    format!("{}{}", host.to_ascii_lowercase(), path.trim_end_matches('/'))
}

/// Every place of `text` that cites one of `sources`, in the order of the text.
pub(crate) fn citations(text: &str, sources: &Sources) -> Vec<Annotation> {
    if sources.all.is_empty() {
        return Vec::new();
    }
    let Reading { links, closed } = read_markdown(text);
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
    // Stable, so `[2, 1]` keeps its order.
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

/// Counts code points from left to right, each of them once.
struct Count<'a> {
    text: &'a str,
    byte: usize,
    characters: usize,
}

impl Count<'_> {
    /// How many code points stand before `byte`, which is not before the last one asked for.
    fn until(&mut self, byte: usize) -> usize {
        let more = self.text.get(self.byte..byte).unwrap_or_default();
        self.characters += more.chars().count();
        self.byte = byte.max(self.byte);
        self.characters
    }
}

/// What Markdown makes of a text.
struct Reading {
    /// Links, and where they lead.
    links: Vec<(Range<usize>, String)>,
    /// Where nothing is cited: code, pictures, raw HTML.
    closed: Vec<Range<usize>>,
}

fn read_markdown(text: &str) -> Reading {
    let mut reading = Reading { links: Vec::new(), closed: Vec::new() };
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

/// Addresses that stand in the text as they are, without what a sentence puts behind them.
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

/// A closing bracket belongs to an address only if it was opened there.
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

/// What stands in brackets, each part of a list by itself, with the place of the whole.
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
            // `【4†source】` is how some models learned to write it.
            let content = content.split('†').next().unwrap_or_default();
            let whole = [content].into_iter().filter(|content| content.contains(','));
            let parts = whole.chain(content.split(','));
            found.extend(parts.map(|mark| (start..end, mark.trim().trim_start_matches('^'))));
        }
    }
    found
}

/// `[1]: https://…` at the beginning of a line says what `[1]` means elsewhere.
fn is_definition(text: &str, start: usize, end: usize) -> bool {
    let begins_line =
        text.get(..start).is_some_and(|before| before.is_empty() || before.ends_with('\n'));
    begins_line && text.get(end..).is_some_and(|after| after.starts_with(':'))
}

#[cfg(test)]
#[path = "citations_tests.rs"]
mod tests;
