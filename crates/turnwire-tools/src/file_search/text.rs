//! From a file to passages that can be searched.

/// The longest passage, in characters: a few paragraphs, which a model reads at a glance.
const MAX_PASSAGE: usize = 1_500;

/// Elements of a page whose content nobody reads.
const UNREAD: [&str; 4] = ["script", "style", "noscript", "template"];

/// The text of a file, or nothing if it has none that we can read.
pub(super) fn text_of(name: &str, content: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(content).ok()?;
    if text.contains('\0') {
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_page(name, text) { Some(without_markup(text)) } else { Some(text.to_owned()) }
}

fn is_page(name: &str, text: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let begin: String = text.trim_start().chars().take(15).collect::<String>().to_ascii_lowercase();
    let named = [".html", ".htm", ".xhtml"].iter().any(|ending| name.ends_with(ending));
    named || begin.starts_with("<!doctype html") || begin.starts_with("<html")
}

/// A page as somebody would read it out: without tags, with a line for each block.
fn without_markup(page: &str) -> String {
    let mut text = String::with_capacity(page.len() / 2);
    let mut rest = page;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(&unescaped(before));
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some((tag, after)) = tag.split_once('>') else {
            rest = "";
            break;
        };
        let name = tag_name(tag);
        rest = match UNREAD.iter().find(|unread| **unread == name) {
            Some(unread) => after_end_of(unread, after),
            None => after,
        };
        text.push(if is_inline(&name) { ' ' } else { '\n' });
    }
    text.push_str(&unescaped(rest));
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

fn tag_name(tag: &str) -> String {
    let name = tag.trim_start_matches('/').split(|c: char| !c.is_ascii_alphanumeric()).next();
    name.unwrap_or_default().to_ascii_lowercase()
}

fn after_end_of<'a>(name: &str, text: &'a str) -> &'a str {
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("</") {
        if after.get(..name.len()).is_some_and(|end| end.eq_ignore_ascii_case(name)) {
            return after.split_once('>').map_or("", |(_, after)| after);
        }
        rest = after;
    }
    ""
}

fn is_inline(name: &str) -> bool {
    matches!(name, "a" | "abbr" | "b" | "code" | "em" | "i" | "small" | "span" | "strong" | "u")
}

fn unescaped(text: &str) -> String {
    text.replace("&nbsp;", " ")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&amp;", "&")
}

/// Cuts a text into passages, where it can be between paragraphs, else between lines, else
/// between words, else anywhere.
pub(super) fn passages(text: &str) -> Vec<String> {
    let mut passages = Vec::new();
    let (mut passage, mut length) = (String::new(), 0);
    let paragraphs = text.split("\n\n").flat_map(|paragraph| pieces(paragraph, Some('\n')));
    let words = paragraphs.flat_map(|lines| pieces(lines, Some(' ')));
    for piece in words.flat_map(|words| pieces(words, None)).map(str::trim) {
        if piece.is_empty() {
            continue;
        }
        let more = piece.chars().count() + 1;
        if length + more > MAX_PASSAGE && length > 0 {
            passages.push(std::mem::take(&mut passage));
            length = 0;
        }
        if length > 0 {
            passage.push('\n');
        }
        passage.push_str(piece);
        length += more;
    }
    passages.extend(Some(passage).filter(|passage| !passage.is_empty()));
    passages
}

/// The text in pieces that are short enough, cut before a `between`, or anywhere if there is
/// none to look for. Where one is looked for and not found, the rest stays in one piece.
fn pieces(text: &str, between: Option<char>) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((end, _)) = rest.char_indices().nth(MAX_PASSAGE) {
        let window = rest.get(..end).unwrap_or_default();
        let cut = between.map_or(Some(end), |between| window.rfind(between));
        let Some(cut) = cut.filter(|cut| *cut > 0) else { break };
        let (piece, after) = rest.split_at(cut);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

/// Cuts text into the words it is found by: small letters, without marks between them. Signs
/// of scripts without spaces are words of their own.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Words;

impl bm25::Tokenizer for Words {
    fn tokenize(&self, text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut word = String::new();
        for letter in text.chars().flat_map(char::to_lowercase) {
            let alone = stands_alone(letter);
            if alone || !letter.is_alphanumeric() {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            if alone {
                words.push(letter.to_string());
            } else if letter.is_alphanumeric() {
                word.push(letter);
            }
        }
        words.extend(Some(word).filter(|word| !word.is_empty()));
        words
    }
}

fn stands_alone(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
