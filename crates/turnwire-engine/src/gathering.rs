//! How long the parts of an answer wait for those that follow.
//!
//! Every append wakes the writer, the readers and their connections, however little it appends. So
//! a node that streams many answers appends to each of them less often, and the parts that arrive
//! in between share a row, a commit and a write. A node with few answers appends every part at
//! once, and so does every node with the first part of an answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

/// Default of [`EngineParts::max_gathering`](crate::EngineParts::max_gathering): two parts of an
/// ordinary model share an append.
pub(crate) const MAX_GATHERING: Duration = Duration::from_millis(40);

/// How much every answer in progress adds to the window: a node appends to its answers 10,000 times
/// a second at most, until the window reaches its bound.
const PER_ANSWER: Duration = Duration::from_micros(100);

/// A shorter window is none: timers are no finer.
const SHORTEST: Duration = Duration::from_millis(1);

/// The answers that are streamed now.
#[derive(Debug)]
pub(crate) struct Gathering {
    longest: Duration,
    n_answers: AtomicU32,
}

impl Gathering {
    /// Creates a window of at most `longest`. Zero disables it.
    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { longest, n_answers: AtomicU32::new(0) }
    }

    /// Counts an answer as long as the result exists.
    pub(crate) fn begin(self: &Arc<Self>) -> CountedAnswer {
        self.n_answers.fetch_add(1, Ordering::Relaxed);
        CountedAnswer(Arc::clone(self))
    }

    /// Returns the time between two appends to one answer.
    pub(crate) fn window(&self) -> Duration {
        let window = PER_ANSWER.saturating_mul(self.n_answers.load(Ordering::Relaxed));
        if window < SHORTEST { Duration::ZERO } else { window.min(self.longest) }
    }
}

/// An answer that is streamed.
#[derive(Debug)]
pub(crate) struct CountedAnswer(Arc<Gathering>);

impl Drop for CountedAnswer {
    fn drop(&mut self) {
        self.0.n_answers.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "gathering_tests.rs"]
mod tests;
