//! What a request costs: which of its tokens a vendor's cache has.
//!
//! A prompt is a list of segments. A vendor reads the longest prefix that an earlier request of the
//! same key wrote, if it is long enough, and writes up to the last mark.

use super::seals::digest;

/// A prefix shorter than this is not cached.
const MIN_TOKENS: u64 = 1024;

/// A prompt, divided where a cache could end.
#[derive(Debug, Clone, Default)]
pub(super) struct Segments {
    /// Digest and tokens of each.
    parts: Vec<(u64, u64)>,
    /// Number of segments that are to be written.
    marked: usize,
}

/// Tokens of one answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Input, including what was read or written.
    pub input: u64,
    pub cached: u64,
    pub written: u64,
    pub output: u64,
    /// Part of the output.
    pub reasoning: u64,
}

impl Segments {
    pub(super) fn add(&mut self, text: &str) {
        self.parts.push((digest(text), text.len() as u64 / 4 + 1));
    }

    /// Writes what is there so far.
    pub(super) fn mark(&mut self) {
        self.marked = self.parts.len();
    }

    fn tokens(&self, n_segments: usize) -> u64 {
        self.parts.iter().take(n_segments).map(|(_, tokens)| tokens).sum()
    }

    fn total(&self) -> u64 {
        self.tokens(self.parts.len())
    }
}

/// What one key sent so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    earlier: Vec<Segments>,
}

impl Cache {
    /// Returns the input tokens of a request, and remembers it. `exact` reads only whole earlier
    /// entries, as Anthropic does; others read any common prefix.
    pub(super) fn take(&mut self, prompt: Segments, exact: bool) -> Tokens {
        let common = |before: &Segments| {
            let pairs = before.parts.iter().take(before.marked).zip(&prompt.parts);
            let same = pairs.take_while(|(one, other)| one == other).count();
            if exact && same < before.marked { 0 } else { same }
        };
        let read = self.earlier.iter().map(common).max().unwrap_or(0);
        let long_enough = |tokens: u64| if tokens < MIN_TOKENS { 0 } else { tokens };
        let cached = long_enough(prompt.tokens(read));
        let written = long_enough(prompt.tokens(prompt.marked)).saturating_sub(cached);
        let input = prompt.total();
        self.earlier.push(prompt);
        Tokens { input, cached, written, ..Tokens::default() }
    }
}

/// What requests cost together, in the price of uncached tokens.
#[expect(clippy::cast_precision_loss, reason = "tokens of a test are few")]
pub fn cost(tokens: &[Tokens]) -> f64 {
    let of_one = |tokens: &Tokens| {
        let plain = tokens.input - tokens.cached - tokens.written;
        plain as f64 + 0.1 * tokens.cached as f64 + 1.25 * tokens.written as f64
    };
    tokens.iter().map(of_one).sum()
}

/// What they would cost if each only added to the one before.
pub fn least_cost(tokens: &[Tokens]) -> f64 {
    let mut before = 0;
    let appended = |tokens: &Tokens| {
        let cached = if before < MIN_TOKENS { 0 } else { before.min(tokens.input) };
        before = tokens.input;
        let written = if tokens.input < MIN_TOKENS { 0 } else { tokens.input - cached };
        Tokens { cached, written, ..*tokens }
    };
    cost(&tokens.iter().map(appended).collect::<Vec<_>>())
}
