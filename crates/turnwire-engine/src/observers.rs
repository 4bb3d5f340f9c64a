//! Calls observers with the events of runs. A panic of an observer does not affect the run.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use tokio::time::Instant;
use tracing::error;
use turnwire_contract::{ObservedRun, Observer, RecordedEvent, RunObserver};

use crate::sync::lock;

/// The observers of this process.
#[derive(Default)]
pub(crate) struct Observers(Mutex<Vec<Arc<dyn Observer>>>);

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").field("n", &lock(&self.0).len()).finish()
    }
}

/// The observers of one run. Boxed, because most of a server's memory is runs that wait.
#[derive(Default)]
pub(crate) struct RunObservers(Option<Box<ActiveObservers>>);

struct ActiveObservers {
    observers: Vec<Box<dyn RunObserver>>,
    /// Start of the append in progress. Here and not in a future, for the same reason.
    began: Option<Instant>,
}

impl RunObservers {
    /// Passes on an event that an earlier worker recorded.
    pub(crate) fn recall(&mut self, recorded: &RecordedEvent) {
        self.tell(|observer| observer.recall(recorded));
    }

    /// Measures an append from now on.
    pub(crate) fn append_begins(&mut self) {
        if let Some(active) = &mut self.0 {
            active.began = Some(Instant::now());
        }
    }

    /// Passes on the events that this process recorded.
    pub(crate) fn note(&mut self, batch: &[Arc<RecordedEvent>]) {
        let began = self.0.as_mut().and_then(|active| active.began.take());
        let after = began.map(|began| began.elapsed());
        self.tell(|observer| {
            for recorded in batch {
                observer.note(recorded);
            }
            if let Some(after) = after {
                observer.appended(after);
            }
        });
    }

    fn tell(&mut self, tell: impl Fn(&mut dyn RunObserver)) {
        let Some(active) = &mut self.0 else { return };
        active.observers.retain_mut(|observer| {
            let told = catch_unwind(AssertUnwindSafe(|| tell(&mut **observer)));
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

    /// Returns the observers of a run. `describe` is called only if there are any.
    pub(crate) fn observe<'a>(&self, describe: impl FnOnce() -> ObservedRun<'a>) -> RunObservers {
        let observers = lock(&self.0).clone();
        if observers.is_empty() {
            return RunObservers::default();
        }
        let run = describe();
        let observe = |observer: &Arc<dyn Observer>| {
            catch_unwind(AssertUnwindSafe(|| observer.observe(run.clone()))).ok()
        };
        let observers = observers.iter().filter_map(observe).collect();
        RunObservers(Some(Box::new(ActiveObservers { observers, began: None })))
    }
}
