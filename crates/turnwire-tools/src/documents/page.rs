//! Converts a page to text: the main content, as Markdown.
//!
//! Pages are untrusted. A page that is nested too deeply is not converted, because the conversion
//! is recursive and a stack overflow would end the process. A page with too many unclosed elements
//! is not parsed, because parsing takes quadratic time in the depth.

use std::{fmt, rc::Rc};

use dom_smoothie::{Config, Readability};
use encoding_rs::{Encoding, UTF_8};
use htmd::{HtmlToMarkdown, Node};

/// Maximum depth of a page. Regular pages are less deep.
const MAX_DEPTH: usize = 400;
/// Maximum number of elements that are open at once, by an approximate count.
const MAX_OPEN: usize = 5_000;
/// Elements without an end tag, or closed by the next of their kind.
const NOT_NESTED: [&str; 24] = [
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta",
    "option", "p", "param", "source", "tbody", "td", "th", "thead", "tr", "track", "wbr",
];
/// Maximum number of elements for the extraction of the main content.
const MAX_ELEMENTS: usize = 100_000;
/// Number of bytes in which the encoding may be declared.
const HEAD: usize = 1024;
/// Elements that contain no text.
const LEFT_OUT: [&str; 13] = [
    "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "img", "video",
    "audio", "button", "head",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Readable {
    /// Title; may be empty.
    pub(super) title: String,
    pub(super) text: String,
}

/// Why a page cannot be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The media type is not supported.
    Kind(String),
    /// The page is nested too deeply.
    TooDeep,
    /// The page contains no text.
    Empty,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => write!(f, "the page is {kind}, which cannot be read as text"),
            Self::TooDeep => f.write_str("the page is built in a way that cannot be read"),
            Self::Empty => f.write_str("there is no text on the page"),
        }
    }
}

/// Converts a page with these bytes from `url`.
pub(super) fn readable(
    body: &[u8],
    content_type: Option<&str>,
    url: &str,
) -> Result<Readable, Unreadable> {
    let written = content_type.unwrap_or("text/html");
    let kind = written.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let page = match kind.as_str() {
        "text/html" | "application/xhtml+xml" => html(&decoded(body, written, true), url)?,
        kind if is_text(kind) => {
            Readable { title: String::new(), text: decoded(body, written, false) }
        }
        _ => return Err(Unreadable::Kind(kind)),
    };
    let text = page.text.trim();
    if text.is_empty() {
        return Err(Unreadable::Empty);
    }
    Ok(Readable { text: text.to_owned(), title: page.title.trim().to_owned() })
}

fn is_text(kind: &str) -> bool {
    kind.starts_with("text/")
        || matches!(kind, "application/json" | "application/xml" | "application/rss+xml")
        || kind.ends_with("+json")
        || kind.ends_with("+xml") && kind != "image/svg+xml"
}

/// Decodes the bytes. A byte order mark takes precedence, then the header, then the page itself.
fn decoded(body: &[u8], content_type: &str, is_html: bool) -> String {
    let told = charset(content_type);
    let head = || {
        let head = body.get(..HEAD.min(body.len())).unwrap_or_default();
        charset(&String::from_utf8_lossy(head))
    };
    let told = told.or_else(|| if is_html { head() } else { None });
    let encoding = told.and_then(|label| Encoding::for_label(label.as_bytes())).unwrap_or(UTF_8);
    // `decode` prefers a byte order mark.
    encoding.decode(body).0.into_owned()
}

/// Returns the value after `charset=`.
fn charset(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    let is_of_label = |c: &char| c.is_ascii_alphanumeric() || "-_.:".contains(*c);
    Some(rest.chars().take_while(is_of_label).collect()).filter(|label: &String| !label.is_empty())
}

fn html(page: &str, url: &str) -> Result<Readable, Unreadable> {
    if opens_too_much(page) {
        return Err(Unreadable::TooDeep);
    }
    let converter = HtmlToMarkdown::builder().skip_tags(LEFT_OUT.to_vec()).build();
    let tree = converter.html_to_tree(page).map_err(|_| Unreadable::Empty)?;
    if is_too_deep(&tree) {
        return Err(Unreadable::TooDeep);
    }
    let config = Config { max_elements_to_parse: MAX_ELEMENTS, ..Config::default() };
    let article = Readability::new(page, Some(url), Some(config));
    let mut article = article.ok();
    let title = article.as_ref().map(|page| page.get_article_title().to_string());
    let article = article.as_mut().and_then(|page| page.parse().ok());
    let text = article.as_ref().and_then(|article| converter.convert(&article.content).ok());
    // A page without an article is converted as a whole.
    let text = text.filter(|text| !text.trim().is_empty());
    let text = text.unwrap_or_else(|| converter.tree_to_markdown(&tree));
    let its_title = article.map(|article| article.title).filter(|title| !title.trim().is_empty());
    Ok(Readable { title: its_title.or(title).unwrap_or_default(), text })
}

/// Counts unclosed elements approximately, without parsing.
fn opens_too_much(page: &str) -> bool {
    let (mut n_open, mut rest) = (0_usize, page);
    while let Some((_, after)) = rest.split_once('<') {
        rest = after;
        let is_end = after.starts_with('/');
        let name = after.trim_start_matches('/');
        let name: String = name.chars().take_while(char::is_ascii_alphanumeric).take(12).collect();
        let name = name.to_ascii_lowercase();
        if name.is_empty() || NOT_NESTED.contains(&name.as_str()) {
            continue;
        }
        if !is_end && matches!(name.as_str(), "script" | "style") {
            // The content of these elements is not markup.
            let end = format!("</{name}");
            rest = after.split_once(end.as_str()).map_or("", |(_, after)| after);
            continue;
        }
        n_open = if is_end { n_open.saturating_sub(1) } else { n_open + 1 };
        if n_open > MAX_OPEN {
            return true;
        }
    }
    false
}

/// Iterative, to avoid deep recursion.
fn is_too_deep(tree: &Rc<Node>) -> bool {
    let mut to_see = vec![(Rc::clone(tree), 0)];
    while let Some((node, depth)) = to_see.pop() {
        if depth > MAX_DEPTH {
            return true;
        }
        to_see.extend(node.children.borrow().iter().map(|child| (Rc::clone(child), depth + 1)));
    }
    false
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
