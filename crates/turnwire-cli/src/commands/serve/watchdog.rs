//! A thread outside the runtime that notices when a run blocks a thread of the runtime.
//!
//! A blocked thread is a fault of ours that what a stranger sent has found. It is told; and if it
//! lasts, the process ends, because it serves nobody any more and still sends heartbeats. Before
//! that the run is named in the store, so that it alone is to blame.

use std::{
    collections::VecDeque,
    io, process,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tracing::{error, warn};
use turnwire_engine::{LongPoll, PollWatch, Runs};
use turnwire_stores::{Store, StoreOptions};

/// Interval of the looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Number of looks after which a blocked thread is told: one second.
const TOLD_AFTER: u32 = 4;

/// Number of looks after which the process ends: ten seconds.
const ENDS_AFTER: u32 = 40;

/// How long the store may take to hear which run is to blame.
const BLAMING_TIME: Duration = Duration::from_secs(3);

/// How long the metric shows a blocked thread: longer than any interval between two scrapes.
const SHOWN_FOR: Duration = Duration::from_mins(1);

/// The store that takes over runs, and this process's name in it.
#[derive(Debug, Clone)]
pub(super) struct SharedStore {
    pub(super) options: StoreOptions,
    pub(super) worker: String,
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts to look. Without a store the process never ends: nobody could continue its runs.
    pub(super) fn start(runs: Runs, store: Option<SharedStore>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let looking = move || {
            let mut looks = Looks { runs, watch: PollWatch::default(), shown: VecDeque::new() };
            while stopped.recv_timeout(BETWEEN_LOOKS) == Err(RecvTimeoutError::Timeout) {
                if let (Some(blocking), Some(store)) = (looks.look(), &store) {
                    end(&blocking, store);
                }
            }
        };
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(looking)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the thread has seen.
struct Looks {
    runs: Runs,
    watch: PollWatch,
    /// When a blocked thread was last seen, each once.
    shown: VecDeque<Instant>,
}

impl Looks {
    /// Looks once. Returns what has blocked a thread for so long that the process should end.
    fn look(&mut self) -> Option<LongPoll> {
        let polls = self.watch.look();
        let now = Instant::now();
        for LongPoll { run_id, step, n_looks } in &polls {
            if *n_looks == TOLD_AFTER {
                warn!(%run_id, step, "thread blocked by a run for a second");
                self.shown.push_back(now);
            }
        }
        while self.shown.front().is_some_and(|seen| now.duration_since(*seen) > SHOWN_FOR) {
            self.shown.pop_front();
        }
        self.runs.note_blocked_threads(self.shown.len());
        polls.into_iter().next().filter(|longest| longest.n_looks >= ENDS_AFTER)
    }
}

/// Ends the process, after the run is named that is to blame.
fn end(LongPoll { run_id, step, .. }: &LongPoll, store: &SharedStore) {
    error!(%run_id, step, "thread blocked by a run for ten seconds, the process ends");
    let blamed = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let blamed = blamed.map(|own| {
        let blaming = Store::blame(&store.options, &store.worker, run_id);
        own.block_on(async { tokio::time::timeout(BLAMING_TIME, blaming).await })
    });
    match blamed {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(error))) => error!(%error, "the store does not know which run is to blame"),
        Ok(Err(_)) => error!("the store did not hear in time which run is to blame"),
        Err(error) => error!(%error, "the store does not know which run is to blame"),
    }
    // Not a clean end: that would wait for the thread that is blocked.
    process::abort();
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
