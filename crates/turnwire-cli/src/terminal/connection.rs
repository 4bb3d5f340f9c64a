//! The connection to a server that executes a run.

use std::time::Duration;

/// A change of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connection {
    /// It is lost, and the next attempt follows after the wait.
    Lost {
        wait: Duration,
        /// Number of attempts that failed.
        attempt: usize,
    },
    /// It is back, and this many events were missed.
    Back { n_events: usize },
}

impl Connection {
    pub(super) fn words(self) -> String {
        match self {
            Self::Lost { wait, .. } if wait < Duration::from_secs(1) => {
                "connection lost, the run goes on; trying again".to_owned()
            }
            Self::Lost { wait, .. } => {
                format!("connection lost, the run goes on; retry in {}s", wait.as_secs())
            }
            Self::Back { n_events: 1 } => "back, 1 event caught up".to_owned(),
            Self::Back { n_events } => format!("back, {n_events} events caught up"),
        }
    }
}
