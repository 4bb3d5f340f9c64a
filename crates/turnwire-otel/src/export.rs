//! Sends spans to their receiver, in batches, from a task of its own.
//!
//! A receiver that is away or slow never delays a run: the queue is bounded, and what does not fit
//! is dropped and counted. The official exporter encodes and sends, and repeats what a receiver
//! asks to be repeated, for as long as a batch may take.

use std::{future::pending, sync::Arc, time::Duration};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{Compression, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{SpanData, SpanExporter as _},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use turnwire_contract::SpanCounts;

use crate::{
    observer::TraceObserver,
    options::TraceOptions,
    providers::SharedProviders,
    queue::SpanQueue,
    receiver::{ExportError, LAST_EXPORT, ReceiverOptions},
};

/// Sends spans until it is stopped.
#[derive(Debug)]
pub struct SpanExport {
    exporter: SpanExporter,
    queue: mpsc::Receiver<SpanData>,
    counts: Arc<SpanCounts>,
    receiver: String,
    delay: Duration,
    max_batch: usize,
    timeout: Duration,
    /// Whether the last batch was lost.
    is_failing: bool,
}

impl SpanExport {
    /// Creates the export, and the observer whose spans it sends.
    pub fn new(
        options: &TraceOptions,
        providers: SharedProviders,
        counts: Arc<SpanCounts>,
    ) -> Result<(Self, TraceObserver), ExportError> {
        let (queue, spans) = SpanQueue::new(options.max_queue, Arc::clone(&counts));
        let export = Self {
            exporter: exporter(&options.receiver)?,
            queue: spans,
            counts,
            receiver: options.receiver.shown(),
            delay: options.delay,
            max_batch: options.max_batch,
            timeout: options.receiver.timeout,
            is_failing: false,
        };
        let (sampler, captures) = (options.sampler, options.captures_contents);
        Ok((export, TraceObserver::new(sampler, captures, providers, queue)))
    }

    /// Sends spans until `stop`, and then, for a short time, those that wait.
    pub async fn run(mut self, stop: CancellationToken) {
        let last_moment = async {
            stop.cancelled().await;
            sleep(LAST_EXPORT).await;
        };
        tokio::select! {
            () = self.send_all(&stop) => {}
            () = last_moment => warn!("traces not accepted in time, the last spans are lost"),
        }
    }

    async fn send_all(&mut self, stop: &CancellationToken) {
        loop {
            let batch = next_batch(&mut self.queue, self.max_batch, self.delay, stop).await;
            if batch.is_empty() {
                return;
            }
            self.send(batch).await;
        }
    }

    async fn send(&mut self, batch: Vec<SpanData>) {
        let n_spans = batch.len();
        // The limit of the exporter does not apply to a request under way.
        let error = match timeout(self.timeout, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("it did not answer in time".to_owned()),
        };
        let was_failing = std::mem::replace(&mut self.is_failing, error.is_some());
        let receiver = &self.receiver;
        match error {
            None => {
                self.counts.exported(n_spans);
                if was_failing {
                    info!(%receiver, "traces are accepted again");
                }
            }
            Some(error) => {
                self.counts.dropped(n_spans);
                // Once, and not with every batch.
                if !was_failing {
                    warn!(%receiver, %error, n_spans, "traces not accepted, spans are lost");
                }
            }
        }
    }
}

/// Waits for spans: for as many as fit a batch, or for as long as the first may wait. After a stop,
/// returns those that are there.
async fn next_batch(
    queue: &mut mpsc::Receiver<SpanData>,
    max_batch: usize,
    delay: Duration,
    stop: &CancellationToken,
) -> Vec<SpanData> {
    let mut batch = Vec::new();
    let mut deadline = None;
    while batch.len() < max_batch {
        let enough = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => pending().await,
            }
        };
        let next = tokio::select! {
            biased;
            next = queue.recv() => next,
            () = stop.cancelled() => None,
            () = enough => None,
        };
        let Some(span) = next else { break };
        batch.push(span);
        deadline.get_or_insert_with(|| Instant::now() + delay);
    }
    batch
}

fn exporter(options: &ReceiverOptions) -> Result<SpanExporter, ExportError> {
    let builder = SpanExporter::builder()
        .with_http()
        .with_http_client(options.client()?)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(options.endpoint.as_str())
        .with_timeout(options.timeout)
        .with_headers(options.headers.clone().into_iter().collect());
    let builder =
        if options.compresses { builder.with_compression(Compression::Gzip) } else { builder };
    let mut exporter = builder.build().map_err(|error| ExportError::Setup(error.to_string()))?;
    let attributes = options.resource.iter();
    let attributes = attributes.map(|(name, value)| KeyValue::new(name.clone(), value.clone()));
    exporter.set_resource(&Resource::builder_empty().with_attributes(attributes).build());
    Ok(exporter)
}

/// Sends an empty batch, to see whether the receiver answers.
pub async fn check(options: &TraceOptions) -> Result<(), ExportError> {
    let exporter = exporter(&options.receiver)?;
    match timeout(options.receiver.timeout, exporter.export(Vec::new())).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(ExportError::Refused(error.to_string())),
        Err(_) => Err(ExportError::Refused("it did not answer in time".to_owned())),
    }
}

#[cfg(test)]
#[path = "export_tests.rs"]
mod tests;
