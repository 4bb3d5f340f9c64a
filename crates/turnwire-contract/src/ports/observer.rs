//! Observers: see what the runs of this process record, for metrics and traces.
//!
//! An observer is told after events are durable. It cannot change, delay or fail a run: it must
//! return at once, and one that panics is no longer told about that run.

use std::{sync::Arc, time::Duration};

use crate::{RecordedEvent, RunId, RunRequest};

/// Observes the runs that this process executes.
pub trait Observer: Send + Sync {
    /// Returns what is told about one run, which this process starts or takes over.
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
    /// Whether a worker of the run was lost, and with it perhaps what its observers had not passed on.
    pub was_lost: bool,
}

/// Is told about the events of one run, in their order.
pub trait RunObserver: Send {
    /// An event that an earlier worker recorded. The whole journal is recalled before anything else.
    fn recall(&mut self, recorded: &RecordedEvent);

    /// An event that this process recorded.
    fn note(&mut self, recorded: &RecordedEvent);

    /// An append of this process became durable after this time.
    fn appended(&mut self, _after: Duration) {}
}
