use std::{
    io::Read as _,
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::{
    collector::metrics::v1::ExportMetricsPartialSuccess,
    metrics::v1::{NumberDataPoint, metric::Data, number_data_point::Value},
};
use tokio_util::task::TaskTracker;

use super::*;
use crate::receiver_for_tests::Receiver;

fn options(receiver: &Receiver, more: &[(&str, &str)]) -> MetricOptions {
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url.as_str());
    let variables = [&[endpoint], more].concat();
    let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    MetricOptions::read(get).unwrap().unwrap()
}

/// An export of a counter that is one higher each time, by a clock that is a second later each
/// time.
fn export(options: MetricOptions) -> (MetricExport, Arc<MetricExportCounts>) {
    let (count, seconds) = (AtomicI64::new(0), AtomicI64::new(0));
    let process = MeasuredProcess {
        instance: "worker_1".to_owned(),
        metrics: Arc::new(move || {
            let n = count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok(format!("# HELP t_n x\n# TYPE t_n counter\nt_n_total {n}\n# EOF\n"))
        }),
        now: Arc::new(move || {
            Timestamp::from_micros(seconds.fetch_add(1, Ordering::Relaxed) * 1_000_000)
        }),
    };
    let counts = Arc::<MetricExportCounts>::default();
    let export =
        MetricExport::new(options, process, SharedProviders::default(), Arc::clone(&counts));
    (export.unwrap(), counts)
}

async fn last_export(receiver: &Receiver, more: &[(&str, &str)]) -> (u64, u64) {
    let (export, counts) = export(options(receiver, more));
    let stop = CancellationToken::new();
    stop.cancel();
    export.run(stop).await;
    (counts.n_exported(), counts.n_failed())
}

fn point(body: &[u8]) -> NumberDataPoint {
    let request = ExportMetricsServiceRequest::decode(body).unwrap();
    let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
    assert_eq!(metric.name, "t_n_total");
    let Some(Data::Sum(sum)) = &metric.data else { panic!("{metric:#?}") };
    sum.data_points[0].clone()
}

/// Metrics are sent at every interval, each time with everything since the start.
#[tokio::test]
async fn metrics_are_cumulative_over_exports() {
    let mut receiver = Receiver::start(Some(200)).await;
    let interval = [("OTEL_METRIC_EXPORT_INTERVAL", "100")];
    let (export, counts) = export(options(&receiver, &interval));
    let stop = CancellationToken::new();
    let sending = TaskTracker::new().spawn(export.run(stop.clone()));
    receiver.n_requests.wait_for(|n| *n == 2).await.unwrap();
    stop.cancel();
    sending.await.unwrap();
    assert!(counts.n_exported() >= 2 && counts.n_failed() == 0, "{counts:?}");
    let points: Vec<_> = receiver.bodies.lock().unwrap().iter().map(|body| point(body)).collect();
    for (index, point) in points.iter().enumerate() {
        let n = i64::try_from(index).unwrap() + 1;
        assert_eq!(point.value, Some(Value::AsInt(n)));
        assert_eq!(point.start_time_unix_nano, 0);
        assert_eq!(point.time_unix_nano, u64::try_from(n).unwrap() * 1_000_000_000);
    }
}

/// The end of the process sends what was counted since the last interval, with the operator's
/// headers, and compressed if that is wanted.
#[tokio::test]
async fn the_last_metrics_are_sent_at_the_end() {
    let receiver = Receiver::start(Some(200)).await;
    let more = [
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "k=v"),
        ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", "agents"),
    ];
    assert_eq!(last_export(&receiver, &more).await, (1, 0));
    let head = receiver.heads.lock().unwrap().to_lowercase();
    assert!(head.starts_with("post /v1/metrics "), "{head}");
    for header in ["content-type: application/x-protobuf", "content-encoding: gzip", "k: v"] {
        assert!(head.contains(&format!("{header}\r\n")), "{head}");
    }
    let mut body = Vec::new();
    let sent = receiver.bodies.lock().unwrap()[0].clone();
    GzDecoder::new(sent.as_slice()).read_to_end(&mut body).unwrap();
    assert_eq!(point(&body).value, Some(Value::AsInt(1)));
    let request = ExportMetricsServiceRequest::decode(body.as_slice()).unwrap();
    let resource = request.resource_metrics[0].resource.clone().unwrap();
    for expected in [attribute("service.name", "agents"), attribute(INSTANCE, "worker_1")] {
        assert!(resource.attributes.contains(&expected), "{resource:#?}");
    }
}

/// The operator may name the process himself.
#[tokio::test]
async fn the_resource_of_the_operator_comes_first() {
    let receiver = Receiver::start(Some(200)).await;
    let more = [("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=pod-7")];
    assert_eq!(last_export(&receiver, &more).await, (1, 0));
    let sent = receiver.bodies.lock().unwrap()[0].clone();
    let request = ExportMetricsServiceRequest::decode(sent.as_slice()).unwrap();
    let resource = request.resource_metrics[0].resource.clone().unwrap();
    assert!(resource.attributes.contains(&attribute(INSTANCE, "pod-7")), "{resource:#?}");
}

/// A receiver that refuses, accepts only a part, is away or hangs is counted.
#[tokio::test]
async fn exports_that_fail_are_counted() {
    let refusing = Receiver::start(Some(503)).await;
    assert_eq!(last_export(&refusing, &[]).await, (0, 1));
    let partial = ExportMetricsPartialSuccess {
        rejected_data_points: 1,
        error_message: "no\nspace".to_owned(),
    };
    let answer = ExportMetricsServiceResponse { partial_success: Some(partial) };
    let partly = Receiver::answering(Some(200), answer.encode_to_vec()).await;
    assert_eq!(last_export(&partly, &[]).await, (0, 1));
    let error = check_metrics(&options(&partly, &[])).await.unwrap_err().to_string();
    assert_eq!(error, r#"it rejected 1 data points: "no\nspace""#);
    let hanging = Receiver::start(None).await;
    let short = [("OTEL_EXPORTER_OTLP_TIMEOUT", "50")];
    assert_eq!(last_export(&hanging, &short).await, (0, 1));
    let away = [("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://127.0.0.1:1/?key=hunter2")];
    assert_eq!(last_export(&hanging, &away).await, (0, 1));
    let error = check_metrics(&options(&hanging, &away)).await.unwrap_err().to_string();
    assert!(!error.contains("hunter2"), "{error}");
}

/// A hanging receiver does not hold up the end of the process, and gets one request at a time.
#[tokio::test]
async fn the_end_does_not_wait_for_a_hanging_receiver() {
    let mut hanging = Receiver::start(None).await;
    let interval = [("OTEL_METRIC_EXPORT_INTERVAL", "100")];
    let (export, _) = export(options(&hanging, &interval));
    let stop = CancellationToken::new();
    let sending = TaskTracker::new().spawn(export.run(stop.clone()));
    hanging.n_requests.wait_for(|n| *n == 1).await.unwrap();
    // Several intervals.
    let more = timeout(Duration::from_millis(400), hanging.n_requests.wait_for(|n| *n > 1)).await;
    assert!(more.is_err(), "a second export began before the first had ended");
    let began = Instant::now();
    stop.cancel();
    sending.await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_check_says_whether_the_receiver_accepts_metrics() {
    let receiver = Receiver::start(Some(200)).await;
    assert_eq!(check_metrics(&options(&receiver, &[])).await, Ok(()));
    let refusing = Receiver::start(Some(401)).await;
    let error = check_metrics(&options(&refusing, &[])).await.unwrap_err().to_string();
    assert!(error.contains("401"), "{error}");
}
