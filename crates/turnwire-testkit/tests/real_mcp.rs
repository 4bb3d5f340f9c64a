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
    path::PathBuf,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use mcp_world::{Listener, call, call_with, known, names, one, tool, tools, until};
use serde_json::json;
use tokio::process::Command;
use turnwire_contract::{ToolError, ToolNote};
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

#[tokio::test]
async fn both_are_there_soon_and_then_at_once() {
    for (name, servers, some) in
        [("everything", everything(), "echo"), ("time", clock(), "get_current_time")]
    {
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

#[tokio::test]
async fn the_clock_answers() {
    let servers = clock();
    let now = call(&servers, "get_current_time", json!({ "timezone": "Europe/Berlin" })).await;
    assert!(now.unwrap().text.contains("Europe/Berlin"));
    let wrong = call(&servers, "get_current_time", json!({ "timezone": "Moon/Base" })).await;
    assert!(matches!(wrong, Err(ToolError::Failed(_))), "{wrong:?}");
    servers.shut_down().await;
}
