//! Requests that wait for the end of a run that fails: with an error status if no tool has acted,
//! so that official clients raise, and with the failed response otherwise.

use std::time::Duration;

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use turnwire_contract::ModelError;
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

/// What came of a request.
struct Got {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn post(world: &World, path: &str, body: Value, key: Option<&str>) -> Got {
    let mut request = world.request(Method::POST, path).json(&body);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Got { status, headers, body: response.json().await.unwrap() }
}

fn message() -> String {
    "as the test wants it".to_owned()
}

/// A gateway whose model fails like this, for good.
async fn failing(error: &ModelError) -> World {
    let turns = std::iter::repeat_n(error, 6).map(|error| Turn::fails(error.clone()));
    let plan = Plan::new(turns).options(|options| options.limits.model_attempts = 1);
    plan.start().await
}

/// An error of the model, and what a client is told about it: the status, the family, the official
/// code, ours, the seconds to wait, and whether to send the request again.
type Row = (ModelError, u16, &'static str, &'static str, &'static str, Option<&'static str>, bool);

fn table() -> Vec<Row> {
    let wait = Some(Duration::from_millis(7_200));
    let (invalid, server) = ("invalid_request_error", "server_error");
    vec![
        (
            ModelError::RateLimited { message: message(), retry_after: wait },
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            "model_rate_limited",
            Some("8"),
            true,
        ),
        (
            ModelError::RateLimited { message: message(), retry_after: None },
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
            "model_rate_limited",
            Some("2"),
            true,
        ),
        (
            ModelError::Unavailable { message: message(), retry_after: wait },
            503,
            server,
            server,
            "model_unavailable",
            Some("8"),
            true,
        ),
        (
            ModelError::Broken { message: message() },
            502,
            server,
            server,
            "model_broke_off",
            None,
            true,
        ),
        (
            ModelError::Misconfigured { message: message() },
            500,
            server,
            server,
            "model_misconfigured",
            None,
            false,
        ),
        (
            ModelError::UnknownModel { message: message() },
            404,
            invalid,
            "model_not_found",
            "model_not_found",
            None,
            false,
        ),
        (
            ModelError::ContextTooLong { message: message() },
            400,
            invalid,
            "context_length_exceeded",
            "context_length_exceeded",
            None,
            false,
        ),
        (
            ModelError::ContentFiltered { message: message() },
            400,
            invalid,
            "invalid_prompt",
            "content_filtered",
            None,
            false,
        ),
        (
            ModelError::Rejected { message: message() },
            400,
            invalid,
            "invalid_prompt",
            "model_rejected",
            None,
            false,
        ),
    ]
}

/// A plain request whose run fails before any tool acts has an error status that says who can do
/// what; on `/v1/responses`, `/chat` and `compact` alike. The run is kept, and a header names it.
#[tokio::test]
async fn a_failed_run_is_an_error_status() {
    for (error, status, kind, code, own, wait, again) in table() {
        let world = failing(&error).await;
        let asked = [
            ("/v1/responses", json!({ "input": "?" })),
            ("/chat", json!({ "message": "?" })),
            ("/v1/responses/compact", json!({ "model": "default", "input": "?" })),
        ];
        for (path, body) in asked {
            let got = post(&world, path, body, None).await;
            assert_eq!(got.status, status, "{path}: {:#}", got.body);
            let told = &got.body["error"];
            assert_eq!((&told["type"], &told["code"]), (&json!(kind), &json!(code)), "{told:#}");
            assert_eq!(told["turnwire"]["code"], own);
            assert_eq!(told["param"], Value::Null);
            assert!(!told["message"].as_str().unwrap().contains(&message()), "A12: {told}");
            assert_eq!(got.header("retry-after"), wait, "{path}, {own}");
            let should_retry = if again { "true" } else { "false" };
            assert_eq!(got.header("x-should-retry"), Some(should_retry), "{path}, {own}");
            match path {
                "/v1/responses" => is_kept(&world, &got, own).await,
                "/chat" => {
                    let run = got.header("turnwire-run-id").unwrap();
                    let (status, run) = world.get(&format!("/v1/runs/{run}")).await;
                    assert_eq!((status, &run["status"]), (StatusCode::OK, &json!("failed")));
                }
                // What sums up a conversation is forgotten at once.
                _ => assert!(got.header("turnwire-response-id").is_none()),
            }
        }
        world.close().await;
    }
}

/// The header names a response that can be fetched and says why it failed.
async fn is_kept(world: &World, got: &Got, own: &str) {
    let id = got.header("turnwire-response-id").unwrap();
    let (status, response) = world.get(&format!("/v1/responses/{id}")).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("failed")));
    assert_eq!(response["error"]["turnwire"]["code"], own);
    assert_eq!(response["error"]["message"], got.body["error"]["message"]);
}

/// Streams and runs in the background have begun to be answered by then: they say it in their own
/// way, with the retry time beside the code.
#[tokio::test]
async fn streams_and_background_runs_are_answered_as_before() {
    let wait = Some(Duration::from_secs(7));
    let world = failing(&ModelError::RateLimited { message: message(), retry_after: wait }).await;
    let events = world.stream(json!({ "input": "?" })).await;
    let [.., error, failed] = events.as_slice() else { panic!("{events:#?}") };
    assert_eq!(
        (&error["code"], &failed["type"]),
        (&json!("rate_limit_exceeded"), &json!("response.failed"))
    );
    assert_eq!(error["error"]["type"], "rate_limit_error");
    let own = json!({ "code": "model_rate_limited", "retry_after_ms": 7_000 });
    assert_eq!((&error["turnwire"], &failed["response"]["error"]["turnwire"]), (&own, &own));
    let got =
        post(&world, "/v1/responses", json!({ "input": "?", "background": true }), None).await;
    assert_eq!((got.status, &got.body["status"]), (200, &json!("queued")));
    world.close().await;
}

/// Once a tool has acted, an error status would invite the official clients to let it act again:
/// the answer is the failed response, and on `/chat`, which has no place for it, the code says so.
#[tokio::test]
async fn a_run_whose_tool_has_acted_is_still_a_response() {
    let turns = || {
        let error = ModelError::RateLimited { message: message(), retry_after: None };
        [Turn::new().call("act", json!({})), Turn::fails(error)]
    };
    let act = || FakeTool::new("act", Behaviour::Returns("done".into()));
    let one_try = |plan: Plan| plan.options(|options| options.limits.model_attempts = 1);
    let world = one_try(Plan::new(turns()).server("m", [act()])).start().await;
    let server = json!({ "type": "mcp", "server_label": "m", "require_approval": "never" });
    let got = post(&world, "/v1/responses", json!({ "input": "?", "tools": [server] }), None).await;
    assert_eq!((got.status, &got.body["status"]), (200, &json!("failed")));
    assert_eq!(got.body["error"]["code"], "rate_limit_exceeded");
    world.close().await;

    let world = one_try(Plan::new(turns()).tool(act())).start().await;
    let got = post(&world, "/chat", json!({ "message": "?" }), None).await;
    assert_eq!((got.status, &got.body["error"]["code"]), (502, &json!("no_answer")));
    world.close().await;
}

/// C9: the same key finds the same run, also a failed one, and official clients are told not to
/// send it again by themselves: it would bring the same answer.
#[tokio::test]
async fn a_key_finds_the_failed_run() {
    let wait = Some(Duration::from_secs(7));
    let world = failing(&ModelError::RateLimited { message: message(), retry_after: wait }).await;
    for (path, body, name) in [
        ("/v1/responses", json!({ "input": "?" }), "turnwire-response-id"),
        ("/chat", json!({ "message": "?" }), "turnwire-run-id"),
    ] {
        let first = post(&world, path, body.clone(), Some("key-1")).await;
        let again = post(&world, path, body, Some("key-1")).await;
        for got in [&first, &again] {
            assert_eq!(got.status, 429);
            assert_eq!(got.header("retry-after"), Some("7"));
            assert_eq!(got.header("x-should-retry"), Some("false"));
        }
        assert!(first.header(name).is_some());
        assert_eq!(first.header(name), again.header(name));
        assert_eq!(first.body, again.body);
    }
    assert_eq!(world.model.prompts().len(), 2, "each was asked once");
    world.close().await;
}

/// A response that is not stored cannot be fetched, so nothing names it.
#[tokio::test]
async fn what_is_not_stored_is_not_named() {
    let world = failing(&ModelError::Misconfigured { message: message() }).await;
    let got = post(&world, "/v1/responses", json!({ "input": "?", "store": false }), None).await;
    assert_eq!((got.status, got.header("turnwire-response-id")), (500, None));
    world.close().await;
}
