//! A6 and A12: no secret reaches a place where somebody finds it later.
//!
//! Secrets are planted wherever one can come from. Then the real server works, fails, is cancelled,
//! is killed and goes on, with a model server and an MCP server that repeat every header they get.
//! Afterwards everything that it has written or answered is searched for each of them, also in
//! encoded form.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    sync::{Arc, Mutex},
};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row, sqlite::SqliteConnectOptions};

use crate::{
    echoing_servers::{EchoingMcp, EchoingModel},
    otlp_receiver::OtlpReceiver,
    serve::{DEMO, Gateway, quick},
    world::World,
};

const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];

/// The planted secrets, by where they came from.
#[derive(Clone, Default)]
struct Canaries(Arc<Mutex<Vec<(String, String)>>>);

impl Canaries {
    /// A new secret for a place.
    fn plant(&self, place: &str) -> String {
        let mut planted = self.0.lock().unwrap();
        let secret = format!("cnry{:02}{}", planted.len(), uuid::Uuid::new_v4().simple());
        planted.push((place.to_owned(), secret.clone()));
        secret
    }

    /// A secret that the server itself has made.
    fn note(&self, place: &str, secret: &str) {
        assert!(secret.len() >= 16, "{place}: {secret}");
        self.0.lock().unwrap().push((place.to_owned(), secret.to_owned()));
    }

    /// Where each secret is found in `text`, in any form.
    fn found_in(&self, sink: &str, text: &str) -> Vec<String> {
        let planted = self.0.lock().unwrap();
        let mut found = Vec::new();
        for (place, secret) in &*planted {
            for (form, coded) in forms_of(secret) {
                if let Some(at) = text.find(&coded) {
                    let start = text.floor_char_boundary(at.saturating_sub(120));
                    let end = text.floor_char_boundary((at + coded.len() + 40).min(text.len()));
                    found.push(format!("{place} as {form} in {sink}: …{}…", &text[start..end]));
                }
            }
        }
        found
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A secret as it is, in hexadecimal, and in base64 at each of the three places that a text may
/// have in a longer one.
fn forms_of(secret: &str) -> Vec<(&'static str, String)> {
    let hex = secret.bytes().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let mut forms = vec![
        ("itself", secret.to_owned()),
        ("hexadecimal", hex.clone()),
        ("hexadecimal", hex.to_uppercase()),
    ];
    for shift in 0..3 {
        let coded = STANDARD_NO_PAD.encode(format!("{}{secret}", "x".repeat(shift)));
        // The letters at both ends depend on what is around the secret.
        forms.push(("base64", coded[shift + usize::from(shift > 0)..coded.len() - 2].to_owned()));
    }
    forms
}

#[test]
fn encoded_secrets_are_found() {
    let canaries = Canaries::default();
    let secret = canaries.plant("here");
    for around in ["", "a", "ab", "abc"] {
        let coded = STANDARD_NO_PAD.encode(format!("{around}{secret}{around}"));
        assert_eq!(canaries.found_in("text", &coded).len(), 1, "{coded}");
    }
    assert_eq!(canaries.found_in("text", &format!("<{secret}>")).len(), 1);
    assert_eq!(canaries.found_in("text", "nothing").len(), 0);
}

/// The answers of the server so far.
#[derive(Clone, Default)]
struct Answers(Arc<Mutex<String>>);

impl Answers {
    async fn of(&self, request: RequestBuilder) -> (u16, String) {
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), format!("{:?}", response.headers()));
        let body = response.text().await.unwrap();
        write!(self.0.lock().unwrap(), "{status} {headers}\n{body}\n").unwrap();
        (status, body)
    }

    async fn json_of(&self, request: RequestBuilder) -> Value {
        let (status, body) = self.of(request).await;
        serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status} {body}"))
    }

    fn all(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

/// Every value of every table, and the number of rows with secrets.
async fn dump(world: &World) -> (String, usize) {
    let options = SqliteConnectOptions::new().filename(world.path().join("runs.db"));
    let mut connection = options.connect().await.unwrap();
    let tables = "select name from sqlite_master where type = 'table'";
    let tables = sqlx::query(tables).fetch_all(&mut connection).await.unwrap();
    let (mut dump, mut n_secrets) = (String::new(), 0);
    for table in tables.iter().map(|row| row.get::<String, _>(0)) {
        let columns = format!("select name from pragma_table_info('{table}')");
        let columns = sqlx::query(AssertSqlSafe(columns)).fetch_all(&mut connection).await.unwrap();
        let columns: Vec<String> =
            columns.iter().map(|row| format!("quote(\"{}\")", row.get::<String, _>(0))).collect();
        let sql = format!("select {} from \"{table}\"", columns.join(" || ' ' || "));
        // A table of the full-text index may not be readable by itself; its content is elsewhere.
        let Ok(rows) = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut connection).await else {
            continue;
        };
        if table == "run_secrets" {
            n_secrets = rows.len();
        }
        for row in rows {
            writeln!(dump, "{table}: {}", row.get::<String, _>(0)).unwrap();
        }
    }
    connection.close().await.unwrap();
    assert!(dump.contains("run_events: "), "there is nothing in the dump");
    (dump, n_secrets)
}

struct Bench {
    canaries: Canaries,
    answers: Answers,
    world: World,
    model: EchoingModel,
    mcp: EchoingMcp,
    traces: OtlpReceiver,
    key: String,
    metrics_token: String,
    /// What is found in places that are looked at along the way.
    found: BTreeSet<String>,
    logs: String,
}

impl Bench {
    fn new() -> Self {
        let canaries = Canaries::default();
        let (model, mcp) = (EchoingModel::start(), EchoingMcp::start());
        let (key, metrics_token) = (canaries.plant("API key"), canaries.plant("metrics token"));
        let traces = OtlpReceiver::start();
        let trace_key = canaries.plant("header of the receiver of traces");
        let metrics_key = canaries.plant("header of the receiver of metrics");
        let secret_key = STANDARD.encode(&canaries.plant("raw key").as_bytes()[..32]);
        canaries.note("key of [secrets]", &secret_key);
        let world = World::new()
            .with("TURNWIRE_LOG", "trace")
            .with("PATH", &std::env::var_os("PATH").unwrap().into_string().unwrap())
            .with("TEAM_KEYS", &format!("{key},{}", canaries.plant("second API key")))
            .with("METRICS_TOKEN", &metrics_token)
            .with("SECRET_KEYS", &secret_key)
            .with("MODEL_KEY", &canaries.plant("model key"))
            .with("FIRST_KEY", &canaries.plant("key of an upstream"))
            .with("SECOND_KEY", &canaries.plant("key of another upstream"))
            .with("CLAUDE_KEY", &canaries.plant("key of Anthropic"))
            .with("OPENAI_KEY", &canaries.plant("key of OpenAI"))
            .with("DOCS_TOKEN", &canaries.plant("bearer token of an MCP server"))
            .with("DOCS_KEY", &canaries.plant("header of an MCP server"))
            .with("MAIL_TOKEN", &canaries.plant("variable of an MCP server"))
            .with("BILLING_SECRET", &canaries.plant("client secret of an MCP server"))
            .with("WEATHER_AUTHORIZATION", &canaries.plant("header of a function"))
            .with("EMBEDDINGS_KEY", &canaries.plant("key of the embeddings"))
            .with("SEARCH_KEY", &canaries.plant("key of the web search"))
            .with("HOOK_SECRET", &hook_secret(&canaries))
            .with("OTEL_EXPORTER_OTLP_ENDPOINT", &traces.url())
            .with("OTEL_EXPORTER_OTLP_HEADERS", &format!("x-trace-key={trace_key}"))
            .with("OTEL_BSP_SCHEDULE_DELAY", "0")
            .with("OTEL_METRIC_EXPORT_INTERVAL", "500")
            .with("OTEL_EXPORTER_OTLP_METRICS_HEADERS", &format!("x-metrics-key={metrics_key}"))
            .with("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
            .with("UNUSED_SECRET", &canaries.plant("variable that nothing names"));
        let store = format!("sqlite://{}/runs.db", world.path().display());
        let world = world.with("TURNWIRE_STORE_URL", &store);
        let settings = settings(&canaries, &model.url(), &mcp);
        let world = world.with_file("turnwire.toml", &settings);
        Self {
            canaries,
            answers: Answers::default(),
            world,
            model,
            mcp,
            traces,
            key,
            metrics_token,
            found: BTreeSet::new(),
            logs: String::new(),
        }
    }

    fn request(&self, gateway: &Gateway, body: &Value) -> RequestBuilder {
        gateway.post("/v1/responses", body).bearer_auth(&self.key)
    }

    /// A request that brings its own MCP server, with secrets for it.
    fn bringing(&self, input: &str, more: Value) -> Value {
        let mut tool = json!({
            "type": "mcp", "server_label": "mine", "server_url": self.mcp.url(),
            "require_approval": "never",
            "authorization": self.canaries.plant("authorization of a request"),
            "headers": {
                "X-Api-Key": self.canaries.plant("header of a request"),
                "Cookie": format!("session={}", self.canaries.plant("cookie of a request")),
            },
        });
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "model": "default", "input": input, "tools": [tool] })
    }

    fn look(&mut self, sink: &str, text: &str) {
        self.found.extend(self.canaries.found_in(sink, text));
    }

    /// Looks at the database. Returns the number of encrypted secrets.
    async fn look_at_database(&mut self) -> usize {
        let (dump, n_secrets) = dump(&self.world).await;
        self.look("the database", &dump);
        n_secrets
    }

    fn end(&mut self, mut gateway: Gateway) {
        gateway.signal("TERM");
        let done = gateway.finish();
        self.logs += &done.stdout;
        self.logs += &done.stderr;
    }
}

/// A secret of a webhook, in the form that providers give it.
fn hook_secret(canaries: &Canaries) -> String {
    let secret = STANDARD.encode(canaries.plant("raw secret of a webhook"));
    canaries.note("secret of a webhook", &secret);
    format!("whsec_{secret}")
}

fn settings(canaries: &Canaries, model: &str, mcp: &EchoingMcp) -> String {
    let (mcp_url, port) = (mcp.url(), mcp.port());
    let key_in_file = canaries.plant("API key in the file");
    let in_query = canaries.plant("query of an MCP server");
    let in_function = canaries.plant("query of a function");
    format!(
        r#"
[server]
api_keys_env = "TEAM_KEYS"
api_keys = ["{key_in_file}"]
metrics_token_env = "METRICS_TOKEN"

[secrets]
key_env = "SECRET_KEYS"

[models.default]
kind = "chat_completions"
base_url = "{model}"
model = "m"
api_key_env = "MODEL_KEY"

[models.pool]
kind = "chat_completions"
model = "m"
[[models.pool.upstreams]]
name = "first"
base_url = "{model}"
api_key_env = "FIRST_KEY"
[[models.pool.upstreams]]
name = "second"
base_url = "{model}"
api_key_env = "SECOND_KEY"

[models.claude]
kind = "anthropic_messages"
base_url = "{model}"
model = "m"
api_key_env = "CLAUDE_KEY"

[models.gpt]
kind = "openai_responses"
base_url = "{model}"
model = "m"
api_key_env = "OPENAI_KEY"

[mcp_servers.docs]
url = "{mcp_url}?key={in_query}"
bearer_token_env_var = "DOCS_TOKEN"
headers = {{ X-Key = "${{DOCS_KEY}}" }}
startup_timeout_sec = 5

[mcp_servers.mail]
command = "sh"
args = ["-c", "echo the token is $MAIL_TOKEN >&2; exit 1"]
env = {{ MAIL_TOKEN = "${{MAIL_TOKEN}}" }}
startup_timeout_sec = 5

[mcp_servers.billing]
url = "{mcp_url}/billing"
startup_timeout_sec = 5
[mcp_servers.billing.oauth]
grant = "machine"
client_id = "turnwire"
client_secret_env_var = "BILLING_SECRET"

[functions.weather]
description = "Tells the weather."
method = "GET"
url = "http://127.0.0.1:{port}/weather?key={in_function}"
header_env = {{ Authorization = "WEATHER_AUTHORIZATION" }}
timeout_sec = 5

[embeddings]
base_url = "{model}"
model = "e"
api_key_env = "EMBEDDINGS_KEY"

[web_search]
provider = "tavily"
base_url = "http://127.0.0.1:{port}/search"
api_key_env = "SEARCH_KEY"
timeout_sec = 5

[[webhooks]]
url = "http://127.0.0.1:{port}/hook"
secret_env = "HOOK_SECRET"
timeout_sec = 5

[oidc]
issuer = "http://127.0.0.1:{port}/oidc"
audience = "turnwire"

[[mcp.on_request]]
url = "{mcp_url}"

[egress]
open_networks = ["127.0.0.1/32"]
ports = [{port}]
"#
    )
}

/// A6, A12: at least thirty secrets are planted, and none is found in the database, the log at its
/// finest level, the metrics, any answer, what the model is told, share links or the output of
/// commands. Those of requests are there encrypted while their run is active, and not at all after
/// its end.
#[tokio::test]
async fn no_secret_is_found_anywhere() {
    let mut bench = Bench::new();
    let gateway = Gateway::start(&bench.world, &SERVE);

    turns_that_end(&bench, &gateway).await;
    assert_eq!(bench.look_at_database().await, 0, "secrets are left after the end of their runs");
    a_cancelled_turn(&mut bench, &gateway).await;
    requests_that_are_refused(&bench, &gateway).await;
    keys_and_shares(&bench, &gateway).await;
    a_file_that_is_indexed(&bench, &gateway).await;
    bench.mcp.wait_for_heads(&["POST /search", "POST /hook", "GET /oidc/"]);
    reading(&bench, &gateway).await;
    let gateway = a_turn_that_is_taken_over(&mut bench, gateway).await;
    reading(&bench, &gateway).await;
    assert_eq!(bench.look_at_database().await, 0, "secrets are left after the takeover");
    bench.end(gateway);
    commands(&mut bench);

    assert!(bench.canaries.len() >= 30, "only {} secrets were planted", bench.canaries.len());
    let (answers, logs, told) = (bench.answers.all(), bench.logs.clone(), bench.model.bodies());
    assert!(logs.contains("TRACE") && logs.contains("MCP call failed"), "{logs}");
    bench.look("the answers", &answers);
    bench.look("the log", &logs);
    bench.look("what the model is told", &told);
    let traces = String::from_utf8_lossy(&bench.traces.bodies()).into_owned();
    assert!(traces.contains("invoke_agent") && traces.contains("call echo"), "{traces}");
    assert!(traces.contains("turnwire_runs_started_total"), "no metrics were exported");
    for header in ["x-trace-key: cnry", "x-metrics-key: cnry"] {
        assert!(bench.traces.heads().contains(header), "{}", bench.traces.heads());
    }
    bench.look("the traces and metrics over OTLP", &traces);
    let found: Vec<String> = bench.found.iter().cloned().collect();
    assert!(found.is_empty(), "{} found:\n{}", found.len(), found.join("\n\n"));
}

/// A6: without a key nothing is kept, and the operator is told which setting is missing.
#[tokio::test]
async fn without_keys_secrets_are_refused() {
    let settings = "[[mcp.on_request]]\nurl = \"https://mcp.example.com\"\n";
    let gateway = Gateway::start(&quick().with_file("turnwire.toml", settings), &DEMO);
    let tool = json!({ "type": "mcp", "server_label": "mine", "authorization": "a-canary",
        "server_url": "https://mcp.example.com/mcp" });
    let body = json!({ "model": "scripted", "input": "Hello.", "tools": [tool] });
    let (status, body) = Answers::default().of(gateway.post("/v1/responses", &body)).await;
    assert_eq!(status, 400, "{body}");
    assert!(body.contains("[secrets] in the settings"), "{body}");
    assert!(body.contains("unsupported_parameter") && !body.contains("canary"), "{body}");
}

/// A5: secrets are sent to the address that came with them, and not to where it points.
#[tokio::test]
async fn secrets_do_not_follow_redirects() {
    let bench = Bench::new();
    let gateway = Gateway::start(&bench.world, &SERVE);
    let elsewhere = EchoingMcp::start();
    let from = format!("{}/elsewhere/{}", bench.mcp.url(), elsewhere.port());
    let body = bench.bringing("say something", json!({ "server_url": from }));
    bench.answers.json_of(bench.request(&gateway, &body)).await;
    let sent = body["tools"][0]["authorization"].as_str().unwrap();
    assert!(bench.mcp.heads().contains(sent), "nothing was sent at all");
    assert_eq!(elsewhere.heads(), "");
}

/// Turns that succeed and fail, with servers that repeat what they get.
async fn turns_that_end(bench: &Bench, gateway: &Gateway) {
    for tool in ["echo", "fail", "crash", "unauthorized"] {
        let body = bench.bringing(&format!("call {tool}"), json!({}));
        let sent = body["tools"][0]["authorization"].as_str().unwrap().to_owned();
        let response = bench.answers.json_of(bench.request(gateway, &body)).await;
        assert_eq!(response["status"], "completed", "{response}");
        let echoed = response["tools"][0].as_object().unwrap();
        assert!(!echoed.contains_key("headers") && !echoed.contains_key("authorization"));
        assert!(bench.mcp.heads().contains(&format!("Bearer {sent}")), "it was not sent");
        for rest in ["", "/input_items"] {
            let path = format!("/v1/responses/{}{rest}", response["id"].as_str().unwrap());
            bench.answers.of(gateway.get(&path).bearer_auth(&bench.key)).await;
        }
    }
    let echoed = bench.answers.all();
    assert!(echoed.contains("authorization: Bearer [secret]"), "nothing was repeated: {echoed}");
    // A server of the settings that repeats the headers of the settings.
    let docs = json!({ "type": "mcp", "server_label": "docs", "require_approval": "never" });
    let mail = json!({ "type": "mcp", "server_label": "mail" });
    let billing = json!({ "type": "mcp", "server_label": "billing" });
    let weather = json!({ "type": "function", "name": "weather" });
    let search = json!({ "type": "web_search" });
    for tool in ["echo", "fail", "crash", "weather", "web_search"] {
        let tools = json!([docs, mail, billing, weather, search]);
        let body = json!({ "model": "pool", "input": format!("call {tool}"), "tools": tools });
        bench.answers.of(bench.request(gateway, &body)).await;
    }
    for status in [401, 429, 500] {
        for model in ["default", "pool", "claude", "gpt"] {
            let body = json!({ "model": model, "input": format!("refuse {status}") });
            let (answered, body) = bench.answers.of(bench.request(gateway, &body)).await;
            assert!(answered >= 400, "{answered} {body}");
        }
    }
    let body = json!({ "model": "default", "input": "call echo", "stream": true,
        "tools": bench.bringing("", json!({}))["tools"] });
    bench.answers.of(bench.request(gateway, &body)).await;
    // In a conversation, with a key, and continued: another way to the database.
    let conversation = gateway.post("/v1/conversations", &json!({})).bearer_auth(&bench.key);
    let conversation = bench.answers.json_of(conversation).await;
    let mut body = bench.bringing("call echo", json!({}));
    body["conversation"] = conversation["id"].clone();
    let request = bench.request(gateway, &body).header("Idempotency-Key", "again");
    let response = bench.answers.json_of(request).await;
    assert_eq!(response["status"], "completed", "{response}");
}

/// A turn that waits for its tool has its secrets in the database, encrypted, until it is
/// cancelled.
async fn a_cancelled_turn(bench: &mut Bench, gateway: &Gateway) {
    let mut body = bench.bringing("call hang", json!({}));
    body["background"] = true.into();
    let response = bench.answers.json_of(bench.request(gateway, &body)).await;
    bench.mcp.wait_for_hanging(1);
    assert_eq!(bench.look_at_database().await, 1, "the secrets are not durable");
    let id = response["id"].as_str().unwrap();
    let cancel = gateway.post(&format!("/v1/responses/{id}/cancel"), &json!({}));
    bench.answers.of(cancel.bearer_auth(&bench.key)).await;
    bench.until_over(gateway, id).await;
    assert_eq!(bench.look_at_database().await, 0, "the secrets are left after a cancel");
}

impl Bench {
    /// Waits until a response has ended.
    async fn until_over(&self, gateway: &Gateway, id: &str) -> Value {
        let stream = format!("/v1/responses/{id}?stream=true");
        self.answers.of(gateway.get(&stream).bearer_auth(&self.key)).await;
        let path = format!("/v1/responses/{id}");
        let response = self.answers.json_of(gateway.get(&path).bearer_auth(&self.key)).await;
        assert_ne!(response["status"], "in_progress", "{response}");
        response
    }
}

/// A6: a run whose worker is killed goes on with its secrets, and gives them to its own server
/// alone.
async fn a_turn_that_is_taken_over(bench: &mut Bench, mut gateway: Gateway) -> Gateway {
    let mut body = bench.bringing("wait", json!({}));
    body["background"] = true.into();
    let sent = body["tools"][0]["authorization"].as_str().unwrap().to_owned();
    let response = bench.answers.json_of(bench.request(&gateway, &body)).await;
    bench.model.wait_for_waiting(1);
    let before = bench.mcp.heads().matches(&sent).count();
    gateway.signal("KILL");
    let done = gateway.finish();
    bench.logs += &done.stdout;
    bench.logs += &done.stderr;
    assert_eq!(bench.look_at_database().await, 1, "the secrets are not durable");
    bench.model.stop_waiting();
    let gateway = Gateway::start(&bench.world, &SERVE);
    let response = bench.until_over(&gateway, response["id"].as_str().unwrap()).await;
    assert_eq!(response["status"], "completed", "{response}");
    let after = bench.mcp.heads().matches(&sent).count();
    assert!(after > before, "the next worker did not have the secrets");
    gateway
}

/// What a client gets wrong is not repeated to it, and not logged.
async fn requests_that_are_refused(bench: &Bench, gateway: &Gateway) {
    let plant = |place: &str| bench.canaries.plant(place);
    let mcp = bench.mcp.url();
    let host = mcp.trim_start_matches("http://");
    for more in [
        json!({ "server_url": format!("http://user:{}@{host}", plant("user in a server_url")) }),
        json!({ "server_url": format!("{mcp}?key={}", plant("query of a server_url")) }),
        json!({ "server_url": format!("http://{}.example.com", plant("host of a server_url")) }),
        json!({ "server_label": "docs" }),
        json!({ "headers": { "X-Key": format!("{}\r\nx: y", plant("header with a line")) } }),
        json!({ "headers": { "Host": plant("reserved header") } }),
        json!({ "headers": [plant("headers in a list")] }),
        json!({ "authorization": [plant("authorization in a list")] }),
        json!({ "connector_id": "x", "authorization": plant("token of a connector") }),
    ] {
        let body = bench.bringing("call echo", more);
        let (status, body) = bench.answers.of(bench.request(gateway, &body)).await;
        assert_eq!(status, 400, "{body}");
    }
    let get = |path: &str| gateway.get(path);
    let models = || get("/v1/models");
    for request in [
        models().bearer_auth(plant("wrong key")),
        models().header("Authorization", format!("Basic {}", plant("basic authorization"))),
        models().header("Authorization", format!("Token {}", plant("other authorization"))),
        models().header("Authorization", plant("bare authorization")),
        models().header("X-Api-Key", plant("x-api-key")),
        models().header("Api-Key", plant("api-key")),
        models().header("Cookie", format!("session={}", plant("cookie"))),
        models().header("Proxy-Authorization", format!("Basic {}", plant("proxy authorization"))),
        models().header("X-Hub-Signature-256", format!("sha256={}", plant("signature"))),
        models().bearer_auth(format!("eyJhbGciOiJub25lIn0.{}.x", plant("token without signature"))),
        // {"alg":"RS256","kid":"k"}, so that the keys of the provider are asked for.
        models().bearer_auth(format!(
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsifQ.e30.{}",
            plant("signature of a token")
        )),
        get(&format!("/v1/models?api_key={}", plant("query"))),
        get(&format!("/v1/models?token={}", plant("token in a query"))).bearer_auth(&bench.key),
        get(&format!("/v1/shared/{}", plant("wrong share token"))),
        get(&format!("/v1/shared/{}/events", plant("another share token"))),
        get(&format!("/ws/chat?token={}", plant("query of a socket"))),
        get("/ws/chat")
            .header("Connection", "upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
            .header("Sec-WebSocket-Protocol", format!("turnwire, key.{}", plant("subprotocol"))),
        gateway
            .post("/v1/chat/completions", &json!({ "model": "none", "api_key": plant("body") }))
            .bearer_auth(&bench.key),
        gateway
            .client
            .post(gateway.url("/v1/responses"))
            .bearer_auth(&bench.key)
            .header("content-type", "application/json")
            .body(format!("{{\"authorization\": \"{}\"", plant("broken body"))),
    ] {
        bench.answers.of(request).await;
    }
}

/// Keys that the server makes, and links to a run.
async fn keys_and_shares(bench: &Bench, gateway: &Gateway) {
    let body = json!({ "model": "default", "input": "say something" });
    let response = bench.answers.json_of(bench.request(gateway, &body)).await;
    let run = response["id"].as_str().unwrap().replace("resp_", "run_");
    // The answers that have a new key or link are the one place where they belong.
    let shared = gateway.post(&format!("/v1/runs/{run}/share"), &json!({}));
    let shared = shared.bearer_auth(&bench.key).send().await.unwrap();
    let shared: Value = shared.json().await.unwrap();
    let token = shared["token"].as_str().unwrap_or_else(|| panic!("{shared}"));
    bench.canaries.note("share token", token);
    for rest in ["", "/events"] {
        bench.answers.of(gateway.get(&format!("/v1/shared/{token}{rest}"))).await;
    }
    let done = bench.world.run(&["keys", "create", "--name", "laptop"]);
    let key = done.stdout.trim();
    bench.canaries.note("stored key", key);
    bench.answers.of(gateway.get("/v1/models").bearer_auth(key)).await;
}

/// A file whose chunks go to the embeddings model, which refuses them.
async fn a_file_that_is_indexed(bench: &Bench, gateway: &Gateway) {
    let body = "--x\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nassistants\r\n\
                --x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\n\
                Some text.\r\n--x--\r\n";
    let upload = gateway.client.post(gateway.url("/v1/files")).bearer_auth(&bench.key);
    let upload = upload.header("content-type", "multipart/form-data; boundary=x").body(body);
    let file = bench.answers.json_of(upload).await;
    let body = json!({ "name": "v", "file_ids": [file["id"]] });
    let store = gateway.post("/v1/vector_stores", &body).bearer_auth(&bench.key);
    let store = bench.answers.json_of(store).await;
    assert!(store["id"].is_string(), "{store}");
    bench.model.wait_for_heads(&["POST /v1/embeddings"]);
}

/// Everything that can be read.
async fn reading(bench: &Bench, gateway: &Gateway) {
    let (_, metrics) =
        bench.answers.of(gateway.get("/metrics").bearer_auth(&bench.metrics_token)).await;
    assert!(metrics.contains("turnwire_"), "{metrics}");
    for path in [
        "/v1/mcp_servers",
        "/v1/models",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/v1/webhooks/deliveries",
        "/v1/usage",
        "/v1/admin/keys",
        "/v1/admin/audit",
        "/v1/files",
        "/v1/vector_stores",
    ] {
        bench.answers.of(gateway.get(path).bearer_auth(&bench.key)).await;
    }
    let runs = gateway.get("/v1/runs?limit=100").bearer_auth(&bench.key);
    let runs = bench.answers.json_of(runs).await;
    let runs = runs["data"].as_array().unwrap_or_else(|| panic!("{runs}"));
    assert!(runs.len() >= 10, "{}", runs.len());
    for run in runs {
        let id = run["run_id"].as_str().or(run["id"].as_str()).unwrap();
        for rest in ["", "/events", "/snapshot"] {
            let path = format!("/v1/runs/{id}{rest}");
            bench.answers.of(gateway.get(&path).bearer_auth(&bench.key)).await;
        }
    }
}

/// What commands print, and how they fail.
fn commands(bench: &mut Bench) {
    let password = bench.canaries.plant("password of a database");
    let fanout = bench.canaries.plant("password of Redis");
    let model = "[models.default]\nkind = \"chat_completions\"\nmodel = \"m\"\n\
                 base_url = \"http://127.0.0.1:1/v1\"\n";
    let broken = World::new()
        .with("TURNWIRE_LOG", "trace")
        .with("TURNWIRE_STORE_URL", &format!("postgres://user:{password}@127.0.0.1:1/runs"))
        .with("TURNWIRE_FANOUT_URL", &format!("redis://user:{fanout}@127.0.0.1:1/"))
        .with_file("turnwire.toml", model);
    let wrong_key = bench.canaries.plant("a key of [secrets] that is none");
    let wrong = World::new()
        .with("SECRET_KEYS", &wrong_key)
        .with_file("turnwire.toml", &format!("{model}[secrets]\nkey_env = \"SECRET_KEYS\"\n"));
    let ours: [&[&str]; 4] = [&["doctor"], &["mcp", "list"], &["keys", "list"], &["audit", "list"]];
    let failing: [&[&str]; 3] = [&SERVE, &["doctor"], &["keys", "list"]];
    let mut outputs = Vec::new();
    for (world, commands) in
        [(&bench.world, &ours[..]), (&broken, &failing[..]), (&wrong, &failing[..2])]
    {
        for command in commands {
            let done = world.run(command);
            outputs.push((command.join(" "), format!("{}{}", done.stdout, done.stderr)));
        }
    }
    for (command, output) in outputs {
        assert!(!output.trim().is_empty(), "{command} prints nothing");
        bench.look(&command, &output);
    }
}
