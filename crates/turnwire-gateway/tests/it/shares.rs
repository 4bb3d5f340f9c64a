//! Share links of runs.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use futures::StreamExt;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;
use turnwire_contract::{Item, RunRequest, TenantId};
use turnwire_gateway::{AdmissionLimits, AuthOptions};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World, data_of};

const KEY: &str = "tw_secret";

/// A server with a key, and a run that has ended.
async fn world() -> (World, String) {
    let turns = [Turn::new().text("Hm. ").call("t", json!({ "n": 1 })), Turn::new().text("Done.")];
    let turns = turns.into_iter().cycle().take(100);
    let plan = Plan::new(turns).tool(FakeTool::new("t", Behaviour::Returns("r".to_owned())));
    let plan = plan.options(|options| {
        options.auth = AuthOptions { api_keys: vec![KEY.to_owned()], ..AuthOptions::default() };
    });
    let world = plan.start().await;
    let run = run(&world).await;
    (world, run)
}

async fn with_key(world: &World, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
    let request = world.request(method, path).bearer_auth(KEY).json(&body);
    let response = request.send().await.unwrap();
    let status = response.status();
    (status, response.json().await.unwrap_or_default())
}

async fn run(world: &World) -> String {
    let asked = world.request(Method::POST, "/chat").bearer_auth(KEY);
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let asked = asked.header("traceparent", parent).json(&json!({ "message": "Go" }));
    assert_eq!(asked.send().await.unwrap().status(), StatusCode::OK);
    let (_, runs) = with_key(world, Method::GET, "/v1/runs", json!({})).await;
    runs["data"][0]["run_id"].as_str().unwrap().to_owned()
}

async fn share(world: &World, run: &str, body: Value) -> Value {
    let (status, made) =
        with_key(world, Method::POST, &format!("/v1/runs/{run}/share"), body).await;
    assert_eq!(status, StatusCode::OK, "{made:#}");
    made
}

async fn shared(world: &World, token: &str) -> StatusCode {
    let path = format!("/v1/shared/{token}");
    let statuses = [
        world.get(&path).await.0,
        world.request(Method::GET, &format!("{path}/events")).send().await.unwrap().status(),
    ];
    assert_eq!(statuses[0], statuses[1], "{token}");
    statuses[0]
}

/// A link shows the run without a key, as the owner sees it, and nothing else; it is listed without
/// its token, and revoked.
#[tokio::test]
async fn a_link_shows_one_run_until_it_is_revoked() {
    let (world, run) = world().await;
    let made = share(&world, &run, json!({ "expires_in_sec": 60 })).await;
    let token = made["token"].as_str().unwrap();
    assert_eq!(
        (&made["path"], &made["redact"]),
        (&json!(format!("/#/shared/{token}")), &json!(false))
    );
    let (_, mut snapshot) = world.get(&format!("/v1/shared/{token}")).await;
    let of_link = snapshot.as_object_mut().unwrap();
    assert_eq!(of_link.remove("redact"), Some(json!(false)));
    assert_eq!(of_link.remove("expires_at"), Some(made["expires_at"].clone()));
    let (_, own) = with_key(&world, Method::GET, &format!("/v1/runs/{run}"), json!({})).await;
    assert_eq!(snapshot, own);
    let events = world.request(Method::GET, &format!("/v1/shared/{token}/events"));
    let own = world.request(Method::GET, &format!("/v1/runs/{run}/events")).bearer_auth(KEY);
    let own = world.text(own).await;
    let (before, rest) = own.split_once("\"asked_by\":{").expect("the owner sees who asked");
    let (hidden, rest) = rest.split_once("\"model\":").unwrap();
    assert!(hidden.contains("\"traceparent\":"), "the owner sees in which trace: {hidden}");
    assert_eq!(world.text(events).await, format!("{before}\"model\":{rest}"));
    for (method, path) in [
        (Method::GET, format!("/v1/runs/{run}")),
        (Method::POST, format!("/v1/runs/{run}/cancel")),
        (Method::GET, "/v1/runs".to_owned()),
    ] {
        let request = world.request(method, &path).bearer_auth(token);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    let path = format!("/v1/runs/{run}/shares");
    let (_, listed) = with_key(&world, Method::GET, &path, json!({})).await;
    assert_eq!(listed["data"][0]["share_id"], made["share_id"]);
    assert!(!listed.to_string().contains(token.rsplit_once('.').unwrap().1));
    let path = format!("{path}/{}", made["share_id"].as_str().unwrap());
    assert_eq!(with_key(&world, Method::DELETE, &path, json!({})).await.0, StatusCode::OK);
    assert_eq!(with_key(&world, Method::DELETE, &path, json!({})).await.0, StatusCode::NOT_FOUND);
    assert_eq!(shared(&world, token).await, StatusCode::NOT_FOUND);
    world.close().await;
}

/// Of 1,000 tries with a link that is forged, expired, revoked, of another tenant, or of another
/// run, none gets through.
#[tokio::test]
async fn no_other_link_gets_through() {
    let (world, one) = world().await;
    let other = run(&world).await;
    let mut theirs = RunRequest::new("default", vec![Item::user("Secret")]);
    theirs.tenant = TenantId::from("other");
    let theirs = world.app.runs().start(theirs).await.unwrap().id().to_string();
    let path = format!("/v1/runs/{theirs}/share");
    assert_eq!(with_key(&world, Method::POST, &path, json!({})).await.0, StatusCode::NOT_FOUND);
    let good = share(&world, &one, json!({})).await["token"].as_str().unwrap().to_owned();
    let second = share(&world, &other, json!({})).await["token"].as_str().unwrap().to_owned();
    let redacted = share(&world, &one, json!({ "redact": true })).await;
    let redacted = redacted["token"].as_str().unwrap().to_owned();
    let revoked = share(&world, &one, json!({})).await;
    let path = format!("/v1/runs/{one}/shares/{}", revoked["share_id"].as_str().unwrap());
    with_key(&world, Method::DELETE, &path, json!({})).await;
    let short = share(&world, &one, json!({ "expires_in_sec": 1 })).await;
    let short = short["token"].as_str().unwrap();
    assert_eq!(shared(&world, short).await, StatusCode::OK);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let (id, signature) = good.rsplit_once('.').unwrap();
    let (other_id, other_signature) = second.rsplit_once('.').unwrap();
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap();
    let mut tries = vec![
        short.to_owned(),
        revoked["token"].as_str().unwrap().to_owned(),
        format!("{other_id}.{signature}"),
        format!("{id}.{other_signature}"),
        format!("{}.{signature}", redacted.rsplit_once('.').unwrap().0),
        format!("{one}.{signature}"),
        format!("{other}.{signature}"),
        format!("{theirs}.{signature}"),
        format!("{id}."),
        id.to_owned(),
        format!(".{signature}"),
        format!("{id}.{signature}{signature}"),
    ];
    // Every bit of the signature, and every byte of the id.
    for n in 0..bytes.len() * 8 {
        let mut forged = bytes.clone();
        forged[n / 8] ^= 1 << (n % 8);
        tries.push(format!("{id}.{}", BASE64_URL_SAFE_NO_PAD.encode(&forged)));
    }
    for n in 0..id.len() {
        for with in ["0", "z"] {
            let forged = format!("{}{with}{}", &id[..n], &id[n + 1..]);
            tries.extend((forged != id).then(|| format!("{forged}.{signature}")));
        }
    }
    for n in 0..1_000_usize.saturating_sub(tries.len()) {
        let forged: Vec<u8> =
            (0..32).map(|m| u8::try_from((n * 31 + m * 7) % 256).unwrap()).collect();
        tries.push(format!("{id}.{}", BASE64_URL_SAFE_NO_PAD.encode(&forged)));
    }
    assert!(tries.len() >= 1_000);
    for token in &tries {
        let (status, body) = world.get(&format!("/v1/shared/{token}")).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{token}: {body:#}");
    }
    assert_eq!(shared(&world, &good).await, StatusCode::OK, "the good one still works");
    world.close().await;
}

/// 50 canaries in everything that people, models and tools contribute: none of them is in the bytes
/// of a redacted link, and all of them are in those of an open one.
#[tokio::test]
async fn a_redacted_link_leaks_nothing() {
    let canary = |n: usize| format!("CANARY{n:02}");
    let tool = |n: usize, behaviour| FakeTool::new(&format!("tool_{n}"), behaviour);
    let works = tool(1, Behaviour::Returns(format!("{} {}", canary(1), canary(2))));
    let fails = tool(2, Behaviour::Fails(format!("{} {}", canary(3), canary(4))));
    let mut turns = Vec::new();
    let mut n = 4;
    let mut next = || {
        n += 1;
        canary(n)
    };
    for name in ["tool_1", "tool_2", "tool_none"].into_iter().cycle().take(15) {
        let arguments = json!({ (next()): next() });
        turns.push(Turn::new().text(next()).call(name, arguments));
    }
    turns.push(Turn::new().text(next()));
    let (message, conversation) = (next(), next());
    assert!(n >= 50, "{n}");
    let world = Plan::new(turns).tool(works).tool(fails).start().await;
    let metadata = json!({ "title": conversation });
    let (_, made) = world.post("/v1/conversations", json!({ "metadata": metadata })).await;
    let body = json!({ "message": message, "session_id": made["id"] });
    world.post("/chat", body).await;
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap();
    assert_eq!(runs["data"][0]["n_calls"], 15, "{runs:#}");
    let (_, own) = world.get(&format!("/v1/runs/{run}")).await;
    let call = own["calls"][0]["call_id"].as_str().unwrap();
    let mut seen = [0, 0];
    for (place, redact) in [(0, false), (1, true)] {
        let (_, made) =
            world.post(&format!("/v1/runs/{run}/share"), json!({ "redact": redact })).await;
        let path = format!("/v1/shared/{}", made["token"].as_str().unwrap());
        let mut bytes = String::new();
        for path in [
            path.clone(),
            format!("{path}/events"),
            format!("{path}/events?snapshot=true"),
            format!("{path}/events?format=ndjson"),
            format!("{path}/events?format=ndjson&snapshot=true&follow=false"),
            format!("{path}/calls/{call}/result"),
        ] {
            bytes += &world.text(world.request(Method::GET, &path)).await;
        }
        seen[place] = (1..=n).filter(|n| bytes.contains(&canary(*n))).count();
        assert!(bytes.contains("tool_1") && bytes.contains("run_finished"), "{bytes}");
    }
    assert_eq!(seen[1], 0, "canaries in a redacted link");
    assert_eq!(seen[0], n - 1, "all but the name of the conversation are in an open link");
    world.close().await;
}

/// Whoever has a link reads a large result to its end, also in ranges; a link that withholds
/// texts has only what stands in its place, however it is asked.
#[tokio::test]
async fn a_link_has_the_whole_of_a_large_result() {
    let large = format!("{}END", "x".repeat(200_000));
    let returns = FakeTool::new("t", Behaviour::Returns(large.clone()));
    let turns = [Turn::new().call("t", json!({})), Turn::new().text("Done.")];
    let world = Plan::new(turns).tool(returns).start().await;
    world.post("/chat", json!({ "message": "Go" })).await;
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap();
    let (_, own) = world.get(&format!("/v1/runs/{run}")).await;
    let call = own["calls"][0]["call_id"].as_str().unwrap();
    let read = async |redact: bool, range: Option<&str>| {
        let path = format!("/v1/runs/{run}/share");
        let (_, made) = world.post(&path, json!({ "redact": redact })).await;
        let token = made["token"].as_str().unwrap();
        let (_, shared) = world.get(&format!("/v1/shared/{token}")).await;
        assert_eq!(
            (&shared["redact"], &shared["expires_at"]),
            (&json!(redact), &made["expires_at"])
        );
        let path = format!("/v1/shared/{token}/calls/{call}/result");
        let request = world.request(Method::GET, &path);
        let request = range.iter().fold(request, |request, range| request.header("range", *range));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(read(false, None).await, (200, large));
    assert_eq!(read(false, Some("bytes=200000-")).await, (206, "END".to_owned()));
    assert_eq!(read(true, None).await, (200, "[redacted]".to_owned()));
    assert_eq!(read(true, Some("bytes=200000-")).await.0, 416);
    let (_, made) = world.post(&format!("/v1/runs/{run}/share"), json!({})).await;
    let path = format!("/v1/shared/{}/calls", made["token"].as_str().unwrap());
    for wrong in [format!("{path}/other/result"), path.replace('.', ".A") + "/c/result"] {
        assert_eq!(world.get(&wrong).await.0, StatusCode::NOT_FOUND, "{wrong}");
    }
    world.close().await;
}

/// A21, A13: the full results that nobody reads are few: as many as may be are given, and a further
/// reader waits until one of them is gone, and is refused if that takes long. Meanwhile readers of
/// links do not wait for callers with a key, nor these for them.
#[tokio::test]
async fn few_full_results_are_in_memory() {
    // More than the sockets of both sides hold.
    let large = "x".repeat(16_000_000);
    let returns = FakeTool::new("t", Behaviour::Returns(large.clone()));
    let turns = [Turn::new().call("t", json!({})), Turn::new().text("Done.")];
    let plan = Plan::new(turns).tool(returns).options(|options| {
        options.admission.readers_per_tenant = 128;
        options.admission.results_per_tenant = 2;
    });
    let world = plan.start().await;
    world.post("/chat", json!({ "message": "Go" })).await;
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap();
    let (_, own) = world.get(&format!("/v1/runs/{run}")).await;
    let call = own["calls"][0]["call_id"].as_str().unwrap();
    let (_, made) = world.post(&format!("/v1/runs/{run}/share"), json!({})).await;
    let token = made["token"].as_str().unwrap();
    let of_link = world.url(&format!("/v1/shared/{token}/calls/{call}/result"));
    let of_caller = world.url(&format!("/v1/runs/{run}/calls/{call}/result"));
    let client = || reqwest::Client::builder().no_proxy().build().unwrap();
    let read = |path: &str| client().get(path).send();
    for (path, other) in [(&of_link, &of_caller), (&of_caller, &of_link)] {
        let mut stuck = vec![read(path).await.unwrap(), read(path).await.unwrap()];
        assert!(stuck.iter().all(|response| response.status() == StatusCode::OK));
        let answered = async { read(other).await.unwrap().text().await.unwrap() };
        let (refused, answered) = tokio::join!(read(path), answered);
        assert_eq!(answered.len(), large.len());
        let refused = refused.unwrap();
        assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS, "a third is in memory");
        assert!(refused.headers().contains_key("retry-after"));
        let refused: Value = refused.json().await.unwrap();
        assert_eq!(refused["error"]["code"], "too_many_results");
        let mut third = Box::pin(read(path));
        let waits = timeout(Duration::from_millis(500), &mut third).await;
        assert!(waits.is_err(), "a third result is in memory");
        stuck.pop();
        let third = timeout(Duration::from_secs(20), third).await.expect("there is a place");
        assert_eq!(third.unwrap().text().await.unwrap().len(), large.len());
    }
    world.close().await;
}

/// A link of a live run follows it, and ends when it is revoked.
#[tokio::test]
async fn a_live_link_follows_and_ends() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let world = Plan::new([Turn::new().call("wait", json!({}))]).tool(waits).start().await;
    let body = json!({ "message": "?" });
    let stream = world.request(Method::POST, "/chat/stream").json(&body).send().await.unwrap();
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap().to_owned();
    let (_, made) = world.post(&format!("/v1/runs/{run}/share"), json!({ "redact": true })).await;
    let path = format!("/v1/shared/{}/events", made["token"].as_str().unwrap());
    let events = world.request(Method::GET, &path).send().await.unwrap();
    let mut events = events.bytes_stream();
    let share = made["share_id"].as_str().unwrap();
    world.delete(&format!("/v1/runs/{run}/shares/{share}")).await;
    let rest = async {
        let mut text = String::new();
        while let Some(Ok(bytes)) = events.next().await {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        text
    };
    let text = tokio::time::timeout(Duration::from_secs(15), rest).await.expect("it ends");
    assert!(!data_of(&text).is_empty() && !text.contains("run_finished"), "{text}");
    drop(stream);
    world.post(&format!("/v1/runs/{run}/cancel"), json!({})).await;
    world.close().await;
}

/// What cannot be is refused, and a run has at most 100 links.
#[tokio::test]
async fn links_are_limited() {
    let (world, run) = world().await;
    let path = format!("/v1/runs/{run}/share");
    for seconds in [json!(0), json!(2_592_001), json!("1")] {
        let body = json!({ "expires_in_sec": seconds });
        let (status, refused) = with_key(&world, Method::POST, &path, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert_eq!(refused["error"]["param"], "expires_in_sec");
    }
    for _ in 0..100 {
        share(&world, &run, json!({})).await;
    }
    let (status, refused) = with_key(&world, Method::POST, &path, json!({})).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (StatusCode::CONFLICT, &json!("too_many_shares"))
    );
    world.close().await;
}

/// A world with a key, and a link to a run that waits.
async fn world_with_reader(change: impl FnOnce(Plan) -> Plan) -> (World, String) {
    let model = Scripted::new([Turn::new().call("wait", json!({}))]).looping();
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let plan = Plan::with_model(model).server("m", [waits]).options(|options| {
        let metrics_token = Some("metrics".to_owned());
        let api_keys = vec![KEY.to_owned()];
        options.auth = AuthOptions { api_keys, metrics_token, ..AuthOptions::default() };
        options.admission.readers_per_address = 1_000;
    });
    let world = change(plan).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "Wait.", "background": true, "tools": tools });
    let (status, run) = with_key(&world, Method::POST, "/v1/responses", body).await;
    assert_eq!(status, StatusCode::OK, "{run:#}");
    let (_, runs) = with_key(&world, Method::GET, "/v1/runs", json!({})).await;
    let made = share(&world, runs["data"][0]["run_id"].as_str().unwrap(), json!({})).await;
    (world, made["token"].as_str().unwrap().to_owned())
}

/// Opens a stream of a link, over a connection of its own.
async fn follow(world: &World, token: &str) -> reqwest::Response {
    let path = world.url(&format!("/v1/shared/{token}/events"));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    client.get(path).send().await.unwrap()
}

/// Opens streams until one is refused. Returns the number of open ones, and the refusal.
async fn follow_until_refused(world: &World, token: &str) -> (Vec<reqwest::Response>, Value) {
    let mut open = Vec::new();
    loop {
        let response = follow(world, token).await;
        if response.status() == StatusCode::OK {
            open.push(response);
            assert!(open.len() < 100, "nothing is refused");
            continue;
        }
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert!(response.headers().contains_key("retry-after"));
        return (open, response.json().await.unwrap());
    }
}

async fn reached(world: &World, limit: &str) -> String {
    let metrics = world.text(world.request(Method::GET, "/metrics").bearer_auth(KEY)).await;
    let line = format!("turnwire_limits_reached_total{{limit=\"limits.{limit}\"}} ");
    metrics.lines().find_map(|found| found.strip_prefix(&line)).unwrap().to_owned()
}

/// A21: readers of a link get a tenth of the connections and none of those of callers with a key;
/// when one leaves, another may come.
#[tokio::test]
async fn readers_never_take_the_last_connection() {
    let (world, token) =
        world_with_reader(|plan| plan.limits(|limits| limits.connections = 30)).await;
    let (mut readers, refusal) = follow_until_refused(&world, &token).await;
    assert_eq!(refusal["error"]["code"], "too_many_readers");
    assert_eq!(readers.len(), 3);
    assert_eq!(reached(&world, "max_connections").await, "1");
    let mut callers = Vec::new();
    // The test itself has a connection or two.
    for n in 0..27 {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let asked = client.get(world.url("/v1/runs")).bearer_auth(KEY).send().await.unwrap();
        assert_eq!(asked.status(), StatusCode::OK, "caller {n}");
        callers.push((client, asked.text().await.unwrap()));
    }
    drop(readers.pop());
    let comes = async { while follow(&world, &token).await.status() != StatusCode::OK {} };
    timeout(Duration::from_secs(20), comes).await.expect("there is a place again");
    drop((callers, readers));
    world.close().await;
}

/// A21, A13: a link, a tenant and an address have so many readers; one more is refused, and the
/// limit is counted.
#[tokio::test]
async fn a_link_a_tenant_and_an_address_have_so_many_readers() {
    type Change = fn(&mut AdmissionLimits);
    let cases: [(&str, Change); 3] = [
        ("max_readers_per_link", |limits| limits.readers_per_link = 4),
        ("max_readers_per_tenant", |limits| limits.readers_per_tenant = 4),
        ("max_readers_per_address", |limits| limits.readers_per_address = 4),
    ];
    for (limit, change) in cases {
        let plan = |plan: Plan| plan.options(|options| change(&mut options.admission));
        let (world, token) = world_with_reader(plan).await;
        let (readers, refusal) = follow_until_refused(&world, &token).await;
        assert_eq!(refusal["error"]["code"], "too_many_readers", "{limit}");
        assert_eq!(readers.len(), 4, "{limit}");
        assert_eq!(reached(&world, limit).await, "1");
        drop(readers);
        world.close().await;
    }
}

/// A21: whoever has the metrics token only takes none of the last places either, and invented links
/// and keys take none.
#[tokio::test]
async fn nobody_without_a_key_takes_the_last_connection() {
    let (world, token) =
        world_with_reader(|plan| plan.limits(|limits| limits.connections = 10)).await;
    let (id, _) = token.rsplit_once('.').unwrap();
    let forged = format!("/v1/shared/{id}.AAAA");
    let mut open = Vec::new();
    for n in 0..90 {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let (path, key, expected) = match n % 6 {
            0 => ("/metrics", "metrics", Some(StatusCode::OK)),
            1 => ("/v1/runs", "wrong", Some(StatusCode::UNAUTHORIZED)),
            2 => (forged.as_str(), "", Some(StatusCode::NOT_FOUND)),
            3 => ("/openapi.json", "", Some(StatusCode::OK)),
            // The page may not be part of the build.
            4 => ("/", "", None),
            _ => ("/healthz", "", Some(StatusCode::OK)),
        };
        let asked = client.get(world.url(path)).bearer_auth(key).send().await.unwrap();
        assert_eq!(asked.status(), expected.unwrap_or(asked.status()), "{path}");
        open.push((client, asked.text().await.unwrap()));
    }
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let asked = client.get(world.url("/v1/runs")).bearer_auth(KEY).send().await.unwrap();
    assert_eq!(asked.status(), StatusCode::OK);
    world.close().await;
}
