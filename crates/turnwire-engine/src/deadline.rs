//! Deadlines that saturate instead of overflowing.

use std::time::Duration;

use tokio::time::Instant;

/// Longer than any run, and short enough for every clock.
const NEVER: Duration = Duration::from_hours(24 * 365 * 30);

/// Returns `from + wait`, or a time that is never reached if the sum overflows.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from + wait.min(NEVER)
}
