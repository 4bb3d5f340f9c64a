//! The words that the model says: times, all of one length.

use std::time::{SystemTime, UNIX_EPOCH};

/// How many digits a time has.
pub(crate) const DIGITS: usize = 16;

/// The time in microseconds, which has [`DIGITS`] digits for some centuries.
pub(crate) fn now_micros() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// The time that a word tells.
pub(crate) fn time_of(word: &[u8]) -> Option<u64> {
    std::str::from_utf8(word.get(..DIGITS)?).ok()?.parse().ok()
}
