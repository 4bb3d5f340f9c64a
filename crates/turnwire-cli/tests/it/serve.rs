//! `turnwire serve`, over real sockets: what it answers, whom it lets in, how it ends.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
};

use reqwest::{
    Client, RequestBuilder, Response, StatusCode,
    header::{ACCESS_CONTROL_ALLOW_ORIGIN, AUTHORIZATION, HOST, ORIGIN},
};
use serde_json::{Value, json};

use crate::{
    toy::{Toy, path},
    world::{Done, PATIENCE, Running, Server, World},
};

const HOUR_MS: &str = "3600000";
pub(crate) const DEMO: [&str; 5] = ["serve", "--demo", "--json", "--listen", "127.0.0.1:0"];

/// A demo that does not take its time.
pub(crate) fn quick() -> World {
    World::new().with("TURNWIRE_DEMO_PACE_MS", "0").with("TURNWIRE_DEMO_TOOL_MS", "0")
}

/// A gateway that listens.
pub(crate) struct Gateway {
    /// Nothing once it has ended.
    running: Option<Running>,
    address: String,
    pub(crate) client: Client,
}

impl Gateway {
    pub(crate) fn start(world: &World, arguments: &[&str]) -> Self {
        Self::listening(world.start(arguments), arguments)
    }

    /// The gateway that `running` is once it listens.
    pub(crate) fn listening(mut running: Running, arguments: &[&str]) -> Self {
        let address = if arguments.contains(&"--json") {
            let line = running.stdout.rest_of_line("{\"listening\":\"");
            line.strip_suffix("\"}").expect(&line).to_owned()
        } else {
            running.stderr.rest_of_line("listens on http://")
        };
        let client = Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { running: Some(running), address, client }
    }

    pub(crate) fn running(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.url(path)).json(body)
    }

    pub(crate) fn delete(&self, path: &str) -> RequestBuilder {
        self.client.delete(self.url(path))
    }

    pub(crate) fn signal(&mut self, name: &str) {
        self.running().signal(name);
    }

    pub(crate) fn finish(mut self) -> Done {
        self.running.take().unwrap().finish()
    }
}

impl Drop for Gateway {
    /// A test that falls over leaves nothing behind.
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

pub(crate) async fn json_of(request: RequestBuilder) -> (StatusCode, Value) {
    let response = request.send().await.unwrap();
    (response.status(), response.json().await.unwrap())
}

pub(crate) async fn status_of(request: RequestBuilder) -> StatusCode {
    request.send().await.unwrap().status()
}

/// Why a request was refused.
pub(crate) async fn refusal_of(request: RequestBuilder) -> (StatusCode, String) {
    let (status, body) = json_of(request).await;
    (status, body["error"]["code"].as_str().expect("a code").to_owned())
}

/// Reads on until `text` has come.
async fn read_until(response: &mut Response, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let piece = response.chunk().await.unwrap();
        seen.extend(
            piece.unwrap_or_else(|| panic!("no {text}: {}", String::from_utf8_lossy(&seen))),
        );
    }
}

/// What the `data:` lines of a stream say.
fn data_of(stream: &str) -> Vec<&str> {
    stream.lines().filter_map(|line| line.strip_prefix("data: ")).collect()
}

/// The type of each frame of a stream.
fn types_of(stream: &str) -> Vec<String> {
    let frames = data_of(stream).into_iter().filter(|data| *data != "[DONE]");
    let type_of = |data| serde_json::from_str::<Value>(data).unwrap()["type"].take();
    frames.map(type_of).map(|kind| kind.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_demo_answers_on_every_surface() {
    let gateway = Gateway::start(&quick(), &DEMO);
    let (status, health) = json_of(gateway.get("/readyz")).await;
    assert_eq!((status, &health["status"]), (StatusCode::OK, &json!("ok")));

    let (status, models) = json_of(gateway.get("/v1/models")).await;
    assert_eq!((status, &models["data"][0]["id"]), (StatusCode::OK, &json!("scripted")));

    let (status, answer) =
        json_of(gateway.post("/chat", &json!({ "message": "multiply 5 and 4" }))).await;
    assert_eq!((status, &answer["response"]), (StatusCode::OK, &json!("5 times 4 is 20.")));

    let body = json!({ "model": "any-name", "input": "Hello." });
    let (status, response) = json_of(gateway.post("/v1/responses", &body)).await;
    assert_eq!((status, &response["status"]), (StatusCode::OK, &json!("completed")));
    let text = response["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("You said: “Hello.”."), "{text}");

    let id = response["id"].as_str().unwrap();
    let (_, again) = json_of(gateway.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(again["output"], response["output"], "it is kept");

    let body = json!({ "input": "Hello.", "stream": true });
    let stream = gateway.post("/v1/responses", &body).send().await.unwrap().text().await.unwrap();
    assert_eq!(data_of(&stream).last(), Some(&"[DONE]"));
    assert_eq!(types_of(&stream).last().map(String::as_str), Some("response.completed"));

    let (status, document) = json_of(gateway.get("/openapi.json")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(document["paths"]["/v1/responses"].is_object());
}

/// C3: whoever reads a stream is told how the run ended, though the server goes away.
#[tokio::test]
async fn a_sigterm_ends_open_streams_with_their_last_event_and_is_0() {
    let world = quick().with("TURNWIRE_DEMO_TOOL_MS", HOUR_MS);
    let mut gateway = Gateway::start(&world, &DEMO);
    let message = json!({ "message": "multiply 5 and 4" });
    let mut chat = gateway.post("/chat/stream", &message).send().await.unwrap();
    read_until(&mut chat, "\"tool_call\"").await;
    gateway.signal("TERM");
    let rest = chat.text().await.unwrap();
    assert_eq!(types_of(&rest), ["tool_result", "error", "done"], "{rest}");
    let done = gateway.finish();
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_response_that_is_cut_by_the_end_says_so() {
    let world = quick().with("TURNWIRE_DEMO_PACE_MS", HOUR_MS);
    let mut gateway = Gateway::start(&world, &DEMO);
    let body = json!({ "input": "Hello.", "stream": true });
    let mut response = gateway.post("/v1/responses", &body).send().await.unwrap();
    read_until(&mut response, "response.in_progress").await;
    gateway.signal("INT");
    let rest = response.text().await.unwrap();
    assert_eq!(data_of(&rest).last(), Some(&"[DONE]"), "{rest}");
    assert_eq!(types_of(&rest).last().map(String::as_str), Some("response.failed"), "{rest}");
    assert_eq!(gateway.finish().code, Some(0));
}

/// A client that never sends what it promised holds up the closing, and the person has no time.
#[test]
fn a_second_signal_ends_it_at_once() {
    let mut gateway = Gateway::start(&quick(), &["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let mut connection = TcpStream::connect(&gateway.address).unwrap();
    let head = "POST /chat HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 100\r\nexpect: 100-continue\r\n\r\n";
    connection.write_all(head.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(connection.try_clone().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    gateway.signal("TERM");
    gateway.running().stderr.wait_for("closing: ");
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(143));
}

#[test]
fn a_person_is_told_what_there_is() {
    let file = "[store]\nurl = \"sqlite://turnwire.db\"\n";
    let world = quick().with_file("turnwire.toml", file);
    let mut gateway = Gateway::start(&world, &["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let url = gateway.url("");
    let stderr = &mut gateway.running().stderr;
    stderr.wait_for("in the file turnwire.db; finished runs for 7 days");
    for line in ["/v1/responses", "/chat", "/openapi.json"] {
        stderr.wait_for(&format!("{url}{line}"));
    }
    stderr.wait_for(&format!("ws://{}/ws/chat", url.trim_start_matches("http://")));
    stderr.wait_for(&format!("OPENAI_BASE_URL={url}/v1"));
    gateway.signal("INT");
    let done = gateway.finish();
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""));
    assert!(done.stderr.ends_with("closed\n"), "{}", done.stderr);
}

#[tokio::test]
async fn the_model_of_a_request_decides_who_is_asked() {
    let (small, big) = (Server::new(), Server::new());
    let file = format!(
        "[models.default]\nkind = \"chat_completions\"\nbase_url = \"{}\"\nmodel = \"tiny\"\n\
         [models.big]\nkind = \"chat_completions\"\nbase_url = \"{}\"\n",
        small.url(),
        big.url()
    );
    let world = World::new().with_file("other.toml", &file);
    let arguments = ["serve", "--config", "other.toml", "--json", "--listen", "127.0.0.1:0"];
    let gateway = Gateway::start(&world, &arguments);
    for (name, server, upstream) in [("default", &small, "tiny"), ("big", &big, "big")] {
        let body = json!({ "model": name, "input": "Hello.", "stream": true });
        let response = gateway.post("/v1/responses", &body).send().await.unwrap();
        let mut question = server.question();
        assert_eq!(question.body["model"], upstream);
        question.begin();
        question.say("Hi.");
        question.end();
        let stream = response.text().await.unwrap();
        assert!(stream.contains("\"response.completed\""), "{stream}");
    }
    let body = json!({ "model": "llama", "input": "Hello." });
    let refused = gateway.post("/v1/responses", &body).send().await.unwrap();
    assert_eq!(refused.status(), 404, "nobody has configured it");
}

/// A default model without a name of its own is asked for whatever name comes; and the operator may
/// say who answers for names nobody knows.
#[tokio::test]
async fn other_names_go_where_the_operator_says() {
    for (model, server, upstream, answers) in [
        ("", "", "llama", "llama"),
        ("model = \"tiny\"", "[server]\nfallback_model = \"default\"", "tiny", "default"),
    ] {
        let provider = Server::new();
        let url = provider.url();
        let file = format!(
            "{server}\n[models.default]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\n{model}\n"
        );
        let world = World::new().with_file("other.toml", &file);
        let arguments = ["serve", "--config", "other.toml", "--json", "--listen", "127.0.0.1:0"];
        let gateway = Gateway::start(&world, &arguments);
        let body = json!({ "model": "llama", "input": "Hello.", "stream": true });
        let response = gateway.post("/v1/responses", &body).send().await.unwrap();
        let mut question = provider.question();
        assert_eq!(question.body["model"], upstream);
        question.begin();
        question.say("Hi.");
        question.end();
        let stream = response.text().await.unwrap();
        assert!(stream.contains(&format!("\"model\":\"{answers}\"")), "{stream}");
    }
}

/// A9: what everybody can reach needs a key.
#[test]
fn an_address_that_others_reach_is_refused_without_a_key() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let done = quick().run(&["serve", "--demo", "--listen", address]);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{address}");
        let error = format!(
            "error: {address} can be reached from other machines, and there is no API key\n"
        );
        assert!(done.stderr.starts_with(&error), "{}", done.stderr);
        for hint in ["TURNWIRE_API_KEYS=", "api_keys_env", "--listen 127.0.0.1:"] {
            assert!(done.stderr.contains(hint), "no {hint}: {}", done.stderr);
        }
    }
}

/// A9: with a key nobody else comes in, and whoever has one does.
#[tokio::test]
async fn a_key_is_asked_for_and_taken() {
    let file = "[server]\napi_keys_env = \"TEAM_KEYS\"\n";
    let world = quick().with_file("turnwire.toml", file).with("TEAM_KEYS", "first-key,second-key");
    let gateway = Gateway::start(&world, &DEMO);
    let body = json!({ "message": "multiply 5 and 4" });
    let chat = || gateway.post("/chat", &body);
    let refused = |code: &str| (StatusCode::UNAUTHORIZED, code.to_owned());
    assert_eq!(refusal_of(chat()).await, refused("missing_api_key"));
    assert_eq!(refusal_of(chat().bearer_auth("no-key")).await, refused("invalid_api_key"));
    let both = chat().header(AUTHORIZATION, "Bearer first-key,second-key");
    assert_eq!(refusal_of(both).await, refused("invalid_api_key"));
    for key in ["first-key", "second-key"] {
        assert_eq!(status_of(chat().bearer_auth(key)).await, StatusCode::OK, "{key}");
    }
    assert_eq!(status_of(gateway.get("/readyz")).await, StatusCode::OK, "health is for everybody");
}

/// A9: a foreign page and a foreign name are turned away, those of the settings are not.
#[tokio::test]
async fn foreign_pages_and_names_are_turned_away() {
    let file =
        "[server]\nhosts = [\"chat.example.com\"]\norigins = [\"https://app.example.com\"]\n";
    let gateway = Gateway::start(&quick().with_file("turnwire.toml", file), &DEMO);
    let body = json!({ "message": "multiply 5 and 4" });
    let chat = || gateway.post("/chat", &body);
    let refused = |code: &str| (StatusCode::FORBIDDEN, code.to_owned());
    let foreign = chat().header(ORIGIN, "https://evil.example.com");
    assert_eq!(refusal_of(foreign).await, refused("foreign_origin"));
    assert_eq!(refusal_of(chat().header(ORIGIN, "null")).await, refused("foreign_origin"));
    let rebound = chat().header(HOST, "evil.example.com");
    assert_eq!(refusal_of(rebound).await, refused("unknown_host"));
    assert_eq!(status_of(chat().header(HOST, "chat.example.com")).await, StatusCode::OK);
    let known = chat().header(ORIGIN, "https://app.example.com").send().await.unwrap();
    assert_eq!(known.status(), StatusCode::OK);
    assert_eq!(known.headers()[ACCESS_CONTROL_ALLOW_ORIGIN], "https://app.example.com");
}

#[test]
fn a_port_that_is_taken_is_1_with_a_hint() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let done = quick().with("TURNWIRE_LISTEN", &address).run(&["serve", "--demo"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    assert!(done.stderr.contains(&format!("error: cannot listen on {address}: ")));
    assert!(done.stderr.contains("hint: another program listens there"), "{}", done.stderr);
}

#[test]
fn wrong_usage_and_settings_are_2() {
    let done = World::new().run(&["serve"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("turnwire serve --demo"), "{}", done.stderr);
    let done = World::new().run(&["serve", "--demo", "--listen", "here"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("it should look like 127.0.0.1:7878"), "{}", done.stderr);
    let file = "[server]\nlisten = \"here\"\n[mcp_servers.x]\n";
    let done = World::new().with_file("turnwire.toml", file).run(&["serve", "--demo"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.starts_with("error: 2 mistakes in turnwire.toml\n"), "{}", done.stderr);
}

/// A8: a tool server gets the variables that the settings name, and no others; and it ends with
/// the gateway, whether it wants to or not.
#[tokio::test]
async fn tool_servers_are_told_of_and_ended() {
    let file = "[mcp_servers.toy]\ncommand = \"sh\"\nargs = [\"toy.sh\"]\n\
                env = { TOKEN = \"<${SECRET}>\" }\nrequire_approval = [\"great\"]\n\
                [mcp_servers.gone]\ncommand = \"/no/such/program\"\n";
    let world = quick().with_file("turnwire.toml", file).with("SECRET", "s").with("OTHER", "o");
    let world = world.with("PATH", &path());
    let toy = Toy::new(&world);
    let mut gateway = Gateway::start(&world, &["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let mut alive = toy.watch();
    let stderr = &mut gateway.running().stderr;
    stderr.wait_for("tool server toy: 1 tool\n");
    stderr.wait_for(
        "warning: mcp_servers.toy.require_approval: the server has no tool `great`; did you mean \
         `greet`?\n",
    );
    stderr.wait_for("warning: the tool server `gone` is not available: ");
    let environment = std::fs::read_to_string(world.path().join("environment")).unwrap();
    assert_eq!(environment, "<s>|");
    assert_eq!(status_of(gateway.get("/readyz")).await, StatusCode::OK, "it serves all the same");
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));
    // It was asked to go, and when it did not it was ended, with what it has started.
    assert_eq!(alive.all(), "goodbye");
}

/// A9: `--origin` lets a page in that is refused without it, and what is not the origin of a page
/// is
/// told before anything is started.
#[tokio::test]
async fn a_page_is_let_in_by_a_flag() {
    let page = "http://localhost:5173";
    let world = quick();
    for (flags, expected) in
        [(vec![], StatusCode::FORBIDDEN), (vec!["--origin", page], StatusCode::OK)]
    {
        let arguments: Vec<&str> = DEMO.into_iter().chain(flags).collect();
        let gateway = Gateway::start(&world, &arguments);
        let request = gateway.get("/v1/models").header(ORIGIN, page);
        assert_eq!(status_of(request).await, expected);
    }
    let refused = world.run(&["serve", "--demo", "--origin", "localhost:5173"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("should look like https://chat.example.com"), "{refused:?}");
}

/// C20: SIGHUP ends nothing. It was handled if the server says so, and answers afterwards.
#[tokio::test]
async fn a_hangup_does_not_end_it() {
    let world = quick().with("TURNWIRE_LOG", "info");
    let mut gateway = Gateway::start(&world, &DEMO);
    gateway.signal("HUP");
    gateway.running().stderr.rest_of_line("settings reloaded");
    assert_eq!(status_of(gateway.get("/readyz")).await, StatusCode::OK);
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));
}

/// C2, C17, R21: killed in the middle of a tool, the server goes on with the run after its next
/// start, and a reader who comes back gets the rest of the same stream.
#[tokio::test]
async fn a_run_outlives_its_process() {
    let world = World::new()
        .with("TURNWIRE_DEMO_PACE_MS", "0")
        .with("TURNWIRE_DEMO_TOOL_MS", "1500")
        .with("TURNWIRE_STORE_URL", "sqlite://runs.db");
    let mut gateway = Gateway::start(&world, &DEMO);
    let body = json!({
        "input": "multiply 5 and 4", "stream": true, "background": true,
        "tools": [{ "type": "mcp", "server_label": "demo" }],
    });
    let mut stream = gateway.post("/v1/responses", &body).send().await.unwrap();
    let mut seen = String::new();
    while !seen.contains("response.mcp_call.in_progress") {
        seen.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().expect("more")));
    }
    gateway.signal("KILL");
    gateway.finish();
    let events = |text: &str| -> Vec<Value> {
        let lines = data_of(text).into_iter();
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let mut frames = events(&seen);
    let id = frames[0]["response"]["id"].as_str().unwrap().to_owned();
    let last = frames.last().unwrap()["sequence_number"].clone();

    let mut gateway = Gateway::start(&world, &DEMO);
    let path = format!("/v1/responses/{id}?stream=true&starting_after={last}");
    frames.extend(events(&gateway.get(&path).send().await.unwrap().text().await.unwrap()));
    let numbers: Vec<u64> = frames.iter().filter_map(|f| f["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..frames.len() as u64).collect::<Vec<_>>(), "C2: {frames:#?}");
    let response = &frames.last().unwrap()["response"];
    assert_eq!(response["status"], "completed", "{response:#}");
    let (_, whole) = json_of(gateway.get(&format!("/v1/responses/{id}"))).await;
    assert_eq!(whole, *response, "C12");
    let run = id.replacen("resp_", "run_", 1);
    let (_, snapshot) = json_of(gateway.get(&format!("/v1/runs/{run}"))).await;
    assert_eq!(snapshot["workers"].as_array().map(Vec::len), Some(2), "{snapshot:#}");
    assert_eq!(snapshot["workers"][1]["taken_over"], true, "{snapshot:#}");
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));
}

/// S1-SC-001: the demo shows three tools at once: one succeeds, one reports progress and fails, one
/// waits for a person.
#[tokio::test]
async fn the_demo_plays_its_story() {
    let mut gateway = Gateway::start(&quick(), &DEMO);
    let question = json!({
        "message": "Check the release and clean the old branch", "approvals": true,
    });
    let mut stream = gateway.post("/chat/stream", &question).send().await.unwrap();
    let mut seen = String::new();
    let mut is_answered = false;
    while let Some(chunk) = stream.chunk().await.unwrap() {
        seen.push_str(&String::from_utf8_lossy(&chunk));
        if !is_answered && seen.contains("approval_request") {
            is_answered = true;
            let (_, runs) = json_of(gateway.get("/v1/runs")).await;
            let run = runs["data"][0]["run_id"].as_str().unwrap().to_owned();
            let (_, snapshot) = json_of(gateway.get(&format!("/v1/runs/{run}"))).await;
            let calls = snapshot["calls"].as_array().unwrap();
            let call = calls.iter().find(|call| call["tool"] == "delete_branch").unwrap();
            assert_eq!(call["approval"]["server_claims"]["destructive"], true, "{call:#}");
            let call_id = call["call_id"].as_str().unwrap();
            let path = format!("/v1/runs/{run}/calls/{call_id}/approve");
            let answer = json!({ "decision": "approve" });
            assert_eq!(status_of(gateway.post(&path, &answer)).await, StatusCode::OK);
        }
    }
    for told in [
        "deploy_check",
        "unit tests: 2 failed (exit 1)",
        "deleted branch old/rel-3",
        "The release is not ready.",
    ] {
        assert!(seen.contains(told), "{told}: {seen}");
    }
    gateway.signal("TERM");
    assert_eq!(gateway.finish().code, Some(0));
}

/// A13: `serve` keeps the limits of the file, and answers probes at an address of their own.
#[tokio::test]
async fn limits_and_the_address_for_probes_come_from_the_file() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let settings =
        format!("[server]\nhealth_listen = \"{free}\"\n[limits]\nmax_body_bytes = 200\n");
    let world = quick().with_file("turnwire.toml", &settings);
    let gateway = Gateway::start(&world, &DEMO);
    let said = |n: usize| json!({ "message": "x".repeat(n - 14) });
    assert_eq!(said(200).to_string().len(), 200);
    let answer = gateway.post("/chat", &said(200)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let answer = gateway.post("/chat", &said(201)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let metrics = gateway.get("/metrics").send().await.unwrap().text().await.unwrap();
    let counted = "turnwire_limits_reached_total{limit=\"limits.max_body_bytes\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    let probe = |path: &str| gateway.client.get(format!("http://{free}{path}")).send();
    assert_eq!(probe("/readyz").await.unwrap().status(), StatusCode::OK);
    assert_eq!(probe("/chat").await.unwrap().status(), StatusCode::NOT_FOUND);
}
