//! The queue between runs and the export. It never makes a run wait.

use std::sync::Arc;

use opentelemetry_sdk::trace::SpanData;
use tokio::sync::mpsc;
use turnwire_contract::SpanCounts;

/// Spans that wait to be sent.
#[derive(Debug, Clone)]
pub(crate) struct SpanQueue {
    sender: mpsc::Sender<SpanData>,
    counts: Arc<SpanCounts>,
}

impl SpanQueue {
    pub(crate) fn new(
        max_queue: usize,
        counts: Arc<SpanCounts>,
    ) -> (Self, mpsc::Receiver<SpanData>) {
        let (sender, receiver) = mpsc::channel(max_queue);
        (Self { sender, counts }, receiver)
    }

    /// Queues a span, or drops it if the queue is full.
    pub(crate) fn send(&self, span: SpanData) {
        if self.sender.try_send(span).is_err() {
            self.counts.dropped(1);
        }
    }
}
