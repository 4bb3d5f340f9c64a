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

use super::{SearchProvider, WebSearch, WebSearchError, WebSearchOptions};
use crate::egress::{Egress, EgressOptions};

/// Records notes, and can be cancelled.
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

/// Starts a search engine that replies with `answer`. Returns its URL.
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
    call(options, EgressOptions::default(), json!({ "query": query }), settings, listener).await
}

async fn call(
    options: WebSearchOptions,
    egress: EgressOptions,
    arguments: Value,
    settings: Value,
    listener: &Arc<Listener>,
) -> Result<ToolOutput, ToolError> {
    let tool = WebSearch::new(options, Egress::new(&egress).unwrap()).unwrap();
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: arguments.as_object().unwrap().clone(),
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
    let settings = json!({ "type": "web_search", "search_context_size": "medium" });
    let output = search_with(options, "walrus & more?", settings, &listener).await.unwrap();

    let expected = [("q", "walrus & more?"), ("format", "json")];
    assert_eq!(*asked.lock().unwrap(), expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
    assert_eq!(
        output.text,
        "[1] A page\n    https://a.example/x\n    About walruses.\n\
         [2] https://b.example/\n    https://b.example/"
    );
    let sources = json!([
        { "url": "https://a.example/x", "title": "A page" },
        { "url": "https://b.example/", "title": "https://b.example/" },
    ]);
    let queries = ["walrus & more?"];
    let expected = json!({ "action": "search", "queries": queries, "sources": sources });
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
    let nothing = json!({ "action": "search", "queries": ["zebra"], "sources": [] });
    assert_eq!(output.structured, Some(nothing));
}

/// `SearXNG` answers 403 until its operator allows JSON. The error says what to do.
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
    let message = "the response of the search engine is not valid";
    assert_eq!(search(&page, "q").await, Err(ToolError::failed(message)));
    let nobody = search("http://127.0.0.1:9", "q").await;
    let message = "cannot connect to the search engine";
    assert_eq!(nobody, Err(ToolError::Transient(message.to_owned())));
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_to_its_end() {
    let engine = engine(|_| "x".repeat(1024 * 1024 + 1)).await;
    let message = "the response of the search engine is too large";
    assert_eq!(search(&engine, "q").await, Err(ToolError::failed(message)));
}

/// A4: a redirect of the search engine to another host is not followed.
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
    assert_eq!(output.text, "[1] x\n    https://a.example/");
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
    let message = "the search engine did not respond within 0.05 s";
    assert_eq!(given_up, Err(ToolError::Transient(message.to_owned())));
}

/// L3: a cancelled search stops.
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
    let egress = || Egress::new(&EgressOptions::default()).unwrap();
    for url in ["localhost:8888", "ftp://a.example", "nonsense"] {
        let refused = WebSearch::new(WebSearchOptions::new(url), egress()).err();
        assert_eq!(refused, Some(WebSearchError::BaseUrl(url.to_owned())));
    }
    for provider in [SearchProvider::Brave, SearchProvider::Tavily] {
        let options = WebSearchOptions { provider, ..WebSearchOptions::new("http://s") };
        assert_eq!(WebSearch::new(options, egress()).err(), Some(WebSearchError::NoKey));
    }
}

#[tokio::test]
async fn a_request_says_how_much_it_wants_to_know() {
    let many: Vec<Value> =
        (0..50).map(|n| json!({ "url": format!("https://a.example/{n}"), "title": "x" })).collect();
    let engine = engine(move |_| results(&json!(many))).await;
    for (size, expected) in [("low", 4), ("medium", 8), ("high", 16), ("enormous", 8)] {
        let settings = json!({ "search_context_size": size });
        let options = WebSearchOptions::new(engine.as_str());
        let output = search_with(options, "q", settings, &Arc::default()).await.unwrap();
        let sources = output.structured.unwrap()["sources"].as_array().unwrap().len();
        assert_eq!(sources, expected, "{size}");
    }
}

#[tokio::test]
async fn several_questions_are_asked_at_once_and_told_one_by_one() {
    let engine = engine(|asked: Vec<(String, String)>| {
        let about = asked[0].1.clone();
        results(&json!([
            { "url": format!("https://{about}.example/"), "title": about },
            { "url": "https://both.example/", "title": "both" },
        ]))
    })
    .await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "queries": ["seal", "otter", "seal"] });
    let options = WebSearchOptions::new(engine);
    let output =
        call(options, EgressOptions::default(), arguments, Value::Null, &listener).await.unwrap();
    let sources = json!([
        { "url": "https://seal.example/", "title": "seal" },
        { "url": "https://otter.example/", "title": "otter" },
        { "url": "https://both.example/", "title": "both" },
    ]);
    let expected = json!({ "action": "search", "queries": ["seal", "otter"], "sources": sources });
    assert_eq!(output.structured, Some(expected));
    let told = |progress: f64, message: &str| ToolNote::Progress {
        progress,
        total: Some(2.0),
        message: Some(message.to_owned()),
    };
    let expected =
        [ToolNote::Phase("searching".to_owned()), told(1.0, "2 results"), told(2.0, "4 results")];
    assert_eq!(*listener.notes.lock().unwrap(), expected);
}

#[tokio::test]
async fn what_is_missing_is_told_to_the_model() {
    for (arguments, missing) in [
        (json!({}), "`query` is missing"),
        (json!({ "query": " " }), "`query` is missing"),
        (json!({ "action": "search", "url": "https://a.example" }), "`query` is missing"),
        (json!({ "action": "open_page" }), "`url` is missing"),
        (json!({ "action": "find_in_page", "url": "https://a.example" }), "`pattern` is missing"),
        (
            json!({ "action": "find_in_page", "url": "https://a.example", "pattern": "a".repeat(1_001) }),
            "`pattern` has more than 1000 characters",
        ),
    ] {
        let options = WebSearchOptions::new("http://127.0.0.1:9");
        let refused =
            call(options, EgressOptions::default(), arguments, Value::Null, &Arc::default()).await;
        assert_eq!(refused, Err(ToolError::InvalidArguments(missing.to_owned())));
    }
}

/// A site with a page, a moved page, a missing page, a failing page and an image.
async fn site() -> (String, EgressOptions) {
    let page = "<title>Walruses</title><body><p>The walrus sleeps.</p><p>A Walrus swims.</p>";
    let html = |text: &'static str| ([("content-type", "text/html")], text);
    let router = Router::new()
        .route("/page", get(move || async move { html(page) }))
        .route("/old", get(|| async { moved("/page") }))
        .route("/down", get(|| async { StatusCode::BAD_GATEWAY }))
        .route("/picture", get(|| async { ([("content-type", "image/png")], "PNG") }))
        .route("/inside", get(|| async { moved("http://10.0.0.1/") }));
    let site = serve(router).await;
    let port = site.rsplit(':').next().unwrap().parse().unwrap();
    let open_networks = vec!["127.0.0.1/32".parse().unwrap()];
    (site, EgressOptions { open_networks, ports: vec![80, port], ..EgressOptions::default() })
}

async fn look(
    egress: &EgressOptions,
    arguments: Value,
    listener: &Arc<Listener>,
) -> Result<ToolOutput, ToolError> {
    let options = WebSearchOptions::new("http://127.0.0.1:9");
    call(options, egress.clone(), arguments, Value::Null, listener).await
}

#[tokio::test]
async fn a_page_is_opened_and_read() {
    let (site, egress) = site().await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "action": "open_page", "url": format!("{site}/old") });
    let output = look(&egress, arguments, &listener).await.unwrap();
    let expected = format!("Walruses\n{site}/page\n\nThe walrus sleeps.\n\nA Walrus swims.");
    assert_eq!(output.text, expected);
    let sources = json!([
        { "url": format!("{site}/page"), "title": "Walruses" },
        { "url": format!("{site}/old"), "title": "Walruses" },
    ]);
    let expected =
        json!({ "action": "open_page", "url": format!("{site}/old"), "sources": sources });
    assert_eq!(output.structured, Some(expected));
    let phases = ["opening", "reading"].map(|phase| ToolNote::Phase(phase.to_owned()));
    assert_eq!(*listener.notes.lock().unwrap(), phases);
}

#[tokio::test]
async fn a_text_is_found_in_a_page() {
    let (site, egress) = site().await;
    let listener = Arc::new(Listener::default());
    // The action follows from the other arguments.
    let arguments = json!({ "url": format!("{site}/page"), "pattern": "walrus" });
    let output = look(&egress, arguments, &listener).await.unwrap();
    let line = "The walrus sleeps. A Walrus swims.";
    let expected = format!("Walruses\n{site}/page\n\n2 places:\n- {line}\n- {line}");
    assert_eq!(output.text, expected);
    assert_eq!(output.short.as_deref(), Some("2 places"));
    let structured = output.structured.unwrap();
    assert_eq!(structured["action"], "find_in_page");
    assert_eq!(structured["pattern"], "walrus");
    let phases = ["opening", "reading", "finding"].map(|phase| ToolNote::Phase(phase.to_owned()));
    assert_eq!(*listener.notes.lock().unwrap(), phases);
    let arguments = json!({ "url": format!("{site}/page"), "pattern": "otter" });
    let output = look(&egress, arguments, &listener).await.unwrap();
    assert!(output.text.ends_with("`otter` is not on the page."), "{}", output.text);
}

#[tokio::test]
async fn a_page_that_cannot_be_shown_says_why() {
    let (site, egress) = site().await;
    let open = |place: &str| {
        let arguments = json!({ "action": "open_page", "url": format!("{site}{place}") });
        let egress = &egress;
        async move { look(egress, arguments, &Arc::default()).await.unwrap_err() }
    };
    assert_eq!(open("/none").await, ToolError::failed("the page answered with status 404"));
    let down = "the page answered with status 502".to_owned();
    assert_eq!(open("/down").await, ToolError::Transient(down));
    let picture = "the page is image/png, which cannot be read as text";
    assert_eq!(open("/picture").await, ToolError::failed(picture));
    let inside = "that host is not on the public internet (private)";
    assert_eq!(open("/inside").await, ToolError::failed(inside));
}

/// A4: by default, the model cannot open internal pages.
#[tokio::test]
async fn pages_on_this_machine_are_not_opened() {
    let (site, _) = site().await;
    let arguments = json!({ "action": "open_page", "url": format!("{site}/page") });
    let refused = look(&EgressOptions::default(), arguments, &Arc::default()).await;
    let message = "that host is not on the public internet (loopback)";
    assert_eq!(refused, Err(ToolError::failed(message)));
}

#[tokio::test]
async fn a_request_narrows_the_pages_too() {
    let (site, egress) = site().await;
    let settings = json!({ "filters": { "allowed_domains": ["rust-lang.org"] } });
    let arguments = json!({ "action": "open_page", "url": format!("{site}/page") });
    let options = WebSearchOptions::new("http://127.0.0.1:9");
    let refused = call(options, egress, arguments, settings, &Arc::default()).await;
    let message = "the request does not allow pages of that domain";
    assert_eq!(refused, Err(ToolError::failed(message)));
    let (site, egress) = self::site().await;
    let settings = json!({ "external_web_access": false });
    let arguments = json!({ "action": "open_page", "url": format!("{site}/page") });
    let options = WebSearchOptions::new("http://127.0.0.1:9");
    let refused = call(options, egress, arguments, settings, &Arc::default()).await;
    let message = "the request does not allow pages to be opened";
    assert_eq!(refused, Err(ToolError::failed(message)));
}

#[tokio::test]
async fn an_operator_may_keep_pages_shut() {
    let (site, egress) = site().await;
    let options =
        WebSearchOptions { open_pages: false, ..WebSearchOptions::new("http://127.0.0.1:9") };
    let tool = WebSearch::new(options.clone(), Egress::new(&egress).unwrap()).unwrap();
    assert_eq!(tool.spec().parameters["properties"].get("url"), None);
    let arguments = json!({ "action": "open_page", "url": format!("{site}/page") });
    let refused = call(options, egress, arguments, Value::Null, &Arc::default()).await;
    let message = "pages cannot be opened here, only searched for";
    assert_eq!(refused, Err(ToolError::failed(message)));
}
