//! When a delivery is tried again.

use std::time::Duration;

use sha2::{Digest, Sha256};

/// Pauses after the first, second, … attempt. After the attempt that follows the last one, a
/// delivery is given up: a little more than three days after its event.
const PAUSES: [Duration; 9] = [
    Duration::from_secs(5),
    Duration::from_mins(5),
    Duration::from_mins(30),
    Duration::from_hours(2),
    Duration::from_hours(5),
    Duration::from_hours(10),
    Duration::from_hours(14),
    Duration::from_hours(20),
    Duration::from_hours(24),
];

/// Longest pause that a receiver can ask for with `Retry-After`.
const MAX_ASKED: Duration = Duration::from_hours(24);

/// Returns the pause after attempt `n_attempts`, counted from 1. `None` if it was the last.
///
/// A pause is up to a fifth longer, so that the deliveries of an outage do not return all at once.
/// How much depends on the delivery alone: there are enough of them to spread.
pub(super) fn pause(id: &str, n_attempts: u32, asked: Option<Duration>) -> Option<Duration> {
    let place = usize::try_from(n_attempts.checked_sub(1)?).ok()?;
    let pause = *PAUSES.get(place)?;
    let hash = Sha256::digest(format!("{id}.{n_attempts}"));
    let part = hash.first().copied().unwrap_or_default();
    let jitter = pause * u32::from(part) / (5 * 255);
    Some((pause + jitter).max(asked.unwrap_or_default().min(MAX_ASKED)))
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
