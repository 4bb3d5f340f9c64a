//! `turnwire mcp`: lists and tests the configured MCP servers.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde::Serialize;
use serde_json::{Map, Value};
use turnwire_contract::{
    CallId, CallLink, Effect, LeftOut, RunId, TenantId, Tool, ToolContext, ToolError, ToolNote,
    ToolOutput, ToolRequest, ToolServers, ToolSpec,
};
use turnwire_engine::with_usable_schemas;
use turnwire_surfaces::{clean, visible, wire_json_pretty};
use turnwire_tools::{LoginError, McpServerOptions, McpServers, McpTransport};

use super::{output::print_line, watched::runtime};
use crate::{
    args::{McpArguments, McpCommand, McpLoginArguments, McpTestArguments},
    environment::Environment,
    exit::{Exit, Problem, Result},
    settings::{McpSettings, did_you_mean},
    telemetry,
    terminal::{Colour, Paint, tell},
};

/// Default maximum duration of a call.
const CALL_TIME: Duration = Duration::from_mins(10);

pub(crate) fn mcp(command: &McpCommand, environment: &Environment) -> Exit {
    let common = match command {
        McpCommand::List(arguments) => &arguments.common,
        McpCommand::Test(arguments) => &arguments.common,
        McpCommand::Login(arguments) => &arguments.common,
    };
    let on_stderr = Paint::choose(common.color, environment, io::stderr().is_terminal());
    let on_stdout = Paint::choose(common.color, environment, io::stdout().is_terminal());
    let done = telemetry::start_if_wanted(environment, on_stderr).and_then(|()| match command {
        McpCommand::List(_) => list(common, environment, on_stdout),
        McpCommand::Test(arguments) => test(arguments, environment, on_stdout),
        McpCommand::Login(arguments) => login(arguments, environment),
    });
    done.unwrap_or_else(|problem| problem.shown(on_stderr))
}

fn settings(common: &McpArguments, environment: &Environment) -> Result<McpSettings> {
    McpSettings::read(common.config.as_deref(), &common.mcp_config, environment)
}

/// Result of a connection to a server.
#[derive(Debug, Serialize)]
struct ServerReport {
    name: String,
    /// Command or URL, without secrets.
    transport: TransportReport,
    /// Time for connecting and listing the tools.
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    tools: Vec<ToolReport>,
    /// Tools that the server listed and that no model is offered.
    #[serde(skip_serializing_if = "LeftOut::is_empty")]
    left_out: LeftOut,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum TransportReport {
    Stdio { command: String },
    Http { url: String },
}

#[derive(Debug, Serialize)]
struct ToolReport {
    name: String,
    description: String,
    effect: Effect,
    needs_approval: bool,
    parameters: Value,
}

impl TransportReport {
    /// Arguments and queries may contain keys.
    fn of(options: &McpServerOptions) -> Self {
        match &options.transport {
            McpTransport::Stdio { command, .. } => Self::Stdio { command: command.clone() },
            McpTransport::Http { url, .. } => {
                let plain = url.split(['?', '#']).next().unwrap_or_default();
                Self::Http { url: plain.to_owned() }
            }
        }
    }
}

impl ToolReport {
    fn of(spec: &ToolSpec) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            effect: spec.effect,
            needs_approval: spec.needs_approval,
            parameters: spec.parameters.clone(),
        }
    }
}

/// Connects to one server and lists its tools.
async fn find(
    servers: &McpServers,
    name: &str,
    options: &McpServerOptions,
) -> (ServerReport, Vec<Arc<dyn Tool>>) {
    let began = Instant::now();
    let tenant = TenantId::default();
    let asked = servers.tools(&tenant, name.into()).await;
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (tools, problem) = match asked {
        Ok(tools) => (tools, None),
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    let mut left_out = servers.left_out(&tenant, name.into());
    let offered = with_usable_schemas(tools.clone(), &mut left_out);
    let found = ServerReport {
        name: name.to_owned(),
        transport: TransportReport::of(options),
        took_ms,
        problem,
        tools: offered.iter().map(|tool| ToolReport::of(tool.spec())).collect(),
        left_out: left_out.shortened(),
    };
    (found, tools)
}

fn list(common: &McpArguments, environment: &Environment, paint: Paint) -> Result<Exit> {
    let settings = settings(common, environment)?;
    let servers = Arc::new(McpServers::new(settings.servers.clone()));
    let found = runtime()?.block_on(async {
        let asking = settings.servers.iter().map(|(name, options)| {
            let servers = Arc::clone(&servers);
            async move { find(&servers, name, options).await.0 }
        });
        let asking: FuturesUnordered<_> = asking.collect();
        let mut found: Vec<ServerReport> = asking.collect().await;
        found.sort_by(|one, other| one.name.cmp(&other.name));
        servers.shut_down().await;
        found
    });
    if common.json {
        print_json(&found);
    } else if found.is_empty() {
        tell("no MCP server is configured");
        tell("hint: name one with [mcp_servers.NAME] in turnwire.toml, or use --mcp-config FILE");
    } else {
        print_line(
            &found.iter().map(|server| worded(server, paint)).collect::<Vec<_>>().join("\n"),
        );
    }
    let all_work = found.iter().all(|server| server.problem.is_none());
    Ok(if all_work { Exit::Done } else { Exit::Failed })
}

#[derive(Debug, Serialize)]
struct TestReport {
    #[serde(flatten)]
    server: ServerReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallReport>,
}

#[derive(Debug, Serialize)]
struct CallReport {
    tool: String,
    success: bool,
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<ToolOutput>,
}

fn test(arguments: &McpTestArguments, environment: &Environment, paint: Paint) -> Result<Exit> {
    let settings = settings(&arguments.common, environment)?;
    let name = &arguments.name;
    let options = named(&settings, name)?;
    let call_arguments = read_arguments(arguments.arguments.as_deref())?;
    let servers = McpServers::new([(name.clone(), options.clone())].into());
    let tested = runtime()?.block_on(async {
        let (server, tools) = find(&servers, name, options).await;
        let tested = match &arguments.call {
            Some(wanted) if server.problem.is_none() => {
                let called = call(&tools, wanted, call_arguments, options).await;
                called.map(|called| TestReport { server, call: Some(called) })
            }
            Some(_) | None => Ok(TestReport { server, call: None }),
        };
        servers.shut_down().await;
        tested
    })?;
    if arguments.common.json {
        print_json(&tested);
    } else {
        let mut text = worded(&tested.server, paint);
        if let Some(called) = &tested.call {
            text.push('\n');
            text.push_str(&worded_call(called, paint));
        }
        print_line(&text);
    }
    let works =
        tested.server.problem.is_none() && tested.call.as_ref().is_none_or(|called| called.success);
    Ok(if works { Exit::Done } else { Exit::Failed })
}

fn named<'a>(settings: &'a McpSettings, name: &str) -> Result<&'a McpServerOptions> {
    settings.servers.get(name).ok_or_else(|| {
        let names: Vec<&str> = settings.servers.keys().map(String::as_str).collect();
        Problem::usage(format!("there is no MCP server `{name}` in the settings"))
            .hint(did_you_mean(name, &names))
    })
}

/// Logs a person in to a server and stores the tokens.
fn login(arguments: &McpLoginArguments, environment: &Environment) -> Result<Exit> {
    let settings = settings(&arguments.common, environment)?;
    let name = &arguments.name;
    let servers = McpServers::new([(name.clone(), named(&settings, name)?.clone())].into());
    let not_done = |error: LoginError| Problem::failure(error.to_string());
    runtime()?.block_on(async {
        let login = servers.login(name).await.map_err(not_done)?;
        if arguments.common.json {
            print_json(&serde_json::json!({ "page": login.authorization_url() }));
        } else {
            tell(&format!("Open this page to log in to {}:", clean(name)));
            print_line(&clean(login.authorization_url()));
        }
        login.finish().await.map_err(not_done)?;
        tell(&format!("Logged in to {}.", clean(name)));
        servers.shut_down().await;
        Ok(Exit::Done)
    })
}

fn read_arguments(text: Option<&str>) -> Result<Map<String, Value>> {
    match text.map(serde_json::from_str) {
        None => Ok(Map::new()),
        Some(Ok(arguments)) => Ok(arguments),
        Some(Err(error)) => Err(Problem::usage(format!("--args: not a JSON object: {error}"))
            .hint("for example: --args '{\"query\": \"streams\"}'")),
    }
}

async fn call(
    tools: &[Arc<dyn Tool>],
    wanted: &str,
    arguments: Map<String, Value>,
    options: &McpServerOptions,
) -> Result<CallReport> {
    let Some(tool) = tools.iter().find(|tool| tool.spec().name == wanted) else {
        let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
        return Err(Problem::usage(format!("the server has no tool `{wanted}`"))
            .hint(did_you_mean(wanted, &names)));
    };
    let time = options.tool_timeout.unwrap_or(CALL_TIME);
    let began = Instant::now();
    // Also used in the idempotency key, which is unique to this process.
    let key = format!("test_{}:{wanted}", std::process::id());
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments,
        idempotency_key: key,
        settings: Value::Null,
    };
    let (run, call) = (RunId::new("run_test"), CallId::new("call_test"));
    let context = ToolContext::new(run, call, 1, time, Arc::new(OnStderr));
    let late = || ToolError::failed(format!("no response within {} s", time.as_secs_f64()));
    let answer = tokio::time::timeout(time, tool.call(request, context)).await;
    let answer = answer.unwrap_or_else(|_| Err(late()));
    let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (output, problem) = match answer {
        Ok(output) => (Some(output), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let success = problem.is_none();
    Ok(CallReport { tool: wanted.to_owned(), success, took_ms, problem, output })
}

/// Prints the notes of a tool to standard error. Never cancelled.
struct OnStderr;

impl CallLink for OnStderr {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        match note {
            ToolNote::Progress { progress, total, message } => {
                let of = total.map(|total| format!("/{total}")).unwrap_or_default();
                let message = message.unwrap_or_default();
                tell(&clean(&format!("progress {progress}{of} {message}")));
            }
            ToolNote::Phase(phase) => tell(&clean(&format!("phase {phase}"))),
            ToolNote::Output(text) => tell(&clean(&text)),
            ToolNote::TaskStarted(task) => tell(&clean(&format!("works on as task {task}"))),
        }
        std::future::ready(()).boxed()
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        std::future::pending().boxed()
    }
}

fn worded(server: &ServerReport, paint: Paint) -> String {
    let reached = match &server.transport {
        TransportReport::Stdio { command } => command,
        TransportReport::Http { url } => url,
    };
    let mark = match server.problem {
        None => paint.bold(Colour::Green, "ok"),
        Some(_) => paint.bold(Colour::Red, "failed"),
    };
    let name = paint.strong(&clean(&server.name));
    let mut lines = vec![format!("{name}  {mark}  {}  {} ms", clean(reached), server.took_ms)];
    lines.extend(server.problem.as_ref().map(|problem| format!("  {}", clean(problem))));
    let width = server.tools.iter().map(|tool| tool.name.chars().count()).max().unwrap_or(0);
    for tool in &server.tools {
        let effect = effect_word(tool.effect);
        let asks = if tool.needs_approval { "asks a person" } else { "asks nobody" };
        let first = tool.description.lines().next().unwrap_or_default();
        let name = visible::exact(&tool.name);
        let description = paint.dim(&visible::in_order(first));
        lines.push(format!("  {name:width$}  {effect:10}  {asks:13}  {description}"));
    }
    if !server.left_out.is_empty() {
        let left_out = server.left_out.to_string();
        lines.push(format!("  not offered: {}", visible::exact(&left_out)));
    }
    lines.join("\n")
}

fn effect_word(effect: Effect) -> &'static str {
    match effect {
        Effect::Pure => "pure",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    }
}

fn worded_call(called: &CallReport, paint: Paint) -> String {
    let (mark, text) = match (&called.problem, &called.output) {
        (Some(problem), _) => (paint.bold(Colour::Red, "failed"), problem.as_str()),
        (None, Some(output)) => (paint.bold(Colour::Green, "ok"), output.text.as_str()),
        (None, None) => (paint.bold(Colour::Green, "ok"), ""),
    };
    format!("{}  {mark}  {} ms\n{}", clean(&called.tool), called.took_ms, clean(text))
}

fn print_json(value: &impl Serialize) {
    print_line(&wire_json_pretty(value));
}
