//! What `/metrics` counts, where that is written, and who can make it grow.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use turnwire_contract::{ModelError, ObservedRun, Observer, RecordedEvent, RunObserver, Usage};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

async fn metrics(world: &World) -> String {
    world.text(world.request(Method::GET, "/metrics")).await
}

/// The names as they are queried, without the suffixes of histograms.
fn families(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let name = |line: &str| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    };
    types.map(name).collect()
}

/// All series with their labels.
fn series(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap()
}

fn documented() -> BTreeSet<String> {
    let pages = file("docs/metrics.md");
    let rows = pages.lines().filter_map(|line| line.strip_prefix("| `turnwire_"));
    rows.map(|row| format!("turnwire_{}", row.split_once('`').unwrap().0)).collect()
}

/// A server that has done nothing exports every metric of docs/metrics.md and no other.
#[tokio::test]
async fn the_list_of_metrics_is_complete() {
    let world = Plan::new([]).start().await;
    let exported = families(&metrics(&world).await);
    assert_eq!(exported, documented(), "docs/metrics.md and the server differ");
    world.close().await;
}

/// The dashboard and the alerts use no metric that does not exist.
#[test]
fn dashboards_and_alerts_use_metrics_that_exist() {
    let known = documented();
    let text =
        file("deploy/grafana/dashboards/turnwire.json") + &file("deploy/prometheus/alerts.yml");
    let is_part = |char: char| char.is_ascii_lowercase() || char == '_';
    let words = text.split(|char| !is_part(char)).filter(|word| word.starts_with("turnwire_"));
    let mut n_used = 0;
    for word in words {
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
        let name = family.unwrap_or(word);
        assert!(known.contains(name) || word == "turnwire_", "{word} does not exist");
        n_used += 1;
    }
    assert!(n_used > 20, "{n_used} names found");
}

/// What a run does is counted once, by model, tool and outcome, from its events.
#[tokio::test]
async fn a_run_is_counted() {
    let usage = Usage { input_tokens: 10, cached_tokens: 4, output_tokens: 2, ..Usage::default() };
    let busy = ModelError::Unavailable { message: "busy".to_owned(), retry_after: None };
    let turns = [
        Turn::fails(busy),
        Turn::new().call("look", json!({})).usage(usage),
        Turn::new().text("Done.").usage(usage),
    ];
    let slow = Behaviour::Returns("r".to_owned());
    let store = Store::in_memory().await.unwrap();
    let plan = Plan::new(turns).server("files", [FakeTool::new("look", slow)]);
    let plan = plan.store(store.clone()).log(store.clone()).workers(store.clone());
    let world = plan.start().await;
    let tools = json!([{ "type": "mcp", "server_label": "files", "require_approval": "never" }]);
    let response = world.respond(json!({ "input": "?", "tools": tools })).await;
    let text = metrics(&world).await;
    for (series, expected) in [
        ("runs_started_total", 1.0),
        ("runs_finished_total{outcome=\"completed\"}", 1.0),
        ("runs_finished_total{outcome=\"failed\"}", 0.0),
        ("run_duration_seconds_count", 1.0),
        ("turns_total{model=\"default\",finish=\"called_tools\"}", 1.0),
        ("turns_total{model=\"default\",finish=\"answered\"}", 1.0),
        ("turn_retries_total{model=\"default\"}", 1.0),
        ("turn_duration_seconds_count{model=\"default\"}", 2.0),
        ("time_to_first_token_seconds_count{model=\"default\"}", 2.0),
        ("tokens_total{model=\"default\",type=\"input\"}", 20.0),
        ("tokens_total{model=\"default\",type=\"cached\"}", 8.0),
        ("tokens_total{model=\"default\",type=\"output\"}", 4.0),
        ("tool_calls_total{kind=\"mcp\",server=\"files\",outcome=\"succeeded\"}", 1.0),
        ("tool_call_duration_seconds_count{kind=\"mcp\",server=\"files\"}", 1.0),
        ("tool_listings_total{server=\"files\",outcome=\"listed\"}", 1.0),
        ("store_available", 1.0),
        ("journal_appends_waiting", 0.0),
        ("notification_lag_seconds_count", 0.0),
    ] {
        assert!(
            (value(&text, &format!("turnwire_{series}")) - expected).abs() < 1e-9,
            "{series}: {text}"
        );
    }
    let run = response["id"].as_str().unwrap().replace("resp_", "run_");
    let (_, snapshot) = world.get(&format!("/v1/runs/{run}")).await;
    let n_events = value(&text, "turnwire_journal_events_total");
    assert_eq!(Some(n_events), snapshot["last_seq"].as_f64(), "{text}");
    let n_commits = value(&text, "turnwire_journal_commit_seconds_count");
    assert!((1.0..=n_events).contains(&n_commits), "{text}");
    assert!(value(&text, "turnwire_journal_append_seconds_count") >= 1.0, "{text}");
    assert!(value(&text, "turnwire_store_connections_max") >= 1.0, "{text}");
    assert!(value(&text, "turnwire_heartbeat_age_seconds") < 60.0, "{text}");
    world.close().await;
}

/// A failed run has its code, a refused request its own, and a client that comes back is counted.
#[tokio::test]
async fn failures_and_reconnects_are_counted() {
    let broken = ModelError::Rejected { message: "no".to_owned() };
    let world = Plan::new([Turn::fails(broken)]).start().await;
    let (_, failed) =
        world.post("/v1/responses", json!({ "input": "?", "background": true })).await;
    let id = failed["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/runs/{}/events", id.replace("resp_", "run_"));
    let _all = world.text(world.request(Method::GET, &path)).await;
    let _rest = world.text(world.request(Method::GET, &format!("{path}?after=1"))).await;
    let header = world.request(Method::GET, &path).header("Last-Event-ID", "1");
    let _rest = world.text(header).await;
    assert_eq!(world.get("/v1/runs/run_none").await.0, StatusCode::NOT_FOUND);
    let text = metrics(&world).await;
    let count = |series: &str| value(&text, &format!("turnwire_{series}"));
    assert!((count("runs_failed_total{code=\"model_rejected\"}") - 1.0).abs() < 1e-9, "{text}");
    assert!((count("runs_finished_total{outcome=\"failed\"}") - 1.0).abs() < 1e-9, "{text}");
    assert!((count("requests_rejected_total{code=\"not_found\"}") - 1.0).abs() < 1e-9, "{text}");
    assert!((count("streams_resumed_total") - 2.0).abs() < 1e-9, "{text}");
    world.close().await;
}

/// A request with names that nobody has used before.
fn made_up(n: usize) -> Value {
    let tools = json!([
        { "type": "mcp", "server_label": "files", "require_approval": "never" },
        { "type": "function", "name": format!("f{n}"), "parameters": {} },
    ]);
    json!({
        "model": format!("model-{n}"),
        "input": "?",
        "tools": tools,
        "metadata": { format!("k{n}"): format!("v{n}") },
    })
}

/// A client that sends new names all the time creates no series: models that are passed on, tools
/// that a model makes up, paths, queries and headers.
#[tokio::test]
async fn a_client_cannot_create_series() {
    let turns = (0..20).flat_map(|n| {
        [Turn::new().call(format!("made_up_{n}"), json!({})), Turn::new().text("Done.")]
    });
    let look = FakeTool::new("look", Behaviour::Returns("r".to_owned()));
    let plan = Plan::new([]).any_model(Arc::new(Scripted::new(turns))).server("files", [look]);
    let world = plan.start().await;
    let send = async |n: usize| {
        let (status, response) = world.post("/v1/responses", made_up(n)).await;
        assert_eq!(status, StatusCode::OK, "{response:#}");
        let path = format!("/v{n}/nothing?x{n}={n}");
        let odd = world.request(Method::POST, &path).header(format!("x-{n}"), "1");
        let odd = odd.header("traceparent", format!("{n}")).send().await.unwrap();
        assert_eq!(odd.status(), StatusCode::NOT_FOUND);
        let (status, _) = world.post("/v1/responses", json!({ "input": n, "tools": n })).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
    };
    send(0).await;
    let before = series(&metrics(&world).await);
    for n in 1..10 {
        send(n).await;
    }
    let text = metrics(&world).await;
    assert_eq!(series(&text), before);
    assert!(
        value(&text, "turnwire_turns_total{model=\"other\",finish=\"answered\"}") > 9.0,
        "{text}"
    );
    world.close().await;
}

struct Panics;

impl Observer for Panics {
    fn observe(&self, _run: ObservedRun<'_>) -> Box<dyn RunObserver> {
        Box::new(Self)
    }
}

impl RunObserver for Panics {
    fn recall(&mut self, _recorded: &RecordedEvent) {}

    fn note(&mut self, _recorded: &RecordedEvent) {
        panic!("a fault of the observer");
    }

    fn appended(&mut self, _after: Duration) {}
}

/// I9: an observer that panics does not end the run, nor keep others from seeing it.
#[tokio::test]
async fn an_observer_that_panics_ends_no_run() {
    let world = Plan::new([Turn::new().text("Done.")]).start().await;
    world.app.runs().observe_with(Arc::new(Panics));
    let response = world.respond(json!({ "input": "?" })).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    let text = metrics(&world).await;
    assert!(value(&text, "turnwire_runs_finished_total{outcome=\"completed\"}") > 0.5, "{text}");
    world.close().await;
}
