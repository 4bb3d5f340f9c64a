//! Splits a text into chunks at natural boundaries.

use text_splitter::{ChunkConfig, ChunkSizer, MarkdownSplitter, TextSplitter};
use turnwire_contract::Chunking;

/// Approximate token count: one per four ASCII letters or digits of a word, and one per other
/// character. Needs no vocabulary, which differs between models.
struct Tokens;

impl ChunkSizer for Tokens {
    fn size(&self, chunk: &str) -> usize {
        let (mut tokens, mut letters) = (0, 0_usize);
        for letter in chunk.chars() {
            if letter.is_ascii_alphanumeric() {
                letters += 1;
                continue;
            }
            tokens += letters.div_ceil(4) + usize::from(!letter.is_whitespace());
            letters = 0;
        }
        tokens + letters.div_ceil(4)
    }
}

/// Splits a text into chunks. Markdown is split at its headings first.
pub(super) fn chunks(text: &str, is_markdown: bool, chunking: Chunking) -> Vec<String> {
    let (most, overlap) = chunking.tokens();
    let size = |tokens: u32| usize::try_from(tokens).unwrap_or(usize::MAX);
    let most = size(most).max(1);
    // A larger overlap would be mostly repetition; the gateway rejects it.
    let overlap = size(overlap).min(most / 2);
    let config = ChunkConfig::new(most).with_sizer(Tokens);
    let Ok(config) = config.with_overlap(overlap) else { return vec![text.to_owned()] };
    let cut: Vec<&str> = if is_markdown {
        MarkdownSplitter::new(config).chunks(text).collect()
    } else {
        TextSplitter::new(config).chunks(text).collect()
    };
    cut.into_iter().filter(|chunk| !chunk.trim().is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "chunking_tests.rs"]
mod tests;
