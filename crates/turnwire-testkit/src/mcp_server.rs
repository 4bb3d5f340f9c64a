//! An MCP server whose tools have every behaviour, for tests of our client.
//!
//! It is a separate program (`mcp-props`), because many failures need a real process. It logs
//! everything as lines of JSON, so that a test can check what arrived.

use std::{
    borrow::Cow,
    fmt,
    fs::OpenOptions,
    future::pending,
    io::Write,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rmcp::{
    ErrorData, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
        CreateTaskResult, DiscoverResult, ElicitRequest, ElicitRequestParams, GetTaskParams,
        GetTaskResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
        JsonObject, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
        ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
        ToolAnnotations, UpdateTaskParams,
    },
    service::{RequestContext, RoleServer, SubscriptionContext, SubscriptionSink},
    task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions},
};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{mcp_ledger::Ledger, mcp_tool::tool};

/// Environment variable that names the log file.
pub const LOG_VARIABLE: &str = "MCP_PROPS_LOG";

/// Metadata field with the idempotency key of a call, the same for every attempt.
pub const KEY_IN_META: &str = "dev.turnwire/idempotencyKey";

/// An image of one pixel, in base64.
pub const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

/// The protocol generation of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Supports both generations.
    Newer,
    /// Supports only the older one and rejects the newer one.
    Older,
    /// Supports only the older one and does not respond to the newer one.
    Mute,
}

/// The server. Clones share all state: over HTTP each request may get a clone.
#[derive(Clone)]
pub struct McpProps {
    generation: Generation,
    log: Option<PathBuf>,
    grown: Arc<AtomicBool>,
    subscribers: Arc<Mutex<Vec<SubscriptionSink>>>,
    ledger: Option<Ledger>,
    tasks: TaskManager,
}

impl McpProps {
    /// Creates a server that logs to `log`.
    pub fn new(log: Option<PathBuf>, generation: Generation) -> Self {
        let (grown, subscribers) = (Arc::default(), Arc::default());
        Self { generation, log, grown, subscribers, ledger: None, tasks: TaskManager::new() }
    }

    /// Adds tools with side effects; see [`Ledger`].
    pub fn with_effects(self) -> Self {
        Self { ledger: Some(Ledger::default()), ..self }
    }

    /// Writes a log line: what happened, when, and `more`.
    pub fn write_down(&self, what: &str, mut more: JsonObject) {
        let Some(path) = &self.log else { return };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        more.insert("what".to_owned(), json!(what));
        more.insert("at_us".to_owned(), json!(u64::try_from(now.as_micros()).unwrap_or(0)));
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the log can be written");
        // A single write, so that lines of parallel calls do not mix.
        let line = format!("{}\n", Value::Object(more));
        file.write_all(line.as_bytes()).expect("the log can be written");
    }

    async fn act(&self, call: &Call) -> Result<CallToolResult, ErrorData> {
        if let Some(ledger) = self.ledger.as_ref().filter(|_| Ledger::knows(&call.name)) {
            return self.take_effect(ledger, call).await;
        }
        let text = |text: String| Ok(CallToolResult::success(vec![ContentBlock::text(text)]));
        match call.name.as_str() {
            "echo" => text(call.text("text")),
            "add" => text((call.number("a") + call.number("b")).to_string()),
            "fail" => Ok(CallToolResult::error(vec![ContentBlock::text(call.text("message"))])),
            "rpc_error" => Err(ErrorData::internal_error("the cellar is flooded", None)),
            "slow" => self.work_slowly(call).await,
            "hang" => pending().await,
            "wait_for_cancel" => {
                call.context.ct.cancelled().await;
                self.write_down("cancelled", call.facts());
                text("stopped".to_owned())
            }
            "crash" => fall_over(),
            "big" => text("x".repeat(call.whole("bytes"))),
            "image" => Ok(CallToolResult::success(vec![ContentBlock::image(PIXEL, "image/png")])),
            "structured" => {
                let mut result = CallToolResult::success(Vec::new());
                result.structured_content = Some(json!({ "celsius": 21.5, "sky": "clear" }));
                Ok(result)
            }
            "environment" => {
                let mut names: Vec<String> = std::env::vars_os()
                    .map(|(name, _)| name.to_string_lossy().into_owned())
                    .collect();
                names.sort();
                text(names.join(" "))
            }
            "grow" => {
                self.grown.store(true, Ordering::Release);
                self.tell_of_change(call).await;
                text("there is a new tool".to_owned())
            }
            "shrink" => {
                self.grown.store(false, Ordering::Release);
                self.tell_of_change(call).await;
                text("the new tool is gone".to_owned())
            }
            "ignore_cancel" => {
                let seconds = call.number("seconds").max(0.0);
                sleep(Duration::from_secs_f64(seconds)).await;
                self.write_down("ignored", call.facts());
                text("done all the same".to_owned())
            }
            "late_progress" => Ok(self.talk_on(call)),
            "everything" => Ok(CallToolResult::success(every_kind_of_content())),
            "elicit" => self.elicit(call).await,
            "late" if self.has_grown() => text("better late than never".to_owned()),
            other => Err(ErrorData::invalid_params(format!("there is no tool `{other}`"), None)),
        }
    }

    /// Responds, and reports progress afterwards, which violates the protocol.
    fn talk_on(&self, call: &Call) -> CallToolResult {
        let (props, facts, peer) = (self.clone(), call.facts(), call.context.peer.clone());
        let token = call.context.meta.get_progress_token();
        #[expect(clippy::disallowed_methods, reason = "it has to outlive its call")]
        tokio::spawn(async move {
            sleep(Duration::from_millis(100)).await;
            if let Some(token) = token {
                let late = ProgressNotificationParam::new(token, 99.0).with_message("too late");
                let _ = peer.notify_progress(late).await;
            }
            props.write_down("talked on", facts);
        });
        CallToolResult::success(vec![ContentBlock::text("done")])
    }

    /// Asks a person for a name by a server request, as in the older generation.
    async fn elicit(&self, call: &Call) -> Result<CallToolResult, ErrorData> {
        let request = ElicitRequest::new(who_are_you());
        let answer = call.context.peer.send_request(request.into()).await;
        let told = match answer {
            Ok(answer) => serde_json::to_value(answer).unwrap_or_default(),
            Err(error) => json!({ "error": error.to_string() }),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(greeting(&told))]))
    }

    /// Runs as a task, reports progress, and asks a question if requested.
    fn start_task(&self, call: &Call) -> CallToolResponse {
        let steps = call.whole("steps").max(1);
        let step =
            Duration::from_secs_f64(call.number("seconds").max(0.0)).div_f64(to_float(steps));
        let options = TaskOptions::new().with_poll_interval_ms(50);
        let (props, facts, name) = (self.clone(), call.facts(), call.name.clone());
        let work = async move |task: TaskContext| {
            for done in 1..=steps {
                tokio::select! {
                    () = sleep(step) => {}
                    () = task.cancelled() => {
                        props.write_down("cancelled", facts.clone());
                        return Err(TaskExit::Cancelled);
                    }
                }
                task.set_status_message(format!("step {done} of {steps}"));
            }
            if name == "task_that_asks" {
                let request = InputRequest::Elicitation(ElicitRequest::new(who_are_you()));
                let told = task.request_input("name", request).await?;
                return Ok(CallToolResult::success(vec![ContentBlock::text(greeting(&told))]));
            }
            props.write_down("effect", facts);
            Ok(CallToolResult::success(vec![ContentBlock::text(format!("{steps} steps"))]))
        };
        let task = self.tasks.spawn(options, move |task| Box::pin(work(task)));
        CallToolResponse::Task(CreateTaskResult::new(task))
    }

    /// Works for a while, has its effect halfway, and logs it.
    async fn take_effect(&self, ledger: &Ledger, call: &Call) -> Result<CallToolResult, ErrorData> {
        let half = Duration::from_millis(call.whole("ms") as u64) / 2;
        sleep(half).await;
        if ledger.acts(&call.name, &call.key()) {
            self.write_down("effect", call.facts());
        }
        tokio::select! {
            () = sleep(half) => {}
            () = call.context.ct.cancelled() => self.write_down("cancelled", call.facts()),
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("{} is done", call.name))]))
    }

    async fn work_slowly(&self, call: &Call) -> Result<CallToolResult, ErrorData> {
        let steps = call.whole("steps").max(1);
        let step =
            Duration::from_secs_f64(call.number("seconds").max(0.0)).div_f64(to_float(steps));
        let token = call.context.meta.get_progress_token();
        for done in 1..=steps {
            tokio::select! {
                () = sleep(step) => {}
                () = call.context.ct.cancelled() => {
                    self.write_down("cancelled", call.facts());
                    break;
                }
            }
            if let Some(token) = token.clone() {
                let progress = ProgressNotificationParam::new(token, to_float(done))
                    .with_total(to_float(steps))
                    .with_message(format!("step {done}"));
                let _ = call.context.peer.notify_progress(progress).await;
            }
        }
        Ok(CallToolResult::success(vec![ContentBlock::text(format!("{steps} steps"))]))
    }

    /// The older generation gets change notifications always, the newer one only after subscribing.
    async fn tell_of_change(&self, call: &Call) {
        if call.context.protocol_version() < Some(ProtocolVersion::V_2026_07_28) {
            let _ = call.context.peer.notify_tool_list_changed().await;
            return;
        }
        let subscribers: Vec<SubscriptionSink> =
            self.subscribers.lock().expect("nobody panicked").clone();
        for subscriber in subscribers {
            let _ = subscriber.notify_tool_list_changed().await;
        }
    }

    fn has_grown(&self) -> bool {
        self.grown.load(Ordering::Acquire)
    }
}

impl fmt::Debug for McpProps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpProps").field("generation", &self.generation).finish_non_exhaustive()
    }
}

impl ServerHandler for McpProps {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_tools().enable_tool_list_changed();
        ServerConfig::new(can.enable_tasks().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let all = ProtocolVersion::KNOWN_VERSIONS;
        if self.generation != Generation::Older {
            return Cow::Borrowed(all);
        }
        all.iter().filter(|version| version.has_initialize()).cloned().collect()
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        if self.generation == Generation::Mute {
            self.write_down("probed", JsonObject::new());
            return pending().await;
        }
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        // Two pages, so that a client must use pagination.
        let mut tools = all_tools();
        if self.has_grown() {
            tools.push(tool("late", "Comes late.", json!({})));
        }
        if self.ledger.is_some() {
            tools.extend(Ledger::tools());
        }
        let second = tools.split_off(5);
        if request.is_some_and(|request| request.cursor.is_some()) {
            return Ok(ListToolsResult::with_all_items(second));
        }
        self.write_down("listed", JsonObject::new());
        let mut first = ListToolsResult::with_all_items(tools);
        first.next_cursor = Some("more".to_owned());
        Ok(first)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let call = Call { name: request.name.into_owned(), arguments, context };
        self.write_down("began", call.facts());
        let is_newer = call.context.protocol_version() >= Some(ProtocolVersion::V_2026_07_28);
        match call.name.as_str() {
            "task" | "task_that_asks" => return Ok(self.start_task(&call)),
            // In the newer generation the response asks, and the call is repeated.
            "elicit" if is_newer => return Ok(asks_first(request.input_responses)),
            _ => {}
        }
        let result = self.act(&call).await;
        self.write_down("ended", call.facts());
        result.map(CallToolResponse::from)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.write_down(
            "polled",
            JsonObject::from_iter([("task".to_owned(), json!(request.task_id))]),
        );
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.subscribers.lock().expect("nobody panicked").push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }
}

/// One call with its metadata.
struct Call {
    name: String,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
}

impl Call {
    fn text(&self, name: &str) -> String {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    fn number(&self, name: &str) -> f64 {
        self.arguments.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    fn whole(&self, name: &str) -> usize {
        let number = self.arguments.get(name).and_then(Value::as_u64).unwrap_or_default();
        usize::try_from(number).unwrap_or_default()
    }

    /// Returns the idempotency key; empty if there is none.
    fn key(&self) -> String {
        let key = self.context.meta.get(KEY_IN_META).and_then(Value::as_str);
        key.unwrap_or_default().to_owned()
    }

    /// Returns the log fields of the call.
    fn facts(&self) -> JsonObject {
        JsonObject::from_iter([
            ("tool".to_owned(), json!(self.name)),
            ("arguments".to_owned(), Value::Object(self.arguments.clone())),
            ("key".to_owned(), json!(self.key())),
        ])
    }
}

fn to_float(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[expect(clippy::disallowed_methods, reason = "falling over is what it is for")]
fn fall_over() -> ! {
    std::process::exit(7)
}

/// The question to a person.
fn who_are_you() -> ElicitRequestParams {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string", "default": "Nobody" } },
    });
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Who are you?".to_owned(),
        requested_schema: serde_json::from_value(schema).expect("it is a schema"),
    }
}

/// Returns the tool's result for the answer.
fn greeting(told: &Value) -> String {
    let action = told.get("action").and_then(Value::as_str).unwrap_or("nothing");
    let name = told.pointer("/content/name").and_then(Value::as_str);
    name.map_or_else(|| format!("they said: {action}"), |name| format!("hello, {name}"))
}

/// The response to a call that needs an answer first.
fn asks_first(responses: Option<InputResponses>) -> CallToolResponse {
    if let Some(told) = responses.as_ref().and_then(|responses| responses.get("name")) {
        return CallToolResult::success(vec![ContentBlock::text(greeting(told))]).into();
    }
    let question = InputRequest::Elicitation(ElicitRequest::new(who_are_you()));
    let requests = InputRequests::from([("name".to_owned(), question)]);
    InputRequiredResult::from_input_requests(requests).into()
}

/// One block of each kind.
fn every_kind_of_content() -> Vec<ContentBlock> {
    let blocks = json!([
        { "type": "text", "text": "words" },
        { "type": "image", "data": PIXEL, "mimeType": "image/png" },
        { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
        { "type": "resource", "resource": { "uri": "sea://note", "text": "inside", "mimeType": "text/plain" } },
        { "type": "resource", "resource": { "uri": "sea://chart", "blob": PIXEL, "mimeType": "image/png" } },
        { "type": "resource", "resource": { "uri": "sea://data", "blob": "AAAA", "mimeType": "application/pdf" } },
        { "type": "resource_link", "uri": "sea://far", "name": "far", "description": "Further out." },
    ]);
    serde_json::from_value(blocks).expect("they are blocks")
}

fn all_tools() -> Vec<Tool> {
    let number = json!({ "type": "number" });
    let text = json!({ "type": "string" });
    let whole = json!({ "type": "integer" });
    vec![
        tool("echo", "Says it again.", json!({ "text": text }))
            .annotate(ToolAnnotations::new().read_only(true)),
        tool("add", "Adds two numbers.", json!({ "a": number, "b": number })),
        tool("fail", "Fails, and says so.", json!({ "message": text })),
        tool("rpc_error", "Fails without a result.", json!({})),
        tool("slow", "Takes its time.", json!({ "seconds": number, "steps": whole })),
        tool("hang", "Never comes back.", json!({})),
        tool("wait_for_cancel", "Waits until it is stopped.", json!({})),
        tool("crash", "Takes the server down.", json!({})),
        tool("big", "Returns a lot.", json!({ "bytes": whole })),
        tool("image", "Draws.", json!({})),
        tool("structured", "Tells the weather, as data.", json!({})),
        tool("environment", "Names what is in its environment.", json!({})),
        tool("grow", "Brings a new tool.", json!({}))
            .annotate(ToolAnnotations::new().read_only(false)),
        tool("shrink", "Takes the new tool away.", json!({})),
        tool("ignore_cancel", "Works on when it is stopped.", json!({ "seconds": number })),
        tool("late_progress", "Reports progress after its end.", json!({})),
        tool("everything", "Returns every kind of content.", json!({})),
        tool("elicit", "Asks who you are.", json!({})),
        tool("task", "Works as a task.", json!({ "seconds": number, "steps": whole })),
        tool("task_that_asks", "Asks in the middle of a task.", json!({})),
    ]
}
