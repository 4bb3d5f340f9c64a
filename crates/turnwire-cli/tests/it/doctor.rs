//! `turnwire doctor`: what works, what does not, what to do, and an exit code for scripts.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::world::{Done, World};

/// A server that answers every request with the same thing; its address.
fn answering(status: &'static str, body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap_or(0) > 0 {}
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
            // Whoever has hung up wants no answer.
            let _ = write!(
                connection,
                "{head}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
        }
    });
    address
}

const MODELS: &str = r#"{"object":"list","data":[{"id":"qwen3:8b","object":"model"}]}"#;
const FOUND: &str = r#"{"results":[{"url":"https://a.example/","title":"A"}]}"#;

fn settings(model: &str, search: &str) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n\n[models.default]\nkind = \"chat_completions\"\n\
         base_url = \"{model}/v1\"\nmodel = \"qwen3:8b\"\n\n[web_search]\nprovider = \"searxng\"\n\
         base_url = \"{search}\"\n"
    )
}

fn checks(done: &Done) -> (bool, Vec<(String, String, String)>) {
    let report: Value = serde_json::from_str(&done.stdout).expect(&done.stdout);
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap().iter();
    let checks =
        checks.map(|check| (text(check, "subject"), text(check, "status"), check.to_string()));
    (report["ok"].as_bool().unwrap(), checks.collect())
}

fn statuses(done: &Done) -> Vec<String> {
    checks(done).1.into_iter().map(|(subject, status, _)| format!("{subject}: {status}")).collect()
}

#[test]
fn all_is_well_where_everything_answers() {
    let file = settings(&answering("200 OK", MODELS), &answering("200 OK", FOUND));
    let done = World::new().with_file("turnwire.toml", &file).run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let expected =
        ["settings: ok", "model default: ok", "store: ok", "web search: ok", "listen: ok"];
    assert_eq!(statuses(&done), expected);
    assert!(checks(&done).0);
}

/// `SearXNG` answers 403 to `format=json` until its operator has allowed it.
#[test]
fn a_searxng_that_refuses_json_is_explained() {
    let file = settings(&answering("200 OK", MODELS), &answering("403 FORBIDDEN", "no"));
    let world = World::new().with_file("turnwire.toml", &file);
    let done = world.run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let (ok, checks) = checks(&done);
    let (_, status, search) = checks.iter().find(|(subject, ..)| subject == "web search").unwrap();
    assert!(!ok && status == "broken", "{search}");
    assert!(search.contains("search.formats") && search.contains("settings.yml"), "{search}");
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("    - json"), "{}", done.stdout);
    assert!(done.stdout.ends_with("1 thing is broken\n"), "{}", done.stdout);
}

#[test]
fn what_is_not_there_is_broken() {
    let nobody = "http://127.0.0.1:9";
    let file = format!(
        "{}\n[mcp_servers.docs]\nurl = \"{nobody}/mcp\"\n\n[egress]\nopen_networks = \
         [\"10.0.0.0/8\"]\n\n[store]\nurl = \"sqlite://no/such/folder/t.db\"\n",
        settings(nobody, nobody)
    );
    let world = World::new().with_file("turnwire.toml", &file).with("HTTP_PROXY", "http://p:3128");
    let world = world.with("NO_PROXY", "127.0.0.1");
    let done = world.run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let expected = [
        "settings: ok",
        "model default: broken",
        "tool server docs: broken",
        "store: broken",
        "web search: broken",
        "egress: warning",
        "listen: ok",
        "proxies: warning",
    ];
    assert_eq!(statuses(&done), expected);
}

#[test]
fn a_key_that_is_not_taken_and_a_model_that_is_not_there_are_told() {
    let file = settings(&answering("401 UNAUTHORIZED", "{}"), &answering("200 OK", FOUND));
    let done = World::new().with_file("turnwire.toml", &file).run(&["doctor", "--json"]);
    let (_, found) = checks(&done);
    assert!(found[1].2.contains("the key was rejected (status 401)"), "{}", found[1].2);
    let other = r#"{"data":[{"id":"qwen3:4b"}]}"#;
    let file = settings(&answering("200 OK", other), &answering("200 OK", FOUND));
    let done = World::new().with_file("turnwire.toml", &file).run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(0), "a warning breaks nothing: {done:?}");
    let (_, found) = checks(&done);
    assert!(found[1].2.contains("did you mean `qwen3:4b`?"), "{}", found[1].2);
}

/// Each upstream of a model is checked.
#[test]
fn every_upstream_is_checked() {
    let (there, not_there) = (answering("200 OK", MODELS), "http://127.0.0.1:9");
    let file = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[models.default]\nkind = \"chat_completions\"\n\
         model = \"qwen3:8b\"\n[[models.default.upstreams]]\nname = \"own\"\nbase_url = \
         \"{there}/v1\"\n[[models.default.upstreams]]\nbase_url = \"{not_there}/v1\"\n"
    );
    let done = World::new().with_file("turnwire.toml", &file).run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let expected = [
        "settings: ok",
        "model default, upstream own: ok",
        "model default, upstream 127.0.0.1:9: broken",
        "store: ok",
        "listen: ok",
    ];
    assert_eq!(statuses(&done), expected);
}

/// Settings that cannot be read are the first thing to know, and every mistake is told.
#[test]
fn mistakes_in_the_settings_are_told() {
    let file = "[web_search]\nprovider = \"searxgn\"\nbase_url = \"http://s\"\n[limts]\n";
    let world = World::new().with_file("turnwire.toml", file).with("OPENAI_API_KEY", "k");
    let done = world.run(&["doctor"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("did you mean `searxng`?"), "{}", done.stdout);
    assert!(done.stdout.contains("did you mean `limits`?"), "{}", done.stdout);
}
