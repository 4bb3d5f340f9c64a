//! A small receiver of OTLP over HTTP, which stores what it gets.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::any_value::Value,
    metrics::v1::ResourceMetrics,
    trace::v1::Span,
};
use prost::Message;

use crate::world::PATIENCE;

#[derive(Default)]
struct Received {
    heads: String,
    bodies: Vec<u8>,
    spans: Vec<Span>,
    services: Vec<String>,
    /// One for each export.
    metrics: Vec<ResourceMetrics>,
}

#[derive(Clone)]
pub(crate) struct OtlpReceiver {
    shared: Arc<(Mutex<Received>, Condvar)>,
    port: u16,
}

impl Received {
    fn note_spans(&mut self, body: &[u8]) {
        let sent = ExportTraceServiceRequest::decode(body).expect("OTLP");
        for of_resource in sent.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            self.services.extend(text_of(&resource.attributes, "service.name"));
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            self.spans.extend(spans);
        }
    }
}

impl OtlpReceiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let receiver = Self { shared: Arc::default(), port };
        let all = receiver.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let receiver = all.clone();
                // A process that is killed meanwhile leaves half a request.
                thread::spawn(move || receiver.answer(connection));
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// All spans so far, once there are enough.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&[Span]) -> bool) -> Vec<Span> {
        let received = self.wait_for(what, |received| is_so(&received.spans));
        received.spans.clone()
    }

    /// All exports of metrics so far, once there are enough.
    pub(crate) fn metrics_once(
        &self,
        what: &str,
        is_so: impl Fn(&[ResourceMetrics]) -> bool,
    ) -> Vec<ResourceMetrics> {
        let received = self.wait_for(what, |received| is_so(&received.metrics));
        received.metrics.clone()
    }

    pub(crate) fn metrics(&self) -> Vec<ResourceMetrics> {
        self.metrics_once("metrics", |_| true)
    }

    fn wait_for(&self, what: &str, is_so: impl Fn(&Received) -> bool) -> MutexGuard<'_, Received> {
        let (received, changed) = &*self.shared;
        let received = received.lock().unwrap();
        let waited = changed.wait_timeout_while(received, PATIENCE, |received| !is_so(received));
        let (received, waited) = waited.unwrap();
        let (spans, n_exports) = (&received.spans, received.metrics.len());
        assert!(!waited.timed_out(), "no {what}: {n_exports} exports of metrics, {spans:#?}");
        received
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.wait_until("spans", |_| true)
    }

    /// The bodies of all requests.
    pub(crate) fn bodies(&self) -> Vec<u8> {
        self.shared.0.lock().unwrap().bodies.clone()
    }

    pub(crate) fn heads(&self) -> String {
        self.shared.0.lock().unwrap().heads.clone()
    }

    /// The name of the service in each request.
    pub(crate) fn services(&self) -> Vec<String> {
        self.shared.0.lock().unwrap().services.clone()
    }

    fn answer(&self, mut connection: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(connection.try_clone().ok()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
        });
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).ok()?;
        let (received, changed) = &*self.shared;
        {
            let mut received = received.lock().unwrap();
            received.heads += &head;
            if head.starts_with("POST /v1/metrics ") {
                let sent = ExportMetricsServiceRequest::decode(body.as_slice()).expect("OTLP");
                received.metrics.extend(sent.resource_metrics);
            } else {
                received.note_spans(&body);
            }
            received.bodies.extend(body);
        }
        changed.notify_all();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n";
        write!(connection, "{head}content-length: 0\r\nconnection: close\r\n\r\n").ok()
    }
}

/// An attribute as text.
pub(crate) fn text_of(
    attributes: &[opentelemetry_proto::tonic::common::v1::KeyValue],
    name: &str,
) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(n) => n.to_string(),
        Value::BoolValue(is_so) => is_so.to_string(),
        other => format!("{other:?}"),
    })
}
