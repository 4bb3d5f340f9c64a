//! docs/bounds.md, source by source: each is fed about ten times what it may cost, while somebody
//! else's client keeps asking. The bytes are made while they are sent.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    io::{self, Write as _},
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::{
    FutureExt, StreamExt,
    future::{LocalBoxFuture, join_all},
    stream,
};
use reqwest::{Body, RequestBuilder, StatusCode, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, Connection, sqlite::SqliteConnectOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    task::JoinSet,
    time::{MissedTickBehavior, interval, timeout},
};
use turnwire_testkit::{
    HostileMcp,
    hostile_mcp::{Answer, fine, list_changed, notification, question, result_of, tool, tool_with},
    upstreams::Upstreams,
};

use crate::{
    flood::{Flood, Flow},
    serve::{Gateway, json_of},
    world::{PATIENCE, World},
};

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// How much more memory the gateway may take: this many times the largest answer that it holds
/// whole.
const MULTIPLE: usize = 12;
const LARGEST: usize = 16 * MIB;

/// How much its readers may take, one of which works at a time.
const READERS: usize = 256 * MIB;

/// What the sockets of both sides may hold beside what is read.
const IN_SOCKETS: usize = 16 * MIB;

/// How long the other client may wait whatever it is without attacks: the machine has other work,
/// and the program is not optimized.
const FLOOR: Duration = Duration::from_millis(400);

/// Time between two questions of the other client.
const PACE: Duration = Duration::from_millis(40);

/// How long the other client is alone.
const ALONE: Duration = Duration::from_secs(6);

struct Attack {
    /// As in docs/bounds.md.
    source: &'static str,
    feed: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, String>,
    /// What must be in the words about how it ended.
    ends: &'static [&'static str],
}

const fn attack(
    source: &'static str,
    feed: for<'a> fn(&'a Stage) -> LocalBoxFuture<'a, String>,
    ends: &'static [&'static str],
) -> Attack {
    Attack { source, feed, ends }
}

const ATTACKS: &[Attack] = &[
    attack(
        "request bodies",
        |it| it.bodies().boxed_local(),
        &[
            "413 body_too_large",
            "400 json_too_deep",
            "400 json_too_many_keys",
            "400 json_too_many_values",
        ],
    ),
    attack("headers", |it| it.headers().boxed_local(), &["HTTP/1.1 431", "HTTP/1.1 431"]),
    attack("WebSocket messages", |it| it.messages().boxed_local(), &["closed with 1009, 1008"]),
    attack(
        "schemas of clients, tools, forms",
        |it| it.schema().boxed_local(),
        &["400 schema_too_large"],
    ),
    attack(
        "arguments of calls against a schema",
        |it| it.arguments().boxed_local(),
        &["\"completed\"", "invalid_arguments", "invalid_arguments"],
    ),
    attack(
        "calls in one answer of a model",
        |it| it.ask("many_calls", &[]).boxed_local(),
        &["max_tool_calls"],
    ),
    attack("MCP: results", |it| it.call("busy", "huge").boxed_local(), &["has more than 16 MiB"]),
    attack(
        "MCP: handshake, a page of tools",
        |it| it.offered("greeter").boxed_local(),
        &["\"completed\"", "its answer to the handshake has more than 4 MiB"],
    ),
    attack(
        "MCP: tools as the model sees them",
        |it| it.list().boxed_local(),
        &["1 MiB, completed"],
    ),
    attack("MCP: \"the tools have changed\"", |it| it.changes().boxed_local(), &["few lists"]),
    attack(
        "MCP: errors over HTTP",
        |it| it.call("busy", "error").boxed_local(),
        &["\"completed\"", "with the HTTP status 500"],
    ),
    attack(
        "MCP: messages of a program",
        |it| it.call("program", "huge").boxed_local(),
        &["\"completed\"", "timed out"],
    ),
    attack("MCP: forms", |it| it.form().boxed_local(), &["\"completed\"", "fine", "decline"]),
    attack(
        "MCP: progress, logs",
        |it| it.call("busy", "notes").boxed_local(),
        &["\"completed\"", "fine"],
    ),
    attack(
        "MCP: images, links",
        |it| it.call("busy", "images").boxed_local(),
        &["\"completed\"", "left out"],
    ),
    attack(
        "answers of models",
        |it| it.answers().boxed_local(),
        &["model_broke_off", "max_output_bytes"],
    ),
    attack(
        "lists of models (`doctor`)",
        |it| it.doctor().boxed_local(),
        &["is not a list of models"],
    ),
    attack("HTTP functions", |it| it.function().boxed_local(), &["the answer is longer than"]),
    attack(
        "results of a web search",
        |it| it.web(json!({ "query": "x" })).boxed_local(),
        &["the response of the search engine is too large"],
    ),
    attack("web pages", |it| it.web(it.page()).boxed_local(), &["the answer is too long"]),
    attack("`find_in_page`", |it| it.web(it.find()).boxed_local(), &["more than 1000 characters"]),
    attack(
        "files: text, HTML, Markdown, CSV, PDF",
        |it| it.files().boxed_local(),
        &["413 file_too_large", "invalid_file"],
    ),
    attack("embeddings", |it| it.embeddings().boxed_local(), &["words_only\":true"]),
    attack(
        "share links",
        |it| it.readers().boxed_local(),
        &["64 read, 576 are told too_many_readers"],
    ),
    attack(
        "keys of an identity provider",
        |it| it.token().boxed_local(),
        &["503 identity_provider_unavailable"],
    ),
    attack(
        "OAuth metadata and tokens of tool servers",
        |it| it.guarded().boxed_local(),
        &["\"completed\"", "not available"],
    ),
    attack("receivers of webhooks", |it| it.hook().boxed_local(), &["not read"]),
    attack("journal rows", |it| it.rows().boxed_local(), &["journal_unreadable"]),
    attack("`turnwire check`", |it| it.check().boxed_local(), &["an event has more than 16 MiB"]),
];

/// A13, A19: no source costs others anything: memory stays within a multiple, whoever asks at the
/// same time is answered as soon as before, and the attack ends as docs/bounds.md says.
#[tokio::test]
async fn no_source_costs_others_anything() {
    let page =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bounds.md")).unwrap();
    let sources = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let sources: Vec<&str> = sources.filter(|source| *source != "source").collect();
    assert_eq!(sources, ATTACKS.iter().map(|it| it.source).collect::<Vec<_>>());

    let mut neighbour = Neighbour::start();
    let mut stage = Stage::new(&neighbour.model_url).await;
    neighbour.asks(&stage.gateway, &stage.neighbour_key);
    tokio::time::sleep(ALONE).await;
    let memory = Memory::watch(stage.gateway.running().child.id());
    let mut told = Vec::new();
    for Attack { source, feed, ends } in ATTACKS {
        let (before, began) = (memory.restart(), Instant::now());
        let outcome = timeout(PATIENCE, feed(&stage)).await.expect(source);
        let (peak, end) = (memory.peak(), Instant::now());
        let mut rest = outcome.as_str();
        let is_so = ends.iter().all(|words| {
            let found = rest.split_once(words);
            rest = found.map_or("", |(_, rest)| rest);
            found.is_some()
        });
        told.push((*source, began, end, before, peak, (!is_so).then_some(outcome)));
    }
    let waits = neighbour.stop();
    let first = told[0].1;
    let alone = p99(waits.iter().filter(|(due, _)| *due < first));
    let attacked = p99(waits.iter().filter(|(due, _)| *due >= first));
    let base = told[0].3.own;
    let mut report = format!("alone {alone:?}, attacked {attacked:?}, {} MiB\n", base / MIB);
    let mut wrong = Vec::new();
    for (source, began, end, before, peak, outcome) in told {
        let during = waits.iter().filter(|(due, _)| (began..end).contains(due));
        let worst = during.map(|(_, wait)| *wait).max().unwrap_or_default();
        let (took, own, readers) = (end - began, peak.own / MIB, peak.children / MIB);
        let before = before.own / MIB;
        writeln!(report, "{took:?} {source}: {before} to {own} + {readers} MiB, {worst:?}")
            .unwrap();
        if peak.own > base + MULTIPLE * LARGEST || peak.children > READERS {
            wrong.push(format!("{source} costs too much memory"));
        }
        if let Some(outcome) = outcome {
            let outcome: String = outcome.chars().take(1_500).collect();
            wrong.push(format!("{source} ends otherwise: {outcome}"));
        }
    }
    if attacked > (2 * alone).max(FLOOR) {
        wrong.push("others wait".to_owned());
    }
    io::stdout().write_all(report.as_bytes()).unwrap();
    stage.gateway.signal("TERM");
    let done = stage.gateway.finish();
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
    assert!(wrong.is_empty(), "{wrong:#?}\n{report}");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}

fn p99<'a>(waits: impl Iterator<Item = &'a (Instant, Duration)>) -> Duration {
    let mut waits: Vec<Duration> = waits.map(|(_, wait)| *wait).collect();
    waits.sort();
    waits[waits.len() * 99 / 100]
}

/// A client of another tenant, with a model of its own, in a thread of its own: what the test does
/// besides does not delay it. It asks at fixed times, whether it is answered or not, so that who is
/// kept waiting is counted as often as it would have asked.
struct Neighbour {
    model_url: String,
    begin: Option<oneshot::Sender<(String, String)>>,
    asking: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(Instant, Duration)>>,
}

impl Neighbour {
    fn start() -> Self {
        let (begin, whom) = oneshot::channel::<(String, String)>();
        let (listening, url) = mpsc::channel();
        let asking = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&asking);
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let model = Upstreams::start(0).await.unwrap();
                listening.send(model.model_url()).unwrap();
                let (url, key) = whom.await.unwrap();
                ask_until(&url, &key, &goes_on).await
            })
        });
        Self { model_url: url.recv().unwrap(), begin: Some(begin), asking, thread }
    }

    fn asks(&mut self, gateway: &Gateway, key: &str) {
        let begin = self.begin.take().unwrap();
        begin.send((gateway.url("/v1/responses"), key.to_owned())).unwrap();
    }

    /// When it was due to ask, and how long it waited from then on.
    fn stop(self) -> Vec<(Instant, Duration)> {
        self.asking.store(false, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

async fn ask_until(url: &str, key: &str, goes_on: &AtomicBool) -> Vec<(Instant, Duration)> {
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let mut times = interval(PACE);
    times.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut waiting = JoinSet::new();
    while goes_on.load(Ordering::Relaxed) {
        let due = times.tick().await.into_std();
        let body = json!({ "model": "neighbour", "input": "Good day" });
        let request = client.post(url).bearer_auth(key).json(&body);
        waiting.spawn(async move {
            let response = request.send().await.unwrap();
            let (status, text) = (response.status(), response.text().await.unwrap());
            assert_eq!(status, StatusCode::OK, "{text}");
            assert!(text.contains("You said: Good day"), "{text}");
            (due, due.elapsed())
        });
    }
    waiting.join_all().await
}

/// Resident memory of a process and of what it has started.
#[derive(Debug, Clone, Copy)]
struct Resident {
    own: usize,
    children: usize,
}

impl Resident {
    fn of(pid: u32) -> Self {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
        let own: usize = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        let children = threads.map(|thread| {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let each = children.split_whitespace().map(|pid| Self::of(pid.parse().unwrap()));
            each.map(|it| it.own + it.children).sum::<usize>()
        });
        Self { own: own * KIB, children: children.sum() }
    }

    fn or_more(self, other: Self) -> Self {
        Self { own: self.own.max(other.own), children: self.children.max(other.children) }
    }
}

/// Looks at the memory of a process all the time.
struct Memory(Arc<Mutex<MemoryState>>);

struct MemoryState {
    now: Resident,
    peak: Resident,
}

impl Memory {
    fn watch(pid: u32) -> Self {
        let now = Resident::of(pid);
        let state = Arc::new(Mutex::new(MemoryState { now, peak: now }));
        let looked_at = Arc::downgrade(&state);
        thread::spawn(move || {
            while let Some(state) = looked_at.upgrade() {
                let now = Resident::of(pid);
                let mut state = state.lock().unwrap();
                *state = MemoryState { now, peak: state.peak.or_more(now) };
                drop(state);
                thread::sleep(Duration::from_millis(15));
            }
        });
        Self(state)
    }

    /// Forgets the peak, and returns what is taken now.
    fn restart(&self) -> Resident {
        let mut state = self.0.lock().unwrap();
        state.peak = state.now;
        state.now
    }

    fn peak(&self) -> Resident {
        self.0.lock().unwrap().peak
    }
}

/// A gateway, with everything behind it that means harm.
struct Stage {
    gateway: Gateway,
    key: String,
    neighbour_key: String,
    flood: Flood,
    mcp: BTreeMap<&'static str, HostileMcp>,
    world: World,
    _model: Upstreams,
}

/// A program that answers a call with 160 MiB on one line.
const PROGRAM: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) what='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"p","version":"1"}}' ;;
    *'"method":"tools/list"'*) what='"result":{"tools":[{"name":"huge","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*)
        printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"' "$id"
        head -c 167772160 /dev/zero | tr '\0' x
        printf '"}]}}\n'
        continue ;;
    *'"id":'*) what='"error":{"code":-32601,"message":"no such method"}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$what"
done
"#;

impl Stage {
    async fn new(neighbour_model: &str) -> Self {
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
        let gateway = Gateway::start(&world, &["serve", "--json", "--listen", "127.0.0.1:0"]);
        Self { gateway, key, neighbour_key, flood, mcp, world, _model: model }
    }
}

fn settings(
    model: &str,
    neighbour_model: &str,
    flood: &Flood,
    mcp: &BTreeMap<&'static str, HostileMcp>,
) -> String {
    let mut text = String::new();
    let models = [("default", model.to_owned()), ("neighbour", neighbour_model.to_owned())];
    let harmful = ["long_line", "long_turn", "many_calls", "big_arguments"];
    let harmful = harmful.map(|name| (name, flood.url(&format!("/{name}/v1"))));
    for (name, url) in models.into_iter().chain(harmful) {
        writeln!(
            text,
            "[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\n\
             model = \"scripted\""
        )
        .unwrap();
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

/// What the site says.
fn flow(path: &str, body: &str) -> Flow {
    let delta = |delta: Value| {
        let chunk = json!({ "choices": [{ "index": 0, "delta": delta }] });
        format!("data: {chunk}\n\n")
    };
    let called = |index: usize, name: &str, arguments: &str| {
        let function = json!({ "name": name, "arguments": arguments });
        let id = format!("call_{index}");
        json!({ "tool_calls": [{ "index": index, "id": id, "type": "function", "function": function }] })
    };
    let last = "data: [DONE]\n\n";
    match path {
        "/long_line/v1/chat/completions" => {
            let head = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"";
            Flow::events(head, "\"}}]}\n\n").filled(10 * MIB)
        }
        "/long_turn/v1/chat/completions" => {
            let piece = delta(json!({ "content": "x".repeat(32 * KIB) }));
            Flow::events("", last).of(40 * MIB / (32 * KIB), move |_| piece.clone())
        }
        "/many_calls/v1/chat/completions" => {
            Flow::events("", last).of(10_240, move |n| delta(called(n, "nothing", "{}")))
        }
        "/big_arguments/v1/chat/completions" if body.contains("\"role\":\"tool\"") => {
            Flow::events(&delta(json!({ "content": "Done." })), last)
        }
        "/big_arguments/v1/chat/completions" => {
            let begin = delta(called(0, "look", "{\"x\":\""));
            let piece = json!({ "index": 0, "function": { "arguments": "x".repeat(64 * KIB) } });
            let piece = delta(json!({ "tool_calls": [piece] }));
            let end = json!({ "index": 0, "function": { "arguments": "\"}" } });
            let end = delta(json!({ "tool_calls": [end] })) + last;
            Flow::events(&begin, &end).of(40, move |_| piece.clone())
        }
        "/v1/models" => Flow::json("{\"data\":[{\"id\":\"", "\"}]}").filled(160 * MIB),
        "/v1/embeddings" => {
            Flow::json("{\"data\":[{\"index\":0,\"embedding\":[\"", "\"]}]}").filled(160 * MIB)
        }
        "/function" => Flow::json("{\"said\":\"", "\"}").filled(10 * MIB),
        "/search" => {
            let head = "{\"results\":[{\"url\":\"https://a.example/\",\"title\":\"";
            Flow::json(head, "\"}]}").filled(10 * MIB)
        }
        "/page" => Flow::new("text/html", "<p>", "</p>").filled(20 * MIB),
        "/hook" => Flow::json("", "").filled(160 * MIB),
        "/guarded/mcp" => Flow::json("", "").status("401 X", "www-authenticate: Bearer"),
        // Whatever is below /.well-known.
        _ => Flow::json("{\"issuer\":\"", "\"}").filled(160 * MIB),
    }
}

/// A server whose tools answer with too much, each in its own way.
async fn busy() -> HostileMcp {
    let values: Vec<Value> = (1..4_000).map(|n| json!({ "const": n })).collect();
    let look = json!({
        "type": "object",
        "properties": { "x": { "type": "array", "items": { "anyOf": values } } },
    });
    let names = ["huge", "error", "form", "notes", "images"];
    let mut tools = names.map(tool).to_vec();
    tools.push(tool_with("look", "Looks.", &look));
    HostileMcp::start(tools, |server, request| {
        let answer = result_of(request, &fine());
        Some(match request.pointer("/params/name")?.as_str()? {
            "huge" => Answer::Long(160 * MIB),
            "error" => Answer::Status(500, "application/json", 640 * KIB),
            "form" => {
                let field = json!({ "type": "string", "description": "d".repeat(640 * KIB) });
                let form = json!({ "type": "object", "properties": { "x": field } });
                let server = server.clone();
                let last = stream::once(async move {
                    server.replies(1).await;
                    answer
                });
                Answer::Events(stream::iter([question("q", "Please", &form)]).chain(last).boxed())
            }
            "notes" => {
                let token = request["params"]["_meta"]["progressToken"].clone();
                let notes = (0..3_000).map(move |n| match n % 3 {
                    0 => notification(
                        "notifications/message",
                        &json!({ "level": "info", "data": "l".repeat(10 * KIB) }),
                    ),
                    _ => notification(
                        "notifications/progress",
                        &json!({
                            "progressToken": token, "progress": n,
                            "message": "m".repeat(10 * KIB),
                        }),
                    ),
                });
                Answer::events(notes.chain([answer]))
            }
            "images" => {
                let image = |n_bytes: usize| {
                    let data = "A".repeat(n_bytes);
                    json!({ "type": "image", "mimeType": "image/png", "data": data })
                };
                let mut images = vec![image(5 * MIB)];
                images.resize(160, image(60 * KIB));
                Answer::Result(json!({ "content": images }))
            }
            _ => return None,
        })
    })
    .await
}

/// A handshake of 40 MiB.
fn greeter(_: &HostileMcp, request: &Value) -> Option<Answer> {
    let is_it = ["initialize", "server/discover"].contains(&request["method"].as_str()?);
    is_it.then_some(Answer::Long(40 * MIB))
}

/// Pages of 3 MiB without an end, with tools of 60 KiB.
fn lister(server: &HostileMcp, request: &Value) -> Option<Answer> {
    let (page, text) = (server.asked("tools/list"), "d".repeat(60 * KIB));
    let name = |n| format!("tool_{page}_{n}");
    let tools = || -> Vec<Value> {
        (0..50).map(|n| tool_with(&name(n), &text, &json!({ "type": "object" }))).collect()
    };
    let is_list = request["method"] == "tools/list";
    is_list.then(|| Answer::Result(json!({ "tools": tools(), "nextCursor": "more" })))
}

/// A list whose answer says that it has changed already.
fn changing(server: &HostileMcp, request: &Value) -> Option<Answer> {
    let tools = [tool(&format!("tool_{}", server.asked("tools/list")))];
    let answer = result_of(request, &json!({ "tools": tools }));
    (request["method"] == "tools/list").then(|| Answer::events([list_changed(), answer]))
}

/// The status and the code of a refusal.
async fn told(request: RequestBuilder) -> String {
    let response = request.send().await.unwrap();
    let status = response.status();
    let body: Value = response.json().await.unwrap_or_default();
    format!("{} {}", status.as_u16(), body["error"]["code"].as_str().unwrap_or_default())
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

    async fn ask(&self, model: &str, tools: &[Value]) -> String {
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

    async fn call(&self, label: &str, name: &str) -> String {
        self.call_with(self.server(label), name, json!({})).await
    }

    /// A run to which the tools of a server are offered.
    async fn offered(&self, label: &str) -> String {
        self.ask("default", &[self.server(label)]).await
    }

    /// Lists without an end. Returns how large the response is that has what of them is offered.
    async fn list(&self) -> String {
        let response = self.offered("lister").await;
        let status: Value = serde_json::from_str(&response).unwrap();
        format!("{} MiB, {}", response.len() / MIB, status["status"].as_str().unwrap())
    }

    async fn form(&self) -> String {
        let response = self.call("busy", "form").await;
        response + &self.mcp["busy"].replies(1).await[0].to_string()
    }

    async fn bodies(&self) -> String {
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

    async fn headers(&self) -> String {
        let head = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n".to_vec();
        let long = (0..5).map(|_| vec![b'x'; 64 * KIB]);
        let long = [head.clone(), b"x: ".to_vec()].into_iter().chain(long);
        let many = [head, b"x: y\r\n".repeat(1_000), b"\r\n".to_vec()];
        let answers = [self.raw(long, |_| false).await, self.raw(many, |_| false).await];
        answers.map(|answer| String::from_utf8_lossy(&answer).into_owned()).concat()
    }

    async fn messages(&self) -> String {
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

    async fn schema(&self) -> String {
        let schema = json!({ "type": "object", "description": "d".repeat(640 * KIB) });
        let tool = json!({ "type": "function", "name": "f", "parameters": schema });
        let body = json!({ "model": "default", "input": "Go on.", "tools": [tool] });
        told(self.post("/v1/responses", &body)).await
    }

    /// Ten times the bytes; then as many as may be, against a schema that needs ten times the looks.
    async fn arguments(&self) -> String {
        let bytes = self.ask("big_arguments", &[self.server("busy")]).await;
        let values = json!({ "x": vec![0; 125_000] });
        bytes + &self.call_with(self.server("busy"), "look", values).await
    }

    /// Runs to which a list is offered that always changes.
    async fn changes(&self) -> String {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            self.offered("changing").await;
        }
        let n_lists = self.mcp["changing"].asked("tools/list");
        if n_lists <= 6 { "few lists".to_owned() } else { format!("{n_lists} lists") }
    }

    async fn answers(&self) -> String {
        self.ask("long_line", &[]).await + &self.ask("long_turn", &[]).await
    }

    /// `turnwire` as a process of its own, with at most so much memory.
    fn limited(&self, arguments: &str) -> std::process::Command {
        let mut command = self.world.program("sh");
        let program = crate::world::TURNWIRE;
        command.args(["-c", &format!("ulimit -v 600000; exec {program} {arguments}")]);
        command
    }

    async fn doctor(&self) -> String {
        let settings = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nurl = \"memory:\"\n[models.default]\n\
             kind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            self.flood.url("/v1")
        );
        fs::write(self.world.path().join("doctor.toml"), settings).unwrap();
        let mut command = self.limited("doctor --json --config doctor.toml");
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        self.check_taken("/v1/models").await;
        String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr)
    }

    async fn check(&self) -> String {
        let mut command = self.limited("check");
        command.stdin(Stdio::piped());
        let done = tokio::task::spawn_blocking(move || {
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

    async fn function(&self) -> String {
        let tool = json!({ "type": "function", "name": "long" });
        self.call_with(tool, "long", json!({})).await
    }

    async fn web(&self, mut arguments: Value) -> String {
        if arguments["action"].is_null() {
            arguments["action"] = json!("search");
        }
        self.call_with(json!({ "type": "web_search" }), "web_search", arguments).await
    }

    fn page(&self) -> Value {
        json!({ "action": "open_page", "url": self.flood.url("/page") })
    }

    fn find(&self) -> Value {
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
    async fn files(&self) -> String {
        let refused = told(self.upload("long.txt", "", 640 * MIB)).await;
        let (_, file) = self.library(self.upload("deep.html", &"<b>".repeat(7 * MIB), 0)).await;
        format!("{refused}, {file}")
    }

    async fn embeddings(&self) -> String {
        let (id, _) = self.library(self.upload("small.txt", "walrus", 0)).await;
        let path = format!("/v1/vector_stores/{id}/search");
        json_of(self.post(&path, &json!({ "query": "walrus" }))).await.1.to_string()
    }

    /// Readers of a link to a run that does not end.
    async fn readers(&self) -> String {
        let run = self.endless().await;
        let (_, link) = json_of(self.post(&format!("/v1/runs/{run}/share"), &json!({}))).await;
        let path = format!("/v1/shared/{}/events", link["token"].as_str().unwrap());
        // Fewer at once than an address may have of connections that nobody knows.
        let readers = stream::iter(0..640).map(|_| self.gateway.get(&path).send()).buffered(40);
        let readers: Vec<_> = readers.collect().await;
        let (read, refused): (Vec<_>, Vec<_>) =
            readers.into_iter().map(Result::unwrap).partition(|it| it.status() == StatusCode::OK);
        let n_refused = refused.len();
        let codes = refused.into_iter().map(|it| async { it.text().await.unwrap() });
        let too_many = |text: &String| text.contains("too_many_readers");
        assert!(join_all(codes).await.iter().all(too_many));
        format!("{} read, {n_refused} are told too_many_readers", read.len())
    }

    /// The ID of a run that does not end by itself.
    async fn endless(&self) -> String {
        let script = json!({ "turns": [{ "finish": "never" }] });
        let body = json!({ "model": "default", "input": script.to_string(), "background": true });
        let (_, response) = json_of(self.post("/v1/responses", &body)).await;
        response["id"].as_str().expect("a response").replace("resp_", "run_")
    }

    async fn token(&self) -> String {
        let part = |part: Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let header = part(json!({ "alg": "ES256", "kid": "k" }));
        let claims = part(json!({ "iss": self.flood.url(""), "aud": "turnwire", "sub": "x" }));
        let token = format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([1; 64]));
        let refused = told(self.gateway.get("/v1/models").bearer_auth(token)).await;
        self.check_taken("/.well-known/openid-configuration").await;
        refused
    }

    async fn guarded(&self) -> String {
        let response = self.offered("guarded").await;
        let path = "/.well-known/oauth-protected-resource/guarded/mcp";
        self.check_taken(path).await;
        response
    }

    async fn hook(&self) -> String {
        let run = self.endless().await;
        json_of(self.post(&format!("/v1/runs/{run}/cancel"), &json!({}))).await;
        self.check_taken("/hook").await;
        "not read".to_owned()
    }

    /// A row of a journal that is nested ten times as deep as may be.
    async fn rows(&self) -> String {
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
