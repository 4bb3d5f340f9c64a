//! The settings are read again on SIGHUP and by an admin call, while streams are open.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio::{
    task::{JoinSet, block_in_place, spawn_blocking},
    time::{Instant, sleep, timeout},
};

use crate::{
    echoing_servers::EchoingModel,
    fake_upstream::{FakeUpstream, Mode},
    otlp_receiver::{OtlpReceiver, text_of},
    serve::{Gateway, json_of, refusal_of, status_of},
    toy::{Toy, path},
    world::{PATIENCE, World},
};

const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];
const N_STREAMS: usize = 200;
const N_RELOADS: usize = 20;
const KEY: &str = "tw_kept";
const RELOADED: &str = "settings reloaded ";

fn model(name: &str, upstream: &FakeUpstream) -> String {
    let url = upstream.url();
    format!("[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\nmodel = \"m\"\n")
}

fn world(settings: &str) -> World {
    World::new()
        .with_file("turnwire.toml", settings)
        .with("TURNWIRE_STORE_URL", "memory:")
        .with("TURNWIRE_LOG", "warn,turnwire=info")
        .with("PATH", &path())
}

fn write(world: &World, settings: &str) {
    std::fs::write(world.path().join("turnwire.toml"), settings).unwrap();
}

/// A gateway whose settings are reloaded by signals, and the log that says so.
struct Reloads<'a> {
    gateway: &'a mut Gateway,
    n_done: usize,
}

impl<'a> Reloads<'a> {
    fn of(gateway: &'a mut Gateway) -> Self {
        Self { gateway, n_done: 0 }
    }

    /// Sends the signal, and waits until the log says that the settings were reloaded.
    fn reload(&mut self) {
        self.n_done += 1;
        self.gateway.signal("HUP");
        let stderr = &mut self.gateway.running().stderr;
        let is_done =
            |seen: &[u8]| String::from_utf8_lossy(seen).matches(RELOADED).count() >= self.n_done;
        block_in_place(|| stderr.wait_until(RELOADED, is_done));
    }
}

fn question(gateway: &Gateway, model: &str) -> RequestBuilder {
    gateway.post("/v1/responses", &json!({ "model": model, "input": "Hello.", "stream": true }))
}

/// The frames of a stream up to its end.
async fn frames_of(response: Response) -> Result<Vec<Value>, String> {
    if response.status() != StatusCode::OK {
        return Err(format!("{}: {:?}", response.status(), response.text().await));
    }
    let text = response.text().await.map_err(|error| error.to_string())?;
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).map_err(|error| error.to_string()))
        .collect()
}

/// Fails unless the stream is whole: its last frame says that it is completed, and its pieces are
/// the numbers from 0, none missing and none twice. Returns how many there are.
async fn n_pieces_of(response: Response) -> Result<usize, String> {
    let frames = frames_of(response).await?;
    let last = frames.last().ok_or("no frame")?;
    if last["type"] != "response.completed" {
        return Err(format!("not completed: {last}"));
    }
    let deltas = frames.iter().filter(|frame| frame["type"] == "response.output_text.delta");
    let text: String = deltas.filter_map(|frame| frame["delta"].as_str()).collect();
    let n_pieces = text.split_whitespace().count();
    let pieces: Vec<String> = (0..n_pieces).map(|n| format!("{n} ")).collect();
    let expected = pieces.concat();
    let whole = &last["response"]["output"][0]["content"][0]["text"];
    if n_pieces == 0 || text != expected || *whole != expected {
        return Err(format!("not whole: {text:?}, {whole}"));
    }
    Ok(n_pieces)
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what} does not happen"));
}

/// SIGHUP under 200 streams: 0 broken. The settings change with every signal: the model of the
/// streams is there, has another weight, or is gone, and so are others, keys, quotas and limits.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_breaks_no_stream() {
    let upstream = FakeUpstream::start(Mode::Counts).await;
    let (usual, other) = (model("default", &upstream), model("other", &upstream));
    let variants = [
        format!("{usual}{other}[limits]\nmax_turns = 7\n"),
        other.clone(),
        format!("{usual}unsupported_parameters = [\"temperature\"]\n{other}"),
        format!("{usual}{other}[quotas.per_tenant]\ntokens_per_minute = 1000000\n"),
    ];
    let world = world(&format!("{usual}{other}"));
    let mut gateway = Gateway::start(&world, &SERVE);
    let mut streams = JoinSet::new();
    for _ in 0..N_STREAMS {
        let question = question(&gateway, "default");
        streams.spawn(async move { n_pieces_of(question.send().await.unwrap()).await });
    }
    until("all streams are asked for", async || upstream.n_asked() == N_STREAMS).await;
    let mut reloads = Reloads::of(&mut gateway);
    for variant in variants.iter().cycle().take(N_RELOADS) {
        write(&world, variant);
        reloads.reload();
    }
    assert_eq!(upstream.n_asked(), N_STREAMS, "no turn was asked for again");
    upstream.becomes(Mode::Answers);
    let mut broken = Vec::new();
    while let Some(stream) = streams.join_next().await {
        broken.extend(stream.unwrap().err());
    }
    assert_eq!(broken, [""; 0], "{} of {N_STREAMS} streams are broken", broken.len());
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));
}

/// A hundred signals in a row, under load, and some while the server stops: none of them ends it,
/// no request fails, and the last settings are in force.
#[tokio::test(flavor = "multi_thread")]
async fn many_signals_are_one_reload_after_the_other() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let world = world(&model("default", &upstream));
    let mut gateway = Gateway::start(&world, &SERVE);
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        let question = question(&gateway, "default");
        clients.spawn(async move {
            for _ in 0..20 {
                let frames = frames_of(question.try_clone().unwrap().send().await.unwrap()).await;
                assert_eq!(frames.unwrap().last().unwrap()["type"], "response.completed");
            }
        });
    }
    let pid = gateway.running().child.id();
    for _ in 0..100 {
        block_in_place(|| crate::world::send_signal(pid, "HUP"));
    }
    write(&world, &(model("default", &upstream) + &model("last", &upstream)));
    gateway.signal("HUP");
    until("the last settings are in force", async || {
        status_of(gateway.get("/v1/models/last")).await == StatusCode::OK
    })
    .await;
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    gateway.signal("HUP");
    gateway.signal("TERM");
    // It may be gone already.
    let _ = std::process::Command::new("kill").args(["-HUP", &pid.to_string()]).status();
    let done = block_in_place(|| gateway.finish());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

/// A model that was added is answered. One that was removed is unknown to new requests, while its
/// run at work ends well.
#[tokio::test(flavor = "multi_thread")]
async fn models_come_and_go() {
    let upstream = FakeUpstream::start(Mode::Counts).await;
    let world = world(&model("old", &upstream));
    let mut gateway = Gateway::start(&world, &SERVE);
    assert_eq!(status_of(question(&gateway, "new")).await, StatusCode::NOT_FOUND);
    let at_work = question(&gateway, "old").send().await.unwrap();
    until("it is asked for", async || upstream.n_asked() == 1).await;
    write(&world, &model("new", &upstream));
    Reloads::of(&mut gateway).reload();
    let refused = refusal_of(question(&gateway, "old")).await;
    assert_eq!(refused, (StatusCode::NOT_FOUND, "model_not_found".to_owned()));
    upstream.becomes(Mode::Answers);
    n_pieces_of(at_work).await.unwrap();
    let answer = frames_of(question(&gateway, "new").send().await.unwrap()).await.unwrap();
    assert_eq!(answer.last().unwrap()["type"], "response.completed");
    let (_, listed) = json_of(gateway.get("/v1/models")).await;
    let names: Vec<&Value> =
        listed["data"].as_array().unwrap().iter().map(|it| &it["id"]).collect();
    assert_eq!(names, ["new"]);
}

/// A16: what was opened with a key of the settings ends within a second after a reload removed the
/// key. What was opened with another one goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_its_key() {
    let upstream = FakeUpstream::start(Mode::Counts).await;
    let settings = |keys: &str| format!("[server]\napi_keys = {keys}\n{}", model("m", &upstream));
    let world = world(&settings("[\"tw_kept\", \"tw_gone\"]"));
    let mut gateway = Gateway::start(&world, &SERVE);
    let open = async |key: &str| question(&gateway, "m").bearer_auth(key).send().await.unwrap();
    let (kept, gone) = (open(KEY).await, open("tw_gone").await);
    until("both are asked for", async || upstream.n_asked() == 2).await;
    write(&world, &settings("[\"tw_kept\", \"tw_new\"]"));
    let mut reloads = Reloads::of(&mut gateway);
    reloads.reload();
    let reloaded = Instant::now();
    let frames = timeout(Duration::from_secs(1), frames_of(gone)).await.expect("it has ended");
    let is_completed = frames
        .is_ok_and(|frames| frames.last().is_some_and(|last| last["type"] == "response.completed"));
    assert!(!is_completed && reloaded.elapsed() < Duration::from_secs(1));
    let refused = refusal_of(gateway.get("/v1/models").bearer_auth("tw_gone")).await;
    assert_eq!(refused, (StatusCode::UNAUTHORIZED, "invalid_api_key".to_owned()));
    for key in [KEY, "tw_new"] {
        assert_eq!(status_of(gateway.get("/v1/models").bearer_auth(key)).await, StatusCode::OK);
    }
    upstream.becomes(Mode::Answers);
    n_pieces_of(kept).await.unwrap();
}

/// A broken file changes nothing and says why, in the log and to whoever asked. What needs a
/// restart is named. Both are in the metrics, and what was put in force is in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_changes_nothing_and_is_told() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let server = "[server]\napi_keys = [\"tw_kept\"]\n";
    let world = world(&format!("{server}{}", model("m", &upstream)));
    let mut gateway = Gateway::start(&world, &SERVE);
    let reload = |gateway: &Gateway| gateway.post("/v1/admin/reload", &json!({})).bearer_auth(KEY);
    let is_there = async |gateway: &Gateway, model: &str| {
        let path = format!("/v1/models/{model}");
        status_of(gateway.get(&path).bearer_auth(KEY)).await == StatusCode::OK
    };
    let with_mistakes =
        format!("{server}{}[limits]\nmax_turns = 0\nno = 1\n", model("n", &upstream));
    write(&world, &with_mistakes);
    let (status, body) = json_of(reload(&gateway)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    assert_eq!(body["error"]["code"], "invalid_settings");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("limits.max_turns") && message.contains("limits.no"), "{message}");
    let stderr = &mut gateway.running().stderr;
    block_in_place(|| {
        stderr.wait_for("settings not reloaded: 2 mistakes");
        stderr.wait_for("limits.no: there is no such setting");
    });
    write(&world, "[server]\napi_keys = [\"tw_secret\n");
    let (status, body) = json_of(reload(&gateway)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    assert!(!body.to_string().contains("tw_secret"), "{body}");
    assert!(is_there(&gateway, "m").await && !is_there(&gateway, "n").await);
    let metrics = gateway.get("/metrics").bearer_auth(KEY).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    assert!(metrics.contains("turnwire_settings_last_reload_successful 0\n"), "{metrics}");
    let moved = format!("{server}listen = \"127.0.0.1:1\"\n{}", model("n", &upstream));
    write(&world, &moved);
    let (status, mut body) = json_of(reload(&gateway)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let digest = body["digest"].take();
    assert_eq!(digest.as_str().map(str::len), Some(64));
    let changed = json!(["models.m", "models.n", "the default model"]);
    let expected = json!({ "object": "settings.reload", "changed": changed, "digest": null,
        "needs_restart": [] });
    assert_eq!(body, expected, "the flag says where it listens");
    assert!(!is_there(&gateway, "m").await && is_there(&gateway, "n").await);
    write(&world, &(moved + "[embeddings]\nbase_url = \"http://127.0.0.1:1/v1\"\nmodel = \"e\"\n"));
    for _ in 0..2 {
        let (_, body) = json_of(reload(&gateway)).await;
        assert_eq!(
            (&body["changed"], &body["needs_restart"]),
            (&json!([]), &json!(["embeddings"]))
        );
    }
    let metrics = gateway.get("/metrics").bearer_auth(KEY).send().await.unwrap();
    let metrics = metrics.text().await.unwrap();
    for line in [
        "turnwire_settings_reloads_total{outcome=\"reloaded\"} 3",
        "turnwire_settings_reloads_total{outcome=\"refused\"} 2",
        "turnwire_settings_last_reload_successful 1\n",
        "turnwire_settings_loaded_timestamp_seconds ",
    ] {
        assert!(metrics.contains(line), "no {line} in {metrics}");
    }
    let audit = gateway.get("/v1/admin/audit?action=settings.reloaded").bearer_auth(KEY);
    let (_, audit) = json_of(audit).await;
    let entries = audit["data"].as_array().unwrap();
    assert_eq!(entries.len(), 3, "{audit}");
    assert_eq!(entries[2]["content"], digest, "{audit}");
    assert!(entries[0]["actor"]["key_id"].as_str().unwrap().starts_with("settings_"), "{audit}");
    assert!(
        !block_in_place(|| {
            gateway.signal("TERM");
            gateway.finish()
        })
        .stderr
        .contains("tw_secret")
    );
}

/// A server that others can reach is not left without a key.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_key_is_not_removed_where_others_can_call() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let models = model("m", &upstream);
    let world = world(&format!("[server]\napi_keys = [\"tw_kept\"]\n{models}"));
    let serve = ["serve", "--json", "--listen", "0.0.0.0:0"];
    let gateway = Gateway::start(&world, &serve);
    write(&world, &models);
    let url = gateway.url("/v1/admin/reload").replace("0.0.0.0", "127.0.0.1");
    let (status, body) = json_of(gateway.client.post(url).bearer_auth(KEY)).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{body}");
    assert!(body["error"]["message"].as_str().unwrap().contains("no API key"), "{body}");
}

/// Only an operator reloads: the settings are of all tenants.
#[tokio::test(flavor = "multi_thread")]
async fn a_reload_needs_a_key() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let gateway = Gateway::start(&world(&model("m", &upstream)), &SERVE);
    let refused = refusal_of(gateway.post("/v1/admin/reload", &json!({}))).await;
    assert_eq!(refused, (StatusCode::FORBIDDEN, "needs_first_key".to_owned()));
}

/// Quotas apply from the next request on.
#[tokio::test(flavor = "multi_thread")]
async fn quotas_change_at_once() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let models = model("m", &upstream);
    let world = world(&models);
    let mut gateway = Gateway::start(&world, &SERVE);
    let mut reloads = Reloads::of(&mut gateway);
    let statuses = async |gateway: &Gateway| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(status_of(question(gateway, "m")).await);
        }
        statuses
    };
    assert_eq!(statuses(reloads.gateway).await, [StatusCode::OK; 3]);
    write(&world, &format!("{models}[quotas.per_tenant]\nrequests_per_minute = 1\n"));
    reloads.reload();
    // A new minute may begin meanwhile, but not two.
    let limited = statuses(reloads.gateway).await;
    assert!(limited.contains(&StatusCode::TOO_MANY_REQUESTS), "{limited:?}");
    write(&world, &models);
    reloads.reload();
    assert_eq!(statuses(reloads.gateway).await, [StatusCode::OK; 3]);
}

/// Lets the toy server answer calls, once there is a file `answer`.
fn answers_calls(world: &World) {
    const OTHERS: &str = "    *'\"id\":'*)";
    const CALLS: &str = r#"    *'"method":"tools/call"'*) while [ ! -e answer ]; do sleep 0.02; done; what='"result":{"content":[{"type":"text","text":"hello"}]}' ;;"#;
    let script = world.path().join("toy.sh");
    let text = std::fs::read_to_string(&script).unwrap();
    assert!(text.contains(OTHERS), "{text}");
    std::fs::write(&script, text.replace(OTHERS, &format!("{CALLS}\n{OTHERS}"))).unwrap();
}

/// An MCP server that was added is listed and called. One that did not change is not restarted. One
/// that was removed is gone for all, finishes its call at work, and then ends.
#[tokio::test(flavor = "multi_thread")]
async fn tool_servers_come_and_go() {
    let upstream = FakeUpstream::start(Mode::Answers).await;
    let models = model("m", &upstream);
    let with_toy = format!("{models}[mcp_servers.toy]\ncommand = \"sh\"\nargs = [\"toy.sh\"]\n");
    let world = world(&models);
    let toy = Toy::new(&world);
    answers_calls(&world);
    let mut gateway = Gateway::start(&world, &SERVE);
    let mut reloads = Reloads::of(&mut gateway);
    write(&world, &with_toy);
    reloads.reload();
    let mut alive = spawn_blocking(move || toy.watch()).await.unwrap();
    let state = async |gateway: &Gateway| {
        let (_, listed) = json_of(gateway.get("/v1/mcp_servers")).await;
        listed["data"][0]["state"].as_str().map(str::to_owned)
    };
    until("it is connected", async || state(reloads.gateway).await.as_deref() == Some("connected"))
        .await;
    let call = reloads.gateway.post("/v1/mcp_servers/toy/tools/greet/try", &json!({}));
    let (status, run) = json_of(call).await;
    assert_eq!(status, StatusCode::CREATED, "{run}");
    let run_id = run["run_id"].as_str().unwrap().to_owned();
    let events = format!("/v1/runs/{run_id}/events?format=ndjson");
    let mut events = reloads.gateway.get(&events).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("tool_started") {
        seen += &String::from_utf8_lossy(&events.chunk().await.unwrap().expect(&seen));
    }
    write(&world, &format!("{with_toy}[limits]\nmax_turns = 3\n"));
    reloads.reload();
    assert_eq!(state(reloads.gateway).await.as_deref(), Some("connected"), "it did not change");
    write(&world, &models);
    reloads.reload();
    assert_eq!(state(reloads.gateway).await, None);
    let call = reloads.gateway.post("/v1/mcp_servers/toy/tools/greet/try", &json!({}));
    assert_eq!(status_of(call).await, StatusCode::NOT_FOUND);
    std::fs::write(world.path().join("answer"), "").unwrap();
    seen += &events.text().await.unwrap();
    assert!(seen.contains("hello") && seen.contains("run_finished"), "{seen}");
    assert_eq!(spawn_blocking(move || alive.all()).await.unwrap(), "goodbye");
}

/// A model that a reload brings has the name of its provider in spans.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_a_reload_has_its_provider() {
    let (model, receiver) = (EchoingModel::start(), OtlpReceiver::start());
    let settings = |name: &str, kind: &str| {
        let url = model.url();
        format!("[models.{name}]\nkind = \"{kind}\"\nbase_url = \"{url}\"\nmodel = \"m\"\n")
    };
    let usual = settings("default", "chat_completions");
    let world = world(&usual)
        .with("OTEL_EXPORTER_OTLP_ENDPOINT", &receiver.url())
        .with("OTEL_METRICS_EXPORTER", "none")
        .with("OTEL_BSP_SCHEDULE_DELAY", "0");
    let mut gateway = Gateway::start(&world, &SERVE);
    let providers = |n: usize| -> Vec<String> {
        let spans = receiver.wait_until("spans of runs", |spans| {
            spans.iter().filter(|span| span.name == "invoke_agent").count() == n
        });
        let spans = spans.into_iter().filter(|span| span.name == "invoke_agent");
        spans.map(|span| text_of(&span.attributes, "gen_ai.provider.name").unwrap()).collect()
    };
    question(&gateway, "default").send().await.unwrap().text().await.unwrap();
    assert_eq!(block_in_place(|| providers(1)), ["openai"]);
    write(&world, &format!("{usual}{}", settings("claude", "anthropic_messages")));
    Reloads::of(&mut gateway).reload();
    // The model server does not speak that API: the run fails, and has its spans all the same.
    question(&gateway, "claude").send().await.unwrap().text().await.unwrap();
    assert_eq!(block_in_place(|| providers(2)), ["openai", "anthropic"]);
}

/// A SIGHUP during the start does not end the process, even while its store keeps it waiting.
#[test]
fn a_hangup_during_the_start_does_not_end_it() {
    // Takes connections, and says nothing.
    let database = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://t@{}/t", database.local_addr().unwrap());
    let world = World::new().with("TURNWIRE_STORE_URL", &url);
    let mut running = world.start(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let (connection, _) = database.accept().unwrap();
    running.signal("HUP");
    assert_eq!(running.child.try_wait().unwrap(), None, "it was ended");
    drop((connection, database));
    let done = running.finish();
    // By a signal there is no code.
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains("the store cannot be opened"), "{}", done.stderr);
}
