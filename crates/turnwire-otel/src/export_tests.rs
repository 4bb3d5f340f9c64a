use tokio_util::task::TaskTracker;
use turnwire_contract::{ObservedRun, Observer, RunId};

use super::*;
use crate::{
    journal_for_tests::{RUN, answer, call_finished, recorded, request, until_call},
    receiver_for_tests::Receiver,
};

impl Receiver {
    fn options(&self, more: &[(&str, &str)]) -> TraceOptions {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", self.url.as_str());
        let variables = [&[endpoint], more].concat();
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
        TraceOptions::read(get).unwrap().unwrap()
    }
}

struct Exporting {
    counts: Arc<SpanCounts>,
    observer: TraceObserver,
    export: SpanExport,
}

impl Exporting {
    fn new(options: &TraceOptions) -> Self {
        let counts = Arc::<SpanCounts>::default();
        let made = SpanExport::new(options, SharedProviders::default(), Arc::clone(&counts));
        let (export, observer) = made.unwrap();
        Self { counts, observer, export }
    }

    /// Records a run with six spans.
    fn run(&self) {
        let (request, run_id) = (request(None), &RunId::from(RUN));
        let run = ObservedRun {
            run_id,
            request: &request,
            is_model_configured: true,
            servers: Vec::new(),
            was_lost: false,
        };
        let mut watch = self.observer.observe(run);
        let events = until_call(&request).into_iter().chain([call_finished()]).chain(answer());
        for recorded in &recorded(events) {
            watch.note(recorded);
        }
    }
}

/// Spans that wait are sent when the process ends, with the operator's headers.
#[tokio::test]
async fn the_last_spans_are_sent_at_the_end() {
    let receiver = Receiver::start(Some(200)).await;
    let hour = [("OTEL_BSP_SCHEDULE_DELAY", "3600000"), ("OTEL_EXPORTER_OTLP_HEADERS", "k=v")];
    let exporting = Exporting::new(&receiver.options(&hour));
    exporting.run();
    let stop = CancellationToken::new();
    stop.cancel();
    exporting.export.run(stop).await;
    assert_eq!((exporting.counts.n_exported(), exporting.counts.n_dropped()), (6, 0));
    let head = receiver.heads.lock().unwrap().to_lowercase();
    assert!(head.starts_with("post /v1/traces "), "{head}");
    assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
    assert!(head.contains("k: v\r\n"), "{head}");
}

/// A batch is sent when it is full, and when its first span has waited long enough.
#[tokio::test]
async fn batches_are_sent_when_full_or_old() {
    let mut receiver = Receiver::start(Some(200)).await;
    let limits = [("OTEL_BSP_SCHEDULE_DELAY", "1"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")];
    let exporting = Exporting::new(&receiver.options(&limits));
    exporting.run();
    let (counts, stop) = (Arc::clone(&exporting.counts), CancellationToken::new());
    let sending = TaskTracker::new().spawn(exporting.export.run(stop.clone()));
    receiver.n_requests.wait_for(|n| *n == 2).await.unwrap();
    stop.cancel();
    sending.await.unwrap();
    assert_eq!(counts.n_exported(), 6);
}

/// A receiver that refuses, is away or hangs costs spans, which are counted, and no time at the
/// end.
#[tokio::test]
async fn lost_spans_are_counted() {
    let refusing = Receiver::start(Some(400)).await;
    let exporting = Exporting::new(&refusing.options(&[]));
    exporting.run();
    let stop = CancellationToken::new();
    stop.cancel();
    exporting.export.run(stop).await;
    assert_eq!((exporting.counts.n_exported(), exporting.counts.n_dropped()), (0, 6));

    let hanging = Receiver::start(None).await;
    let exporting = Exporting::new(&hanging.options(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]));
    exporting.run();
    let stop = CancellationToken::new();
    stop.cancel();
    exporting.export.run(stop).await;
    assert_eq!((exporting.counts.n_exported(), exporting.counts.n_dropped()), (0, 6));
}

/// A hanging receiver does not hold up the end of the process.
#[tokio::test]
async fn the_end_does_not_wait_for_a_hanging_receiver() {
    let mut hanging = Receiver::start(None).await;
    let exporting = Exporting::new(&hanging.options(&[("OTEL_BSP_SCHEDULE_DELAY", "0")]));
    exporting.run();
    let stop = CancellationToken::new();
    let sending = TaskTracker::new().spawn(exporting.export.run(stop.clone()));
    hanging.n_requests.wait_for(|n| *n == 1).await.unwrap();
    let began = Instant::now();
    stop.cancel();
    sending.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_check_says_whether_the_receiver_accepts_spans() {
    let receiver = Receiver::start(Some(200)).await;
    assert_eq!(check(&receiver.options(&[])).await, Ok(()));
    let refusing = Receiver::start(Some(401)).await;
    let error = check(&refusing.options(&[])).await.unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
}
