//! Timeouts of a tool call: total time and time without a report.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::later;

/// The timers of one attempt. They are paused while a person is asked.
pub(crate) struct AttemptTimers {
    /// Maximum time without a report.
    silence: Duration,
    /// Interval between two `ToolStayedSilent` events. [`Duration::MAX`] disables them.
    silent_interval: Duration,
    /// End of the total time of the call.
    deadline: Instant,
    last_message: Instant,
    next_silent: Instant,
    n_questions: u32,
    asked_at: Instant,
}

impl AttemptTimers {
    /// Creates the timers of a call that started at `began`.
    pub(crate) fn start(
        began: Instant,
        silent_interval: Duration,
        silence: Duration,
        total: Duration,
    ) -> Self {
        let now = Instant::now();
        let silent_interval = match silent_interval {
            Duration::ZERO => Duration::MAX,
            silent_interval => silent_interval,
        };
        Self {
            silence,
            silent_interval,
            deadline: later(began, total),
            last_message: now,
            next_silent: later(now, silent_interval),
            n_questions: 0,
            asked_at: now,
        }
    }

    pub(crate) fn note_message(&mut self) {
        self.last_message = Instant::now();
        self.next_silent = later(self.last_message, self.silent_interval);
    }

    pub(crate) fn note_silent(&mut self) {
        self.next_silent = later(self.next_silent, self.silent_interval);
    }

    pub(crate) fn note_question(&mut self) {
        if self.n_questions == 0 {
            self.asked_at = Instant::now();
        }
        self.n_questions += 1;
    }

    pub(crate) fn note_answer(&mut self) {
        self.n_questions = self.n_questions.saturating_sub(1);
        if self.n_questions == 0 {
            self.deadline = later(self.deadline, self.asked_at.elapsed());
        }
    }

    pub(crate) fn are_paused(&self) -> bool {
        self.n_questions > 0
    }

    pub(crate) fn next_wake(&self) -> Instant {
        self.next_silent.min(self.expiry())
    }

    pub(crate) fn are_expired(&self) -> bool {
        Instant::now() >= self.expiry()
    }

    fn expiry(&self) -> Instant {
        self.deadline.min(later(self.last_message, self.silence))
    }
}
