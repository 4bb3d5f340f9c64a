//! The client that `@modelcontextprotocol/conformance` is shown: our own, with a person who
//! logs in wherever asked and says yes to everything. `scripts/mcp-conformance` runs it.
//!
//! An example, because it is built from what only tests may use. Its one argument is the address
//! of a server; `MCP_CONFORMANCE_SCENARIO` is what is tried, and `MCP_CONFORMANCE_CONTEXT` what
//! has to be known for it.
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a program for a test harness, which shows what it writes"
)]

use std::{collections::BTreeMap, process::ExitCode, sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, CallLink, Question, Reply, RunId, TenantId, Tool, ToolContext, ToolNote, ToolRequest,
    ToolServers,
};
use turnwire_tools::{Grant, McpServerOptions, McpServers, OAuthOptions, Secret, SigningAlgorithm};

const LABEL: &str = "conformance";

/// The document about us that the harness knows.
const ABOUT_US: &str = "https://conformance-test.local/client-metadata.json";

/// How often a person logs in again before they lose patience.
const MAX_LOGINS: usize = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let url = std::env::args().next_back().expect("the address of a server");
    let scenario = variable("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let context = variable("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|| "{}".to_owned());
    let context: Value = serde_json::from_str(&context).expect("the context is JSON");
    let mut options = McpServerOptions::http(url);
    if scenario.starts_with("auth/") {
        options = options.with_oauth(oauth(&scenario, &context));
    }
    let servers = McpServers::new(BTreeMap::from([(LABEL.to_owned(), options)]));
    let done = use_everything(&servers).await;
    servers.shut_down().await;
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name)?.into_string().ok()
}

/// What an operator would write into the settings for the scenario.
fn oauth(scenario: &str, context: &Value) -> OAuthOptions {
    let text = |name: &str| context.get(name).and_then(Value::as_str).map(str::to_owned);
    let grant = match (scenario, text("private_key_pem")) {
        (_, Some(key)) => Grant::ClientCredentialsWithKey {
            key: Secret::from(key),
            algorithm: SigningAlgorithm::Es256,
        },
        ("auth/client-credentials-basic", None) => Grant::ClientCredentials,
        (_, None) => Grant::AuthorizationCode,
    };
    OAuthOptions {
        grant,
        client_id: text("client_id"),
        client_secret: text("client_secret").map(Secret::from),
        client_metadata_url: Some(ABOUT_US.to_owned()),
        ..OAuthOptions::default()
    }
}

/// Uses every tool of the server once, and logs in whenever that is what it takes.
async fn use_everything(servers: &McpServers) -> Result<(), String> {
    let mut logins = 0;
    loop {
        let why = match use_tools(servers).await {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if !servers.waits_for_login(LABEL) || logins == MAX_LOGINS {
            return Err(why);
        }
        logins += 1;
        println!("{why}; logging in for the {logins}. time");
        log_in(servers).await?;
    }
}

async fn use_tools(servers: &McpServers) -> Result<(), String> {
    let tools = servers.tools(&TenantId::default(), LABEL.into()).await;
    for tool in tools.map_err(|error| error.to_string())? {
        let output = call(tool.as_ref()).await.map_err(|error| error.to_string())?;
        println!("{}: {}", tool.spec().name, output.text);
    }
    Ok(())
}

async fn log_in(servers: &McpServers) -> Result<(), String> {
    let login = servers.login(LABEL).await.map_err(|error| error.to_string())?;
    let page = login.authorization_url().to_owned();
    // A browser whose person says yes at once: the page sends it straight back to us.
    let browser = reqwest::Client::builder().no_proxy().build().expect("a browser starts");
    let (finished, shown) = tokio::join!(login.finish(), browser.get(page).send());
    shown.map_err(|error| error.to_string())?;
    finished.map_err(|error| error.to_string())?;
    servers.reconnect(LABEL);
    Ok(())
}

async fn call(
    tool: &dyn Tool,
) -> Result<turnwire_contract::ToolOutput, turnwire_contract::ToolError> {
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments: arguments(&tool.spec().parameters),
        idempotency_key: "run_1:call_1".to_owned(),
        settings: Value::Null,
    };
    let (run, call) = (RunId::from("run_1"), CallId::from("call_1"));
    let time = Duration::from_secs(20);
    tool.call(request, ToolContext::new(run, call, 1, time, Arc::new(Agreeable))).await
}

/// Something for every argument that a tool has.
fn arguments(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let value = |schema: &Value| match schema.get("type").and_then(Value::as_str) {
        Some("number" | "integer") => json!(5),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("something"),
    };
    properties.map(|(name, schema)| (name.clone(), value(schema))).collect()
}

/// Says yes to whatever a server asks, and nothing more.
struct Agreeable;

impl CallLink for Agreeable {
    fn tell(&self, _note: ToolNote) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn ask(&self, _question: Question) -> BoxFuture<'_, Reply> {
        std::future::ready(Reply::Accepted { content: Map::new() }).boxed()
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}
