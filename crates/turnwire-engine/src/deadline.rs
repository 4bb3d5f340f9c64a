//! Moments in the future, also those that never come.

use std::time::Duration;

use tokio::time::Instant;

/// Further away than any run lives, and near enough for every clock.
const NEVER: Duration = Duration::from_hours(24 * 365 * 30);

/// The moment `wait` after `from`. A wait too long for the clock is one that never ends.
pub(crate) fn later(from: Instant, wait: Duration) -> Instant {
    from + wait.min(NEVER)
}
