//! Observers of the events that the runs of this process record, for metrics and traces.
//!
//! An observer is told after events are durable. It cannot change, delay or fail a run: it must
//! return at once, and one that panics is no longer told about that run.

use std::{sync::Arc, time::Duration};

use crate::{RecordedEvent, RunId, RunRequest};

/// Observes the runs that this process executes.
pub trait Observer: Send + Sync {
    /// Returns the observer of one run, which this process starts or takes over.
    fn observe(&self, run: ObservedRun<'_>) -> Box<dyn RunObserver>;
}

/// A run that is about to be observed.
#[derive(Debug, Clone)]
pub struct ObservedRun<'a> {
    /// ID of the run.
    pub run_id: &'a RunId,
    /// What was asked for.
    pub request: &'a Arc<RunRequest>,
    /// Whether the settings name the model. Other names are whatever a client sends.
    pub is_model_configured: bool,
    /// Labels of the tool servers in the settings that the run may use.
    pub servers: Vec<String>,
    /// Whether a worker of the run died. What its observers had not exported may be lost.
    pub was_lost: bool,
}

/// Observes the events of one run, in their order.
pub trait RunObserver: Send {
    /// Called after a takeover for each event of the earlier workers, before any other call.
    fn recall(&mut self, recorded: &RecordedEvent);

    /// Called for each event that this process has recorded.
    fn note(&mut self, recorded: &RecordedEvent);

    /// Called when an append of this process is durable, with the time that it took.
    fn appended(&mut self, _after: Duration) {}
}
