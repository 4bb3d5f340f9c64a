//! Traces of the real binary: from the client to the model, to the MCP server and back, over a
//! `kill -9` and a takeover.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::{Duration, Instant},
};

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind, status::StatusCode};
use serde_json::{Value, json};

use crate::{
    echoing_servers::{EchoingMcp, EchoingModel, settings_for},
    otlp_receiver::{OtlpReceiver, text_of},
    serve::Gateway,
    world::{PATIENCE, World},
};

const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];
const DELAY: &str = "OTEL_BSP_SCHEDULE_DELAY";
const HOUR_MS: &str = "3600000";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

struct Bench {
    model: EchoingModel,
    mcp: EchoingMcp,
    receiver: OtlpReceiver,
    world: World,
}

impl Bench {
    fn new() -> Self {
        let (model, mcp) = (EchoingModel::start(), EchoingMcp::start());
        let receiver = OtlpReceiver::start();
        let world = World::new().with_file("turnwire.toml", &settings_for(&model, &mcp));
        let store = format!("sqlite://{}/runs.db", world.path().display());
        let world = world.with("TURNWIRE_STORE_URL", &store);
        Self { model, mcp, receiver, world }
    }

    fn exporting(self, delay: &str) -> Self {
        let world = self.world.with("OTEL_EXPORTER_OTLP_ENDPOINT", &self.receiver.url());
        let world = world.with("OTEL_SERVICE_NAME", "agents").with(DELAY, delay);
        Self { world, ..self }
    }
}

fn body(input: &str) -> Value {
    let tool = json!({ "type": "mcp", "server_label": "docs", "require_approval": "never" });
    json!({ "model": "default", "input": input, "tools": [tool] })
}

/// Asks in the trace of the client.
async fn ask(gateway: &Gateway, body: &Value) -> Value {
    let request = gateway.post("/v1/responses", body);
    let request = request
        .header("traceparent", format!("00-{TRACE}-{CLIENT_SPAN}-01"))
        .header("tracestate", "vendor=1");
    request.send().await.unwrap().json().await.unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// A span without what differs between runs, and by the names of its parents.
fn described(span: &Span, all: &BTreeMap<String, Span>) -> (String, String, String) {
    let parent = hex(&span.parent_span_id);
    let parent = match all.get(&parent) {
        Some(parent) => parent.name.clone(),
        None if parent == CLIENT_SPAN => "client".to_owned(),
        None => format!("unknown span {parent}"),
    };
    let kind = SpanKind::try_from(span.kind).unwrap();
    (parent, span.name.clone(), format!("{kind:?}"))
}

/// The spans by their ID. A span that was received twice was the same both times.
fn unique(spans: Vec<Span>) -> BTreeMap<String, Span> {
    let mut unique = BTreeMap::<String, Span>::new();
    for span in spans {
        assert_eq!(hex(&span.trace_id), TRACE, "{span:#?}");
        if let Some(before) = unique.get(&hex(&span.span_id)) {
            assert_eq!(*before, span, "a span was sent twice and differs");
        }
        unique.insert(hex(&span.span_id), span);
    }
    // A server that was not connected yet is asked for its tools.
    let is_listing = |span: &Span| span.name == "tools/list";
    for listing in unique.values().filter(|span| is_listing(span)) {
        assert_eq!(described(listing, &unique).0, "invoke_agent");
    }
    unique.retain(|_, span| !is_listing(span));
    unique
}

fn has_ended(spans: &[Span]) -> bool {
    spans.iter().any(|span| span.name == "invoke_agent")
}

fn all_of(spans: &BTreeMap<String, Span>) -> Vec<(String, String, String)> {
    let mut described: Vec<_> = spans.values().map(|span| described(span, spans)).collect();
    described.sort();
    described
}

fn expected(tool: &str) -> Vec<(String, String, String)> {
    let (call, request) = (format!("execute_tool {tool}"), format!("tools/call {tool}"));
    [
        ("client", "invoke_agent", "Internal"),
        (&call, &request, "Client"),
        ("invoke_agent", "chat m", "Client"),
        ("invoke_agent", "chat m", "Client"),
        ("invoke_agent", &call, "Internal"),
    ]
    .map(|(parent, name, kind)| (parent.to_owned(), name.to_owned(), kind.to_owned()))
    .to_vec()
}

fn named<'a>(spans: &'a BTreeMap<String, Span>, name: &str) -> Vec<&'a Span> {
    spans.values().filter(|span| span.name == name).collect()
}

/// The `traceparent` that names a span as the parent.
fn parent_of(span: &Span) -> String {
    format!("00-{TRACE}-{}-01", hex(&span.span_id))
}

/// Waits until the metrics have this line.
async fn wait_for_metric(gateway: &Gateway, line: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = gateway.get("/metrics").send().await.unwrap().text().await.unwrap();
        if metrics.lines().any(|known| known == line) {
            return;
        }
        let spans = metrics.lines().filter(|line| line.contains("spans")).collect::<Vec<_>>();
        assert!(Instant::now() < deadline, "no {line}: {spans:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A trace from client to model to MCP server and back, with the right parents: the client, the
/// model and the MCP server see the IDs that the receiver gets.
#[tokio::test]
async fn a_trace_goes_from_the_client_to_the_model_and_the_mcp_server() {
    let bench = Bench::new().exporting("0");
    let gateway = Gateway::start(&bench.world, &SERVE);
    let response = ask(&gateway, &body("Please call echo")).await;
    assert_eq!(response["status"], "completed", "{response}");
    let spans = unique(bench.receiver.wait_until("end of the run", has_ended));
    assert_eq!(all_of(&spans), expected("echo"));

    let heads = bench.model.heads().to_lowercase();
    let chats = named(&spans, "chat m");
    for chat in &chats {
        assert!(heads.contains(&format!("traceparent: {}\r\n", parent_of(chat))), "{heads}");
        assert_eq!(text_of(&chat.attributes, "gen_ai.provider.name").as_deref(), Some("openai"));
        assert_eq!(text_of(&chat.attributes, "gen_ai.request.model").as_deref(), Some("m"));
    }
    assert_eq!(heads.matches("tracestate: vendor=1\r\n").count(), 2, "{heads}");
    let request = named(&spans, "tools/call echo")[0];
    let bodies = bench.mcp.bodies();
    let meta = format!("\"traceparent\":\"{}\"", parent_of(request));
    assert!(bodies.contains(&meta) && bodies.contains("\"tracestate\":\"vendor=1\""), "{bodies}");
    // The headers of requests to the MCP server are the same for all runs.
    assert!(!bench.mcp.heads().to_lowercase().contains("traceparent"));

    let run = named(&spans, "invoke_agent")[0];
    let id = response["id"].as_str().unwrap().replace("resp_", "run_");
    assert_eq!(text_of(&run.attributes, "turnwire.run.id"), Some(id));
    assert!(chats.iter().all(|chat| chat.start_time_unix_nano >= run.start_time_unix_nano));
    let texts = String::from_utf8_lossy(&bench.receiver.bodies()).into_owned();
    assert!(!texts.contains("Please") && !texts.contains("Done."), "contents are opt-in");
    let services: BTreeSet<String> = bench.receiver.services().into_iter().collect();
    assert_eq!(services, BTreeSet::from(["agents".to_owned()]));
    let n_spans = bench.receiver.spans().len();
    wait_for_metric(&gateway, &format!("turnwire_spans_exported_total {n_spans}")).await;
    wait_for_metric(&gateway, "turnwire_spans_dropped_total 0").await;
}

/// Contents are sent if the operator asks for them, and the last spans when the server ends.
#[tokio::test]
async fn contents_are_opt_in_and_the_last_spans_are_sent() {
    let mut bench = Bench::new().exporting(HOUR_MS);
    let opt_in = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
    bench.world = bench.world.with(opt_in, "true");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    let response = ask(&gateway, &body("call echo")).await;
    assert_eq!(response["status"], "completed", "{response}");
    assert_eq!(bench.receiver.spans(), []);
    gateway.signal("TERM");
    let done = gateway.finish();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let spans = unique(bench.receiver.spans());
    assert_eq!(all_of(&spans), expected("echo"));
    let run = named(&spans, "invoke_agent")[0];
    let input = text_of(&run.attributes, "gen_ai.input.messages").unwrap();
    assert!(input.contains("call echo"), "{input}");
}

/// One trace over a `kill -9` and a takeover: no span is lost, whether or not the first worker had
/// sent it, and none is doubled: what is sent twice is the same.
async fn over_a_kill(delay: &str) {
    let mut bench = Bench::new().exporting(delay);
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    let mut asked = body("call hang");
    asked["background"] = true.into();
    let response = ask(&gateway, &asked).await;
    bench.mcp.wait_for_hanging(1);
    let is_chat = |spans: &[Span]| spans.iter().any(|span| span.name == "chat m");
    let n_before = if delay == "0" {
        bench.receiver.wait_until("first turn", is_chat).len()
    } else {
        bench.receiver.spans().len()
    };
    assert_eq!(n_before > 0, delay == "0");
    gateway.signal("KILL");
    gateway.finish();

    bench.world = bench.world.with(DELAY, "0");
    let gateway = Gateway::start(&bench.world, &SERVE);
    let id = response["id"].as_str().unwrap_or_else(|| panic!("{response}"));
    let stream = gateway.get(&format!("/v1/responses/{id}?stream=true")).send().await.unwrap();
    let stream = stream.text().await.unwrap();
    assert!(stream.contains("response.completed"), "{stream}");
    let spans = bench.receiver.wait_until("end of the run", has_ended);
    let n_received = spans.iter().filter(|span| span.name != "tools/list").count();
    let spans = unique(spans);
    assert_eq!(all_of(&spans), expected("hang"));
    if delay == "0" {
        assert!(n_received > spans.len(), "the spans of the first worker were not sent again");
    }
    let call = named(&spans, "execute_tool hang")[0];
    let outcome = text_of(&call.attributes, "turnwire.tool.outcome");
    assert_eq!(outcome.as_deref(), Some("outcome_unknown"));
    assert_eq!(call.status.as_ref().unwrap().code, StatusCode::Error as i32);
    let attempts = |name| {
        let of = |span: &&Span| text_of(&span.attributes, "turnwire.run.attempt").unwrap();
        named(&spans, name).iter().map(of).collect::<BTreeSet<String>>()
    };
    assert_eq!(attempts("chat m"), BTreeSet::from(["1".to_owned(), "2".to_owned()]));
    assert_eq!(attempts("invoke_agent"), BTreeSet::from(["2".to_owned()]));
    // The model sees the spans of both workers in the one trace.
    let heads = bench.model.heads().to_lowercase();
    for chat in named(&spans, "chat m") {
        assert!(heads.contains(&format!("traceparent: {}\r\n", parent_of(chat))), "{heads}");
    }
}

#[tokio::test]
async fn a_killed_worker_that_sent_no_span_loses_none() {
    over_a_kill(HOUR_MS).await;
}

#[tokio::test]
async fn a_killed_worker_that_sent_its_spans_doubles_none() {
    over_a_kill("0").await;
}

/// Waits until the journal of a response has an event.
async fn until_recorded(gateway: &Gateway, response_id: &str, event: &str) {
    let path = format!("/v1/runs/{}/events", response_id.replace("resp_", "run_"));
    let mut events = gateway.get(&path).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains(event) {
        let piece = events.chunk().await.unwrap();
        let piece = piece.unwrap_or_else(|| panic!("no {event}: {seen}"));
        seen += &String::from_utf8_lossy(&piece);
    }
}

/// The turn that a worker was killed in is a span with an error, and its repetition another one.
#[tokio::test]
async fn a_turn_that_was_lost_is_a_span_too() {
    let bench = Bench::new().exporting("0");
    let mut gateway = Gateway::start(&bench.world, &SERVE);
    let mut asked = body("wait");
    asked["background"] = true.into();
    let response = ask(&gateway, &asked).await;
    let id = response["id"].as_str().unwrap_or_else(|| panic!("{response}"));
    bench.model.wait_for_waiting(1);
    // The model is asked while the start of the turn is being stored.
    until_recorded(&gateway, id, "turn_started").await;
    gateway.signal("KILL");
    gateway.finish();
    bench.model.stop_waiting();
    let gateway = Gateway::start(&bench.world, &SERVE);
    let stream = gateway.get(&format!("/v1/responses/{id}?stream=true")).send().await.unwrap();
    assert!(stream.text().await.unwrap().contains("response.completed"));
    let spans = unique(bench.receiver.wait_until("end of the run", has_ended));
    let mut expected = expected("echo");
    expected.extend(expected.iter().find(|(_, name, _)| name == "chat m").cloned());
    expected.sort();
    assert_eq!(all_of(&spans), expected);
    let chats = named(&spans, "chat m");
    let lost = |chat: &&&Span| text_of(&chat.attributes, "error.type").is_some();
    let lost: Vec<_> = chats.iter().filter(lost).collect();
    assert_eq!(lost.len(), 1);
    let of_lost = |name| text_of(&lost[0].attributes, name);
    assert_eq!(of_lost("error.type").as_deref(), Some("worker_lost"));
    assert_eq!(of_lost("turnwire.run.attempt").as_deref(), Some("1"));
    let heads = bench.model.heads().to_lowercase();
    assert!(heads.contains(&parent_of(lost[0])), "{heads}");
}

/// Without a receiver, the trace of the client goes on behind the server, and no other begins.
#[tokio::test]
async fn without_a_receiver_the_context_is_passed_on_as_it_came() {
    let bench = Bench::new();
    let gateway = Gateway::start(&bench.world, &SERVE);
    let response: Value =
        gateway.post("/v1/responses", &body("Hi")).send().await.unwrap().json().await.unwrap();
    assert_eq!(response["status"], "completed", "{response}");
    assert!(!bench.model.heads().to_lowercase().contains("traceparent"));
    ask(&gateway, &body("call echo")).await;
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let heads = bench.model.heads().to_lowercase();
    assert_eq!(heads.matches(&format!("traceparent: {parent}\r\n")).count(), 2, "{heads}");
    assert!(bench.mcp.bodies().contains(&format!("\"traceparent\":\"{parent}\"")));
    // A malformed one is ignored.
    let request = gateway.post("/v1/responses", &body("Hi")).header("traceparent", "00-x-y-01");
    assert_eq!(request.send().await.unwrap().status(), 200);
    assert_eq!(bench.receiver.spans(), []);
    assert_eq!(bench.receiver.heads(), "");
}

/// A receiver that is away does not stop a run, and what is lost is counted.
#[tokio::test]
async fn a_receiver_that_is_away_costs_spans_and_nothing_else() {
    let mut bench = Bench::new().exporting("0");
    // Nothing listens there.
    let world = bench.world.with("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    bench.world = world.with("OTEL_EXPORTER_OTLP_TIMEOUT", "100");
    let gateway = Gateway::start(&bench.world, &SERVE);
    // Without a server that may have to be asked for its tools: a turn, and the run.
    let response = ask(&gateway, &json!({ "model": "default", "input": "Hi" })).await;
    assert_eq!(response["status"], "completed", "{response}");
    wait_for_metric(&gateway, "turnwire_spans_dropped_total 2").await;
    let done = bench.world.run(&["doctor"]);
    assert!(done.stdout.contains("traces"), "{}", done.stdout);
    assert!(done.stdout.contains("http://127.0.0.1:1/v1/traces"), "{}", done.stdout);
}
