//! The time of this machine, as it is stored.

use std::time::{Duration, SystemTime};

use turnwire_contract::Timestamp;

/// Returns the time by this machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(micros(since))
}

/// Returns a length of time in microseconds, or the largest number if it is longer.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}
