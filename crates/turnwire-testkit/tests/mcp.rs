//! Our MCP client against our own MCP server: a real process, real pipes, real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]

mod mcp_world;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::to_bytes,
    extract::Request,
    http::StatusCode,
    middleware::{Next, from_fn},
    response::IntoResponse,
};
use futures::{StreamExt, future::join_all};
use mcp_world::{
    HttpServer, LABEL, Listener, Log, call, call_with, go_on_with, is_alive, known, names, one,
    tool, tools, until, with_env,
};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::local::LocalSessionManager,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::TcpListener, process::Command, time::timeout};
use tokio_util::task::TaskTracker;
use turnwire_contract::{
    AskBefore, DiscoveryOutcome, Effect, Event, Image, Item, Reply, RunOutcome, RunRequest,
    ServerRef, ServerUse, TenantId, Tool, ToolError, ToolKind, ToolNote, ToolOutcome, ToolOutput,
    ToolServers,
};
use turnwire_engine::{EngineParts, Runs};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::mcp_server::{Generation, LOG_VARIABLE, McpProps, PIXEL};
use turnwire_tools::{Egress, EgressOptions, McpServerOptions, McpServers, UrlRule};

const PROPS: &str = env!("CARGO_BIN_EXE_mcp-props");

const ALL: [&str; 20] = [
    "echo",
    "add",
    "fail",
    "rpc_error",
    "slow",
    "hang",
    "wait_for_cancel",
    "crash",
    "big",
    "image",
    "structured",
    "environment",
    "grow",
    "shrink",
    "ignore_cancel",
    "late_progress",
    "everything",
    "elicit",
    "task",
    "task_that_asks",
];

/// How a server is reached, and which generation of the protocol it speaks.
#[derive(Debug, Clone, Copy)]
enum Way {
    Pipes,
    OlderPipes,
    MutePipes,
    Http,
    OlderHttp,
}

impl Way {
    const EVERY: [Self; 4] = [Self::Pipes, Self::OlderPipes, Self::Http, Self::OlderHttp];

    /// What the server is told about its generation of the protocol.
    fn generation(self) -> Option<&'static str> {
        match self {
            Self::Pipes | Self::Http => None,
            Self::OlderPipes | Self::OlderHttp => Some("--older"),
            Self::MutePipes => Some("--mute"),
        }
    }
}

/// Our server, the connection to it, and what it has written down.
struct World {
    servers: McpServers,
    log: Log,
    http: Option<HttpServer>,
    _folder: TempDir,
}

impl World {
    async fn new(way: Way) -> Self {
        Self::with(way, |options| options).await
    }

    async fn with(way: Way, change: impl FnOnce(McpServerOptions) -> McpServerOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = Log::in_folder(folder.path());
        let http = match way {
            Way::Pipes | Way::OlderPipes | Way::MutePipes => None,
            Way::Http | Way::OlderHttp => Some(HttpServer::start(over_http(&log, 0, way)).await),
        };
        let options = http.as_ref().map_or_else(
            || with_env(McpServerOptions::stdio(PROPS, way.generation()), LOG_VARIABLE, &log.0),
            HttpServer::options,
        );
        Self { servers: one(change(options)), log, http, _folder: folder }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(&self.servers, name, arguments).await
    }
}

fn over_http(log: &Log, port: u16, way: Way) -> Command {
    let mut command = Command::new(PROPS);
    command.args(["--http", &port.to_string()]).env(LOG_VARIABLE, &log.0);
    command.args(way.generation());
    command
}

/// Every page of the list is read, and a tool says what is known about it.
#[tokio::test]
async fn the_tools_of_a_server_are_told() {
    let world = World::new(Way::Pipes).await;
    let tools = tools(&world.servers).await.unwrap();
    assert_eq!(names(&tools), ALL);
    let spec = tools[1].spec();
    assert_eq!(spec.name, "add");
    assert_eq!(spec.description, "Adds two numbers.");
    let number = json!({ "type": "number" });
    let parameters = json!({ "type": "object", "properties": { "a": number, "b": number } });
    assert_eq!(spec.parameters, parameters);
    assert_eq!(spec.kind, ToolKind::Mcp);
    assert_eq!(spec.server.as_deref(), Some(LABEL));
    assert_eq!(spec.timeout, None);
    assert!(spec.parallel && !spec.needs_approval);
    assert_eq!(world.servers.labels(&TenantId::default()), [LABEL]);
}

/// R21: what a tool does to the world is the operator's word; the server can only make it
/// stricter.
#[tokio::test]
async fn the_operator_decides_about_tools() {
    let world = World::with(Way::Pipes, |mut options| {
        options.enabled_tools = Some(["echo", "add", "grow"].map(str::to_owned).to_vec());
        options.effects =
            [("add", Effect::Pure), ("grow", Effect::Pure)].map(|(n, e)| (n.to_owned(), e)).into();
        options.require_approval = AskBefore::Only(vec!["grow".to_owned()]);
        options.tool_timeout = Some(Duration::from_secs(7));
        options
    })
    .await;
    let tools = tools(&world.servers).await.unwrap();
    let facts: Vec<_> = tools
        .iter()
        .map(|tool| {
            let spec = tool.spec();
            (spec.name.as_str(), spec.effect, spec.needs_approval, spec.timeout)
        })
        .collect();
    let timeout = Some(Duration::from_secs(7));
    let expected = [
        // It says that it only reads, which proves nothing.
        ("echo", Effect::Once, false, timeout),
        ("add", Effect::Pure, false, timeout),
        // It says that it acts, whatever the operator thinks.
        ("grow", Effect::Once, true, timeout),
    ];
    assert_eq!(facts, expected);
}

/// However many runs ask, at once or later, there is one process and one question.
#[tokio::test]
async fn a_server_is_asked_once() {
    let world = World::new(Way::Pipes).await;
    assert!(known(&world.servers).is_none(), "nothing is known yet");
    let asked = join_all((0..8).map(|_| tools(&world.servers))).await;
    assert!(asked.iter().all(|tools| names(tools.as_ref().unwrap()) == ALL));
    tools(&world.servers).await.unwrap();
    assert_eq!(names(&known(&world.servers).unwrap()), ALL);
    assert_eq!((world.log.count("started"), world.log.count("listed")), (1, 1));
}

/// Known tools cost a run next to nothing.
#[tokio::test]
async fn known_tools_are_there_at_once() {
    let world = World::new(Way::Pipes).await;
    tools(&world.servers).await.unwrap();
    let began = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(known(&world.servers).unwrap().len(), ALL.len());
    }
    let each = began.elapsed() / 1_000;
    assert!(each < Duration::from_micros(200), "{each:?}");
}

#[tokio::test]
async fn warming_up_connects_in_the_background() {
    let world = World::new(Way::Pipes).await;
    world.servers.warm_up();
    let tools = until(|| known(&world.servers)).await;
    assert_eq!(names(&tools), ALL);
}

/// Over pipes and over HTTP, with servers of both generations, everything is the same.
#[tokio::test]
async fn results_come_back_every_way() {
    for way in Way::EVERY {
        let world = World::new(way).await;
        let text = |text: &str| Ok(ToolOutput::text(text));
        let echo = world.call("echo", json!({ "text": "héllo\n🦀" })).await;
        assert_eq!(echo, text("héllo\n🦀"), "{way:?}");
        assert_eq!(world.call("add", json!({ "a": 5, "b": 4 })).await, text("9"), "{way:?}");
        let structured = json!({ "celsius": 21.5, "sky": "clear" });
        let expected = ToolOutput {
            structured: Some(structured.clone()),
            ..ToolOutput::text(structured.to_string())
        };
        assert_eq!(world.call("structured", json!({})).await, Ok(expected), "{way:?}");
        let big = world.call("big", json!({ "bytes": 3_000_000 })).await.unwrap();
        assert_eq!(big.text.len(), 3_000_000, "{way:?}");
    }
}

/// A server of the older generation that does not even answer in the newer one costs some time
/// once, and is asked in the older one from then on.
#[tokio::test]
async fn a_server_that_is_mute_at_first_is_spoken_with() {
    let short = |options| McpServerOptions { startup_timeout: Duration::from_secs(4), ..options };
    let world = World::with(Way::MutePipes, short).await;
    assert_eq!(names(&tools(&world.servers).await.unwrap()), ALL);
    assert_eq!((world.log.count("started"), world.log.count("probed")), (2, 1));
    world.call("crash", json!({})).await.unwrap_err();
    let echo = world.call("echo", json!({ "text": "back" })).await;
    assert_eq!(echo, Ok(ToolOutput::text("back")));
    assert_eq!((world.log.count("started"), world.log.count("probed")), (3, 1));
}

/// L44: a result may be a picture without words.
#[tokio::test]
async fn a_picture_is_a_picture() {
    let world = World::new(Way::Pipes).await;
    let image = Image { media_type: "image/png".to_owned(), base64: PIXEL.to_owned() };
    let expected = ToolOutput { images: vec![image], ..ToolOutput::default() };
    assert_eq!(world.call("image", json!({})).await, Ok(expected));
}

/// R7, L7: what the server calls an error is a failure, in its words; and so is an error of the
/// protocol.
#[tokio::test]
async fn a_failure_is_a_failure() {
    for way in [Way::Pipes, Way::Http] {
        let world = World::new(way).await;
        let failed = world.call("fail", json!({ "message": "no such branch" })).await;
        assert_eq!(failed, Err(ToolError::failed("no such branch")), "{way:?}");
        let failed = world.call("rpc_error", json!({})).await;
        let words = "the server `props` refused the call: the cellar is flooded";
        assert_eq!(failed, Err(ToolError::failed(words)), "{way:?}");
        let echo = world.call("echo", json!({ "text": "still here" })).await;
        assert_eq!(echo, Ok(ToolOutput::text("still here")), "{way:?}");
        assert_eq!(world.log.count("listed"), 1, "{way:?}: a failure is no reason to connect anew");
    }
}

/// S1-O4: progress arrives while the tool works, all of it, in order, and before the result.
#[tokio::test]
async fn progress_is_live() {
    for way in Way::EVERY {
        let world = World::new(way).await;
        let slow = tool(&world.servers, "slow").await;
        let listener = Arc::new(Listener::default());
        let arguments = json!({ "seconds": 0.6, "steps": 3 });
        let result = call_with(slow.as_ref(), arguments, &listener).await;
        let ended = Instant::now();
        assert_eq!(result, Ok(ToolOutput::text("3 steps")), "{way:?}");
        let notes = listener.notes();
        let expected = [1, 2, 3].map(|done| step(done, 3));
        assert!(notes.iter().map(|(_, note)| note).eq(&expected), "{way:?}: {notes:?}");
        let ahead = ended - notes[0].0;
        assert!(ahead >= Duration::from_millis(300), "{way:?}: the first came {ahead:?} ahead");
    }
}

/// The note of a slow tool that has done so many steps.
fn step(done: u32, total: u32) -> ToolNote {
    let message = Some(format!("step {done}"));
    ToolNote::Progress { progress: done.into(), total: Some(total.into()), message }
}

/// A server that tells of every little step is heard ten times a second, and its last word is
/// always heard.
#[tokio::test]
async fn a_chatty_server_is_heard_now_and_then() {
    let world = World::new(Way::Pipes).await;
    let slow = tool(&world.servers, "slow").await;
    let listener = Arc::new(Listener::default());
    let began = Instant::now();
    let arguments = json!({ "seconds": 0.8, "steps": 200 });
    let result = call_with(slow.as_ref(), arguments, &listener).await;
    let tenths = began.elapsed().as_millis() / 100;
    assert_eq!(result, Ok(ToolOutput::text("200 steps")));
    let notes = listener.notes();
    assert!((4..=tenths + 2).contains(&(notes.len() as u128)), "{} notes", notes.len());
    assert_eq!(notes.last().map(|(_, note)| note), Some(&step(200, 200)));
}

/// Many calls at once over one connection: each gets its own progress and its own result.
#[tokio::test]
async fn calls_do_not_mix() {
    let world = World::new(Way::Pipes).await;
    let slow = tool(&world.servers, "slow").await;
    let calls = (1..=16_u32).map(|steps| {
        let slow = Arc::clone(&slow);
        async move {
            let listener = Arc::new(Listener::default());
            let arguments = json!({ "seconds": 0.05, "steps": steps });
            let result = call_with(slow.as_ref(), arguments, &listener).await;
            let last = listener.notes().last().map(|(_, note)| note.clone());
            (steps, result, last)
        }
    });
    for (steps, result, last) in join_all(calls).await {
        assert_eq!(result, Ok(ToolOutput::text(format!("{steps} steps"))));
        assert_eq!(last, Some(step(steps, steps)));
    }
    assert_eq!(world.log.count("started"), 1);
}

/// R21, C5: the key of a call reaches the server, where MCP wants what is not its own.
#[tokio::test]
async fn the_key_of_a_call_reaches_the_server() {
    let world = World::new(Way::Pipes).await;
    world.call("echo", json!({ "text": "x" })).await.unwrap();
    let began = world.log.until("began").await;
    assert_eq!(began["key"], "run_1:call_1");
    assert_eq!(began["arguments"], json!({ "text": "x" }));
}

/// L3: a cancel reaches the tool, and the caller need not wait for what the tool makes of it.
#[tokio::test]
async fn a_cancel_reaches_the_server() {
    for way in Way::EVERY {
        let world = World::new(way).await;
        let waiting = tool(&world.servers, "wait_for_cancel").await;
        let listener = Arc::new(Listener::default());
        let calling = call_with(waiting.as_ref(), json!({}), &listener);
        let stopping = async {
            world.log.until("began").await;
            listener.stop.cancel();
            Instant::now()
        };
        let (result, stopped_at) = tokio::join!(calling, stopping);
        assert_eq!(result, Err(ToolError::failed("the call was cancelled")), "{way:?}");
        let took = stopped_at.elapsed();
        assert!(took < Duration::from_millis(500), "{way:?}: {took:?}");
        assert_eq!(world.log.until("cancelled").await["tool"], "wait_for_cancel", "{way:?}");
    }
}

/// L3: whoever just stops waiting stops the tool as well.
#[tokio::test]
async fn a_call_nobody_waits_for_is_cancelled() {
    let world = World::new(Way::Pipes).await;
    let waiting = tool(&world.servers, "wait_for_cancel").await;
    let listener = Arc::default();
    {
        let calling = call_with(waiting.as_ref(), json!({}), &listener);
        tokio::select! {
            result = calling => panic!("nobody stopped it: {result:?}"),
            _ = world.log.until("began") => {}
        }
    }
    assert_eq!(world.log.until("cancelled").await["tool"], "wait_for_cancel");
}

/// A tool that does not listen costs nobody but itself: its caller goes on at once, and so do
/// the others.
#[tokio::test]
async fn a_tool_that_never_answers_is_left_behind() {
    let world = World::new(Way::Pipes).await;
    let hang = tool(&world.servers, "hang").await;
    let listener = Arc::new(Listener::default());
    let calling = call_with(hang.as_ref(), json!({}), &listener);
    let others = async {
        world.log.until("began").await;
        let echo = world.call("echo", json!({ "text": "beside it" })).await;
        listener.stop.cancel();
        echo
    };
    let (given_up, echo) = tokio::join!(calling, others);
    assert_eq!(given_up, Err(ToolError::failed("the call was cancelled")));
    assert_eq!(echo, Ok(ToolOutput::text("beside it")));
    assert_eq!(world.log.count("started"), 1);
}

/// A server that falls over in the middle of a call is a failure that says so; the next call
/// finds it again.
#[tokio::test]
async fn a_crash_is_survived() {
    let world = World::new(Way::Pipes).await;
    let (crash, echo) = (tool(&world.servers, "crash").await, tool(&world.servers, "echo").await);
    let crashed = call_with(crash.as_ref(), json!({}), &Arc::default()).await;
    let words = "the server `props` disconnected during the call";
    assert_eq!(crashed, Err(ToolError::OutcomeUnknown(words.to_owned())));
    assert!(known(&world.servers).is_none(), "a server that went away is asked again");
    // Also a tool from before finds the new connection.
    let again = call_with(echo.as_ref(), json!({ "text": "back" }), &Arc::default()).await;
    assert_eq!(again, Ok(ToolOutput::text("back")));
    assert_eq!((world.log.count("started"), world.log.count("listed")), (2, 2));
}

/// Nobody has to ask: a connection that was lost is made again by itself.
#[tokio::test]
async fn a_lost_connection_comes_back_by_itself() {
    let world = World::new(Way::Pipes).await;
    world.call("crash", json!({})).await.unwrap_err();
    let tools = until(|| known(&world.servers)).await;
    assert_eq!(names(&tools), ALL);
}

/// The same over HTTP, where the next server is another process at the same address.
#[tokio::test]
async fn a_server_over_http_may_go_and_come_back() {
    for way in [Way::Http, Way::OlderHttp] {
        let mut world = World::new(way).await;
        let echo = tool(&world.servers, "echo").await;
        let crashed = world.call("crash", json!({})).await;
        let words = "the server `props` disconnected during the call";
        assert_eq!(crashed, Err(ToolError::OutcomeUnknown(words.to_owned())), "{way:?}");
        let away = call_with(echo.as_ref(), json!({ "text": "x" }), &Arc::default()).await;
        assert!(matches!(away, Err(ToolError::Transient(_))), "{way:?}: {away:?}");
        let port = world.http.as_ref().unwrap().port;
        world.http.as_mut().unwrap().child.wait().await.unwrap();
        world.http = Some(HttpServer::start(over_http(&world.log, port, way)).await);
        let back = call_with(echo.as_ref(), json!({ "text": "back" }), &Arc::default()).await;
        assert_eq!(back, Ok(ToolOutput::text("back")), "{way:?}");
    }
}

/// A call that certainly did not reach its server may be tried again.
#[tokio::test]
async fn a_call_that_never_arrived_may_be_repeated() {
    let mut world = World::new(Way::Http).await;
    let echo = tool(&world.servers, "echo").await;
    world.http.as_mut().unwrap().child.kill().await.unwrap();
    let away = call_with(echo.as_ref(), json!({ "text": "x" }), &Arc::default()).await;
    let words = "the server `props` disconnected before the call was sent";
    assert_eq!(away, Err(ToolError::Transient(words.to_owned())));
}

/// Our server over HTTP, behind a gate that answers some requests itself: those that hold
/// `REFUSE` with the status 500, and to those that hold `VANISH` it hangs up.
async fn gated(way: Way, log: &Log) -> (McpServers, TaskTracker) {
    let generation = match way.generation() {
        None => Generation::Newer,
        Some(_) => Generation::Older,
    };
    let props = McpProps::new(Some(log.0.clone()), generation);
    let service = StreamableHttpService::new(
        move || Ok(props.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let gate = from_fn(async |request: Request, next: Next| {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let holds = |word: &str| String::from_utf8_lossy(&body).contains(word);
        assert!(!holds("VANISH"), "a handler that falls over takes its socket along");
        if holds("REFUSE") {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        }
        next.run(Request::from_parts(parts, body.into())).await
    });
    let router = axum::Router::new().nest_service("/mcp", service).layer(gate);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = TaskTracker::new();
    serving.spawn(async move { axum::serve(listener, router).await });
    (one(McpServerOptions::http(format!("http://{address}/mcp"))), serving)
}

/// A request that fails costs nobody else anything: neither one that is answered with an error,
/// nor one whose socket goes away. Only after the latter it is looked whether the server is there.
#[tokio::test]
async fn a_request_that_fails_fails_alone() {
    let cases = [
        ("REFUSE", "answered the call with the HTTP status 500", 1),
        ("VANISH", "disconnected during the call", 2),
    ];
    for way in [Way::Http, Way::OlderHttp] {
        for (text, what, lists) in cases {
            let folder = tempfile::tempdir().unwrap();
            let log = Log::in_folder(folder.path());
            let (servers, _serving) = gated(way, &log).await;
            let (slow, echo) = (tool(&servers, "slow").await, tool(&servers, "echo").await);
            let nobody = Arc::default();
            let beside = call_with(slow.as_ref(), json!({ "seconds": 0.7, "steps": 2 }), &nobody);
            let failing = async {
                log.until("began").await;
                call_with(echo.as_ref(), json!({ "text": text }), &nobody).await
            };
            let (beside, failed) = tokio::join!(beside, failing);
            let words = format!("the server `props` {what}");
            assert_eq!(failed, Err(ToolError::OutcomeUnknown(words)), "{way:?}");
            assert_eq!(beside, Ok(ToolOutput::text("2 steps")), "{way:?}, {text}");
            let next = call_with(echo.as_ref(), json!({ "text": "next" }), &nobody).await;
            assert_eq!(next, Ok(ToolOutput::text("next")), "{way:?}, {text}");
            assert_eq!(log.count("listed"), lists, "{way:?}, {text}");
            servers.shut_down().await;
        }
    }
}

/// A server that says its tools have changed is asked again, and not before.
#[tokio::test]
async fn a_changed_list_is_asked_for_again() {
    for way in [Way::Pipes, Way::OlderPipes, Way::Http] {
        let world = World::new(way).await;
        world.call("grow", json!({})).await.unwrap();
        let has_late = |tools: &Vec<Arc<dyn Tool>>| names(tools).contains(&"late");
        let tools = until(|| known(&world.servers).filter(has_late)).await;
        assert_eq!(tools.len(), ALL.len() + 1, "{way:?}");
        assert_eq!(world.log.count("listed"), 2, "{way:?}");
        let late = world.call("late", json!({})).await;
        assert_eq!(late, Ok(ToolOutput::text("better late than never")), "{way:?}");
    }
}

/// A server that starts and says nothing is given up, and does not stay behind.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = "echo $$ > \"$PID_FILE\"; sleep 1000";
    let options = with_env(McpServerOptions::stdio("sh", ["-c", script]), "PID_FILE", &pid);
    let servers = one(McpServerOptions { startup_timeout: Duration::from_millis(400), ..options });
    let began = Instant::now();
    let asked = join_all((0..3).map(|_| tools(&servers))).await;
    let took = began.elapsed();
    let words = "the tool server `props` is not available: no response within 0.4 s";
    for answer in asked {
        assert_eq!(answer.err(), Some(ToolError::Transient(words.to_owned())));
    }
    assert!(took < Duration::from_secs(1), "they wait for one attempt together: {took:?}");
    let pid = std::fs::read_to_string(pid).unwrap();
    until(|| (!is_alive(&pid)).then_some(())).await;
}

/// A server that says nothing costs the first run its patience, and those that come soon after
/// nothing.
#[tokio::test]
async fn a_failure_is_remembered_for_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let starts = folder.path().join("starts");
    let script = "echo started >> \"$STARTS\"; sleep 1000";
    let options = with_env(McpServerOptions::stdio("sh", ["-c", script]), "STARTS", &starts);
    let servers = one(McpServerOptions { startup_timeout: Duration::from_secs(1), ..options });
    let first = tools(&servers).await.err();
    assert!(first.is_some());
    let started = std::fs::read_to_string(&starts).unwrap();
    let began = Instant::now();
    assert_eq!(tools(&servers).await.err(), first);
    let took = began.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}");
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), started, "it is not started again");
}

/// A call looks for its server all the same, and when it finds it, the failure is forgotten.
#[tokio::test]
async fn a_failure_is_forgotten_when_the_server_is_back() {
    let mut world = World::new(Way::Http).await;
    let echo = tool(&world.servers, "echo").await;
    world.http.as_mut().unwrap().child.kill().await.unwrap();
    let away = call_with(echo.as_ref(), json!({ "text": "x" }), &Arc::default()).await;
    assert!(matches!(away, Err(ToolError::Transient(_))), "{away:?}");
    let failed = tools(&world.servers).await.err();
    assert!(failed.is_some());
    let port = world.http.as_ref().unwrap().port;
    world.http = Some(HttpServer::start(over_http(&world.log, port, Way::Http)).await);
    assert_eq!(tools(&world.servers).await.err(), failed, "it is remembered");
    let back = call_with(echo.as_ref(), json!({ "text": "back" }), &Arc::default()).await;
    assert_eq!(back, Ok(ToolOutput::text("back")));
    assert_eq!(names(&tools(&world.servers).await.unwrap()), ALL);
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let missing = one(McpServerOptions::stdio("/no/such/program", [""; 0]));
    let words = "the tool server `props` is not available: its command could not be started";
    let Err(error) = tools(&missing).await else { panic!("there is no such program") };
    assert_eq!(error, ToolError::Transient(words.to_owned()));

    let leaves = one(McpServerOptions::stdio("true", [""; 0]));
    let words = "the tool server `props` is not available: it closed the connection during \
                 the handshake";
    let Err(error) = tools(&leaves).await else { panic!("it is no server") };
    assert_eq!(error, ToolError::Transient(words.to_owned()));

    let nobody = one(McpServerOptions::http("http://127.0.0.1:9/mcp"));
    let words = "the tool server `props` is not available: cannot connect to its address";
    let Err(error) = tools(&nobody).await else { panic!("nobody is there") };
    assert_eq!(error, ToolError::Transient(words.to_owned()));
    let unknown = nobody.tools(&TenantId::default(), "other".into()).await.err();
    assert_eq!(unknown, Some(ToolError::failed("there is no tool server `other`")));
}

/// A4: a server that a request brings is reached where the operator lets it be, through the one
/// client that looks at addresses, and under the name that the request gives it.
#[tokio::test]
async fn a_request_may_bring_a_server_from_where_it_is_welcome() {
    let folder = tempfile::tempdir().unwrap();
    let http = HttpServer::start(over_http(&Log::in_folder(folder.path()), 0, Way::Http)).await;
    let (address, port) = (format!("http://127.0.0.1:{}/mcp", http.port), http.port);
    let open = EgressOptions {
        open_networks: vec!["127.0.0.1/32".parse().unwrap()],
        ports: vec![port],
        ..EgressOptions::default()
    };
    let welcome = || vec![UrlRule::at(&format!("http://127.0.0.1:{port}")).unwrap()];
    let (tenant, nobody) = (TenantId::default(), McpServers::new(BTreeMap::new()));
    let brought = |url| ServerRef { label: "mine", url: Some(url), access: None };

    assert!(!nobody.allows_url(&tenant, &address), "nothing is welcome unless somebody says so");
    assert!(nobody.tools(&tenant, brought(&address)).await.is_err());

    let closed = McpServers::new(BTreeMap::new())
        .allowing_urls(welcome(), Egress::new(&EgressOptions::default()).unwrap());
    let Err(error) = closed.tools(&tenant, brought(&address)).await else { panic!("it is closed") };
    assert!(error.to_string().contains("may not supply"), "{error}");

    let servers =
        McpServers::new(BTreeMap::new()).allowing_urls(welcome(), Egress::new(&open).unwrap());
    assert!(servers.allows_url(&tenant, &address));
    let tools = servers.tools(&tenant, brought(&address)).await.unwrap();
    let add = tools.iter().find(|tool| tool.spec().name == "add").unwrap();
    assert_eq!(add.spec().server.as_deref(), Some("mine"));
    assert_eq!(add.spec().effect, Effect::Once, "nobody has said what it does");
    let sum = call_with(add.as_ref(), json!({ "a": 2, "b": 3 }), &Arc::default()).await.unwrap();
    assert!(format!("{sum:?}").contains('5'), "{sum:?}");
    assert!(servers.known_tools(&tenant, brought(&address)).is_some());
    assert!(servers.known_tools(&tenant, "mine".into()).is_none(), "it is nobody else's");
    servers.shut_down().await;
}

/// A8: a server sees nothing of our environment but what it is given.
#[tokio::test]
async fn a_server_finds_a_clean_environment() {
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some(), "there is something to hide");
    let world = World::new(Way::Pipes).await;
    let output = world.call("environment", json!({})).await.unwrap();
    let allowed = ["HOME", "LANG", "MCP_PROPS_LOG", "PATH", "TMPDIR"];
    let more: Vec<&str> =
        output.text.split_whitespace().filter(|name| !allowed.contains(name)).collect();
    assert_eq!(more, [""; 0]);
    assert!(output.text.contains("MCP_PROPS_LOG") && output.text.contains("PATH"));
}

/// A8: whatever a server has started goes with it.
#[tokio::test]
async fn shutting_down_ends_everything_soon() {
    let folder = tempfile::tempdir().unwrap();
    let pids = folder.path().join("pids");
    let script = format!("sleep 1000 & echo $! $$ > \"$PID_FILE\"; exec {PROPS}");
    let options = with_env(McpServerOptions::stdio("sh", ["-c", &script]), "PID_FILE", &pids);
    let servers = one(options);
    let hang = tool(&servers, "hang").await;
    let pids = std::fs::read_to_string(pids).unwrap();
    assert!(pids.split_whitespace().all(is_alive));

    let listener = Arc::default();
    let calling = call_with(hang.as_ref(), json!({}), &listener);
    let shutting_down = async {
        let began = Instant::now();
        servers.shut_down().await;
        began.elapsed()
    };
    let (cut, took) = tokio::join!(calling, shutting_down);
    assert!(cut.is_err(), "{cut:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    until(|| pids.split_whitespace().all(|pid| !is_alive(pid)).then_some(())).await;
    assert!(known(&servers).is_none());
    assert!(tools(&servers).await.is_err(), "nothing is started afterwards");
}

/// Also those who forget to say goodbye leave no process behind.
#[tokio::test]
async fn dropping_it_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let script = format!("echo $$ > \"$PID_FILE\"; exec {PROPS}");
    let options = with_env(McpServerOptions::stdio("sh", ["-c", &script]), "PID_FILE", &pid);
    let servers = one(options);
    tools(&servers).await.unwrap();
    let pid = std::fs::read_to_string(pid).unwrap();
    assert!(is_alive(&pid));
    drop(servers);
    until(|| (!is_alive(&pid)).then_some(())).await;
}

/// R7: in a run the tools are found, progress is recorded, a failing tool is a failed call, and
/// the run goes on.
#[tokio::test]
async fn a_run_uses_the_tools_of_a_server() {
    let world = World::new(Way::Pipes).await;
    let turns = [
        Turn::new()
            .call("slow", json!({ "seconds": 0.1, "steps": 2 }))
            .call("fail", json!({ "message": "no" })),
        Turn::new().text("Done."),
    ];
    let runs = Runs::new(EngineParts {
        any_model: Some(Arc::new(Scripted::new(turns))),
        servers: Arc::new(world.servers),
        ..EngineParts::default()
    });
    let mut request = RunRequest::new("scripted", vec![Item::user("Go.")]);
    request.servers.push(ServerUse::all_of(LABEL));
    let run = runs.start(request).await.unwrap();
    let events: Vec<Event> = {
        let reading = run.events().await.unwrap().map(|event| event.unwrap().event.clone());
        timeout(Duration::from_secs(20), reading.collect()).await.unwrap()
    };
    let listed = events.iter().find_map(|event| match event {
        Event::ToolsDiscovered { outcome: DiscoveryOutcome::Listed { tools }, .. } => {
            Some(tools.len())
        }
        _ => None,
    });
    assert_eq!(listed, Some(ALL.len()));
    let progress = events.iter().filter(|event| matches!(event, Event::ToolProgressed { .. }));
    assert_eq!(progress.count(), 2);
    let outcomes: Vec<Option<String>> = events
        .iter()
        .filter_map(|event| match event {
            Event::ToolFinished { outcome: ToolOutcome::Succeeded { output }, .. } => {
                Some(Some(output.text.clone()))
            }
            Event::ToolFinished { outcome: ToolOutcome::Failed { failure }, .. } => {
                assert_eq!(failure.message, "no");
                Some(None)
            }
            _ => None,
        })
        .collect();
    assert!(outcomes.contains(&Some("2 steps".to_owned())), "{outcomes:?}");
    assert!(outcomes.contains(&None), "{outcomes:?}");
    assert_eq!(run.outcome().await, RunOutcome::Completed);
}

/// A task as it was named when it began.
fn task_of(listener: &Listener) -> Option<String> {
    listener.notes().into_iter().find_map(|(_, note)| match note {
        ToolNote::TaskStarted(task) => Some(task),
        ToolNote::Progress { .. } | ToolNote::Phase(_) | ToolNote::Output(_) => None,
    })
}

/// R21: a call that the server makes a task of is asked about until it is over, and what the
/// server says about it on the way is progress.
#[tokio::test]
async fn a_task_is_followed_to_its_end() {
    for way in [Way::Pipes, Way::Http] {
        let world = World::new(way).await;
        let task = tool(&world.servers, "task").await;
        let listener = Arc::new(Listener::default());
        let arguments = json!({ "seconds": 0.6, "steps": 3 });
        let result = call_with(task.as_ref(), arguments, &listener).await;
        assert_eq!(result, Ok(ToolOutput::text("3 steps")), "{way:?}");
        let notes = listener.notes();
        assert!(matches!(notes[0].1, ToolNote::TaskStarted(_)), "{way:?}: {notes:?}");
        let told = |words: &str| {
            notes.iter().any(|(_, note)| {
                matches!(note, ToolNote::Progress { message: Some(message), .. } if message == words)
            })
        };
        assert!(told("step 1 of 3") && told("step 2 of 3"), "{way:?}: {notes:?}");
    }
}

/// R21: whoever takes over asks for the task and does not call the tool again; and whoever left
/// has not stopped it by leaving.
#[tokio::test]
async fn a_task_is_polled_on_by_another() {
    let world = World::new(Way::Http).await;
    let options = world.http.as_ref().unwrap().options();
    let first = tool(&world.servers, "task").await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "seconds": 0.8, "steps": 2 });
    let name = {
        let calling = call_with(first.as_ref(), arguments.clone(), &listener);
        tokio::select! {
            result = calling => panic!("it was too quick: {result:?}"),
            name = until(|| task_of(&listener)) => name,
        }
    };
    world.servers.shut_down().await;
    let others = one(options);
    let again = tool(&others, "task").await;
    let arguments = arguments.as_object().unwrap().clone();
    let listener = Arc::new(Listener::default());
    let result = go_on_with(again.as_ref(), arguments, Some(name), &listener).await;
    assert_eq!(result, Ok(ToolOutput::text("2 steps")));
    assert_eq!((world.log.count("began"), world.log.count("effect")), (1, 1));
    assert_eq!(world.log.count("cancelled"), 0);
    assert_eq!(task_of(&listener), None, "it is known already");
}

/// R21: a task that its server no longer knows has an outcome that nobody knows.
#[tokio::test]
async fn a_forgotten_task_is_said_to_be_forgotten() {
    let world = World::new(Way::Http).await;
    let task = tool(&world.servers, "task").await;
    let name = Some("nobody-knows-it".to_owned());
    let result = go_on_with(task.as_ref(), serde_json::Map::new(), name, &Arc::default()).await;
    let Err(ToolError::OutcomeUnknown(words)) = result else { panic!("{result:?}") };
    assert!(words.contains("no longer has the task"), "{words}");
    assert_eq!(world.log.count("began"), 0);
}

/// L3: a cancel of the call is a cancel of its task.
#[tokio::test]
async fn a_cancel_reaches_the_task() {
    let world = World::new(Way::Pipes).await;
    let task = tool(&world.servers, "task").await;
    let listener = Arc::new(Listener::default());
    let calling = call_with(task.as_ref(), json!({ "seconds": 30, "steps": 1 }), &listener);
    let stopping = async {
        until(|| task_of(&listener)).await;
        listener.stop.cancel();
        Instant::now()
    };
    let (result, stopped_at) = tokio::join!(calling, stopping);
    assert_eq!(result, Err(ToolError::failed("the call was cancelled")));
    assert!(stopped_at.elapsed() < Duration::from_millis(500));
    assert_eq!(world.log.until("cancelled").await["tool"], "task");
    assert_eq!(world.log.count("effect"), 0);
}

/// What a server wants to know in the middle of a call is asked, and the answer goes back: in
/// both generations of the protocol, and in a task.
#[tokio::test]
async fn a_question_is_asked_and_answered() {
    let cases = [
        (Way::Pipes, "elicit"),
        (Way::OlderPipes, "elicit"),
        (Way::Http, "elicit"),
        (Way::OlderHttp, "elicit"),
        (Way::Pipes, "task_that_asks"),
    ];
    let ann = json!({ "name": "Ann" }).as_object().unwrap().clone();
    for (way, name) in cases {
        let world = World::new(way).await;
        let elicit = tool(&world.servers, name).await;
        let said = async |reply: Reply| {
            let listener = Listener::with_reply(reply);
            let result = call_with(elicit.as_ref(), json!({}), &listener).await;
            let asked = listener.questions();
            assert_eq!(asked.len(), 1, "{way:?}, {name}");
            assert_eq!(asked[0].message, "Who are you?", "{way:?}, {name}");
            result.unwrap_or_else(|error| panic!("{way:?}, {name}: {error}")).text
        };
        assert_eq!(said(Reply::Accepted { content: ann.clone() }).await, "hello, Ann");
        // What is left out has its usual value.
        let nothing = serde_json::Map::new();
        assert_eq!(said(Reply::Accepted { content: nothing }).await, "hello, Nobody");
        assert_eq!(said(Reply::Declined).await, "they said: decline");
        assert_eq!(said(Reply::Cancelled).await, "they said: cancel");
    }
}

/// Where nobody can be asked the server is told so at once, and goes on.
#[tokio::test]
async fn a_question_nobody_can_be_asked_is_declined() {
    let world = World::new(Way::OlderPipes).await;
    assert_eq!(world.call("elicit", json!({})).await, Ok(ToolOutput::text("they said: decline")));
}

/// Everything that a result may hold is there for the model: as text, as pictures, or named.
#[tokio::test]
async fn every_kind_of_content_is_kept() {
    for way in [Way::Pipes, Way::OlderHttp] {
        let world = World::new(way).await;
        let output = world.call("everything", json!({})).await.unwrap();
        let pixel = Image { media_type: "image/png".to_owned(), base64: PIXEL.to_owned() };
        assert_eq!(output.images, [pixel.clone(), pixel], "{way:?}");
        let lines: Vec<&str> = output.text.lines().collect();
        let expected = [
            "words",
            "[sound of type audio/wav, not shown]",
            "sea://note:",
            "inside",
            "sea://chart",
            "sea://data: [data of type application/pdf, not shown]",
            "far: sea://far (Further out.)",
        ];
        assert_eq!(lines, expected, "{way:?}");
    }
}

/// L46: what a server says after the end of a call is heard by nobody.
#[tokio::test]
async fn progress_after_the_end_is_not_heard() {
    for way in [Way::Pipes, Way::OlderPipes] {
        let world = World::new(way).await;
        let talker = tool(&world.servers, "late_progress").await;
        let listener = Arc::new(Listener::default());
        let result = call_with(talker.as_ref(), json!({}), &listener).await;
        assert_eq!(result, Ok(ToolOutput::text("done")), "{way:?}");
        world.log.until("talked on").await;
        // Over pipes one thing comes after the other.
        world.call("echo", json!({ "text": "x" })).await.unwrap();
        assert!(listener.notes().is_empty(), "{way:?}: {:?}", listener.notes());
    }
}

/// L3: a tool that works on though it was told to stop holds up nobody but itself.
#[tokio::test]
async fn a_tool_that_ignores_a_cancel_is_left_behind() {
    let world = World::new(Way::Pipes).await;
    let stubborn = tool(&world.servers, "ignore_cancel").await;
    let listener = Arc::new(Listener::default());
    let calling = call_with(stubborn.as_ref(), json!({ "seconds": 0.5 }), &listener);
    let stopping = async {
        world.log.until("began").await;
        listener.stop.cancel();
        Instant::now()
    };
    let (result, stopped_at) = tokio::join!(calling, stopping);
    assert_eq!(result, Err(ToolError::failed("the call was cancelled")));
    assert!(stopped_at.elapsed() < Duration::from_millis(300));
    world.log.until("ignored").await;
    assert_eq!(world.log.count("started"), 1, "and the server is the same");
}

/// A tool that comes is there for the next run, and one that goes is not.
#[tokio::test]
async fn tools_come_and_go() {
    for way in [Way::Pipes, Way::OlderPipes, Way::Http] {
        let world = World::new(way).await;
        let has_it = || known(&world.servers).map(|tools| names(&tools).contains(&"late"));
        tools(&world.servers).await.unwrap();
        assert_eq!(has_it(), Some(false), "{way:?}");
        world.call("grow", json!({})).await.unwrap();
        until(|| has_it().filter(|has_it| *has_it)).await;
        world.call("shrink", json!({})).await.unwrap();
        until(|| has_it().filter(|has_it| !*has_it)).await;
    }
}
