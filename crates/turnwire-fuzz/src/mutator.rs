//! Makes inputs from a corpus. Input `n` is a pure function of the corpus and `n`, so that a case can
//! be repeated by its number.

/// Maximum size of an input.
const MAX_BYTES: usize = 256 * 1024;

/// What readers look for, and values at the edge of what they accept.
const TOKENS: [&str; 40] = [
    "data: ",
    "event: error\n",
    "\n\n",
    "\r\n",
    ":",
    "[DONE]",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "9223372036854775808",
    "18446744073709551616",
    "0.1",
    "\\u0000",
    "\\ud800",
    "\u{0}",
    "\u{7f}",
    "\u{202e}",
    "\u{1b}[2J",
    "\u{feff}",
    "\u{1f600}",
    "\"type\":",
    "\"id\":",
    "\"index\":",
    "\"name\":",
    "\"$ref\":",
    "\"text\":",
    "\"error\":",
    "\"arguments\":",
    "\"function\":",
    "\"content\":",
    "12.0",
];

/// Makes inputs.
#[derive(Debug)]
pub struct Mutator {
    corpus: Vec<Vec<u8>>,
}

impl Mutator {
    /// Creates a mutator for a corpus, which may be empty.
    pub fn new(mut corpus: Vec<Vec<u8>>) -> Self {
        if corpus.is_empty() {
            corpus.push(b"{}".to_vec());
        }
        Self { corpus }
    }

    /// Input number `n`. The first ones are the corpus itself.
    pub fn input(&self, n: u64) -> Vec<u8> {
        let whole = usize::try_from(n).ok().and_then(|n| self.corpus.get(n));
        if let Some(whole) = whole {
            return whole.clone();
        }
        let mut random = Random(n);
        let mut input = self.pick(&mut random).to_vec();
        for _ in 0..=random.below(6) {
            self.change(&mut input, &mut random);
        }
        input.truncate(MAX_BYTES);
        input
    }

    fn pick(&self, random: &mut Random) -> &[u8] {
        self.corpus.get(random.below(self.corpus.len())).map_or(&[], Vec::as_slice)
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let (from, to) = random.range(input.len());
        match random.below(8) {
            0 => {
                if let Some(byte) = input.get_mut(from) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => drop(input.drain(from..to)),
            2 => input.truncate(from),
            3 | 4 => {
                let token = TOKENS.get(random.below(TOKENS.len())).copied().unwrap_or_default();
                drop(input.splice(from..from, token.bytes()));
            }
            5 => {
                let other = self.pick(random);
                let (start, end) = random.range(other.len());
                let piece = other.get(start..end).unwrap_or_default().to_vec();
                drop(input.splice(from..to, piece));
            }
            // A few bytes many times: what is not linear shows.
            6 if random.below(16) == 0 => {
                let piece = input.get(from..to).unwrap_or_default();
                let times = random.below(MAX_BYTES) / piece.len().max(1);
                let many = piece.repeat(times);
                drop(input.splice(to..to, many));
            }
            _ => {
                let piece = input.get(from..to).unwrap_or_default().to_vec();
                drop(input.splice(to..to, piece));
            }
        }
    }
}

/// The generator of `splitmix64`.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    fn below(&mut self, bound: usize) -> usize {
        let bound = bound.max(1) as u64;
        usize::try_from(self.next() % bound).unwrap_or_default()
    }

    /// A range of at most 64 bytes, mostly.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let from = self.below(length + 1);
        let most = if self.below(8) == 0 { length } else { 64 };
        (from, (from + self.below(most + 1)).min(length))
    }
}
