//! Detects the type of a file and extracts its text.

/// HTML elements whose content is not visible.
const UNREAD: [&str; 4] = ["script", "style", "noscript", "template"];

/// Signature of a PDF. It may be preceded by other bytes, up to this offset.
const PDF_BEGINS: &[u8] = b"%PDF-";
const PDF_BEGINS_WITHIN: usize = 1_024;

/// The type of a file, detected from its content. Its name and media type are not trusted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Text(&'a str),
    Markdown(&'a str),
    Page(&'a str),
    Pdf,
    Unknown,
}

/// Whether this is a PDF, by its first bytes.
pub(super) fn is_pdf(content: &[u8]) -> bool {
    let begin = content.get(..PDF_BEGINS_WITHIN).unwrap_or(content);
    begin.windows(PDF_BEGINS.len()).any(|window| window == PDF_BEGINS)
}

impl<'a> Kind<'a> {
    pub(super) fn of(name: &str, content: &'a [u8]) -> Self {
        if is_pdf(content) {
            return Self::Pdf;
        }
        let Ok(text) = std::str::from_utf8(content) else { return Self::Unknown };
        if text.contains('\0') {
            return Self::Unknown;
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let name = name.to_ascii_lowercase();
        let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
        let begin: String = text.trim_start().chars().take(15).collect();
        let begin = begin.to_ascii_lowercase();
        if ends(&[".html", ".htm", ".xhtml"])
            || begin.starts_with("<!doctype html")
            || begin.starts_with("<html")
        {
            Self::Page(text)
        } else if ends(&[".md", ".markdown"]) {
            Self::Markdown(text)
        } else {
            Self::Text(text)
        }
    }
}

/// Converts HTML to plain text, with one line per block.
pub(super) fn without_markup(page: &str) -> String {
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

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
