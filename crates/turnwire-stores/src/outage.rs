//! Retries for an unavailable server: backoff, and one log line per outage.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// First delay.
const SHORTEST: Duration = Duration::from_millis(50);

/// Maximum delay.
const LONGEST: Duration = Duration::from_secs(1);

/// Whether a server is known to be unavailable.
#[derive(Debug)]
pub(crate) struct Availability {
    server: &'static str,
    is_away: AtomicBool,
}

impl Availability {
    /// Creates the state for `server`, initially available.
    pub(crate) fn of(server: &'static str) -> Self {
        Self { server, is_away: AtomicBool::new(false) }
    }

    /// Returns whether the server is known to be unavailable.
    pub(crate) fn is_down(&self) -> bool {
        self.is_away.load(Ordering::Relaxed)
    }

    /// Logs once that the server is unavailable.
    pub(crate) fn mark_down(&self, words: &str) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            tracing::warn!("{} unavailable, retrying: {words}", self.server);
        }
    }

    /// Logs once that the server is available again.
    pub(crate) fn mark_up(&self) {
        if self.is_away.load(Ordering::Relaxed) && self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!("{} available again", self.server);
        }
    }
}

/// Exponential backoff.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// Returns the next, longer delay.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.last.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
        self.last = Some(pause);
        pause
    }
}
