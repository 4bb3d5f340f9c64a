//! Our MCP client against servers that other people wrote.
//!
//! Not part of `cargo test`: these servers have to be installed first. Run by name:
//!
//! ```sh
//! scripts/real-mcp-servers FOLDER
//! TURNWIRE_REAL_MCP=FOLDER cargo nextest run -p turnwire-testkit --test real_mcp
//! ```
//!
//! Whoever runs them means it: without the folder, or with something missing in it, they fail.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should fall over"
)]
#![expect(dead_code, reason = "the other tests use the rest of it")]

mod mcp_world;

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_world::{Listener, call, call_with, known, names, one, tool, tools, until, with_env};
use serde_json::json;
use tokio::process::Command;
use turnwire_contract::{Reply, ToolError, ToolNote};
use turnwire_tools::{McpServerOptions, McpServers};

/// How long a server may take from nothing to its list of tools.
const COLD_START: Duration = Duration::from_secs(6);

fn installed(path: &str) -> String {
    let folder = std::env::var_os("TURNWIRE_REAL_MCP").map(PathBuf::from);
    let folder = folder.expect("TURNWIRE_REAL_MCP names the folder of scripts/real-mcp-servers");
    let path = folder.join(path);
    assert!(path.exists(), "{} is missing; run scripts/real-mcp-servers", path.display());
    path.display().to_string()
}

const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

/// Written in TypeScript, of the older generation of the protocol.
fn everything() -> McpServers {
    one(McpServerOptions::stdio("node", [installed(EVERYTHING), "stdio".to_owned()]))
}

/// Written in Python, of the newer generation.
fn clock() -> McpServers {
    one(McpServerOptions::stdio(installed("python/bin/mcp-server-time"), [""; 0]))
}

/// Written in TypeScript; sees one folder and no other.
fn files_in(folder: &Path) -> McpServers {
    let folder = folder.display().to_string();
    one(McpServerOptions::stdio("node", [installed(&npm("filesystem")), folder]))
}

/// Written in TypeScript; keeps a graph of what it is told in a file.
fn memory_in(folder: &Path) -> McpServers {
    let options = McpServerOptions::stdio("node", [installed(&npm("memory"))]);
    one(with_env(options, "MEMORY_FILE_PATH", &folder.join("memory.json")))
}

/// Written in Python; reads and changes repositories.
fn git() -> McpServers {
    one(McpServerOptions::stdio(installed("python/bin/mcp-server-git"), [""; 0]))
}

fn npm(name: &str) -> String {
    format!("node_modules/@modelcontextprotocol/server-{name}/dist/index.js")
}

#[tokio::test]
async fn all_are_there_soon_and_then_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let servers = [
        ("everything", everything(), "echo"),
        ("filesystem", files_in(folder.path()), "read_text_file"),
        ("memory", memory_in(folder.path()), "create_entities"),
        ("time", clock(), "get_current_time"),
        ("git", git(), "git_status"),
    ];
    for (name, servers, some) in servers {
        let began = Instant::now();
        let told = tools(&servers).await.unwrap();
        let cold = began.elapsed();
        assert!(names(&told).contains(&some), "{name}: {:?}", names(&told));
        assert!(cold < COLD_START, "{name} took {cold:?} to start");
        let began = Instant::now();
        assert_eq!(known(&servers).unwrap().len(), told.len());
        let warm = began.elapsed();
        assert!(warm < Duration::from_millis(1), "{name}: {warm:?}");
        print_figures(name, cold, warm);
        servers.shut_down().await;
    }
}

#[expect(clippy::print_stderr, reason = "figures for docs/performance.md")]
fn print_figures(name: &str, cold: Duration, warm: Duration) {
    eprintln!("{name}: cold {cold:?}, warm {warm:?}");
}

#[tokio::test]
async fn everything_answers() {
    let servers = everything();
    let echo = call(&servers, "echo", json!({ "message": "hi" })).await.unwrap();
    assert_eq!(echo.text, "Echo: hi");
    let sum = call(&servers, "get-sum", json!({ "a": 5, "b": 4 })).await.unwrap();
    assert!(sum.text.contains('9'), "{}", sum.text);
    let image = call(&servers, "get-tiny-image", json!({})).await.unwrap();
    assert_eq!(image.images.len(), 1);
    assert_eq!(image.images[0].media_type, "image/png");
    let data = call(&servers, "get-structured-content", json!({ "location": "Chicago" })).await;
    assert!(data.unwrap().structured.unwrap()["temperature"].is_number());
    let links = call(&servers, "get-resource-links", json!({ "count": 2 })).await.unwrap();
    assert!(links.text.contains("demo://"), "{}", links.text);
    let wrong = call(&servers, "get-sum", json!({ "a": "x" })).await;
    assert!(matches!(wrong, Err(ToolError::Failed(_))), "{wrong:?}");
    servers.shut_down().await;
}

/// S1-O4: progress of a server we did not write is live too.
#[tokio::test]
async fn everything_reports_progress() {
    let servers = everything();
    let long = tool(&servers, "trigger-long-running-operation").await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "duration": 1.5, "steps": 3 });
    let result = call_with(long.as_ref(), arguments, &listener).await.unwrap();
    let ended = Instant::now();
    assert!(result.text.contains("completed"), "{}", result.text);
    let notes = listener.notes();
    let progress: Vec<f64> = notes
        .iter()
        .map(|(_, note)| match note {
            ToolNote::Progress { progress, total: Some(3.0), .. } => *progress,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(progress, [1.0, 2.0, 3.0]);
    assert!(ended - notes[0].0 >= Duration::from_millis(700), "the first was not live");
    servers.shut_down().await;
}

/// L3: it is stopped in the middle, and nothing of it comes afterwards.
#[tokio::test]
async fn everything_is_stopped() {
    let servers = everything();
    let long = tool(&servers, "trigger-long-running-operation").await;
    let listener = Arc::new(Listener::default());
    let calling = call_with(long.as_ref(), json!({ "duration": 30, "steps": 60 }), &listener);
    let stopping = async {
        until(|| listener.notes().pop()).await;
        listener.stop.cancel();
        Instant::now()
    };
    let (result, stopped) = tokio::join!(calling, stopping);
    assert_eq!(result, Err(ToolError::failed("the call was cancelled")));
    assert!(stopped.elapsed() < Duration::from_millis(500));
    let heard = listener.notes().len();
    let echo = call(&servers, "echo", json!({ "message": "hi" })).await.unwrap();
    assert_eq!(echo.text, "Echo: hi");
    assert_eq!(listener.notes().len(), heard);
    servers.shut_down().await;
}

/// A script for Node that keeps a server to this machine: by itself it listens everywhere.
const LOOPBACK: &str = "
const net = require('net');
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
    const told = rest.find((one) => typeof one === 'function');
    return listen.call(this, { port: Number(port), host: '127.0.0.1' }, told);
};
";

/// An older server over HTTP refuses the newer generation in its own way; that must not cost
/// much time.
#[tokio::test]
async fn everything_answers_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let loopback = folder.path().join("loopback.cjs");
    std::fs::write(&loopback, LOOPBACK).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut command = Command::new("node");
    command.arg("-r").arg(&loopback).args([&installed(EVERYTHING), "streamableHttp"]);
    command.env("PORT", port.to_string()).kill_on_drop(true);
    let _server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;

    let began = Instant::now();
    let servers = one(McpServerOptions::http(format!("http://127.0.0.1:{port}/mcp")));
    let told = tools(&servers).await.unwrap();
    let took = began.elapsed();
    assert!(names(&told).contains(&"echo"), "{:?}", names(&told));
    assert!(took < Duration::from_secs(2), "it took {took:?} to connect");
    let long = tool(&servers, "trigger-long-running-operation").await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "duration": 0.6, "steps": 2 });
    call_with(long.as_ref(), arguments, &listener).await.unwrap();
    assert_eq!(listener.notes().len(), 2);
    servers.shut_down().await;
}

/// What is written can be read, and a folder that was not given is closed.
#[tokio::test]
async fn files_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let servers = files_in(folder.path());
    let path = folder.path().join("note.txt").display().to_string();
    call(&servers, "write_file", json!({ "path": path, "content": "héllo" })).await.unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "héllo");
    let read = call(&servers, "read_text_file", json!({ "path": path })).await.unwrap();
    assert_eq!(read.text, "héllo");
    let closed = call(&servers, "read_text_file", json!({ "path": "/etc/passwd" })).await;
    assert!(matches!(closed, Err(ToolError::Failed(_))), "{closed:?}");
    servers.shut_down().await;
}

/// What a server was told survives it.
#[tokio::test]
async fn memory_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let ann = json!({ "name": "Ann", "entityType": "person", "observations": ["likes crabs"] });
    let servers = memory_in(folder.path());
    call(&servers, "create_entities", json!({ "entities": [ann] })).await.unwrap();
    servers.shut_down().await;
    let servers = memory_in(folder.path());
    let found = call(&servers, "search_nodes", json!({ "query": "crabs" })).await.unwrap();
    assert!(found.text.contains("Ann"), "{}", found.text);
    let data = found.structured.expect("it has data as well");
    assert_eq!(data["entities"][0]["name"], "Ann");
    servers.shut_down().await;
}

#[tokio::test]
async fn git_tells_of_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("git").args(["init", "--quiet"]).arg(folder.path()).status().await;
    assert!(made.unwrap().success());
    std::fs::write(folder.path().join("new.txt"), "new").unwrap();
    let servers = git();
    let path = folder.path().display().to_string();
    let status = call(&servers, "git_status", json!({ "repo_path": path })).await.unwrap();
    assert!(status.text.contains("new.txt"), "{}", status.text);
    let wrong = call(&servers, "git_status", json!({ "repo_path": "/nowhere" })).await;
    assert!(matches!(wrong, Err(ToolError::Failed(_))), "{wrong:?}");
    servers.shut_down().await;
}

/// R21: a tool that has to be called as a task is, though its server is of the older generation;
/// its steps are progress, and its name is known.
#[tokio::test]
async fn everything_works_as_a_task() {
    let servers = everything();
    let research = tool(&servers, "simulate-research-query").await;
    let listener = Arc::new(Listener::default());
    let arguments = json!({ "topic": "crabs" });
    let result = call_with(research.as_ref(), arguments, &listener).await.unwrap();
    assert!(result.text.contains("crabs"), "{}", result.text);
    let notes = listener.notes();
    assert!(matches!(notes[0].1, ToolNote::TaskStarted(_)), "{notes:?}");
    let steps = notes
        .iter()
        .filter(|(_, note)| matches!(note, ToolNote::Progress { message: Some(_), .. }));
    assert!(steps.count() >= 2, "{notes:?}");
    servers.shut_down().await;
}

/// L3: and stopped as a task.
#[tokio::test]
async fn a_task_of_everything_is_stopped() {
    let servers = everything();
    let research = tool(&servers, "simulate-research-query").await;
    let listener = Arc::new(Listener::default());
    let calling = call_with(research.as_ref(), json!({ "topic": "crabs" }), &listener);
    let stopping = async {
        let started = |(_, note)| matches!(note, ToolNote::TaskStarted(_)).then_some(());
        until(|| listener.notes().into_iter().find_map(started)).await;
        listener.stop.cancel();
        Instant::now()
    };
    let (result, stopped) = tokio::join!(calling, stopping);
    assert_eq!(result, Err(ToolError::failed("the call was cancelled")));
    assert!(stopped.elapsed() < Duration::from_millis(500));
    servers.shut_down().await;
}

/// What a server that we did not write asks of a person, and what it makes of the answer.
#[tokio::test]
async fn everything_asks_a_person() {
    let servers = everything();
    let elicit = tool(&servers, "trigger-elicitation-request").await;
    let content = json!({ "name": "Ann" }).as_object().unwrap().clone();
    let listener = Listener::with_reply(Reply::Accepted { content });
    let result = call_with(elicit.as_ref(), json!({}), &listener).await.unwrap();
    assert_eq!(listener.questions().len(), 1);
    assert!(result.text.contains("Ann"), "{}", result.text);
    servers.shut_down().await;
}

#[tokio::test]
async fn the_clock_answers() {
    let servers = clock();
    let now = call(&servers, "get_current_time", json!({ "timezone": "Europe/Berlin" })).await;
    assert!(now.unwrap().text.contains("Europe/Berlin"));
    let wrong = call(&servers, "get_current_time", json!({ "timezone": "Moon/Base" })).await;
    assert!(matches!(wrong, Err(ToolError::Failed(_))), "{wrong:?}");
    servers.shut_down().await;
}
