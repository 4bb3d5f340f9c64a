//! Splits a text into chunks at natural boundaries, in linear time.
//!
//! A chunk ends at the last break of the highest level that fits: before a heading (Markdown), a
//! paragraph, a line, a sentence or a word, or else anywhere.

use turnwire_contract::Chunking;

/// Maximum size of a chunk in bytes. Spaces count no tokens.
const MAX_BYTES: usize = 64 * 1024;

/// Levels of breaks. Those of headings are above them, by their depth.
const WORD: u8 = 1;
const SENTENCE: u8 = 2;
const LINE: u8 = 3;
const PARAGRAPH: u8 = 4;
/// The level of a heading is this minus the number of its `#`.
const HEADING: u8 = 11;

/// A place where a text can be split.
#[derive(Debug, Clone, Copy)]
struct Break {
    at: usize,
    level: u8,
    /// Number of tokens before it, from the begin of the chunk.
    tokens: usize,
    /// Whether it is in a fenced code block, where `#` is no heading.
    is_in_code: bool,
}

/// The chunks of a text.
pub(super) struct Chunks<'a> {
    text: &'a str,
    is_markdown: bool,
    max_tokens: usize,
    overlap: usize,
    at: usize,
    /// End of the chunk before. The next one ends later, wherever it begins.
    told: usize,
    is_in_code: bool,
    /// The breaks in the present chunk.
    breaks: Vec<Break>,
}

impl<'a> Chunks<'a> {
    /// Splits a text. Markdown is split at its headings first.
    pub(super) fn of(text: &'a str, is_markdown: bool, chunking: Chunking) -> Self {
        let (max_tokens, overlap) = chunking.tokens();
        let size = |tokens: u32| usize::try_from(tokens).unwrap_or(usize::MAX);
        let max_tokens = size(max_tokens).max(1);
        // A larger overlap would be mostly repetition; the gateway rejects it.
        let overlap = size(overlap).min(max_tokens / 2);
        let is_in_code = is_fence(text.trim_start());
        let (at, told, breaks) = (0, 0, Vec::new());
        Self { text, is_markdown, max_tokens, overlap, at, told, is_in_code, breaks }
    }

    /// Returns the end of the chunk that begins here, and where the next one begins.
    fn ends(&mut self, rest: &str) -> (usize, Break) {
        self.breaks.clear();
        let (mut tokens, mut is_in_code) = (Tokens::default(), self.is_in_code);
        let mut gap = Gap::default();
        for (at, letter) in rest.char_indices() {
            if at > 0
                && !letter.is_whitespace()
                && let Some(mut level) = gap.level()
            {
                let tokens = tokens.count();
                if gap.n_lines > 0 && self.is_markdown {
                    let line = rest.get(at..).unwrap_or_default();
                    if is_fence(line) {
                        is_in_code = !is_in_code;
                    } else if !is_in_code && let Some(heading) = level_of_heading(line) {
                        level = heading;
                    }
                }
                self.breaks.push(Break { at, level, tokens, is_in_code });
            }
            let before = tokens.count();
            tokens.add(letter);
            if at > 0 && (tokens.count() > self.max_tokens || at >= MAX_BYTES) {
                let anywhere = Break { at, level: 0, tokens: before, is_in_code };
                let told = self.told.saturating_sub(self.at);
                let new = self.breaks.iter().filter(|found| found.at > told);
                let end = new.max_by_key(|found| found.level).copied().unwrap_or(anywhere);
                return (end.at, self.shared(end));
            }
            gap.add(letter);
        }
        let (at, tokens) = (rest.len(), tokens.count());
        (at, Break { at, level: 0, tokens, is_in_code })
    }

    /// Returns where the next chunk begins: earlier than `end`, as far as the two may share, at a
    /// break that is no lower than that between them.
    fn shared(&self, end: Break) -> Break {
        let is_shared = |found: &&Break| {
            found.at < end.at
                && found.level >= end.level
                && end.tokens - found.tokens <= self.overlap
                // Also of what counts no tokens.
                && (end.at - found.at) * 2 <= end.at
        };
        self.breaks.iter().find(is_shared).copied().unwrap_or(end)
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.text;
        loop {
            let rest = text.get(self.at..)?;
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.is_empty() {
                return None;
            }
            let (length, next) = self.ends(trimmed);
            self.told = self.at + length;
            self.at += next.at;
            self.is_in_code = next.is_in_code;
            let chunk = trimmed.get(..length)?.trim_end();
            if !chunk.is_empty() {
                return Some(chunk);
            }
        }
    }
}

/// What is between two words.
#[derive(Default)]
struct Gap {
    n_lines: usize,
    n_spaces: usize,
    ends_sentence: bool,
    ends_wide_sentence: bool,
}

impl Gap {
    fn add(&mut self, letter: char) {
        if letter.is_whitespace() {
            self.n_lines += usize::from(letter == '\n');
            self.n_spaces += 1;
        } else {
            // They belong to the sentence that they close.
            if self.n_spaces == 0 && matches!(letter, '"' | '\'' | ')' | ']' | '”' | '’' | '»')
            {
                return;
            }
            let ends_wide_sentence = matches!(letter, '。' | '！' | '？');
            let ends_sentence = matches!(letter, '.' | '!' | '?' | '…');
            *self = Self { ends_sentence, ends_wide_sentence, ..Self::default() };
        }
    }

    /// Returns the level of the break after the gap, if there is one.
    fn level(&self) -> Option<u8> {
        match (self.n_lines, self.n_spaces) {
            (2.., _) => Some(PARAGRAPH),
            (1, _) => Some(LINE),
            (0, _) if self.ends_wide_sentence => Some(SENTENCE),
            (0, 0) => None,
            (0, _) => Some(if self.ends_sentence { SENTENCE } else { WORD }),
        }
    }
}

fn is_fence(line: &str) -> bool {
    line.starts_with("```") || line.starts_with("~~~")
}

fn level_of_heading(line: &str) -> Option<u8> {
    let n_marks = line.bytes().take_while(|byte| *byte == b'#').count();
    let after = line.as_bytes().get(n_marks);
    let is_heading = (1..=6).contains(&n_marks) && after.is_none_or(u8::is_ascii_whitespace);
    let n_marks = u8::try_from(n_marks).ok().filter(|_| is_heading)?;
    HEADING.checked_sub(n_marks)
}

/// Approximate token count: one per four ASCII letters or digits of a word, and one per other
/// character. Needs no vocabulary, which differs between models.
#[derive(Default)]
struct Tokens {
    tokens: usize,
    letters: usize,
}

impl Tokens {
    fn add(&mut self, letter: char) {
        if letter.is_ascii_alphanumeric() {
            self.letters += 1;
        } else {
            self.tokens = self.count() + usize::from(!letter.is_whitespace());
            self.letters = 0;
        }
    }

    fn count(&self) -> usize {
        self.tokens + self.letters.div_ceil(4)
    }
}

#[cfg(test)]
#[path = "chunking_tests.rs"]
mod tests;
