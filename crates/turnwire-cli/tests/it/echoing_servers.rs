//! A model server and an MCP server that repeat the headers they get wherever they can: in results,
//! descriptions, errors and bodies of refusals.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use serde_json::{Value, json};

use crate::world::PATIENCE;

/// What a server has received so far.
#[derive(Default)]
struct Received {
    heads: String,
    bodies: String,
    /// Requests that are not answered, so far.
    n_hanging: usize,
    /// Whether requests to wait are answered.
    is_over: bool,
}

#[derive(Clone, Default)]
struct Shared(Arc<(Mutex<Received>, Condvar)>);

impl Shared {
    fn note<T>(&self, change: impl FnOnce(&mut Received) -> T) -> T {
        let (received, changed) = &*self.0;
        let noted = change(&mut received.lock().unwrap());
        changed.notify_all();
        noted
    }

    fn wait_until(&self, what: &str, is_so: impl Fn(&Received) -> bool) {
        let (received, changed) = &*self.0;
        let received = received.lock().unwrap();
        let waited = changed.wait_timeout_while(received, PATIENCE, |received| !is_so(received));
        assert!(!waited.unwrap().1.timed_out(), "no {what}");
    }
}

impl Shared {
    fn wait_for_heads(&self, heads: &[&str]) {
        for head in heads {
            self.wait_until(head, |received| received.heads.contains(head));
        }
    }
}

/// A request as it came.
struct Request {
    head: String,
    body: Value,
    connection: TcpStream,
}

impl Request {
    fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn redirect(mut self, to: &str) {
        let _ = write!(
            self.connection,
            "HTTP/1.1 307 X\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
    }

    fn answer(mut self, status: u16, kind: &str, body: &str) {
        let length = body.len();
        // The other side may have gone.
        let _ = write!(
            self.connection,
            "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
    }
}

/// Serves each request in a thread of its own. Returns the port.
fn serve(shared: &Shared, answer: impl Fn(&Shared, Request) + Clone + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let shared = shared.clone();
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let (shared, answer) = (shared.clone(), answer.clone());
            thread::spawn(move || {
                if let Some(request) = read(connection) {
                    shared.note(|received| {
                        received.heads += &request.head;
                        received.bodies += &request.body.to_string();
                    });
                    answer(&shared, request);
                }
            });
        }
    });
    port
}

fn read(connection: TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(connection.try_clone().ok()?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("content-length").then(|| value.parse().unwrap())
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Request { head, body, connection })
}

/// Settings with this model and this MCP server.
pub(crate) fn settings_for(model: &EchoingModel, mcp: &EchoingMcp) -> String {
    format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n\
         [mcp_servers.docs]\nurl = \"{}\"\n",
        model.url(),
        mcp.url()
    )
}

/// Speaks Chat Completions as the last message of the user says: `call TOOL`, `refuse STATUS`,
/// `wait`, or anything else for a text.
pub(crate) struct EchoingModel {
    shared: Shared,
    port: u16,
}

impl EchoingModel {
    pub(crate) fn start() -> Self {
        let shared = Shared::default();
        let port = serve(&shared, answer_as_model);
        Self { shared, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> String {
        self.shared.note(|received| received.heads.clone())
    }

    /// The bodies of all requests.
    pub(crate) fn bodies(&self) -> String {
        self.shared.note(|received| received.bodies.clone())
    }

    /// Waits until there was a request that begins with each of these.
    pub(crate) fn wait_for_heads(&self, heads: &[&str]) {
        self.shared.wait_for_heads(heads);
    }

    pub(crate) fn wait_for_waiting(&self, n: usize) {
        self.shared.wait_until("request to wait", |received| received.n_hanging >= n);
    }

    /// From now on, a request to wait calls `echo`.
    pub(crate) fn stop_waiting(&self) {
        self.shared.note(|received| received.is_over = true);
    }
}

fn answer_as_model(shared: &Shared, request: Request) {
    let text = request.body.to_string();
    let is_answered = text.contains("\"role\":\"tool\"");
    let after = |word: &str| {
        let (_, rest) = text.split_once(word)?;
        let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
        Some(rest.chars().take_while(is_name).collect::<String>())
    };
    if request.path().ends_with("/embeddings") {
        let body = json!({ "error": { "message": format!("wrong key: {}", request.head) } });
        return request.answer(401, "application/json", &body.to_string());
    }
    if let Some(status) = after("refuse ") {
        let message = format!("wrong key: {}", request.head);
        let body = json!({ "error": { "message": message, "code": message, "type": message } });
        return request.answer(status.parse().unwrap(), "application/json", &body.to_string());
    }
    let mut tool = after("call ");
    if text.contains("\"wait\"") {
        let is_over = shared.note(|received| {
            received.n_hanging += usize::from(!received.is_over);
            received.is_over
        });
        if !is_over {
            return shared.wait_until("end of waiting", |received| received.is_over);
        }
        tool = Some("echo".to_owned());
    }
    let arguments = if tool.as_deref() == Some("web_search") { r#"{"query":"x"}"# } else { "{}" };
    let delta = match tool.filter(|_| !is_answered) {
        Some(name) => json!({ "tool_calls": [{ "index": 0, "id": "call_1", "type": "function",
            "function": { "name": name, "arguments": arguments } }] }),
        None => json!({ "content": "Done." }),
    };
    let finish = if delta.get("content").is_some() { "stop" } else { "tool_calls" };
    let first = json!({ "choices": [{ "index": 0, "delta": delta }] });
    let last = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] });
    let body = format!("data: {first}\n\ndata: {last}\n\ndata: [DONE]\n\n");
    request.answer(200, "text/event-stream", &body);
}

/// An MCP server with the tools `echo`, `fail`, `crash`, `unauthorized` and `hang`. Below
/// `elsewhere/PORT` it redirects to another one.
pub(crate) struct EchoingMcp {
    shared: Shared,
    port: u16,
}

impl EchoingMcp {
    pub(crate) fn start() -> Self {
        let shared = Shared::default();
        let port = serve(&shared, answer_as_mcp);
        Self { shared, port }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> String {
        self.shared.note(|received| received.heads.clone())
    }

    /// Waits until there was a request that begins with each of these.
    pub(crate) fn wait_for_heads(&self, heads: &[&str]) {
        self.shared.wait_for_heads(heads);
    }

    /// The bodies of all requests.
    pub(crate) fn bodies(&self) -> String {
        self.shared.note(|received| received.bodies.clone())
    }

    pub(crate) fn wait_for_hanging(&self, n: usize) {
        self.shared.wait_until("call that hangs", |received| received.n_hanging >= n);
    }
}

fn answer_as_mcp(shared: &Shared, request: Request) {
    let (head, id) = (request.head.clone(), request.body["id"].clone());
    let method = request.body["method"].as_str().unwrap_or_default().to_owned();
    if !request.path().starts_with("/mcp") || request.path().starts_with("/mcp/billing") {
        return request.answer(403, "text/plain", &format!("not with {head}"));
    }
    if let Some(port) = request.path().strip_prefix("/mcp/elsewhere/").map(str::to_owned) {
        return request.redirect(&format!("http://127.0.0.1:{port}/mcp"));
    }
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let error = |code: i32, message: String| {
        let error = json!({ "code": code, "message": message, "data": message });
        json!({ "jsonrpc": "2.0", "id": id, "error": error })
    };
    let answer = match method.as_str() {
        _ if !head.starts_with("POST ") => return request.answer(405, "text/plain", &head),
        "initialize" => result(json!({
            "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
            "serverInfo": { "name": head, "version": "1" }, "instructions": head,
        })),
        "tools/list" => {
            // Sorted: a tool whose description changes is not called without a person.
            let mut lines: Vec<&str> = head.lines().collect();
            lines.sort_unstable();
            let tool = |name: &str| {
                let description = format!("Tells that it got {}", lines.join(", "));
                json!({ "name": name, "description": description,
                    "inputSchema": { "type": "object", "description": description } })
            };
            let names = ["echo", "fail", "crash", "unauthorized", "hang"];
            result(json!({ "tools": names.map(tool) }))
        }
        "tools/call" => match request.body["params"]["name"].as_str().unwrap_or_default() {
            "echo" => result(json!({
                "content": [{ "type": "text", "text": head }], "structuredContent": { "got": head },
            })),
            "fail" => error(-32000, format!("this was wrong: {head}")),
            "crash" => return request.answer(500, "text/plain", &head),
            "unauthorized" => return request.answer(401, "text/plain", &head),
            _ => {
                shared.note(|received| received.n_hanging += 1);
                return shared.wait_until("end", |received| received.is_over);
            }
        },
        _ if id.is_null() => return request.answer(202, "text/plain", ""),
        _ => error(-32601, "no such method".to_owned()),
    };
    request.answer(200, "application/json", &answer.to_string());
}
