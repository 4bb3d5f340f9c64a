//! Tests against a real server: requests for given arguments, and handling of responses.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{
    CallId, CallLink, Effect, RunId, TenantId, Tool, ToolContext, ToolError, ToolNote, ToolOutput,
    ToolRequest, TraceContext,
};

use super::{HttpFunction, HttpFunctionError, HttpFunctionOptions, HttpMethod};

/// A link that drops notes and can be cancelled.
#[derive(Default)]
struct Link(CancellationToken);

impl CallLink for Link {
    fn tell(&self, _: ToolNote) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        self.0.cancelled().boxed()
    }
}

/// A request as received by the server.
#[derive(Debug, Clone)]
struct Seen {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
}

type Log = Arc<Mutex<Vec<Seen>>>;

/// Starts a server that replies with `answer`. Returns its URL and the received requests.
async fn server<R: IntoResponse + 'static>(
    answer: impl Fn() -> R + Clone + Send + Sync + 'static,
) -> (String, Log) {
    let log = Log::default();
    let note =
        move |State(log): State<Log>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let body = String::from_utf8(body.to_vec()).unwrap();
            log.lock().unwrap().push(Seen { method, uri, headers, body });
            let answer = answer().into_response();
            async move { answer }
        };
    let router = Router::new().fallback(note).with_state(log.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    (address, log)
}

fn parameters(names: &[&str]) -> Value {
    let properties: serde_json::Map<_, _> =
        names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({ "type": "object", "properties": properties, "required": names })
}

fn options(method: HttpMethod, url: String, names: &[&str]) -> HttpFunctionOptions {
    let parameters = parameters(names);
    HttpFunctionOptions { parameters, ..HttpFunctionOptions::new("weather", method, url) }
}

async fn call(options: HttpFunctionOptions, arguments: Value) -> Result<ToolOutput, ToolError> {
    call_with(options, arguments, Arc::default()).await
}

async fn call_with(
    options: HttpFunctionOptions,
    arguments: Value,
    link: Arc<Link>,
) -> Result<ToolOutput, ToolError> {
    let tool = HttpFunction::new(options).unwrap();
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: arguments.as_object().unwrap().clone(),
        idempotency_key: "run_1:call_1".to_owned(),
        settings: Value::Null,
    };
    let (run, call) = (RunId::from("run_1"), CallId::from("call_1"));
    let context = ToolContext::new(run, call, 1, Duration::from_secs(5), link);
    let trace = TraceContext {
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned(),
        tracestate: Some("vendor=1".to_owned()),
    };
    tool.call(request, context.traced_by(Some(trace))).await
}

fn json_answer(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json; charset=utf-8")], body.to_string()).into_response()
}

/// R21, C5: a call has its idempotency key, and arguments that are not in the URL are in the body.
#[tokio::test]
async fn what_is_not_in_the_address_is_in_the_body() {
    let (address, log) = server(|| json_answer(&json!({ "id": 7 }))).await;
    let url = format!("{address}/users/{{user}}/orders?dry={{dry}}");
    let mut options = options(HttpMethod::Post, url, &["user", "dry", "dish", "count"]);
    options.headers = BTreeMap::from([("X-Team".to_owned(), "blue team".to_owned())]);
    let key = ("Authorization".to_owned(), "Bearer sk-123456".into());
    options.secret_headers = BTreeMap::from([key]);
    let arguments = json!({ "user": "ann", "dry": true, "dish": "soup", "count": 2 });
    let output = call(options, arguments).await.unwrap();
    assert_eq!(output.text, "{\"id\":7}");
    assert_eq!(output.structured, Some(json!({ "id": 7 })));
    let seen = log.lock().unwrap().remove(0);
    assert_eq!(
        (seen.method, seen.uri.to_string().as_str()),
        (Method::POST, "/users/ann/orders?dry=true")
    );
    assert_eq!(
        serde_json::from_str::<Value>(&seen.body).unwrap(),
        json!({ "dish": "soup", "count": 2 })
    );
    assert_eq!(seen.headers["authorization"], "Bearer sk-123456");
    assert_eq!(seen.headers["x-team"], "blue team");
    assert_eq!(seen.headers["idempotency-key"], "run_1:call_1");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    assert_eq!(seen.headers["traceparent"], parent);
    assert_eq!(seen.headers["tracestate"], "vendor=1");
}

#[tokio::test]
async fn without_a_body_everything_is_in_the_address() {
    let (address, log) = server(|| "sunny").await;
    let url = format!("{address}/weather/{{city}}?units=metric&lang={{lang}}");
    let mut options = options(HttpMethod::Get, url, &["city"]);
    options.parameters["properties"]["lang"] = json!({});
    let arguments = json!({ "city": "Köln", "days": [1, 2], "note": null, "deep": { "a": 1 } });
    assert_eq!(call(options, arguments).await.unwrap(), ToolOutput::text("sunny"));
    let seen = log.lock().unwrap().remove(0);
    assert_eq!(
        seen.uri.to_string(),
        "/weather/K%C3%B6ln?units=metric&days=1&days=2&deep=%7B%22a%22%3A1%7D"
    );
    assert_eq!(seen.body, "");
}

/// A4: no argument can change the host or path set by the operator.
#[tokio::test]
async fn arguments_cannot_lead_elsewhere() {
    let (address, log) = server(|| "ok").await;
    let url = format!("{address}/v1/{{a}}/end?q={{b}}");
    for (hostile, path) in [
        ("x/../../admin", "/v1/x%2F..%2F..%2Fadmin/end"),
        ("?q=1#", "/v1/%3Fq%3D1%23/end"),
        ("@evil.example", "/v1/%40evil.example/end"),
        ("\\evil.example", "/v1/%5Cevil.example/end"),
        ("%2e%2e", "/v1/%252e%252e/end"),
        ("...", "/v1/.../end"),
        (" ", "/v1/%20/end"),
        ("a\r\nHost: evil", "/v1/a%0D%0AHost%3A%20evil/end"),
    ] {
        let options = options(HttpMethod::Get, url.clone(), &["a", "b"]);
        call(options, json!({ "a": hostile, "b": hostile })).await.unwrap();
        let seen = log.lock().unwrap().remove(0);
        assert_eq!(seen.uri.path(), path, "{hostile}");
        let query = seen.uri.query().unwrap();
        assert_eq!(query.matches(['&', '#', '\\', '/']).count(), 0, "{query}");
    }
    for climbing in [json!(".."), json!("."), json!(""), json!(null), json!([1]), json!({})] {
        let options = options(HttpMethod::Get, url.clone(), &["a", "b"]);
        let refused = call(options, json!({ "a": climbing, "b": 1 })).await.unwrap_err();
        assert!(matches!(refused, ToolError::InvalidArguments(_)), "{climbing}: {refused:?}");
    }
    let two = format!("{address}/v1/{{a}}{{b}}/end");
    let options = options(HttpMethod::Get, two, &["a", "b"]);
    let refused = call(options, json!({ "a": ".", "b": "." })).await.unwrap_err();
    assert!(matches!(refused, ToolError::InvalidArguments(_)), "{refused:?}");
    assert_eq!(log.lock().unwrap().len(), 0, "nothing was asked");
}

/// I4: only a success status is a success. The engine retries temporary errors.
#[tokio::test]
async fn an_error_is_told_to_the_model() {
    for (status, is_passing) in [(400, false), (404, false), (429, true), (500, true), (503, true)]
    {
        let code = StatusCode::from_u16(status).unwrap();
        let (address, _) = server(move || (code, "no such city")).await;
        let refused = call(options(HttpMethod::Get, address, &[]), json!({})).await.unwrap_err();
        let message = format!("it answered with status {status}: no such city");
        let expected =
            if is_passing { ToolError::Transient(message) } else { ToolError::Failed(message) };
        assert_eq!(refused, expected);
    }
}

/// A6: a key that the server quotes is removed from the result.
#[tokio::test]
async fn a_key_that_is_quoted_is_hidden() {
    for status in [StatusCode::OK, StatusCode::UNAUTHORIZED] {
        let (address, _) = server(move || (status, "bad key sk-123456 in Bearer sk-123456")).await;
        let mut options = options(HttpMethod::Get, address, &[]);
        options.secret_headers = BTreeMap::from([("X-Key".to_owned(), "Bearer sk-123456".into())]);
        let said = match call(options.clone(), json!({})).await {
            Ok(output) => output.text,
            Err(error) => error.to_string(),
        };
        assert!(said.ends_with("bad key *** in ***"), "{said}");
        assert!(!format!("{options:?}").contains("sk-123456"));
    }
}

/// A4: a redirect is followed only on the same origin.
#[tokio::test]
async fn keys_do_not_follow_a_redirect_elsewhere() {
    let (elsewhere, log) = server(|| "stolen").await;
    let target = elsewhere.clone();
    let (address, _) = server(move || Redirect::temporary(&target)).await;
    let refused = call(options(HttpMethod::Get, address, &[]), json!({})).await.unwrap_err();
    assert_eq!(refused, ToolError::Failed("it answered with status 307".to_owned()));
    assert_eq!(log.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn an_answer_has_an_end_and_is_text() {
    let (address, _) = server(|| "x".repeat(11)).await;
    let mut short = options(HttpMethod::Get, address, &[]);
    short.max_answer_bytes = 10;
    let refused = call(short, json!({})).await.unwrap_err();
    assert_eq!(refused, ToolError::Failed("the answer is longer than 10 bytes".to_owned()));
    let (address, _) =
        server(|| ([(header::CONTENT_TYPE, "image/png")], vec![0_u8; 4]).into_response()).await;
    let refused = call(options(HttpMethod::Get, address, &[]), json!({})).await.unwrap_err();
    assert_eq!(
        refused,
        ToolError::Failed("the answer is `image/png`, which is not text".to_owned())
    );
}

#[tokio::test]
async fn who_does_not_answer_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let mut hurried = options(HttpMethod::Get, address.clone(), &[]);
    hurried.timeout = Duration::from_millis(50);
    let late = call(hurried, json!({})).await.unwrap_err();
    assert_eq!(late, ToolError::OutcomeUnknown("no response within 0.05 s".to_owned()));
    let link = Arc::new(Link::default());
    link.0.cancel();
    let stopped = call_with(options(HttpMethod::Get, address, &[]), json!({}), link).await;
    assert_eq!(stopped.unwrap_err(), ToolError::Failed("the call was cancelled".to_owned()));
    drop(listener);
    let nobody = options(HttpMethod::Get, "http://127.0.0.1:1/".to_owned(), &[]);
    let refused = call(nobody, json!({})).await.unwrap_err();
    assert_eq!(refused, ToolError::Transient("cannot connect to the server".to_owned()));
}

#[test]
fn what_makes_no_address_is_refused_at_once() {
    let wrong = |url: &str, names: &[&str]| {
        HttpFunction::new(options(HttpMethod::Get, url.to_owned(), names)).err().unwrap()
    };
    for url in [
        "weather",
        "ftp://host/",
        "http://",
        "http://me:pass@host/",
        "http://host/#x",
        "http://host\\x",
    ] {
        assert_eq!(wrong(url, &[]), HttpFunctionError::Url(url.to_owned()), "{url}");
    }
    for url in
        ["http://{host}/", "http://{host}.example.com/x", "http://host:{port}/", "{s}://host/"]
    {
        assert!(matches!(wrong(url, &["host"]), HttpFunctionError::PlaceholderInHost(_)), "{url}");
    }
    for url in ["http://host/{a", "http://host/a}", "http://host/{}", "http://host/?{a}=1"] {
        assert_eq!(wrong(url, &["a"]), HttpFunctionError::Brace, "{url}");
    }
    let error = wrong("http://host/{b}", &["a"]);
    assert_eq!(error, HttpFunctionError::NoSuchArgument("b".to_owned()));
    let mut optional = options(HttpMethod::Get, "http://host/{a}".to_owned(), &["a"]);
    optional.parameters["required"] = json!([]);
    let error = HttpFunction::new(optional).err().unwrap();
    assert_eq!(error, HttpFunctionError::NotRequired("a".to_owned()));
    let mut headed = options(HttpMethod::Get, "http://host/".to_owned(), &[]);
    headed.headers = BTreeMap::from([("X-Key".to_owned(), "a\nb".to_owned())]);
    assert_eq!(headed.check(), Err(HttpFunctionError::Header("X-Key".to_owned())));
}

#[test]
fn what_changes_nothing_may_run_beside_others() {
    let spec = |effect| {
        let options = options(HttpMethod::Get, "http://host/".to_owned(), &[]);
        let tool = HttpFunction::new(HttpFunctionOptions { effect, ..options }).unwrap();
        (tool.spec().effect, tool.spec().parallel)
    };
    assert_eq!(spec(Effect::Pure), (Effect::Pure, true));
    assert_eq!(spec(Effect::Once), (Effect::Once, false));
}
