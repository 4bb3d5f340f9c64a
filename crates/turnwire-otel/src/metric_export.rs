//! Sends the metrics of the process to their receiver, at an interval, from a task of its own.
//!
//! The official exporter takes metrics only from the instruments of its SDK, which would be a
//! second list of all metrics. So this one projects the text of `/metrics`, and sends it itself.
//!
//! A receiver that is away or slow costs nothing: there is one export at a time, nothing waits in
//! memory, and nothing is repeated, because every export has everything since the start.

use std::{collections::BTreeMap, fmt, io::Write as _, sync::Arc};

use flate2::{Compression, write::GzEncoder};
use opentelemetry_proto::tonic::{
    collector::metrics::v1::{ExportMetricsServiceRequest, ExportMetricsServiceResponse},
    metrics::v1::ResourceMetrics,
    resource::v1::Resource,
};
use prost::Message;
use reqwest::{
    Client, Response,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use turnwire_contract::{MetricExportCounts, Timestamp, partial_debug};
use turnwire_http::chain;

use crate::{
    metric_options::MetricOptions,
    metric_projection::{Period, attribute, request},
    open_metrics,
    providers::SharedProviders,
    receiver::{ExportError, LAST_EXPORT, ReceiverOptions},
};

/// Maximum bytes of an answer that are looked at.
const MAX_ANSWER: usize = 64 * 1024;
/// Maximum characters of a receiver's message in the log.
const MAX_MESSAGE: usize = 200;
/// Attribute by which the series of one process differ from those of another.
const INSTANCE: &str = "service.instance.id";

/// The process whose metrics are exported.
#[derive(Clone)]
pub struct MeasuredProcess {
    /// Unique name of the process among those of the service.
    pub instance: String,
    /// Returns all metrics, as `/metrics` does.
    pub metrics: Arc<dyn Fn() -> Result<String, fmt::Error> + Send + Sync>,
    /// The clock.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

partial_debug!(MeasuredProcess { instance });

/// Sends metrics until it is stopped.
pub struct MetricExport {
    options: MetricOptions,
    client: Client,
    resource: Resource,
    process: MeasuredProcess,
    providers: SharedProviders,
    counts: Arc<MetricExportCounts>,
    /// When the process began to count.
    started_at: Timestamp,
    /// Whether the last export failed.
    is_failing: bool,
}

impl fmt::Debug for MetricExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricExport").field("options", &self.options).finish_non_exhaustive()
    }
}

impl MetricExport {
    /// Creates the export for a process that begins to count now.
    pub fn new(
        options: MetricOptions,
        process: MeasuredProcess,
        providers: SharedProviders,
        counts: Arc<MetricExportCounts>,
    ) -> Result<Self, ExportError> {
        let client = options.receiver.client()?;
        let mut attributes = options.receiver.resource.clone();
        attributes.entry(INSTANCE.to_owned()).or_insert_with(|| process.instance.clone());
        let resource = resource(&attributes);
        let started_at = (process.now)();
        let is_failing = false;
        Ok(Self { options, client, resource, process, providers, counts, started_at, is_failing })
    }

    /// Sends metrics until `stop`, and then once more.
    pub async fn run(mut self, stop: CancellationToken) {
        let interval = self.options.interval;
        let mut ticks = interval_at(Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // An export under way at the stop is given up: the last one has all that it has.
        let exporting = async {
            loop {
                ticks.tick().await;
                self.export().await;
            }
        };
        stop.run_until_cancelled(exporting).await;
        if timeout(LAST_EXPORT, self.export()).await.is_err() {
            warn!("metrics not accepted in time, the last ones are lost");
        }
    }

    async fn export(&mut self) {
        let error = match self.request() {
            Ok(request) => send(&self.client, &self.options.receiver, &request).await.err(),
            Err(error) => Some(error),
        };
        let was_failing = std::mem::replace(&mut self.is_failing, error.is_some());
        let receiver = self.options.receiver.shown();
        match error {
            None => {
                self.counts.exported();
                if was_failing {
                    info!(%receiver, "metrics are accepted again");
                }
            }
            Some(error) => {
                self.counts.failed();
                // Once, and not at every interval.
                if !was_failing {
                    warn!(%receiver, %error, "metrics not accepted");
                }
            }
        }
    }

    fn request(&self) -> Result<ExportMetricsServiceRequest, ExportError> {
        let unreadable = |error: &dyn fmt::Display| ExportError::Setup(error.to_string());
        let text = (self.process.metrics)().map_err(|error| unreadable(&error))?;
        let families = open_metrics::read(&text).map_err(|error| unreadable(&error))?;
        let period = Period { start: self.started_at, end: (self.process.now)() };
        Ok(request(families, period, &self.providers.load(), &self.resource))
    }
}

fn resource(attributes: &BTreeMap<String, String>) -> Resource {
    let attributes = attributes.iter().map(|(name, value)| attribute(name, value));
    Resource { attributes: attributes.collect(), ..Resource::default() }
}

/// Sends a request, and returns whether the receiver accepted all of it in time.
async fn send(
    client: &Client,
    receiver: &ReceiverOptions,
    request: &ExportMetricsServiceRequest,
) -> Result<(), ExportError> {
    let exchange = async {
        let mut body = request.encode_to_vec();
        let mut post = client.post(receiver.endpoint.clone());
        if receiver.compresses {
            body = compressed(&body)?;
            post = post.header(CONTENT_ENCODING, "gzip");
        }
        for (name, value) in &receiver.headers {
            let value = HeaderValue::from_str(value);
            let mut value = value.map_err(|error| ExportError::Setup(error.to_string()))?;
            value.set_sensitive(true);
            post = post.header(name, value);
        }
        let answer = post.header(CONTENT_TYPE, "application/x-protobuf").body(body).send().await;
        accepted(answer.map_err(refused)?).await
    };
    let answered = timeout(receiver.timeout, exchange).await;
    answered.unwrap_or_else(|_| Err(ExportError::Refused("it did not answer in time".to_owned())))
}

fn compressed(body: &[u8]) -> Result<Vec<u8>, ExportError> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(body).and_then(|()| encoder.finish());
    written.map_err(|error| ExportError::Setup(error.to_string()))
}

/// The URL may have a secret in it.
fn refused(error: reqwest::Error) -> ExportError {
    ExportError::Refused(chain(&error.without_url()))
}

async fn accepted(mut answer: Response) -> Result<(), ExportError> {
    let status = answer.status();
    if !status.is_success() {
        return Err(ExportError::Refused(format!("it answered {status}")));
    }
    let mut body = Vec::new();
    while body.len() < MAX_ANSWER
        && let Some(piece) = answer.chunk().await.map_err(refused)?
    {
        body.extend_from_slice(&piece);
    }
    // A receiver may answer anything else than a message of the protocol: the status counts.
    let answer = ExportMetricsServiceResponse::decode(body.as_slice()).unwrap_or_default();
    match answer.partial_success {
        Some(partial) if partial.rejected_data_points > 0 => {
            let why: String = partial.error_message.chars().take(MAX_MESSAGE).collect();
            let n_points = partial.rejected_data_points;
            Err(ExportError::Refused(format!("it rejected {n_points} data points: {why:?}")))
        }
        _ => Ok(()),
    }
}

/// Sends a request without metrics, to see whether the receiver answers.
pub async fn check_metrics(options: &MetricOptions) -> Result<(), ExportError> {
    let client = options.receiver.client()?;
    // An empty body would not be a request of a kind that a receiver gets otherwise.
    let resource = Some(resource(&options.receiver.resource));
    let resource_metrics = vec![ResourceMetrics { resource, ..ResourceMetrics::default() }];
    send(&client, &options.receiver, &ExportMetricsServiceRequest { resource_metrics }).await
}

#[cfg(test)]
#[path = "metric_export_tests.rs"]
mod tests;
