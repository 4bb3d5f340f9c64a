//! Makes spans of what the runs of this process record.
//!
//! A worker may die with spans that wait to be sent. So whoever takes a run over that has lost a
//! worker sends all spans of its journal again: they have the same IDs and contents, and a receiver
//! stores each once. A worker that releases its runs sends its spans itself.

use std::sync::Arc;

use opentelemetry_sdk::trace::SpanData;
use turnwire_contract::{ObservedRun, Observer, RecordedEvent, RunObserver, RunTrace, Sampler};

use crate::{
    projection::{AboutRun, Projection},
    providers::SharedProviders,
    queue::SpanQueue,
};

/// Observes runs, and queues their spans.
#[derive(Debug)]
pub struct TraceObserver {
    sampler: Sampler,
    captures_contents: bool,
    providers: SharedProviders,
    queue: SpanQueue,
}

impl TraceObserver {
    pub(crate) fn new(
        sampler: Sampler,
        captures_contents: bool,
        providers: SharedProviders,
        queue: SpanQueue,
    ) -> Self {
        Self { sampler, captures_contents, providers, queue }
    }
}

impl Observer for TraceObserver {
    fn observe(&self, run: ObservedRun<'_>) -> Box<dyn RunObserver> {
        let trace = RunTrace::of(run.run_id, run.request.trace.as_ref(), self.sampler);
        if !trace.is_sampled {
            return Box::new(Unsampled);
        }
        let about = AboutRun {
            trace,
            request: Arc::clone(run.request),
            provider: Arc::clone(self.providers.load().of(&run.request.model)),
            captures_contents: self.captures_contents,
        };
        let projection = Projection::new(run.run_id.as_str(), about);
        let (recalled, queue) = (Vec::new(), self.queue.clone());
        Box::new(TracedRun { projection, was_lost: run.was_lost, recalled, queue })
    }
}

/// A run whose trace is not recorded.
struct Unsampled;

impl RunObserver for Unsampled {
    fn recall(&mut self, _recorded: &RecordedEvent) {}

    fn note(&mut self, _recorded: &RecordedEvent) {}
}

struct TracedRun {
    projection: Projection,
    /// Whether an earlier worker may not have sent its spans.
    was_lost: bool,
    /// Spans of earlier workers, until this one has the run.
    recalled: Vec<SpanData>,
    queue: SpanQueue,
}

impl TracedRun {
    fn send_recalled(&mut self) {
        for span in std::mem::take(&mut self.recalled) {
            self.queue.send(span);
        }
    }
}

impl RunObserver for TracedRun {
    fn recall(&mut self, recorded: &RecordedEvent) {
        let ended = self.projection.apply(recorded);
        if self.was_lost {
            self.recalled.extend(ended);
        }
        // Nothing follows.
        if recorded.event.ends_the_run() {
            self.send_recalled();
        }
    }

    fn note(&mut self, recorded: &RecordedEvent) {
        self.send_recalled();
        for span in self.projection.apply(recorded) {
            self.queue.send(span);
        }
    }
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
