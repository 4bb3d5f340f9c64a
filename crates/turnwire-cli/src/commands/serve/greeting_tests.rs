//! The lines that are printed at the start.

use turnwire_tools::McpServerOptions;

use super::*;
use crate::{
    args::{ColorChoice, ServeArguments},
    environment::Environment,
};

fn settings(variables: &[(&str, &str)], demo: bool) -> ServeSettings {
    let arguments = ServeArguments { demo, ..ServeArguments::default() };
    ServeSettings::read(&arguments, &variables.iter().copied().collect()).unwrap()
}

fn greeting(address: &str, settings: &ServeSettings) -> Vec<String> {
    greeting_of(address, settings, !settings.auth.api_keys.is_empty())
}

fn greeting_of(address: &str, settings: &ServeSettings, needs_key: bool) -> Vec<String> {
    let paint = Paint::choose(ColorChoice::Never, &Environment::default(), false);
    let served = Served { tools: vec!["file_search"], needs_key };
    let lines = lines(address.parse().unwrap(), settings, &served, paint);
    lines.iter().map(|line| line.replace(env!("CARGO_PKG_VERSION"), "VERSION")).collect()
}

#[test]
fn the_demo_says_where_everything_is() {
    let mut settings = settings(&[], true);
    settings.tool_servers = [("docs".to_owned(), McpServerOptions::http("http://d"))].into();
    assert_eq!(
        greeting("127.0.0.1:7878", &settings),
        [
            "turnwire VERSION listens on http://127.0.0.1:7878",
            "  Web view     http://127.0.0.1:7878/",
            "  Responses    http://127.0.0.1:7878/v1/responses",
            "  Chat         http://127.0.0.1:7878/chat and http://127.0.0.1:7878/chat/stream",
            "  WebSocket    ws://127.0.0.1:7878/ws/chat",
            "  Runs         http://127.0.0.1:7878/v1/runs",
            "  OpenAPI      http://127.0.0.1:7878/openapi.json",
            "  Models       scripted (default); `scripted` answers for any other name",
            "  Tools        file_search",
            "  Tool servers demo (multiply), ci (deploy_check), git (delete_branch), docs (connecting)",
            "  Keys         none: every program on this machine may use it",
            "  Kept         in memory: the last 10000 runs, until this process ends",
            "Point an OpenAI SDK at it: OPENAI_BASE_URL=http://127.0.0.1:7878/v1 OPENAI_API_KEY=none",
            "Open the web view and ask: Check the release and clean the old branch",
        ]
    );
}

/// A server whose keys are in its store does not say that it needs none.
#[test]
fn keys_of_the_store_are_told() {
    let lines = greeting_of("127.0.0.1:7878", &settings(&[], true), true);
    let expected = "  Keys         those of the store: `turnwire keys list`";
    assert!(lines.iter().any(|line| line == expected), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("OPENAI_API_KEY=none")), "{lines:#?}");
}

#[test]
fn a_server_for_everybody_says_where_this_machine_finds_it() {
    let url = ("OPENAI_BASE_URL", "http://localhost:11434/v1");
    let mut settings = settings(&[url, ("TURNWIRE_MODEL", "qwen3:8b")], false);
    settings.auth.api_keys = vec!["a".into(), "b".into()];
    assert_eq!(
        greeting("0.0.0.0:80", &settings),
        [
            "turnwire VERSION listens on http://0.0.0.0:80",
            "  Web view     http://127.0.0.1:80/",
            "  Responses    http://127.0.0.1:80/v1/responses",
            "  Chat         http://127.0.0.1:80/chat and http://127.0.0.1:80/chat/stream",
            "  WebSocket    ws://127.0.0.1:80/ws/chat",
            "  Runs         http://127.0.0.1:80/v1/runs",
            "  OpenAPI      http://127.0.0.1:80/openapi.json",
            "  Models       qwen3:8b (default); any other name goes to http://localhost:11434/v1",
            "  Tools        file_search",
            "  Keys         2: send one as `Authorization: Bearer KEY`",
            "  Kept         in the file turnwire.db; finished runs for 7 days",
            "Point an OpenAI SDK at it: OPENAI_BASE_URL=http://127.0.0.1:80/v1 OPENAI_API_KEY=…",
        ]
    );
}

#[test]
fn where_runs_are_kept_is_told_without_the_password() {
    let mut store = StoreOptions::at("postgres://user:secret@db.example.com/runs?sslmode=require");
    assert_eq!(
        kept(Some(&store)),
        "in PostgreSQL at db.example.com/runs; finished runs for 7 days"
    );
    store.fanout = Some("redis://:secret@cache/".to_owned());
    store.retention = None;
    assert_eq!(
        kept(Some(&store)),
        "in PostgreSQL at db.example.com/runs, notifications by Redis; finished runs for ever"
    );
}

#[test]
fn no_name_for_the_model_is_explained() {
    let settings = settings(&[("OPENAI_BASE_URL", "http://localhost:11434/v1")], false);
    let greeting = greeting("[::]:80", &settings).join("\n");
    assert!(greeting.contains("requests without one ask for `default`"), "{greeting}");
    assert!(greeting.contains("http://[::1]:80/v1/responses"), "{greeting}");
}
