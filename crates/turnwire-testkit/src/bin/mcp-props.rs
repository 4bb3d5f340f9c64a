//! The MCP server of the tests. Uses standard input and output, or with `--http PORT` streamable
//! HTTP at `/mcp`; port 0 is any free one, and its number is printed. `--effects` adds tools with
//! side effects. `--older` disables the newer protocol generation; `--mute` also ignores requests
//! in it. `MCP_PROPS_LOG` names the log file.
#![expect(clippy::expect_used, reason = "a test server that cannot work should fall over")]

use rmcp::{
    ServiceExt,
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, stdio,
        streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde_json::Map;
use tokio::net::TcpListener;
use turnwire_testkit::{
    mcp_server::{Generation, LOG_VARIABLE, McpProps},
    upstreams::without_delay,
};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let log = std::env::var_os(LOG_VARIABLE).map(Into::into);
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let generation = match (has("--older"), has("--mute")) {
        (_, true) => Generation::Mute,
        (true, false) => Generation::Older,
        (false, false) => Generation::Newer,
    };
    let props = McpProps::new(log, generation);
    let props = if has("--effects") { props.with_effects() } else { props };
    props.write_down("started", Map::new());
    let port = arguments.iter().skip_while(|argument| *argument != "--http").nth(1);
    match port {
        Some(port) => over_http(props, port.parse().expect("the port is a number")).await,
        None => over_stdio(props).await,
    }
}

async fn over_stdio(props: McpProps) {
    if let Ok(service) = props.serve(stdio()).await {
        let _ = service.waiting().await;
    }
}

#[expect(clippy::print_stdout, reason = "whoever started it waits for the port")]
async fn over_http(props: McpProps, port: u16) {
    let service = StreamableHttpService::new(
        move || Ok(props.clone()),
        std::sync::Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let router = axum::Router::new().nest_service("/mcp", service);
    let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
    println!("{}", listener.local_addr().expect("it has an address").port());
    axum::serve(without_delay(listener), router).await.expect("it serves");
}
