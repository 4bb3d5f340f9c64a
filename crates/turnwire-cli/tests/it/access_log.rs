//! Requests in the log.

use reqwest::StatusCode;
use serde_json::Value;

use crate::{
    serve::{DEMO, Gateway, quick, status_of},
    world::World,
};

const KEY: &str = "a-key-nobody-should-see";

/// A12: each request is one line, refused ones too, with who made it and its request ID, and
/// without keys and share tokens.
#[tokio::test]
async fn every_request_is_a_line() {
    let world = quick()
        .with("TURNWIRE_LOG", "warn,turnwire::access=info")
        .with("TURNWIRE_LOG_FORMAT", "json")
        .with("TURNWIRE_API_KEYS", KEY);
    let mut gateway = Gateway::start(&world, &DEMO);
    assert_eq!(status_of(gateway.get("/v1/models")).await, StatusCode::UNAUTHORIZED);
    let named =
        gateway.get("/v1/models?secret=yes").bearer_auth(KEY).header("x-request-id", "mine");
    assert_eq!(status_of(named).await, StatusCode::OK);
    assert_eq!(status_of(gateway.get("/v1/shared/a-token")).await, StatusCode::NOT_FOUND);
    assert_eq!(status_of(gateway.get("/v1/shared/a-token/x")).await, StatusCode::NOT_FOUND);
    assert_eq!(status_of(gateway.get("/nothing").bearer_auth(KEY)).await, StatusCode::NOT_FOUND);
    gateway.signal("TERM");
    let log = gateway.finish().stderr;
    let lines: Vec<Value> =
        log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let [refused, listed, shared, wrong, nothing] = lines.as_slice() else { panic!("{log}") };
    assert_eq!((&refused["status"], &refused["code"]), (&401.into(), &"missing_api_key".into()));
    assert!(refused["request_id"].is_string() && refused.get("tenant").is_none(), "{refused}");
    assert_eq!((&listed["path"], &listed["status"]), (&"/v1/models".into(), &200.into()));
    assert_eq!((&listed["request_id"], &listed["tenant"]), (&"mine".into(), &"default".into()));
    assert!(listed["key_id"].as_str().unwrap().starts_with("settings_"), "{listed}");
    assert_eq!(shared["path"], "/v1/shared/{token}");
    assert_eq!(wrong["path"], "/v1/shared/…");
    assert_eq!(nothing["path"], "/nothing");
    for secret in [KEY, "a-token", "secret=yes"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn an_unknown_format_is_told() {
    let done = World::new().with("TURNWIRE_LOG_FORMAT", "xml").run(&DEMO);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("`xml`: there are `text`, `json`"), "{}", done.stderr);
}
