use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    extract::Query,
    http::{HeaderMap, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::get,
};
use futures::{FutureExt, future::BoxFuture};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{
    CallId, CallLink, RunId, TenantId, Tool, ToolContext, ToolError, ToolNote, ToolOutput,
    ToolRequest,
};

use super::{WebSearch, WebSearchError, WebSearchOptions};

/// Notes what is said, and can be stopped.
#[derive(Default)]
struct Listener {
    notes: Mutex<Vec<ToolNote>>,
    stop: CancellationToken,
}

impl CallLink for Listener {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        self.notes.lock().unwrap().push(note);
        std::future::ready(()).boxed()
    }

    fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        self.stop.cancelled().boxed()
    }
}

/// A search engine that answers with what `answer` makes of the question; gives its address.
async fn engine<F, R>(answer: F) -> String
where
    F: Fn(Vec<(String, String)>) -> R + Clone + Send + Sync + 'static,
    R: IntoResponse,
{
    let search = get(move |Query(asked): Query<Vec<(String, String)>>| {
        let answer = answer(asked).into_response();
        async move { answer }
    });
    serve(Router::new().route("/search", search)).await
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    TaskTracker::new().spawn(async move { axum::serve(listener, router).await });
    address
}

fn results(results: &Value) -> String {
    json!({ "query": "q", "results": results }).to_string()
}

async fn search(base_url: &str, query: &str) -> Result<ToolOutput, ToolError> {
    search_with(WebSearchOptions::new(base_url), query, Value::Null, &Arc::default()).await
}

async fn search_with(
    options: WebSearchOptions,
    query: &str,
    settings: Value,
    listener: &Arc<Listener>,
) -> Result<ToolOutput, ToolError> {
    let tool = WebSearch::new(options).unwrap();
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: json!({ "query": query }).as_object().unwrap().clone(),
        idempotency_key: "key".to_owned(),
        settings,
    };
    let (run, call) = (RunId::from("run_1"), CallId::from("call_1"));
    let context = ToolContext::new(run, call, 1, Duration::from_secs(5), listener.clone());
    tool.call(request, context).await
}

#[tokio::test]
async fn results_are_told_to_the_model_and_as_data() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let engine = engine(move |question| {
        *seen.lock().unwrap() = question;
        results(&json!([
            { "url": "https://a.example/x", "title": "A  page", "content": "About\n walruses." },
            { "url": "javascript:alert(1)", "title": "No page" },
            { "url": "https://b.example/", "title": null, "content": null },
        ]))
    })
    .await;
    let listener = Arc::new(Listener::default());
    let options = WebSearchOptions::new(format!("{engine}/"));
    let settings = json!({ "type": "web_search", "search_context_size": "low" });
    let output = search_with(options, "walrus & more?", settings, &listener).await.unwrap();

    let expected = [("q", "walrus & more?"), ("format", "json")];
    assert_eq!(*asked.lock().unwrap(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(
        output.text,
        "1. A page\n   https://a.example/x\n   About walruses.\n\
         2. https://b.example/\n   https://b.example/"
    );
    let sources = json!([
        { "url": "https://a.example/x", "title": "A page" },
        { "url": "https://b.example/", "title": "https://b.example/" },
    ]);
    let expected = json!({ "query": "walrus & more?", "sources": sources });
    assert_eq!(output.structured, Some(expected));
    assert_eq!(output.short.as_deref(), Some("2 results"));
    assert_eq!(*listener.notes.lock().unwrap(), [ToolNote::Phase("searching".to_owned())]);
}

#[tokio::test]
async fn only_so_many_results_are_shown() {
    let many: Vec<Value> = (0..50)
        .map(|n| json!({ "url": format!("https://a.example/{n}"), "title": "x".repeat(999) }))
        .collect();
    let engine = engine(move |_| results(&json!(many))).await;
    let output = search(&engine, "q").await.unwrap();
    assert_eq!(output.structured.unwrap()["sources"].as_array().unwrap().len(), 8);
    assert!(output.text.chars().count() < 8 * 300, "titles are cut");
}

#[tokio::test]
async fn a_request_may_narrow_the_domains() {
    let engine = engine(|_| {
        let urls =
            ["https://rust-lang.org/", "https://doc.rust-lang.org/", "https://notrust-lang.org/"];
        results(&urls.iter().map(|url| json!({ "url": url, "title": url })).collect())
    })
    .await;
    let settings = json!({ "filters": { "allowed_domains": ["Rust-Lang.org"] } });
    let options = WebSearchOptions::new(engine);
    let output = search_with(options, "q", settings, &Arc::default()).await.unwrap();
    let sources = output.structured.unwrap()["sources"].as_array().unwrap().len();
    assert_eq!(sources, 2, "{}", output.text);
}

#[tokio::test]
async fn nothing_found_is_said() {
    let engine = engine(|_| results(&json!([]))).await;
    let output = search(&engine, "zebra").await.unwrap();
    assert_eq!(output.text, "Nothing was found for: zebra");
    assert_eq!(output.structured, Some(json!({ "query": "zebra", "sources": [] })));
}

/// `SearXNG` answers 403 until its operator has allowed JSON; the error says what to do.
#[tokio::test]
async fn a_refusal_of_json_says_which_setting_is_missing() {
    let engine = engine(|_| StatusCode::FORBIDDEN).await;
    let Err(ToolError::Failed(message)) = search(&engine, "q").await else { panic!("it worked") };
    assert!(message.contains("search.formats") && message.contains("json"), "{message}");
}

#[tokio::test]
async fn trouble_that_may_pass_is_told_from_trouble_that_stays() {
    let down = engine(|_| StatusCode::BAD_GATEWAY).await;
    let message = "the search engine answered with status 502";
    assert_eq!(search(&down, "q").await, Err(ToolError::Transient(message.to_owned())));
    let busy = engine(|_| StatusCode::TOO_MANY_REQUESTS).await;
    assert!(matches!(search(&busy, "q").await, Err(ToolError::Transient(_))));
    let missing = engine(|_| StatusCode::NOT_FOUND).await;
    let message = "the search engine answered with status 404";
    assert_eq!(search(&missing, "q").await, Err(ToolError::Failed(message.to_owned())));
    let page = engine(|_| "<html>").await;
    let message = "the search engine's answer makes no sense";
    assert_eq!(search(&page, "q").await, Err(ToolError::failed(message)));
    let nobody = search("http://127.0.0.1:9", "q").await;
    let message = "the search engine is out of reach";
    assert_eq!(nobody, Err(ToolError::Transient(message.to_owned())));
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let engine = engine(|_| "x".repeat(1024 * 1024 + 1)).await;
    let message = "the search engine's answer is too long";
    assert_eq!(search(&engine, "q").await, Err(ToolError::failed(message)));
}

/// A4: a search engine cannot send us to another host.
#[tokio::test]
async fn a_redirect_to_another_host_is_not_followed() {
    let elsewhere =
        engine(|_| results(&json!([{ "url": "https://evil.example/", "title": "x" }]))).await;
    let target = format!("{elsewhere}/search?q=q");
    let engine = engine(move |_| moved(&target)).await;
    let message = "the search engine answered with status 302";
    assert_eq!(search(&engine, "q").await, Err(ToolError::failed(message)));
}

#[tokio::test]
async fn a_redirect_on_the_same_host_is_followed() {
    let found = get(|| async { results(&json!([{ "url": "https://a.example/", "title": "x" }])) });
    let router = Router::new()
        .route("/search", get(|| async { moved("/elsewhere") }))
        .route("/elsewhere", found);
    let engine = serve(router).await;
    let output = search(&engine, "q").await.unwrap();
    assert_eq!(output.text, "1. x\n   https://a.example/");
}

fn moved(target: &str) -> Response {
    let headers = HeaderMap::from_iter([(LOCATION, target.parse().unwrap())]);
    (StatusCode::FOUND, headers).into_response()
}

async fn never() -> String {
    serve(Router::new().route("/search", get(std::future::pending::<String>))).await
}

#[tokio::test]
async fn a_silent_engine_is_given_up() {
    let options = WebSearchOptions {
        timeout: Duration::from_millis(50),
        ..WebSearchOptions::new(never().await)
    };
    let given_up = search_with(options, "q", Value::Null, &Arc::default()).await;
    let message = "the search engine has not answered within 0.05 s";
    assert_eq!(given_up, Err(ToolError::Transient(message.to_owned())));
}

/// L3: a cancelled search does not go on.
#[tokio::test]
async fn a_cancelled_search_stops() {
    let listener = Arc::new(Listener::default());
    listener.stop.cancel();
    let options = WebSearchOptions::new(never().await);
    let stopped = search_with(options, "q", Value::Null, &listener).await;
    assert_eq!(stopped, Err(ToolError::failed("the search was cancelled")));
}

#[test]
fn a_base_url_that_is_none_is_refused() {
    for url in ["localhost:8888", "ftp://a.example", "nonsense"] {
        let refused = WebSearch::new(WebSearchOptions::new(url)).err();
        assert_eq!(refused, Some(WebSearchError::BaseUrl(url.to_owned())));
    }
}
