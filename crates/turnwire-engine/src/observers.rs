//! Tells observers what runs record, without letting them disturb a run.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use tokio::time::Instant;
use tracing::error;
use turnwire_contract::{ObservedRun, Observer, RecordedEvent, RunWatch};

use crate::sync::lock;

/// The observers of this process.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<Arc<dyn Observer>>>);

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("n", &lock(&self.0).len()).finish()
    }
}

/// What is told about the events of one run. Boxed, because most of a server's memory is runs that
/// wait.
#[derive(Default)]
pub(crate) struct RunObservers(Option<Box<Watching>>);

struct Watching {
    watches: Vec<Box<dyn RunWatch>>,
    /// Start of the append in progress. Here and not in a future, for the same reason.
    began: Option<Instant>,
}

impl RunObservers {
    /// Tells an event that an earlier worker recorded.
    pub(crate) fn recall(&mut self, recorded: &RecordedEvent) {
        self.tell(|watch| watch.recall(recorded));
    }

    /// Measures an append from now on.
    pub(crate) fn append_begins(&mut self) {
        if let Some(watching) = &mut self.0 {
            watching.began = Some(Instant::now());
        }
    }

    /// Tells the events that this process recorded.
    pub(crate) fn note(&mut self, batch: &[Arc<RecordedEvent>]) {
        let began = self.0.as_mut().and_then(|watching| watching.began.take());
        let after = began.map(|began| began.elapsed());
        self.tell(|watch| {
            for recorded in batch {
                watch.note(recorded);
            }
            if let Some(after) = after {
                watch.appended(after);
            }
        });
    }

    fn tell(&mut self, tell: impl Fn(&mut dyn RunWatch)) {
        let Some(watching) = &mut self.0 else { return };
        watching.watches.retain_mut(|watch| {
            let told = catch_unwind(AssertUnwindSafe(|| tell(&mut **watch)));
            if told.is_err() {
                error!("observer of a run panicked, it is not told about the run any more");
            }
            told.is_ok()
        });
    }
}

impl Observers {
    pub(crate) fn add(&self, observer: Arc<dyn Observer>) {
        lock(&self.0).push(observer);
    }

    /// Returns what is told about a run. `describe` is called only if somebody observes.
    pub(crate) fn watch<'a>(&self, describe: impl FnOnce() -> ObservedRun<'a>) -> RunObservers {
        let observers = lock(&self.0).clone();
        if observers.is_empty() {
            return RunObservers::default();
        }
        let run = describe();
        let watch = |observer: &Arc<dyn Observer>| {
            catch_unwind(AssertUnwindSafe(|| observer.watch(run.clone()))).ok()
        };
        let watches = observers.iter().filter_map(watch).collect();
        RunObservers(Some(Box::new(Watching { watches, began: None })))
    }
}
