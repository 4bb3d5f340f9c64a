//! Markdown as text for a terminal: headings, lists, quotes, code, emphasis, tables.
//!
//! The text comes from a model, which may be led to write anything. The parser turns `&#27;` into an
//! escape character, so every text is cleaned again after parsing. HTML is shown as it is written,
//! and images are not loaded.

mod table;
mod wrap;

use clap::builder::styling::{AnsiColor, Style};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use turnwire_surfaces::clean;

use self::{
    table::Table,
    wrap::{Span, wrapped},
};
use super::Paint;

const CODE_INDENT: &str = "  ";
const QUOTE: &str = "│ ";
const RULE: &str = "─";
/// Lines are not made longer than this, for the sake of reading.
const MAX_WIDTH: usize = 100;

/// Formats Markdown for a terminal of this width. Every line ends with a line feed.
pub(super) fn formatted(source: &str, width: usize, paint: Paint) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut writer = Writer::new(width.clamp(20, MAX_WIDTH), paint);
    for event in Parser::new_ext(source, options) {
        writer.event(event);
    }
    writer.end_text();
    writer.lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

/// What surrounds a block, from the outside to the inside.
enum Container {
    Quote,
    Item {
        /// The marker, until it is written.
        marker: Option<String>,
        indent: usize,
    },
}

struct Writer {
    width: usize,
    paint: Paint,
    lines: Vec<String>,
    containers: Vec<Container>,
    /// Number of the next item of each open list; none for lists with bullets.
    lists: Vec<Option<u64>>,
    /// The text of the current block.
    spans: Vec<Span>,
    /// Style of text, with those that surround it.
    styles: Vec<Style>,
    /// Targets of open links.
    links: Vec<String>,
    /// The code block so far.
    code: Option<String>,
    table: Option<Table>,
}

impl Writer {
    fn new(width: usize, paint: Paint) -> Self {
        Self {
            width,
            paint,
            lines: Vec::new(),
            containers: Vec::new(),
            lists: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.styled(Style::new().fg_color(Some(AnsiColor::Cyan.into())), &text);
            }
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.end_text(),
            Event::Rule => {
                self.begin_block();
                let prefix = self.prefix();
                self.lines.push(format!("{prefix}{}", self.paint.dim(&RULE.repeat(3))));
            }
            Event::TaskListMarker(is_done) => self.text(if is_done { "[x] " } else { "[ ] " }),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
        }
    }

    fn start(&mut self, tag: Tag) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let style = Style::new().bold();
                self.push_style(match level {
                    HeadingLevel::H1 | HeadingLevel::H2 => style.underline(),
                    _ => style,
                });
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.containers.push(Container::Quote);
            }
            Tag::CodeBlock(kind) => self.start_code(&kind),
            Tag::List(first) => {
                if self.lists.is_empty() {
                    self.begin_block();
                } else {
                    self.end_text();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.push_style(Style::new().italic()),
            Tag::Strong => self.push_style(Style::new().bold()),
            Tag::Strikethrough => self.push_style(Style::new().strikethrough()),
            Tag::Link { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.push_style(Style::new().underline());
            }
            Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.text("[image: ");
            }
            _ => {}
        }
    }

    fn start_code(&mut self, kind: &CodeBlockKind) {
        self.begin_block();
        self.code = Some(String::new());
        if let CodeBlockKind::Fenced(language) = kind
            && !language.is_empty()
        {
            let label = self.paint.dim(&one_line(language));
            let prefix = self.prefix();
            self.lines.push(format!("{prefix}{CODE_INDENT}{label}"));
        }
    }

    fn start_item(&mut self) {
        self.end_text();
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "• ".to_owned(),
        };
        let indent = marker.chars().count();
        self.containers.push(Container::Item { marker: Some(marker), indent });
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_text(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_text();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.end_text();
                self.containers.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(table) = &mut self.table {
                    table.add_cell(cell.iter().map(|span| span.text.as_str()).collect());
                }
            }
            TagEnd::Table => self.end_table(),
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link => {
                self.styles.pop();
                self.end_link();
            }
            TagEnd::Image => {
                self.text("]");
                self.end_link();
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some(code) => code.push_str(text),
            None => self.styled(Style::new(), text),
        }
    }

    /// Adds text with the styles around it and `style`.
    fn styled(&mut self, style: Style, text: &str) {
        let around = self.styles.last().copied().unwrap_or_default();
        let text = clean(text).replace(['\n', '\r', '\t'], " ");
        self.spans.push(Span { text, style: joined(around, style) });
    }

    fn push_style(&mut self, style: Style) {
        let around = self.styles.last().copied().unwrap_or_default();
        self.styles.push(joined(around, style));
    }

    /// Writes where a link leads, unless its text says so.
    fn end_link(&mut self) {
        let Some(target) = self.links.pop() else { return };
        let is_told = self.spans.last().is_some_and(|span| span.text == target);
        if !is_told && !target.is_empty() {
            self.styled(Style::new().dimmed(), &format!(" ({})", one_line(&target)));
        }
    }

    /// Ends the text before a block, and leaves a line between it and the one before.
    fn begin_block(&mut self) {
        self.end_text();
        let is_first_of_item =
            matches!(self.containers.last(), Some(Container::Item { marker: Some(_), .. }));
        if !self.lines.is_empty() && !is_first_of_item {
            let prefix = self.prefix();
            self.lines.push(prefix.trim_end().to_owned());
        }
    }

    /// Wraps the text of a block and writes it.
    fn end_text(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.iter().all(|span| span.text.trim().is_empty()) {
            return;
        }
        let room = self.width.saturating_sub(self.indent());
        for line in wrapped(&spans, room, self.paint) {
            let prefix = self.prefix();
            self.lines.push(format!("{prefix}{line}"));
        }
    }

    /// Code is neither wrapped nor changed, so that it can be copied.
    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default();
        for line in code.trim_end_matches('\n').split('\n') {
            let line = clean(line).replace('\r', "").replace('\t', "    ");
            let line = if line.is_empty() { line } else { self.paint.code(&line) };
            let line = format!("{}{CODE_INDENT}{line}", self.prefix());
            self.lines.push(line.trim_end().to_owned());
        }
    }

    fn end_table(&mut self) {
        let Some(table) = self.table.take() else { return };
        let room = self.width.saturating_sub(self.indent());
        for line in table.lines(room, self.paint) {
            let prefix = self.prefix();
            self.lines.push(format!("{prefix}{line}"));
        }
    }

    /// The start of a line: bars of quotes, and markers of items on their first line.
    fn prefix(&mut self) -> String {
        let paint = self.paint;
        let parts = self.containers.iter_mut().map(|container| match container {
            Container::Quote => paint.dim(QUOTE),
            Container::Item { marker, indent } => {
                marker.take().unwrap_or_else(|| " ".repeat(*indent))
            }
        });
        parts.collect()
    }

    fn indent(&self) -> usize {
        let widths = self.containers.iter().map(|container| match container {
            Container::Quote => QUOTE.chars().count(),
            Container::Item { indent, .. } => *indent,
        });
        widths.sum()
    }
}

/// A style in another. Effects add up; the inner colour wins.
fn joined(outer: Style, inner: Style) -> Style {
    let colour = inner.get_fg_color().or(outer.get_fg_color());
    inner.effects(outer.get_effects() | inner.get_effects()).fg_color(colour)
}

fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
