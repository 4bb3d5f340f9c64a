//! A gateway with everything behind it that means harm, and how each of it is fed.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::{StreamExt, future::join_all, stream};
use reqwest::{Body, RequestBuilder, Response, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::spawn_blocking,
};
use turnwire_testkit::{HostileMcp, upstreams::Upstreams};

use super::{
    KIB, MIB,
    flood::Flood,
    harm::{PROGRAM, busy, changing, flow, greeter, lister},
};
use crate::{
    serve::{Gateway, json_of},
    world::{TURNWIRE, World},
};

pub(super) const SERVE: [&str; 4] = ["serve", "--json", "--listen", "127.0.0.1:0"];

/// What the sockets of both sides may hold beside what is read.
const IN_SOCKETS: usize = 16 * MIB;

/// A gateway, with everything behind it that means harm.
pub(super) struct Stage {
    pub(super) gateway: Gateway,
    key: String,
    pub(super) neighbour_key: String,
    flood: Flood,
    mcp: BTreeMap<&'static str, HostileMcp>,
    world: World,
    _model: Upstreams,
}

impl Stage {
    pub(super) async fn new(neighbour_model: &str) -> Self {
        let model = Upstreams::start(0).await.unwrap();
        let flood = Flood::start(flow).await;
        let mcp = BTreeMap::from([
            ("busy", busy().await),
            ("greeter", HostileMcp::start(Vec::new(), greeter).await),
            ("lister", HostileMcp::start(Vec::new(), lister).await),
            ("changing", HostileMcp::start(Vec::new(), changing).await),
        ]);
        let path = std::env::vars().find(|(name, _)| name == "PATH").expect("a PATH").1;
        let world = World::new().with("PATH", &path).with("SECRET", "secret-of-a-client");
        let world = world.with("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let store = format!("sqlite://{}/runs.db", world.path().display());
        let world = world.with("TURNWIRE_STORE_URL", &store);
        let create = |tenant| {
            let done = world.run(&["keys", "create", "--tenant", tenant, "--name", tenant]);
            assert_eq!(done.code, Some(0), "{}", done.stderr);
            done.stdout.trim().to_owned()
        };
        let (key, neighbour_key) = (create("attacker"), create("neighbour"));
        let text = settings(&model.model_url(), neighbour_model, &flood, &mcp);
        let world = world.with_file("turnwire.toml", &text).with_file("program.sh", PROGRAM);
        let gateway = Gateway::start(&world, &SERVE);
        Self { gateway, key, neighbour_key, flood, mcp, world, _model: model }
    }
}

/// Settings of a model.
pub(super) fn model(name: &str, url: &str) -> String {
    format!(
        "[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\nmodel = \"scripted\"\n"
    )
}

fn settings(
    own_model: &str,
    neighbour_model: &str,
    flood: &Flood,
    mcp: &BTreeMap<&'static str, HostileMcp>,
) -> String {
    let mut text = String::new();
    let models = [("default", own_model.to_owned()), ("neighbour", neighbour_model.to_owned())];
    let harmful = ["long_line", "long_turn", "many_calls", "big_arguments"];
    let harmful = harmful.map(|name| (name, flood.url(&format!("/{name}/v1"))));
    for (name, url) in models.into_iter().chain(harmful) {
        text += &model(name, &url);
    }
    for server in mcp.values() {
        writeln!(text, "[[mcp.on_request]]\nurl = \"{}\"", server.url()).unwrap();
    }
    let port_of = |server: &HostileMcp| {
        let url = server.url();
        url.rsplit_once(':').unwrap().1.trim_end_matches("/mcp").to_owned()
    };
    let mut ports: Vec<String> = mcp.values().map(port_of).collect();
    ports.push(flood.port.to_string());
    let (ports, flood) = (ports.join(", "), flood.url(""));
    text + &format!(
        r#"
[limits]
model_attempts = 1
max_readers_per_address = 256

[egress]
open_networks = ["127.0.0.1/32"]
ports = [{ports}]

[mcp_servers.program]
command = "sh"
args = ["program.sh"]
tool_timeout_sec = 3

[mcp_servers.guarded]
url = "{flood}/guarded/mcp"
startup_timeout_sec = 5
[mcp_servers.guarded.oauth]
grant = "machine"
client_id = "turnwire"
client_secret_env_var = "SECRET"

[functions.long]
description = "Says too much."
method = "GET"
url = "{flood}/function"

[web_search]
provider = "searxng"
base_url = "{flood}"

[embeddings]
base_url = "{flood}/v1"
model = "e"

[oidc]
issuer = "{flood}"
audience = "turnwire"
tenant = "attacker"

[[webhooks]]
url = "{flood}/hook"
secret_env = "HOOK_SECRET"
events = ["response.cancelled"]
tenant = "attacker"
"#
    )
}

/// The status and the code of a refusal.
async fn told(request: RequestBuilder) -> String {
    let response = request.send().await.unwrap();
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    format!("{} {}", status.as_u16(), body["error"]["code"].as_str().unwrap_or_default())
}

/// How many are answered, and how many are refused with this code.
async fn read_or_told(answers: Vec<reqwest::Result<Response>>, code: &str) -> String {
    let (read, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().map(Result::unwrap).partition(|it| it.status() == StatusCode::OK);
    let n_refused = refused.len();
    let texts = refused.into_iter().map(|it| async { it.text().await.unwrap() });
    let told = join_all(texts).await;
    assert!(told.iter().all(|text| text.contains(code)), "{told:?}");
    format!("{} read, {n_refused} are told {code}", read.len())
}

/// So many bytes in pieces.
fn filling(n_bytes: usize) -> impl stream::Stream<Item = Result<Bytes, io::Error>> + Send {
    let piece = Bytes::from(vec![b'x'; 64 * KIB]);
    stream::iter((0..n_bytes / piece.len()).map(move |_| Ok(piece.clone())))
}

/// The code of the close frame after the head of an answer, if there is one.
fn close_code(answer: &[u8]) -> Option<u16> {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let mut rest = &answer[head + 4..];
    loop {
        let [kind, length, ..] = *rest else { return None };
        let (start, length) = match length {
            126 => (4, usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?]))),
            length => (2, usize::from(length)),
        };
        let payload = rest.get(start..start + length)?;
        if kind == 0x88 {
            return Some(u16::from_be_bytes([*payload.first()?, *payload.get(1)?]));
        }
        rest = &rest[start + length..];
    }
}

impl Stage {
    /// Checks that an answer was read no further than the sockets of both sides hold it.
    async fn check_taken(&self, path: &str) {
        let taken = self.flood.taken(path).await;
        let each = taken.n_bytes / taken.n_ended;
        assert!(each < IN_SOCKETS, "{} MiB of {path} are taken", each / MIB);
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.gateway.post(path, body).bearer_auth(&self.key)
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.gateway.get(path).bearer_auth(&self.key)
    }

    /// What is answered to these bytes until it is enough or the connection is closed.
    async fn raw(
        &self,
        bytes: impl IntoIterator<Item = Vec<u8>>,
        is_enough: impl Fn(&[u8]) -> bool,
    ) -> Vec<u8> {
        let address = self.gateway.url("");
        let connection = TcpStream::connect(address.trim_start_matches("http://")).await.unwrap();
        let (mut reader, mut writer) = connection.into_split();
        let mut answer = Vec::new();
        let writing = async {
            for piece in bytes {
                if writer.write_all(&piece).await.is_err() {
                    break;
                }
            }
            // What is not read by the other side may not be answered, either.
            std::future::pending::<()>().await;
        };
        let reading = async {
            let mut piece = vec![0; 4 * KIB];
            while let Ok(n_bytes @ 1..) = reader.read(&mut piece).await {
                answer.extend_from_slice(&piece[..n_bytes]);
                if is_enough(&answer) {
                    break;
                }
            }
        };
        tokio::select! { () = writing => {}, () = reading => {} }
        answer
    }

    /// A run of a model with these tools. Returns its whole response.
    async fn ask_for(&self, model: &str, input: &str, tools: &[Value]) -> String {
        let body = json!({ "model": model, "input": input, "tools": tools });
        self.post("/v1/responses", &body).send().await.unwrap().text().await.unwrap()
    }

    pub(super) async fn ask(&self, model: &str, tools: &[Value]) -> String {
        self.ask_for(model, "Go on.", tools).await
    }

    /// A run that calls one tool.
    async fn call_with(&self, tool: Value, name: &str, arguments: Value) -> String {
        let calls = json!([{ "name": name, "arguments": arguments }]);
        let script = json!({ "turns": [{ "calls": calls }, { "text": "Then: {results}" }] });
        self.ask_for("default", &script.to_string(), &[tool]).await
    }

    fn server(&self, label: &str) -> Value {
        let mut tool = json!({ "type": "mcp", "server_label": label, "require_approval": "never" });
        if let Some(server) = self.mcp.get(label) {
            tool["server_url"] = json!(server.url());
        }
        tool
    }

    pub(super) async fn call(&self, label: &str, name: &str) -> String {
        self.call_with(self.server(label), name, json!({})).await
    }

    /// A run to which the tools of a server are offered.
    pub(super) async fn offered(&self, label: &str) -> String {
        self.ask("default", &[self.server(label)]).await
    }

    /// Lists without an end. Returns how large the response is that has what of them is offered.
    pub(super) async fn list(&self) -> String {
        let response = self.offered("lister").await;
        let status: Value = serde_json::from_str(&response).unwrap();
        format!("{} MiB, {}", response.len() / MIB, status["status"].as_str().unwrap())
    }

    pub(super) async fn form(&self) -> String {
        let response = self.call("busy", "form").await;
        response + &self.mcp["busy"].replies(1).await[0].to_string()
    }

    pub(super) async fn bodies(&self) -> String {
        let post = || self.gateway.client.post(self.gateway.url("/v1/responses"));
        let post = || post().bearer_auth(&self.key).header(CONTENT_TYPE, "application/json");
        let keys: Vec<String> = (0..100_000).map(|n| format!("\"{n}\":1")).collect();
        let bodies = [
            Body::wrap_stream(filling(40 * MIB)),
            Body::from(format!("{{\"a\":{}", "[".repeat(640))),
            Body::from(format!("{{{}}}", keys.join(","))),
            Body::from(format!("{{\"a\":[0{}]}}", ",0".repeat(1_000_000))),
        ];
        let mut all = Vec::new();
        for body in bodies {
            all.push(told(post().body(body)).await);
        }
        all.join(", ")
    }

    pub(super) async fn headers(&self) -> String {
        let head = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n".to_vec();
        let long = (0..5).map(|_| vec![b'x'; 64 * KIB]);
        let long = [head.clone(), b"x: ".to_vec()].into_iter().chain(long);
        let many = [head, b"x: y\r\n".repeat(1_000), b"\r\n".to_vec()];
        let answers = [self.raw(long, |_| false).await, self.raw(many, |_| false).await];
        answers.map(|answer| String::from_utf8_lossy(&answer).into_owned()).concat()
    }

    pub(super) async fn messages(&self) -> String {
        let head = format!(
            "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            self.key
        );
        // A mask of zeros, so that the bytes are as they are.
        let long = [&[0x81, 0xff][..], &(10 * MIB).to_be_bytes(), &[0; 4]].concat();
        let long = [head.clone().into_bytes(), long].into_iter();
        let long = long.chain((0..160).map(|_| vec![b'x'; 64 * KIB]));
        let many = [&[0x81, 0x82, 0, 0, 0, 0][..], b"{}"].concat().repeat(500);
        let is_closed = |answer: &[u8]| close_code(answer).is_some();
        let long = close_code(&self.raw(long, is_closed).await);
        let many = [head.into_bytes(), many];
        let many = close_code(&self.raw(many, is_closed).await);
        format!("closed with {}, {}", long.unwrap_or_default(), many.unwrap_or_default())
    }

    pub(super) async fn schema(&self) -> String {
        let schema = json!({ "type": "object", "description": "d".repeat(640 * KIB) });
        let tool = json!({ "type": "function", "name": "f", "parameters": schema });
        let body = json!({ "model": "default", "input": "Go on.", "tools": [tool] });
        told(self.post("/v1/responses", &body)).await
    }

    /// Ten times the bytes; then as many as may be, against a schema that needs ten times the looks.
    pub(super) async fn arguments(&self) -> String {
        let bytes = self.ask("big_arguments", &[self.server("busy")]).await;
        let values = json!({ "x": vec![0; 125_000] });
        bytes + &self.call_with(self.server("busy"), "look", values).await
    }

    /// Runs to which a list is offered that always changes.
    pub(super) async fn changes(&self) -> String {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            self.offered("changing").await;
        }
        let n_lists = self.mcp["changing"].asked("tools/list");
        if n_lists <= 6 { "few lists".to_owned() } else { format!("{n_lists} lists") }
    }

    pub(super) async fn answers(&self) -> String {
        self.ask("long_line", &[]).await + &self.ask("long_turn", &[]).await
    }

    /// `turnwire` as a process of its own, with at most so much memory.
    fn limited(&self, arguments: &str) -> Command {
        let mut command = self.world.program("sh");
        let program = TURNWIRE;
        command.args(["-c", &format!("ulimit -v 600000; exec {program} {arguments}")]);
        command
    }

    pub(super) async fn doctor(&self) -> String {
        let settings = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"memory:\"\n[models.default]\n\
             kind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            self.flood.url("/v1")
        );
        fs::write(self.world.path().join("doctor.toml"), settings).unwrap();
        let mut command = self.limited("doctor --json --config doctor.toml");
        let done = spawn_blocking(move || command.output().unwrap()).await.unwrap();
        self.check_taken("/v1/models").await;
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    }

    pub(super) async fn check(&self) -> String {
        let mut command = self.limited("check");
        command.stdin(Stdio::piped());
        let done = spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            let _ = stdin.write_all(b"data: ");
            let piece = vec![b'x'; 64 * KIB];
            // It may leave before all is said.
            while stdin.write_all(&piece).is_ok() {}
            drop(stdin);
            child.wait_with_output().unwrap()
        });
        String::from_utf8_lossy(&done.await.unwrap().stderr).into_owned()
    }

    pub(super) async fn function(&self) -> String {
        let tool = json!({ "type": "function", "name": "long" });
        self.call_with(tool, "long", json!({})).await
    }

    pub(super) async fn web(&self, mut arguments: Value) -> String {
        if arguments["action"].is_null() {
            arguments["action"] = json!("search");
        }
        self.call_with(json!({ "type": "web_search" }), "web_search", arguments).await
    }

    pub(super) fn page(&self) -> Value {
        json!({ "action": "open_page", "url": self.flood.url("/page") })
    }

    pub(super) fn find(&self) -> Value {
        let pattern = "p".repeat(10_000);
        json!({ "action": "find_in_page", "url": self.flood.url("/page"), "pattern": pattern })
    }

    /// A file with these bytes between its beginning and its end.
    fn upload(&self, name: &str, begin: &str, n_bytes: usize) -> RequestBuilder {
        let part = |head: &str| format!("--edge\r\ncontent-disposition: form-data; name={head}");
        let head = part("\"purpose\"\r\n\r\nassistants\r\n")
            + &part(&format!("\"file\"; filename=\"{name}\"\r\n\r\n{begin}"));
        let whole = stream::iter([Ok(Bytes::from(head))])
            .chain(filling(n_bytes))
            .chain(stream::iter([Ok(Bytes::from("\r\n--edge--\r\n"))]));
        let post = self.gateway.client.post(self.gateway.url("/v1/files")).bearer_auth(&self.key);
        let kind = "multipart/form-data; boundary=edge";
        post.header(CONTENT_TYPE, kind).body(Body::wrap_stream(whole))
    }

    /// A vector store with this file, once it is read. Returns its ID, and the status of the file.
    async fn library(&self, upload: RequestBuilder) -> (String, Value) {
        let (_, file) = json_of(upload).await;
        let (_, library) =
            json_of(self.post("/v1/vector_stores", &json!({ "file_ids": [file["id"]] }))).await;
        let id = library["id"].as_str().unwrap().to_owned();
        let path = format!("/v1/vector_stores/{id}/files/{}", file["id"].as_str().unwrap());
        loop {
            let (_, file) = json_of(self.get(&path)).await;
            if file["status"] != "in_progress" {
                return (id, file);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A file of ten times the limit; then one that has as many elements as there may be bytes.
    pub(super) async fn files(&self) -> String {
        let refused = told(self.upload("long.txt", "", 640 * MIB)).await;
        let (_, file) = self.library(self.upload("deep.html", &"<b>".repeat(7 * MIB), 0)).await;
        format!("{refused}, {file}")
    }

    pub(super) async fn embeddings(&self) -> String {
        let (id, _) = self.library(self.upload("small.txt", "walrus", 0)).await;
        let path = format!("/v1/vector_stores/{id}/search");
        json_of(self.post(&path, &json!({ "query": "walrus" }))).await.1.to_string()
    }

    /// Readers of a link to a run that does not end.
    pub(super) async fn readers(&self) -> String {
        let run = self.endless().await;
        let (_, link) = json_of(self.post(&format!("/v1/runs/{run}/share"), &json!({}))).await;
        let path = format!("/v1/shared/{}/events", link["token"].as_str().unwrap());
        // Fewer at once than an address may have of connections that nobody knows.
        let readers = stream::iter(0..640).map(|_| self.gateway.get(&path).send()).buffered(40);
        read_or_told(readers.collect().await, "too_many_readers").await
    }

    /// Callers who do not read the full result that they ask for.
    pub(super) async fn results(&self) -> String {
        let response = self.call("busy", "whole").await;
        let response: Value = serde_json::from_str(&response).unwrap();
        let run = response["id"].as_str().expect("a response").replace("resp_", "run_");
        let (_, run) = json_of(self.get(&format!("/v1/runs/{run}"))).await;
        let path = run["calls"][0]["result_ref"].as_str().expect("a large result");
        read_or_told(join_all((0..80).map(|_| self.get(path).send())).await, "too_many_results")
            .await
    }

    /// The ID of a run that does not end by itself.
    async fn endless(&self) -> String {
        let script = json!({ "turns": [{ "finish": "never" }] });
        let body = json!({ "model": "default", "input": script.to_string(), "background": true });
        let (_, response) = json_of(self.post("/v1/responses", &body)).await;
        response["id"].as_str().expect("a response").replace("resp_", "run_")
    }

    pub(super) async fn token(&self) -> String {
        let part = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let header = part(json!({ "alg": "ES256", "kid": "k" }));
        let claims = part(json!({ "iss": self.flood.url(""), "aud": "turnwire", "sub": "x" }));
        let token = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([1; 64]));
        let refused = told(self.gateway.get("/v1/models").bearer_auth(token)).await;
        self.check_taken("/.well-known/openid-configuration").await;
        refused
    }

    pub(super) async fn guarded(&self) -> String {
        let response = self.offered("guarded").await;
        let path = "/.well-known/oauth-protected-resource/guarded/mcp";
        self.check_taken(path).await;
        response
    }

    pub(super) async fn hook(&self) -> String {
        let run = self.endless().await;
        json_of(self.post(&format!("/v1/runs/{run}/cancel"), &json!({}))).await;
        self.check_taken("/hook").await;
        "not read".to_owned()
    }

    /// A row of a journal that is nested ten times as deep as may be.
    pub(super) async fn rows(&self) -> String {
        self.ask("default", &[]).await;
        let options = SqliteConnectOptions::new().filename(self.world.path().join("runs.db"));
        let mut store = options.connect().await.unwrap();
        let sql = "update run_events set body = $1 where kind = 'over' and run_id = \
                   (select run_id from run_events where tenant = 'attacker' and kind = 'over' limit 1) \
                   returning run_id";
        let deep = "[".repeat(1_280);
        let run: String = sqlx::query_scalar(sql).bind(deep).fetch_one(&mut store).await.unwrap();
        store.close().await.unwrap();
        let events = self.get(&format!("/v1/runs/{run}/events")).send().await.unwrap();
        events.text().await.unwrap()
    }
}
