//! Quotas and budgets: every surface keeps them, and says so.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::future::join_all;
use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use turnwire_contract::{Scope, Timestamp, Usage};
use turnwire_engine::{ClockAndIds, Quota, QuotaOptions};
use turnwire_models::{Price, Priced, Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};
use turnwire_testkit::{Behaviour, FakeTool, services::postgres_url};

use crate::{
    tenants::new_key,
    world::{Plan, World},
};

/// 2026-11-17T10:49:30Z.
const NOON: i64 = 1_794_912_570_000_000;
const SECOND: i64 = 1_000_000;

fn clock() -> Arc<ClockAndIds> {
    Arc::new(ClockAndIds::by_hand(Timestamp::from_micros(NOON)))
}

fn talkative() -> Plan {
    let usage = Usage { input_tokens: 6, output_tokens: 4, ..Usage::default() };
    Plan::with_model(Scripted::new([Turn::new().text("Hi.").usage(usage)]).looping())
}

fn per_tenant(quota: Quota) -> QuotaOptions {
    QuotaOptions { per_tenant: quota, ..QuotaOptions::default() }
}

fn requests(max: u64) -> QuotaOptions {
    per_tenant(Quota { requests_per_minute: Some(max), ..Quota::default() })
}

struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

async fn ask(world: &World, key: Option<&str>, path: &str, body: &Value) -> Got {
    let mut request = world.request(Method::POST, path).json(body);
    if let Some(key) = key {
        request = request.bearer_auth(key);
    }
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let text = response.text().await.unwrap();
    Got { status, headers, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
}

/// Every surface that starts runs admits as many requests as the quota allows, says what is left,
/// refuses one more, and admits it in the next minute.
#[tokio::test]
async fn every_surface_keeps_a_rate() {
    let message = json!({ "role": "user", "content": "?" });
    let part = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": "?" }] });
    let surfaces = [
        ("/v1/responses", json!({ "input": "?" })),
        ("/v1/responses", json!({ "input": "?", "stream": true })),
        ("/v1/responses", json!({ "input": "?", "background": true })),
        ("/v1/responses/compact", json!({ "model": "default", "input": "?" })),
        ("/v1/chat/completions", json!({ "model": "default", "messages": [message] })),
        ("/chat", json!({ "message": "?" })),
        ("/chat/stream", json!({ "message": "?" })),
        ("/ai-sdk/chat", json!({ "messages": [part], "trigger": "submit-message" })),
        (
            "/ag-ui",
            json!({ "protocolVersion": "1.0", "messages": [{ "id": "m", "role": "user", "content": "?" }] }),
        ),
    ];
    for (path, body) in surfaces {
        let clock = clock();
        let world = talkative().quotas(requests(2), &clock).start().await;
        let ask = async |n: u32| {
            // Surfaces that name chats and runs get new ones.
            let mut body = body.clone();
            match path {
                "/ai-sdk/chat" => body["id"] = json!(format!("c{n}")),
                "/ag-ui" => {
                    body["runId"] = json!(format!("r{n}"));
                    body["threadId"] = json!(format!("t{n}"));
                }
                _ => {}
            }
            ask(&world, None, path, &body).await
        };
        for (n, left) in [(1, "1"), (2, "0")] {
            let got = ask(n).await;
            assert_eq!(got.status, StatusCode::OK, "{path}: {}", got.body);
            assert_eq!(got.header("x-ratelimit-limit-requests"), Some("2"), "{path}");
            assert_eq!(got.header("x-ratelimit-remaining-requests"), Some(left), "{path}");
            assert_eq!(got.header("x-ratelimit-reset-requests"), Some("30s"), "{path}");
            assert_eq!(got.header("x-ratelimit-limit-tokens"), None, "{path}");
        }
        let refused = ask(3).await;
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS, "{path}: {}", refused.body);
        assert_eq!(refused.body["error"]["code"], "rate_limit_exceeded", "{path}");
        assert_eq!(refused.header("retry-after"), Some("30"), "{path}");
        assert_eq!(refused.header("x-ratelimit-remaining-requests"), Some("0"), "{path}");
        clock.set(Timestamp::from_micros(NOON + 30 * SECOND));
        let again = ask(4).await;
        assert_eq!(again.status, StatusCode::OK, "{path}: {}", again.body);
        assert_eq!(again.header("x-ratelimit-reset-requests"), Some("1m0s"), "{path}");
        let (_, metrics) = world.get("/metrics").await;
        let line = "turnwire_limits_reached_total{limit=\"quotas.requests_per_minute\"} 1";
        assert!(metrics.as_str().unwrap().contains(line), "{path}");
        world.close().await;
    }
}

/// Sockets keep a rate, too: the socket stays open, and the turn is refused.
#[tokio::test]
async fn sockets_keep_a_rate() {
    let clock = clock();
    let world = talkative().quotas(requests(2), &clock).start().await;
    let mut socket = world.socket("/v1/responses").await;
    let create = json!({ "type": "response.create", "input": "?" });
    let is_over = |message: &Value| message["type"] == "response.completed";
    for _ in 0..2 {
        socket.send(create.clone()).await;
        socket.until(is_over).await;
    }
    socket.send(create).await;
    let refused = socket.next().await.unwrap();
    assert_eq!(refused["error"]["code"], "rate_limit_exceeded", "{refused:#}");
    let id = world.session().await;
    let mut chat = world.socket("/ws/chat").await;
    chat.send(json!({ "type": "message", "conversation_id": id, "content": "?" })).await;
    let refused = chat.next().await.unwrap();
    assert_eq!(refused["type"], "error", "{refused:#}");
    world.close().await;
}

/// Tokens are counted when a turn is over: one more request is refused once they are used up.
#[tokio::test]
async fn tokens_are_counted() {
    let clock = clock();
    let quota = Quota { tokens_per_minute: Some(20), ..Quota::default() };
    let world = talkative().quotas(per_tenant(quota), &clock).start().await;
    let body = json!({ "input": "?" });
    for left in ["20", "10"] {
        let got = ask(&world, None, "/v1/responses", &body).await;
        assert_eq!(got.status, StatusCode::OK, "{}", got.body);
        assert_eq!(got.header("x-ratelimit-limit-tokens"), Some("20"));
        assert_eq!(got.header("x-ratelimit-remaining-tokens"), Some(left));
        assert_eq!(got.header("x-ratelimit-limit-requests"), None);
    }
    let refused = ask(&world, None, "/v1/responses", &body).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.body["error"]["code"], "rate_limit_exceeded");
    clock.set(Timestamp::from_micros(NOON + 30 * SECOND));
    assert_eq!(ask(&world, None, "/v1/responses", &body).await.status, StatusCode::OK);
    world.close().await;
}

/// A quota of a key leaves its siblings alone, and a quota of a tenant leaves other tenants alone.
#[tokio::test]
async fn others_are_not_touched() {
    let clock = clock();
    let quotas = QuotaOptions {
        per_key: Quota { requests_per_minute: Some(1), ..Quota::default() },
        ..requests(2)
    };
    let world = talkative().quotas(quotas, &clock).start().await;
    let scopes = || [Scope::RunsRead, Scope::RunsWrite];
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(new_key(&world, "acme", scopes()).await.text);
    }
    let other = new_key(&world, "other", scopes()).await.text;
    let start = async |key: &str| {
        let got = ask(&world, Some(key), "/v1/responses", &json!({ "input": "?" })).await;
        (got.status, got.body["error"]["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(start(&keys[0]).await.0, StatusCode::OK);
    let (status, message) = start(&keys[0]).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(message.starts_with("The key has used"), "{message}");
    assert_eq!(start(&keys[1]).await.0, StatusCode::OK, "another key of the tenant");
    let (status, message) = start(&keys[2]).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert!(message.starts_with("The tenant has used"), "{message}");
    assert_eq!(start(&other).await.0, StatusCode::OK, "another tenant");
    world.close().await;
}

/// What starts no run counts as no request: a mistake, and a repetition that finds its run.
#[tokio::test]
async fn only_runs_are_counted() {
    let clock = clock();
    let world = talkative().quotas(requests(2), &clock).start().await;
    let body = json!({ "input": "?" });
    for _ in 0..3 {
        let wrong = json!({ "input": "?", "model": "no such model" });
        let wrong = ask(&world, None, "/v1/responses", &wrong).await;
        assert_eq!(wrong.status, StatusCode::NOT_FOUND, "{}", wrong.body);
        let request = world.request(Method::POST, "/v1/responses").json(&body);
        let again = request.header("idempotency-key", "k").send().await.unwrap();
        assert_eq!(again.status(), StatusCode::OK);
    }
    assert_eq!(ask(&world, None, "/v1/responses", &body).await.status, StatusCode::OK);
    let refused = ask(&world, None, "/v1/responses", &body).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    world.close().await;
}

/// A thousandth of a unit per token.
const PRICE: Price =
    Price { input: 1_000_000_000_000, cached_input: 1_000_000_000_000, output: 1_000_000_000_000 };

/// A budget warns, then ends the run that uses it up before its next turn, then refuses new runs
/// for the rest of the month.
#[tokio::test]
async fn a_budget_warns_ends_and_refuses() {
    let usage = Usage { input_tokens: 40, ..Usage::default() };
    let turns = [
        Turn::new().text("Cheap.").usage(usage),
        Turn::new().text("Cheap.").usage(usage),
        Turn::new().call("t", json!({})).usage(usage),
        Turn::new().text("Never said."),
    ];
    let model = Priced::new(Arc::new(Scripted::new(turns)), PRICE);
    let tool = FakeTool::new("t", Behaviour::Returns("r".to_owned()));
    let clock = clock();
    // Three turns of 0.04 use it up.
    let quota = Quota { cost_nanos_per_month: Some(100_000_000), ..Quota::default() };
    let plan = Plan::new([]).only_model(Arc::new(model)).server("m", [tool]);
    let world = plan.quotas(per_tenant(quota), &clock).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "?", "tools": tools });
    for _ in 0..2 {
        let got = ask(&world, None, "/v1/responses", &body).await;
        assert_eq!(got.body["status"], "completed", "{}", got.body);
        assert_eq!(got.header("turnwire-quota-warning"), None);
    }
    let got = ask(&world, None, "/v1/responses", &body).await;
    let warning = "80% of the budget of the tenant for this month is used";
    assert_eq!(got.header("turnwire-quota-warning"), Some(warning));
    assert_eq!(got.status, StatusCode::OK);
    assert_eq!(got.body["status"], "incomplete", "{}", got.body);
    assert_eq!(got.body["incomplete_details"]["reason"], "insufficient_quota");
    let refused = ask(&world, None, "/v1/responses", &body).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.body["error"]["code"], "insufficient_quota");
    assert_eq!(refused.header("x-should-retry"), Some("false"));
    assert!(refused.header("retry-after").is_some());
    let (_, metrics) = world.get("/metrics").await;
    let metrics = metrics.as_str().unwrap();
    assert!(metrics.contains("turnwire_runs_near_budget_total 1"), "{metrics}");
    assert!(metrics.contains("runs_incomplete_total{reason=\"insufficient_quota\"} 1"));
    world.close().await;
}

const EXCHANGE_EVERY: Duration = Duration::from_millis(100);
const LIMIT: u64 = 60;

/// Three servers on one PostgreSQL under load admit the limit, and at most what the other two admit
/// within two exchanges more.
///
/// A request is admitted at some time between its start and its end. So what ended two exchanges
/// before the last admitted request of a server began was seen by that server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_keep_a_rate_together() {
    let (url, clock) = (postgres_url(), clock());
    let mut worlds = Vec::new();
    for _ in 0..3 {
        let store = Store::open(StoreOptions::at(url.as_str())).await.unwrap();
        let quotas = QuotaOptions { exchange_every: EXCHANGE_EVERY, ..requests(LIMIT) };
        let world = talkative().quotas(quotas, &clock).on(&store).start().await;
        worlds.push((world, store));
    }
    // 30 requests a second to each: without the others, each would admit the whole limit.
    let load = worlds.iter().map(async |(world, _)| {
        let mut admitted = Vec::new();
        let mut due = interval(Duration::from_millis(33));
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut n_refused = 0;
        while n_refused < 10 {
            due.tick().await;
            let began = Instant::now();
            let got = ask(world, None, "/v1/responses", &json!({ "input": "?" })).await;
            match got.status {
                StatusCode::OK => admitted.push((began, Instant::now())),
                StatusCode::TOO_MANY_REQUESTS => n_refused += 1,
                other => panic!("{other}: {}", got.body),
            }
        }
        admitted
    });
    let admitted = join_all(load).await;
    let n_admitted: usize = admitted.iter().map(Vec::len).sum();
    let limit = usize::try_from(LIMIT).unwrap();
    assert!(n_admitted >= limit, "{n_admitted} admitted");
    // An exchange takes a while on a busy machine, as requests do.
    let slowest = admitted.iter().flatten().map(|(began, ended)| *ended - *began).max().unwrap();
    let unseen_for = 2 * (EXCHANGE_EVERY + slowest) + Duration::from_millis(400);
    for (node, times) in admitted.iter().enumerate() {
        let Some((last, _)) = times.last() else { continue };
        let others = admitted.iter().enumerate().filter(|(other, _)| *other != node);
        let unseen = others.flat_map(|(_, times)| times);
        let unseen = unseen.filter(|(_, ended)| *ended + unseen_for >= *last);
        let most = limit + unseen.count();
        assert!(n_admitted <= most, "{n_admitted} admitted, at most {most} by server {node}");
    }
    for (world, store) in worlds {
        world.close().await;
        store.close().await;
    }
}

async fn read(world: &World, key: &str, path: &str) -> (StatusCode, Value) {
    let response = world.request(Method::GET, path).bearer_auth(key).send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

/// Everybody sees what their tenant and their key used and have left; a tenant that used nothing
/// sees nothing of another; whoever manages a tenant sees each key, and nobody else's.
#[tokio::test]
async fn usage_is_shown_to_whom_it_belongs() {
    let quota = |requests| Quota {
        requests_per_minute: Some(requests),
        cost_nanos_per_month: Some(2_500_000_000),
        ..Quota::default()
    };
    let options =
        QuotaOptions { per_tenant: quota(5), per_key: quota(2), ..QuotaOptions::default() };
    let clock = clock();
    let world = talkative().quotas(options, &clock).start().await;
    let usual = [Scope::RunsRead, Scope::RunsWrite];
    let [one, two] = [new_key(&world, "acme", usual).await, new_key(&world, "acme", usual).await];
    let stranger = new_key(&world, "other", [Scope::RunsRead, Scope::Admin]).await.text;
    let admin = new_key(&world, "acme", [Scope::Admin]).await.text;
    let operator = new_key(&world, "ops", [Scope::Operator]).await.text;
    for key in [&one, &one, &two] {
        let done = ask(&world, Some(&key.text), "/v1/responses", &json!({ "input": "?" })).await;
        assert_eq!(done.status, StatusCode::OK, "{}", done.body);
    }
    let line = |of: &str, max: u64, used: u64| {
        json!({
            "quota": "requests_per_minute", "of": of, "max": max, "used": used,
            "remaining": max - used, "since": Timestamp::from_micros(NOON - 30 * SECOND),
            "resets_at": Timestamp::from_micros(NOON + 30 * SECOND),
        })
    };
    let (status, usage) = read(&world, &one.text, "/v1/usage").await;
    assert_eq!(status, StatusCode::OK, "{usage}");
    assert_eq!(usage["tenant"], "acme");
    let quotas = usage["quotas"].as_array().unwrap();
    assert_eq!(quotas.len(), 4, "{usage:#}");
    assert!(quotas.contains(&line("tenant", 5, 3)), "{usage:#}");
    assert!(quotas.contains(&line("key", 2, 2)), "{usage:#}");
    let cost = quotas.iter().find(|line| line["quota"] == "cost_per_month").unwrap();
    assert_eq!((&cost["max"], &cost["used"]), (&json!(2.5), &json!(0.0)), "{cost}");
    assert!(cost["resets_at"].as_str().unwrap().starts_with("2026-12-01T00:00:00"), "{cost}");
    let (_, usage) = read(&world, &one.text, "/v1/usage").await;
    assert!(usage["quotas"].as_array().unwrap().contains(&line("tenant", 5, 3)), "reading is free");

    let (_, usage) = read(&world, &stranger, "/v1/usage").await;
    assert_eq!(usage["tenant"], "other");
    let used =
        usage["quotas"].as_array().unwrap().iter().map(|line| line["used"].as_f64().unwrap());
    assert!(used.sum::<f64>() == 0.0, "{usage:#}");
    assert!(!usage.to_string().contains("acme"), "{usage:#}");

    let (status, _) = read(&world, &one.text, "/v1/admin/usage").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    for (key, path) in [(&admin, "/v1/admin/usage"), (&operator, "/v1/admin/usage?tenant=acme")] {
        let (status, list) = read(&world, key, path).await;
        assert_eq!(status, StatusCode::OK, "{list}");
        let lines = list["data"].as_array().unwrap();
        assert!(lines[0].get("key_id").is_none(), "{list:#}");
        assert!(lines[0]["quotas"].as_array().unwrap().contains(&line("tenant", 5, 3)), "{list:#}");
        let of = |key_id: &str| {
            let found = lines.iter().find(|line| line["key_id"] == key_id);
            found.unwrap_or_else(|| panic!("{list:#}"))["quotas"].as_array().unwrap().clone()
        };
        assert!(of(&one.key_id).contains(&line("key", 2, 2)), "{list:#}");
        assert!(of(&two.key_id).contains(&line("key", 2, 1)), "{list:#}");
        assert_eq!(lines.len(), 3, "{list:#}");
        assert_eq!(lines[1]["name"], "of acme", "{list:#}");
    }
    let (status, _) = read(&world, &stranger, "/v1/admin/usage?tenant=acme").await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let (_, list) = read(&world, &stranger, "/v1/admin/usage").await;
    assert_eq!(list["data"].as_array().unwrap().len(), 1, "{list:#}");
    world.close().await;
}

/// A place that is taken until its run ends.
async fn begin(world: &World, key: &str) -> Got {
    let body = json!({
        "input": "?", "background": true, "tools": [{ "type": "function", "name": "wait" }],
    });
    ask(world, Some(key), "/v1/responses", &body).await
}

/// Three servers on one PostgreSQL hold a limit of runs at once together, within what they admit in
/// two seconds; a place is free again when a run ends, on whichever server.
#[tokio::test(flavor = "multi_thread")]
async fn runs_at_once_hold_over_servers() {
    const EXCHANGE_EVERY: Duration = Duration::from_millis(100);
    let (url, clock) = (postgres_url(), Arc::new(ClockAndIds::system()));
    let quota = |max| Quota { runs_at_once: Some(max), ..Quota::default() };
    let mut worlds = Vec::new();
    for _ in 0..3 {
        let store = Store::open(StoreOptions::at(url.as_str())).await.unwrap();
        let quotas = QuotaOptions {
            per_tenant: quota(4),
            per_key: quota(2),
            exchange_every: EXCHANGE_EVERY,
            ..QuotaOptions::default()
        };
        let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
        let plan = Plan::with_model(Scripted::new([Turn::new().call("wait", json!({}))]).looping());
        let world =
            plan.tool(waits).quotas(quotas, &clock).on(&store).keys_of(&store).start().await;
        worlds.push((world, store));
    }
    let first = &worlds[0].0;
    let usual = [Scope::RunsRead, Scope::RunsWrite];
    let mut keys = Vec::new();
    for _ in 0..3 {
        keys.push(new_key(first, "acme", usual).await.text);
    }
    let stranger = new_key(first, "other", usual).await.text;
    // What a server knows of the others is two exchanges old.
    let seen = async || tokio::time::sleep(4 * EXCHANGE_EVERY).await;
    let mut ids = Vec::new();
    for (n, (key, expected)) in
        [(0, true), (0, true), (0, false), (1, true), (1, true), (2, false)].into_iter().enumerate()
    {
        seen().await;
        let world = &worlds[n % 3].0;
        let got = begin(world, &keys[key]).await;
        if expected {
            assert_eq!(got.status, StatusCode::OK, "{n}: {}", got.body);
            ids.push(got.body["id"].clone());
        } else {
            assert_eq!(got.status, StatusCode::TOO_MANY_REQUESTS, "{n}: {}", got.body);
            assert_eq!(got.body["error"]["code"], "rate_limit_exceeded", "{}", got.body);
            assert_eq!(got.header("retry-after"), Some("1"));
        }
    }
    let (_, usage) = read(&worlds[2].0, &keys[0], "/v1/usage").await;
    let lines = usage["quotas"].as_array().unwrap();
    let used: Vec<_> =
        lines.iter().map(|line| (&line["of"], &line["max"], &line["used"])).collect();
    let expected = [("tenant", 4, 4), ("key", 2, 2)]
        .map(|(of, max, used)| (json!(of), json!(max), json!(used)));
    assert_eq!(used, expected.iter().map(|(of, max, used)| (of, max, used)).collect::<Vec<_>>());
    let other = begin(&worlds[1].0, &stranger).await;
    assert_eq!(other.status, StatusCode::OK, "another tenant has places of its own");
    let cancel = async |id: &Value, key: &str| {
        let path = format!("/v1/responses/{}/cancel", id.as_str().unwrap());
        let cancelled = ask(first, Some(key), &path, &json!({})).await;
        assert_eq!(cancelled.status, StatusCode::OK, "{}", cancelled.body);
    };
    // A run of the second server ends.
    cancel(&ids.remove(1), &keys[0]).await;
    let until = Instant::now() + Duration::from_secs(10);
    let last = loop {
        let got = begin(&worlds[2].0, &keys[2]).await;
        if got.status == StatusCode::OK {
            break got.body["id"].clone();
        }
        assert!(Instant::now() < until, "the place is not free");
        seen().await;
    };
    cancel(&other.body["id"], &stranger).await;
    for id in ids.iter().chain([&last]) {
        cancel(id, &keys[0]).await;
    }
    for (world, store) in worlds {
        world.close().await;
        store.close().await;
    }
}

/// An upload that does not fit is refused, one that fits is not, and what is deleted makes room.
#[tokio::test]
async fn stored_bytes_are_limited() {
    let clock = clock();
    let options = per_tenant(Quota { stored_bytes: Some(100), ..Quota::default() });
    let world = talkative().quotas(options, &clock).start().await;
    let usual = [Scope::RunsRead, Scope::Files];
    let key = new_key(&world, "acme", usual).await.text;
    let stranger = new_key(&world, "other", usual).await.text;
    let upload = async |key: &str, n_bytes: usize| {
        let body = format!(
            "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n--x\r\n\
             content-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n{}\r\n\
             --x--\r\n",
            "x".repeat(n_bytes)
        );
        let request = world.request(Method::POST, "/v1/files").bearer_auth(key).body(body);
        let request = request.header("content-type", "multipart/form-data; boundary=x");
        let response = request.send().await.unwrap();
        (response.status(), response.json::<Value>().await.unwrap())
    };
    let (status, first) = upload(&key, 60).await;
    assert_eq!(status, StatusCode::OK, "{first}");
    let (status, refused) = upload(&key, 41).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{refused}");
    assert_eq!(refused["error"]["code"], "insufficient_quota", "{refused}");
    assert_eq!(upload(&key, 40).await.0, StatusCode::OK);
    assert_eq!(upload(&key, 1).await.0, StatusCode::TOO_MANY_REQUESTS, "all is used");
    assert_eq!(upload(&stranger, 100).await.0, StatusCode::OK);
    let (_, usage) = read(&world, &key, "/v1/usage").await;
    let line = &usage["quotas"][0];
    assert_eq!((&line["quota"], &line["used"]), (&json!("stored_bytes"), &json!(100)), "{usage}");
    assert!(line.get("resets_at").is_none(), "{line}");
    let path = format!("/v1/files/{}", first["id"].as_str().unwrap());
    let deleted = world.request(Method::DELETE, &path).bearer_auth(&key).send().await.unwrap();
    assert_eq!(deleted.status(), StatusCode::OK);
    assert_eq!(upload(&key, 60).await.0, StatusCode::OK);
    world.close().await;
}
