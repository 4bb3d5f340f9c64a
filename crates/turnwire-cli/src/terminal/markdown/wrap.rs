//! Breaks styled text into lines.

use clap::builder::styling::Style;
use console::measure_text_width;

use crate::terminal::Paint;

/// Text in one style.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
}

/// Breaks text at spaces into lines of at most `width` columns. A longer word has a line of its own.
pub(super) fn wrapped(spans: &[Span], width: usize, paint: Paint) -> Vec<String> {
    let mut lines = vec![Line::default()];
    for word in words(spans) {
        let word_width: usize = word.iter().map(|piece| measure_text_width(&piece.text)).sum();
        let needs_break = lines
            .last()
            .is_some_and(|line| !line.pieces.is_empty() && line.width + 1 + word_width > width);
        if needs_break {
            lines.push(Line::default());
        }
        if let Some(line) = lines.last_mut() {
            line.add(word, word_width);
        }
    }
    lines.into_iter().map(|line| line.painted(paint)).collect()
}

#[derive(Default)]
struct Line {
    pieces: Vec<Span>,
    width: usize,
}

impl Line {
    fn add(&mut self, word: Vec<Span>, width: usize) {
        if let (Some(last), Some(first)) = (self.pieces.last(), word.first()) {
            // A space between two underlined words is underlined as well.
            let style = if last.style == first.style { last.style } else { Style::new() };
            self.pieces.push(Span { text: " ".to_owned(), style });
            self.width += 1;
        }
        self.pieces.extend(word);
        self.width += width;
    }

    /// The text with as few changes of style as possible.
    fn painted(self, paint: Paint) -> String {
        let mut merged: Vec<Span> = Vec::new();
        for piece in self.pieces {
            match merged.last_mut() {
                Some(last) if last.style == piece.style => last.text.push_str(&piece.text),
                _ => merged.push(piece),
            }
        }
        merged.iter().map(|piece| paint.styled(piece.style, &piece.text)).collect()
    }
}

/// Splits spans at spaces. A word may have pieces in several styles.
fn words(spans: &[Span]) -> Vec<Vec<Span>> {
    let mut words = vec![Vec::new()];
    for Span { text, style } in spans {
        for (index, piece) in text.split(' ').enumerate() {
            if index > 0 {
                words.push(Vec::new());
            }
            if !piece.is_empty()
                && let Some(word) = words.last_mut()
            {
                word.push(Span { text: piece.to_owned(), style: *style });
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}
