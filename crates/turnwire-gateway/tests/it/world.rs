//! A server to talk to, and the means to do so.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{SinkExt, StreamExt};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{net::TcpStream, task::JoinHandle};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use turnwire_contract::{
    ApiKeys, AuditLog, Journal, Model, RunStore, TenantId, Tool, ToolServers, UsageCounters,
    Workers,
};
use turnwire_engine::{AccessRules, ClockAndIds, EngineParts, QuotaOptions, Runs, Toolbox};
use turnwire_gateway::{App, AppOptions, HttpLimits, Server};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;
use turnwire_testkit::{FakeServers, FakeTool};
use turnwire_tools::{DefaultAnalyzer, FileSearch};

/// A server with everything a test wants behind it.
pub(crate) struct World {
    pub(crate) address: SocketAddr,
    pub(crate) app: App,
    pub(crate) model: Scripted,
    pub(crate) http: reqwest::Client,
    server: JoinHandle<()>,
}

type WrapTool = dyn Fn(Arc<dyn Tool>) -> Arc<dyn Tool>;

/// What a server is made of.
pub(crate) struct Plan {
    model: Scripted,
    more_models: BTreeMap<String, Arc<dyn Model>>,
    tools: Vec<Arc<dyn Tool>>,
    servers: FakeServers,
    other_servers: Option<Arc<dyn ToolServers>>,
    other_model: Option<Arc<dyn Model>>,
    any_model: Option<Arc<dyn Model>>,
    wrap_tool: Box<WrapTool>,
    store: Option<Arc<dyn RunStore>>,
    log: Option<Arc<dyn Journal>>,
    workers: Option<Arc<dyn Workers>>,
    audit: Option<Arc<dyn AuditLog>>,
    access: AccessRules,
    quotas: QuotaOptions,
    usage: Option<Arc<dyn UsageCounters>>,
    api_keys: Option<Arc<dyn ApiKeys>>,
    clock: Option<Arc<ClockAndIds>>,
    pub(crate) options: AppOptions,
    pub(crate) limits: HttpLimits,
}

impl Plan {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        Self::with_model(Scripted::new(turns))
    }

    pub(crate) fn with_model(model: Scripted) -> Self {
        let (options, limits) = (AppOptions::default(), HttpLimits::default());
        let servers = FakeServers::default();
        Self {
            model,
            more_models: BTreeMap::new(),
            tools: Vec::new(),
            servers,
            other_servers: None,
            other_model: None,
            any_model: None,
            wrap_tool: Box::new(|tool| tool),
            store: None,
            log: None,
            workers: None,
            audit: None,
            access: AccessRules::default(),
            quotas: QuotaOptions::default(),
            usage: None,
            api_keys: None,
            clock: None,
            options,
            limits,
        }
    }

    /// A model that is not scripted.
    pub(crate) fn only_model(mut self, model: Arc<dyn Model>) -> Self {
        self.other_model = Some(model);
        self
    }

    /// A model for all other names.
    pub(crate) fn any_model(mut self, model: Arc<dyn Model>) -> Self {
        self.any_model = Some(model);
        self
    }

    /// A model beside the default one.
    pub(crate) fn model(mut self, name: &str, model: Arc<dyn Model>) -> Self {
        self.more_models.insert(name.to_owned(), model);
        self
    }

    pub(crate) fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Puts something around every tool of the process, the built-in ones too.
    pub(crate) fn wrap_tools(
        mut self,
        wrap: impl Fn(Arc<dyn Tool>) -> Arc<dyn Tool> + 'static,
    ) -> Self {
        self.wrap_tool = Box::new(wrap);
        self
    }

    pub(crate) fn server(mut self, label: &str, tools: impl IntoIterator<Item = FakeTool>) -> Self {
        self.servers = self.servers.with(label, tools);
        self
    }

    pub(crate) fn servers(mut self, servers: FakeServers) -> Self {
        self.servers = servers;
        self
    }

    pub(crate) fn tool_servers(mut self, servers: impl ToolServers + 'static) -> Self {
        self.other_servers = Some(Arc::new(servers));
        self
    }

    pub(crate) fn store(mut self, store: impl RunStore + 'static) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    pub(crate) fn log(mut self, log: impl Journal + 'static) -> Self {
        self.log = Some(Arc::new(log));
        self
    }

    /// Restricts a model to one tenant.
    pub(crate) fn model_for(mut self, name: &str, tenant: &str) -> Self {
        let rule = self.access.models.entry(name.to_owned()).or_default();
        rule.tenants = Some([TenantId::from(tenant)].into());
        self
    }

    /// Who may use models and tools.
    pub(crate) fn access(mut self, access: AccessRules) -> Self {
        self.access = access;
        self
    }

    /// What tenants and keys may use, by a clock of the test.
    pub(crate) fn quotas(mut self, quotas: QuotaOptions, clock: &Arc<ClockAndIds>) -> Self {
        self.quotas = quotas;
        self.clock = Some(Arc::clone(clock));
        self
    }

    /// Runs on a store that other servers use, too.
    pub(crate) fn on(mut self, store: &Store) -> Self {
        self.usage = Some(Arc::new(store.clone()));
        self.store(store.clone()).log(store.clone()).workers(store.clone())
    }

    /// With the keys of that store.
    pub(crate) fn keys_of(mut self, store: &Store) -> Self {
        self.api_keys = Some(Arc::new(store.clone()));
        self
    }

    pub(crate) fn audit(mut self, log: impl AuditLog + 'static) -> Self {
        self.audit = Some(Arc::new(log));
        self
    }

    /// Others that share the store, to whom runs are left.
    pub(crate) fn workers(mut self, workers: impl Workers + 'static) -> Self {
        self.workers = Some(Arc::new(workers));
        self
    }

    pub(crate) fn limits(mut self, change: impl FnOnce(&mut HttpLimits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub(crate) fn options(mut self, change: impl FnOnce(&mut AppOptions)) -> Self {
        change(&mut self.options);
        self
    }

    pub(crate) async fn start(self) -> World {
        let mut tools = Toolbox::default();
        let files = Store::in_memory().await.unwrap();
        let library = Arc::new(files.library(Arc::new(DefaultAnalyzer::default())));
        let file_search = Arc::new(FileSearch::new(library.clone()));
        for tool in self.tools.into_iter().chain([file_search as Arc<dyn Tool>]) {
            tools.add((self.wrap_tool)(tool)).unwrap();
        }
        let model = self.other_model.unwrap_or_else(|| Arc::new(self.model.clone()));
        let mut models = self.more_models;
        models.insert("default".to_owned(), model);
        let usual = EngineParts::default();
        let runs = Runs::new(EngineParts {
            store: self.store.unwrap_or(usual.store),
            journal: self.log.unwrap_or(usual.journal),
            tools,
            library: Some(library.clone()),
            models,
            any_model: self.any_model,
            servers: self.other_servers.unwrap_or_else(|| Arc::new(self.servers)),
            workers: self.workers.unwrap_or(usual.workers),
            audit: self.audit.unwrap_or(usual.audit),
            access: Arc::new(self.access),
            quotas: self.quotas,
            usage: self.usage,
            api_keys: self.api_keys.unwrap_or(usual.api_keys),
            clock_and_ids: self.clock.unwrap_or(usual.clock_and_ids),
            tool_silent_interval: Duration::from_secs(1),
            ..EngineParts::default()
        });
        runs.start_worker().await.unwrap();
        let app = App::new(runs, library, self.options);
        let loopback = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(loopback, app.clone(), self.limits).await.unwrap();
        let address = server.address().unwrap();
        #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
        let server = tokio::spawn(server.run());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        World { address, app, model: self.model, http, server }
    }
}

impl World {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, self.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> (StatusCode, Value) {
        answer(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    /// A new conversation.
    pub(crate) async fn session(&self) -> Value {
        let (status, conversation) = self.post("/v1/conversations", json!({})).await;
        assert_eq!(status, StatusCode::OK, "{conversation:#}");
        conversation["id"].clone()
    }

    /// A response that must be made.
    pub(crate) async fn respond(&self, body: Value) -> Value {
        let (status, response) = self.post("/v1/responses", body).await;
        assert_eq!(status, StatusCode::OK, "{response:#}");
        response
    }

    /// The events of a streamed response, up to `[DONE]`.
    pub(crate) async fn stream(&self, mut body: Value) -> Vec<Value> {
        body["stream"] = json!(true);
        let text = self.text(self.request(Method::POST, "/v1/responses").json(&body)).await;
        events_of(&text)
    }

    pub(crate) async fn text(&self, request: reqwest::RequestBuilder) -> String {
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!([StatusCode::OK, StatusCode::NO_CONTENT].contains(&status), "{status}: {text}");
        text
    }

    pub(crate) async fn socket(&self, path: &str) -> Socket {
        self.open_socket(path, None).await
    }

    pub(crate) async fn socket_of(&self, path: &str, key: &str) -> Socket {
        self.open_socket(path, Some(format!("Bearer {key}"))).await
    }

    async fn open_socket(&self, path: &str, authorization: Option<String>) -> Socket {
        let url = format!("ws://{}{path}", self.address);
        let mut request = url.into_client_request().unwrap();
        if let Some(value) = authorization {
            request.headers_mut().insert("authorization", value.parse().unwrap());
        }
        Socket(connect_async(request).await.unwrap().0)
    }

    /// Closes the server and waits for it.
    pub(crate) async fn close(self) {
        self.app.close();
        self.server.await.unwrap();
    }
}

async fn answer(request: reqwest::RequestBuilder) -> (StatusCode, Value) {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.unwrap();
    let status = response.status();
    let text = response.text().await.unwrap();
    check_documented(&method, &path, status);
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// Whatever a test is answered, the document says that it can come.
fn check_documented(method: &Method, path: &str, status: StatusCode) {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    let document = DOCUMENT
        .get_or_init(|| serde_json::to_value(turnwire_gateway::openapi::document()).unwrap());
    let names = |template: &str| {
        let (wanted, parts) = (template.split('/'), path.split('/'));
        let has_all = wanted.clone().count() == parts.clone().count();
        let mut pairs = wanted.zip(parts);
        let fits = has_all && pairs.all(|(wanted, part)| wanted == part || wanted.starts_with('{'));
        fits.then(|| template.matches('{').count())
    };
    let operations = document["paths"].as_object().unwrap().iter();
    let operations = operations.filter_map(|(template, item)| Some((names(template)?, item)));
    let Some((_, operations)) = operations.min_by_key(|(n_names, _)| *n_names) else { return };
    let Some(operation) = operations.get(method.as_str().to_lowercase()) else { return };
    let is_there = operation["responses"].get(status.as_str()).is_some();
    assert!(is_there, "{status} of {method} {path} is not in the document");
}

/// The events of a stream of `/v1/responses`: `event:` equals `type`, and `[DONE]` is last.
pub(crate) fn events_of(text: &str) -> Vec<Value> {
    let mut events = Vec::new();
    let mut done = false;
    for frame in text.split("\n\n").filter(|frame| !frame.trim().is_empty()) {
        assert!(!done, "something follows [DONE]: {frame}");
        let lines: Vec<&str> = frame.lines().filter(|line| !line.starts_with(':')).collect();
        if lines == ["data: [DONE]"] {
            done = true;
            continue;
        }
        let [name, data] = lines.as_slice() else { panic!("an odd frame: {frame}") };
        let event: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!(name.strip_prefix("event: "), event["type"].as_str());
        events.push(event);
    }
    assert!(done, "the stream has no [DONE]");
    events
}

/// The `data:` lines of any stream.
pub(crate) fn data_of(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str(data).unwrap()).collect()
}

pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// Those of `events` that have this type.
pub(crate) fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// A WebSocket.
pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub(crate) async fn send(&mut self, message: Value) {
        self.send_text(&message.to_string()).await;
    }

    pub(crate) async fn send_text(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    pub(crate) async fn send_binary(&mut self, bytes: &[u8]) {
        self.0.send(Message::binary(bytes.to_vec())).await.unwrap();
    }

    /// The next message, or nothing if the socket was closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(Duration::from_secs(20), self.0.next());
            match next.await.expect("the server says something") {
                Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }

    /// All messages up to the end of the socket, and the code it ends with.
    pub(crate) async fn read_to_end(&mut self) -> (Vec<Value>, Option<u16>) {
        let (messages, end) = self.read_to_close().await;
        (messages, end.map(|(code, _)| code))
    }

    /// The same, with the reason.
    pub(crate) async fn read_to_close(&mut self) -> (Vec<Value>, Option<(u16, String)>) {
        let mut messages = Vec::new();
        loop {
            let next = tokio::time::timeout(Duration::from_secs(20), self.0.next());
            match next.await.expect("the server says something") {
                Some(Ok(Message::Text(text))) => {
                    messages.push(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(frame))) => {
                    let end = frame.map(|frame| (frame.code.into(), frame.reason.to_string()));
                    return (messages, end);
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return (messages, None),
            }
        }
    }

    /// All messages up to and including the first that `is_last`.
    pub(crate) async fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut messages = Vec::new();
        while let Some(message) = self.next().await {
            let last = is_last(&message);
            messages.push(message);
            if last {
                return messages;
            }
        }
        panic!("the socket was closed after {messages:#?}")
    }
}
