//! Timeouts of a tool call: total time and time without a report.

use std::time::Duration;

use tokio::time::Instant;

use crate::deadline::later;

/// The timers of one attempt. They are paused while a person is asked.
pub(crate) struct AttemptTimers {
    /// Maximum time without a report.
    silence: Duration,
    /// Interval between heartbeats for a silent tool. [`Duration::MAX`] disables them.
    heartbeat: Duration,
    /// End of the total time of the call.
    deadline: Instant,
    last_message: Instant,
    next_heartbeat: Instant,
    n_questions: u32,
    asked_at: Instant,
}

impl AttemptTimers {
    /// Creates the timers of a call that started at `began`.
    pub(crate) fn start(
        began: Instant,
        heartbeat: Duration,
        silence: Duration,
        total: Duration,
    ) -> Self {
        let now = Instant::now();
        let heartbeat = match heartbeat {
            Duration::ZERO => Duration::MAX,
            heartbeat => heartbeat,
        };
        Self {
            silence,
            heartbeat,
            deadline: later(began, total),
            last_message: now,
            next_heartbeat: later(now, heartbeat),
            n_questions: 0,
            asked_at: now,
        }
    }

    pub(crate) fn note_message(&mut self) {
        self.last_message = Instant::now();
        self.next_heartbeat = later(self.last_message, self.heartbeat);
    }

    pub(crate) fn note_heartbeat(&mut self) {
        self.next_heartbeat = later(self.next_heartbeat, self.heartbeat);
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
        self.next_heartbeat.min(self.expiry())
    }

    pub(crate) fn are_expired(&self) -> bool {
        Instant::now() >= self.expiry()
    }

    fn expiry(&self) -> Instant {
        self.deadline.min(later(self.last_message, self.silence))
    }
}
