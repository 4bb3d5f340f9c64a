//! How a server that is away is waited for: with growing pauses, and with one line in the log.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// The first pause before another try.
const SHORTEST: Duration = Duration::from_millis(50);

/// The longest one.
const LONGEST: Duration = Duration::from_secs(1);

/// Whether a server is known to be away.
#[derive(Debug)]
pub(crate) struct Outage {
    server: &'static str,
    is_away: AtomicBool,
}

impl Outage {
    /// `server` is there, as far as we know.
    pub(crate) fn of(server: &'static str) -> Self {
        Self { server, is_away: AtomicBool::new(false) }
    }

    /// Tells the operator, once, that the server is away.
    pub(crate) fn note_away(&self, words: &str) {
        if !self.is_away.swap(true, Ordering::Relaxed) {
            tracing::warn!("{} unavailable, retrying: {words}", self.server);
        }
    }

    /// Tells the operator, once, that it is back.
    pub(crate) fn note_back(&self) {
        if self.is_away.load(Ordering::Relaxed) && self.is_away.swap(false, Ordering::Relaxed) {
            tracing::info!("{} available again", self.server);
        }
    }
}

/// How long to wait before the next try.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// A bit longer than last time.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let pause = self.last.map_or(SHORTEST, |last| (last * 2).min(LONGEST));
        self.last = Some(pause);
        pause
    }
}
