//! Opaque tokens: signatures and encrypted reasoning. What a token was made over can be compared,
//! but not read.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A number for a value, the same in every process.
pub(super) fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Returns letters and digits made from `seed`.
pub(super) fn letters(seed: impl Hash, length: usize) -> String {
    let alphabet: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let seed = digest(seed);
    let letter = |at: usize| {
        let place = digest((seed, at)) % 62;
        alphabet.get(usize::try_from(place).unwrap_or(0)).copied().unwrap_or('a')
    };
    (0..length).map(letter).collect()
}

/// What a token is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seal {
    owner: u64,
    place: u64,
    content: u64,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// Another vendor, account or model made it, or nobody.
    Foreign,
    /// It belongs to other content.
    Altered,
    /// It belongs to another place.
    Moved,
}

impl Seal {
    pub(super) fn new(owner: impl Hash, place: impl Hash, content: impl Hash) -> Self {
        Self { owner: digest(owner), place: digest(place), content: digest(content) }
    }

    /// The token.
    pub(super) fn token(self) -> String {
        format!("Eq{:016x}{:016x}{:016x}==", self.owner, self.place, self.content)
    }

    /// Whether `token` is this seal's.
    pub(super) fn check(self, token: &str) -> Result<(), Flaw> {
        let Some(theirs) = Self::parsed(token) else { return Err(Flaw::Foreign) };
        match theirs {
            Self { owner, .. } if owner != self.owner => Err(Flaw::Foreign),
            Self { content, .. } if content != self.content => Err(Flaw::Altered),
            Self { place, .. } if place != self.place => Err(Flaw::Moved),
            Self { .. } => Ok(()),
        }
    }

    fn parsed(token: &str) -> Option<Self> {
        let digits = token.strip_prefix("Eq")?.strip_suffix("==")?;
        let number = |from: usize| u64::from_str_radix(digits.get(from..from + 16)?, 16).ok();
        Some(Self { owner: number(0)?, place: number(16)?, content: number(32)? })
    }
}
