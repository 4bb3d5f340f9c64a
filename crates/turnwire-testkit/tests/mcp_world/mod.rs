//! What the tests of our MCP client share: a caller, a listener, and our own server.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{
    CallId, CallLink, Question, Reply, RunId, TenantId, Tool, ToolContext, ToolError, ToolNote,
    ToolOutput, ToolRequest, ToolServers,
};
use turnwire_tools::{McpServerOptions, McpServers, McpTransport};

/// How long anything may take that takes no time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// One server, under this label.
pub(crate) const LABEL: &str = "props";

pub(crate) fn one(options: McpServerOptions) -> McpServers {
    McpServers::new(BTreeMap::from([(LABEL.to_owned(), options)]))
}

pub(crate) async fn tools(servers: &McpServers) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
    timeout(PATIENCE, servers.tools(&TenantId::default(), LABEL.into()))
        .await
        .expect("it takes too long")
}

pub(crate) fn known(servers: &McpServers) -> Option<Vec<Arc<dyn Tool>>> {
    servers.known_tools(&TenantId::default(), LABEL.into())
}

pub(crate) fn names(tools: &[Arc<dyn Tool>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.spec().name.as_str()).collect()
}

pub(crate) async fn tool(servers: &McpServers, name: &str) -> Arc<dyn Tool> {
    let tools = tools(servers).await.expect("the server is there");
    let found = tools.into_iter().find(|tool| tool.spec().name == name);
    found.unwrap_or_else(|| panic!("there is no tool `{name}`"))
}

/// Calls a tool with nobody listening.
pub(crate) async fn call(
    servers: &McpServers,
    name: &str,
    arguments: Value,
) -> Result<ToolOutput, ToolError> {
    let tool = tool(servers, name).await;
    let nobody = Arc::default();
    let calling = call_with(tool.as_ref(), arguments, &nobody);
    timeout(PATIENCE, calling).await.expect("the call takes too long")
}

pub(crate) async fn call_with(
    tool: &dyn Tool,
    arguments: Value,
    listener: &Arc<Listener>,
) -> Result<ToolOutput, ToolError> {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    go_on_with(tool, arguments, None, listener).await
}

/// Calls a tool whose work was begun before, as a task.
pub(crate) async fn go_on_with(
    tool: &dyn Tool,
    arguments: serde_json::Map<String, Value>,
    task: Option<String>,
    listener: &Arc<Listener>,
) -> Result<ToolOutput, ToolError> {
    let request = ToolRequest {
        tenant: TenantId::default(),
        arguments,
        idempotency_key: "run_1:call_1".to_owned(),
        settings: Value::Null,
    };
    let (run, call) = (RunId::from("run_1"), CallId::from("call_1"));
    let context = ToolContext::new(run, call, 1, PATIENCE, listener.clone());
    tool.call(request, context.going_on_with(task)).await
}

/// Notes what a tool says and when, and can stop it.
#[derive(Default)]
pub(crate) struct Listener {
    notes: Mutex<Vec<(Instant, ToolNote)>>,
    questions: Mutex<Vec<Question>>,
    /// What a person says; nobody is there if not set.
    pub(crate) reply: Mutex<Option<Reply>>,
    pub(crate) stop: CancellationToken,
}

impl Listener {
    pub(crate) fn notes(&self) -> Vec<(Instant, ToolNote)> {
        self.notes.lock().unwrap().clone()
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.questions.lock().unwrap().clone()
    }

    /// A listener with a person who says this.
    pub(crate) fn with_reply(reply: Reply) -> Arc<Self> {
        Arc::new(Self { reply: Mutex::new(Some(reply)), ..Self::default() })
    }
}

impl CallLink for Listener {
    fn tell(&self, note: ToolNote) -> BoxFuture<'_, ()> {
        self.notes.lock().unwrap().push((Instant::now(), note));
        std::future::ready(()).boxed()
    }

    fn ask(&self, question: Question) -> BoxFuture<'_, Reply> {
        self.questions.lock().unwrap().push(question);
        let reply = self.reply.lock().unwrap().clone();
        std::future::ready(reply.unwrap_or(Reply::Declined)).boxed()
    }

    fn is_cancelled(&self) -> bool {
        self.stop.is_cancelled()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        self.stop.cancelled().boxed()
    }
}

/// What our server has written down.
pub(crate) struct Log(pub(crate) PathBuf);

impl Log {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("log.jsonl"))
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.0).unwrap_or_default();
        // What is being written right now has no end yet.
        let whole = text.rfind('\n').map_or("", |end| text.split_at(end).0);
        whole.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.lines().iter().filter(|line| line["what"] == what).count()
    }

    /// Waits for a line. A file tells nobody when it grows, so it is looked at again and again.
    pub(crate) async fn until(&self, what: &str) -> Value {
        until(|| self.lines().into_iter().find(|line| line["what"] == what)).await
    }
}

/// Looks again and again until there is something to see.
pub(crate) async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look() {
                return seen;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, looking).await.expect("it never came")
}

/// Whether a process is at work: not gone, and not a dead one that nobody has buried.
pub(crate) fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
    status.is_ok_and(|status| !status.contains("State:\tZ") && !status.contains("State:\tX"))
}

/// The settings for a program, with more in its environment.
pub(crate) fn with_env(
    mut options: McpServerOptions,
    name: &str,
    value: &Path,
) -> McpServerOptions {
    if let McpTransport::Stdio { env, .. } = &mut options.transport {
        env.insert(name.to_owned(), value.display().to_string());
    }
    options
}

/// A server that is reached over HTTP, and goes when it is dropped.
pub(crate) struct HttpServer {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl HttpServer {
    /// Starts `command`, which prints its port.
    pub(crate) async fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().expect("the server starts");
        let stdout = child.stdout.take().expect("it has an output");
        let line = BufReader::new(stdout).lines().next_line().await.expect("it can be read");
        let port = line.and_then(|line| line.trim().parse().ok()).expect("it prints its port");
        Self { child, port }
    }

    pub(crate) fn options(&self) -> McpServerOptions {
        McpServerOptions::http(format!("http://127.0.0.1:{}/mcp", self.port))
    }
}
