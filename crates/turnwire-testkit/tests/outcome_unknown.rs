//! Tools whose server dies, hangs up or falls silent in the middle of a call: real processes that
//! are killed, and real sockets that are cut before and after the request went out.
//!
//! A tool that must not act twice then ends with an unknown outcome, and the model is told so. A
//! tool that may be repeated is called again. A connection that could not be made at all is a
//! plain failure: nothing has happened.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]
#![expect(dead_code, reason = "the other tests use the rest of it")]

mod mcp_world;

use std::{
    collections::BTreeMap,
    path::Path,
    process::Command as StdCommand,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::StreamExt;
use mcp_world::{HttpServer, LABEL, Log, one, until, with_env};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::Command,
    time::timeout,
};
use tokio_util::task::TaskTracker;
use turnwire_contract::{
    Effect, Event, Item, RecordedEvent, RunOutcome, RunRequest, ServerUse, Tool, ToolOutcome,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_surfaces::{RunSnapshot, ai_sdk::Dialect};
use turnwire_testkit::{mcp_server::LOG_VARIABLE, surfaces};
use turnwire_tools::{HttpFunction, HttpFunctionOptions, HttpMethod, McpServerOptions, McpServers};

const PROPS: &str = env!("CARGO_BIN_EXE_mcp-props");

/// How long a run may take here.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the model is told at the end of every sentence about an outcome nobody knows.
const NOT_KNOWN: &str = "whether it did its work is not known, so check before you try again";

/// What came of a run with one call.
struct Ran {
    journal: Vec<Arc<RecordedEvent>>,
    outcome: RunOutcome,
    /// The result of the call as the model was shown it.
    told: String,
}

impl Ran {
    fn end_of_call(&self) -> &ToolOutcome {
        let mut ends = self.journal.iter().filter_map(|recorded| match &recorded.event {
            Event::ToolFinished { outcome, .. } => Some(outcome),
            _ => None,
        });
        let end = ends.next().expect("the call has an end");
        assert!(ends.next().is_none(), "it has one end");
        end
    }

    fn n_retries(&self) -> usize {
        let retried =
            |recorded: &&Arc<RecordedEvent>| matches!(recorded.event, Event::ToolRetried { .. });
        self.journal.iter().filter(retried).count()
    }

    /// The call ended with an unknown outcome because of `what`, on every surface, and the run
    /// went on to its answer.
    fn is_unknown(&self, what: &str) {
        let words = format!("{what}; {NOT_KNOWN}");
        assert_eq!(
            self.end_of_call(),
            &ToolOutcome::OutcomeUnknown { message: words.clone() },
            "the journal"
        );
        assert_eq!(self.told, format!("Error: {words}"), "the model");
        assert_eq!(self.outcome, RunOutcome::Completed);
        let snapshot = RunSnapshot::of(self.journal.iter().map(AsRef::as_ref));
        let snapshot = serde_json::to_value(snapshot).unwrap();
        assert_eq!(snapshot.pointer("/calls/0/state").unwrap(), "unknown", "{snapshot:#}");
        let code = "\"code\":\"outcome_unknown\"";
        let failure = "\"failure\":\"outcome_unknown\"";
        let shown = [
            ("responses", surfaces::responses(&self.journal), code),
            ("responses, extended", surfaces::responses_extended(&self.journal), code),
            ("/ws/chat", surfaces::ws_chat(&self.journal), failure),
            ("/chat/stream", surfaces::chat_stream(&self.journal), "is not known"),
            (
                "/ai-sdk/chat",
                surfaces::ui_messages(&self.journal, Dialect::V6),
                "data-tool-outcome",
            ),
            ("callbacks", surfaces::callbacks(&self.journal), "is not known"),
            ("terminal", surfaces::transcript(&self.journal), "outcome unknown"),
        ];
        for (surface, text, word) in shown {
            assert!(text.contains(word), "{surface} does not say {word}: {text}");
        }
    }

    /// The call failed, for certain, with these words.
    fn has_failed(&self, words: &str) {
        let ToolOutcome::Failed { failure } = self.end_of_call() else {
            panic!("it has not failed: {:?}", self.end_of_call());
        };
        assert_eq!((failure.code.as_str(), failure.message.as_str()), ("tool_failed", words));
        assert_eq!(self.told, format!("Error: {words}"));
    }
}

/// A run in which the model calls `tool` once. `meanwhile` is carried out beside it.
async fn run(
    parts: EngineParts,
    tool: &str,
    uses_server: bool,
    meanwhile: impl Future<Output = ()>,
) -> Ran {
    let turns = [Turn::new().call(tool, json!({})), Turn::new().text("I see.")];
    let model = Scripted::new(turns);
    let any_model = Some(Arc::new(model.clone()) as Arc<_>);
    let runs = Runs::new(EngineParts { any_model, ..parts });
    let mut request = RunRequest::new("scripted", vec![Item::user("Go.")]);
    if uses_server {
        request.servers.push(ServerUse::all_of(LABEL));
    }
    request.tools = runs.tools().specs();
    let handle = runs.start(request).await.unwrap();
    let events = handle.events().await.unwrap().map(Result::unwrap).collect::<Vec<_>>();
    let (journal, ()) =
        timeout(PATIENCE, async { tokio::join!(events, meanwhile) }).await.expect("it hangs");
    let prompts = model.prompts();
    let told = prompts.last().unwrap().items.iter().find_map(|item| match &**item {
        Item::CallResult { output, .. } => Some(output.clone()),
        _ => None,
    });
    let told = told.expect("the model was told what came of its call");
    Ran { journal, outcome: handle.outcome().await, told }
}

/// Calls a tool of a server.
async fn run_with_server(
    servers: McpServers,
    tool: &str,
    meanwhile: impl Future<Output = ()>,
) -> Ran {
    let parts = EngineParts { servers: Arc::new(servers), ..EngineParts::default() };
    run(parts, tool, true, meanwhile).await
}

/// Calls a function.
async fn run_with_function(function: HttpFunctionOptions) -> Ran {
    let function: Arc<dyn Tool> = Arc::new(HttpFunction::new(function).unwrap());
    let mut tools = Toolbox::default();
    tools.add(function).unwrap();
    run(EngineParts { tools, ..EngineParts::default() }, "act", false, async {}).await
}

/// Our server as a process whose number is in a file, so that it can be killed.
fn killable(log: &Log, pid: &Path) -> McpServerOptions {
    let script = format!("echo $$ > \"$PID_FILE\"; exec {PROPS}");
    let options = with_env(McpServerOptions::stdio("sh", ["-c", &script]), "PID_FILE", pid);
    with_env(options, LOG_VARIABLE, &log.0)
}

fn with_effect(mut options: McpServerOptions, tool: &str, effect: Effect) -> McpServerOptions {
    options.effects = BTreeMap::from([(tool.to_owned(), effect)]);
    options
}

/// Kills the process with the number in `file`, without a word to it.
fn kill(file: &Path) {
    let pid = std::fs::read_to_string(file).expect("the server has written its number");
    let killed = StdCommand::new("kill").args(["-KILL", pid.trim()]).status();
    assert!(killed.expect("kill can be run").success());
}

/// C5: a server of pipes that is killed while its tool is at work.
#[tokio::test]
async fn a_killed_server_leaves_an_unknown_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let (log, pid) = (Log::in_folder(folder.path()), folder.path().join("pid"));
    let servers = one(killable(&log, &pid));
    let ran = run_with_server(servers, "hang", async {
        log.until("began").await;
        kill(&pid);
    })
    .await;
    ran.is_unknown("the server `props` disconnected during the call");
    assert_eq!((ran.n_retries(), log.count("began")), (0, 1), "it is called once");
}

/// C5: a tool that may be repeated is called again when its server was killed; if that does not
/// help, the outcome of a pure one is a failure, and of an idempotent one it is unknown.
#[tokio::test]
async fn a_tool_that_may_be_repeated_is_called_again() {
    for effect in [Effect::Pure, Effect::Idempotent] {
        let folder = tempfile::tempdir().unwrap();
        let (log, pid) = (Log::in_folder(folder.path()), folder.path().join("pid"));
        let servers = one(with_effect(killable(&log, &pid), "hang", effect));
        let ran = run_with_server(servers, "hang", async {
            for n_begun in 1..=2 {
                until(|| (log.count("began") == n_begun).then_some(())).await;
                kill(&pid);
            }
        })
        .await;
        assert_eq!((ran.n_retries(), log.count("began")), (1, 2), "{effect:?}");
        let what = "the server `props` disconnected during the call";
        match effect {
            Effect::Pure => ran.has_failed(what),
            _ => ran.is_unknown(what),
        }
    }
}

async fn props_over_http(log: &Log) -> HttpServer {
    let mut command = Command::new(PROPS);
    command.args(["--http", "0"]).env(LOG_VARIABLE, &log.0);
    HttpServer::start(command).await
}

/// C5: the same over HTTP: the server's process is killed while its tool is at work.
#[tokio::test]
async fn a_killed_http_server_leaves_an_unknown_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::in_folder(folder.path());
    let mut server = props_over_http(&log).await;
    let servers = one(server.options());
    let ran = run_with_server(servers, "hang", async {
        log.until("began").await;
        server.child.kill().await.unwrap();
    })
    .await;
    ran.is_unknown("the server `props` disconnected during the call");
    assert_eq!(log.count("began"), 1);
}

/// C5: a server that was killed before it was given the call has done nothing, and that is known.
#[tokio::test]
async fn a_call_that_never_went_out_has_failed() {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::in_folder(folder.path());
    let mut server = props_over_http(&log).await;
    let servers = one(server.options());
    mcp_world::tools(&servers).await.unwrap();
    server.child.kill().await.unwrap();
    let ran = run_with_server(servers, "echo", async {}).await;
    ran.has_failed("the server `props` disconnected before the call was sent");
    assert_eq!(log.count("began"), 0);
}

/// A server that tells of one tool, and then closes its ears without going away.
const DEAF: &str = r#"
import json, os, sys
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "deaf", "version": "1"}},
    "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] in ANSWERS:
        answer["result"] = ANSWERS[asked["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    if asked["method"] == "tools/list":
        os.close(0)
    print(json.dumps(answer), flush=True)
    if asked["method"] == "tools/list":
        break
import time; time.sleep(60)
"#;

/// C5: a line that a server of pipes did not take was not carried out, and that is known.
#[tokio::test]
async fn a_call_that_a_pipe_did_not_take_has_failed() {
    let servers = one(McpServerOptions::stdio("python3", ["-c", DEAF]));
    mcp_world::tools(&servers).await.unwrap();
    let ran = run_with_server(servers, "act", async {}).await;
    ran.has_failed("the server `props` disconnected before the call was sent");
}

/// A function at an address on this machine.
fn function(port: u16, effect: Effect) -> HttpFunctionOptions {
    let url = format!("http://127.0.0.1:{port}/act");
    let mut options = HttpFunctionOptions::new("act", HttpMethod::Post, url);
    options.effect = effect;
    options.timeout = Duration::from_secs(5);
    options
}

/// What a server does with a request that it has read to its end.
#[derive(Debug, Clone, Copy)]
enum Then {
    /// It closes the connection without an answer.
    HangsUp,
    /// It resets the connection.
    Resets,
    /// It closes the connection in the middle of its answer.
    HangsUpInMidAnswer,
    /// It says nothing.
    FallsSilent,
    /// It is a proxy that has not heard from whoever is behind it.
    LostWhoIsBehindIt,
}

/// A server that does the same with every request; its port, and how many it has read.
async fn server_that(then: Then) -> (u16, Arc<AtomicUsize>, TaskTracker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (n_read, tasks) = (Arc::new(AtomicUsize::new(0)), TaskTracker::new());
    let (count, serving) = (Arc::clone(&n_read), tasks.clone());
    tasks.spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let count = Arc::clone(&count);
            serving.spawn(async move {
                read_request(&mut socket).await;
                count.fetch_add(1, Ordering::SeqCst);
                answer(socket, then).await;
            });
        }
    });
    (port, n_read, tasks)
}

async fn read_request(socket: &mut TcpStream) {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n{}") {
        let mut byte = [0];
        socket.read_exact(&mut byte).await.unwrap();
        text.extend_from_slice(&byte);
    }
}

async fn answer(mut socket: TcpStream, then: Then) {
    match then {
        Then::HangsUp => {}
        Then::Resets => socket.set_zero_linger().unwrap(),
        Then::HangsUpInMidAnswer => {
            let head =
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nha";
            socket.write_all(head).await.unwrap();
        }
        Then::FallsSilent => std::future::pending().await,
        Then::LostWhoIsBehindIt => {
            let head = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n";
            socket.write_all(head).await.unwrap();
        }
    }
}

/// C5: a function whose connection is cut after the request went out, in every way.
#[tokio::test]
async fn a_function_that_was_cut_off_has_an_unknown_outcome() {
    let ways = [
        (Then::HangsUp, "the connection was lost before the response"),
        (Then::Resets, "the connection was lost before the response"),
        (Then::HangsUpInMidAnswer, "the connection was lost before the response"),
        (Then::FallsSilent, "no response within 0.3 s"),
        (Then::LostWhoIsBehindIt, "it answered with status 504"),
    ];
    for (then, words) in ways {
        let (port, n_read, _serving) = server_that(then).await;
        let mut options = function(port, Effect::Once);
        if matches!(then, Then::FallsSilent) {
            options.timeout = Duration::from_millis(300);
        }
        let ran = run_with_function(options).await;
        ran.is_unknown(words);
        assert_eq!(n_read.load(Ordering::SeqCst), 1, "{then:?}: it is called once");
    }
}

/// C5: a pure function is called again; nothing is unknown about it in the end.
#[tokio::test]
async fn a_pure_function_that_was_cut_off_is_called_again() {
    let (port, n_read, _serving) = server_that(Then::HangsUp).await;
    let ran = run_with_function(function(port, Effect::Pure)).await;
    assert_eq!((ran.n_retries(), n_read.load(Ordering::SeqCst)), (1, 2));
    ran.has_failed("the connection was lost before the response");
}

/// C5: nobody was there to take the call, so nothing has happened, and that is known.
#[tokio::test]
async fn a_function_that_was_never_reached_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let ran = run_with_function(function(port, Effect::Once)).await;
    ran.has_failed("cannot connect to the server");
    let value: Value = serde_json::to_value(ran.end_of_call()).unwrap();
    assert_eq!(value["status"], "failed");
}
