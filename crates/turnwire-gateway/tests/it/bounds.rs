//! How much one client, one address and all of them together may have of a server at once.

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt, future::join_all};
use h2::client::{self, SendRequest};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    connect_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use turnwire_gateway::{HttpLimits, Server};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);
const SOCKETS: [&str; 2] = ["/ws/chat", "/v1/responses"];

/// A connection of HTTP/2 that has said hello and nothing else; ends when the server closes it.
async fn idle(world: &World) -> (SendRequest<Bytes>, JoinHandle<()>) {
    let stream = TcpStream::connect(world.address).await.unwrap();
    let (http, connection) = client::handshake(stream).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
    let ended = tokio::spawn(async move {
        let _ = connection.await;
    });
    (http, ended)
}

/// A request with this key.
fn keyed(world: &World, key: &str, method: Method, path: &str) -> reqwest::RequestBuilder {
    world.request(method, path).bearer_auth(key)
}

/// The status, the code of the refusal, and whether it says when to come back.
async fn told(request: reqwest::RequestBuilder) -> (StatusCode, Value, bool) {
    let response = request.send().await.unwrap();
    let (status, waits) = (response.status(), response.headers().contains_key("retry-after"));
    let body: Value = response.json().await.unwrap_or_default();
    (status, body["error"]["code"].clone(), waits)
}

/// How often somebody came to a limit.
async fn reached(world: &World, key: &str, limit: &str) -> u64 {
    let text = keyed(world, key, Method::GET, "/metrics").send().await.unwrap();
    let text = text.text().await.unwrap();
    let line = format!("turnwire_limits_reached_total{{limit=\"limits.{limit}\"}} ");
    let n = text.lines().find_map(|found| found.strip_prefix(&line));
    n.expect("every limit is there").trim().parse().unwrap()
}

fn with_keys(plan: Plan) -> Plan {
    plan.options(|options| {
        options.auth.api_keys = vec!["key-one".to_owned(), "key-two".to_owned()];
    })
}

/// A13: idle connections without a key shut nobody out, however many they are, and go.
#[tokio::test]
async fn idle_strangers_shut_nobody_out() {
    let plan = with_keys(Plan::new([])).limits(|limits| {
        limits.connections = 4;
        limits.unknown_per_address = 8;
    });
    let world = plan.start().await;
    let strangers = join_all((0..40).map(|_| idle(&world))).await;
    let (status, ..) = told(keyed(&world, "key-one", Method::GET, "/v1/runs")).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(world.get("/healthz").await.0, StatusCode::OK);
    // All but the latest eight were closed, without waiting for any time.
    let (mut keep, mut ended) = (Vec::new(), Vec::new());
    for (http, end) in strangers {
        keep.push(http);
        ended.push(end);
    }
    let closed = async {
        while ended.iter().filter(|end| !end.is_finished()).count() > 8 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, closed).await.expect("strangers make way");
    assert!(reached(&world, "key-one", "max_unknown_connections_per_address").await >= 32);
    drop(keep);
    world.close().await;
}

/// A13: clients get as many connections as there are for them; one more is told to come back, and
/// probes are answered all the same.
#[tokio::test]
async fn a_full_server_answers_probes() {
    let plan = Plan::new([]).limits(|limits| limits.connections = 2);
    let world = plan.start().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let (mut http, end) = idle(&world).await;
        let request = axum::http::Request::get(world.url("/v1/runs")).body(()).unwrap();
        let answer = http.send_request(request, true).unwrap().0.await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "there is a place");
        held.push((http, end));
    }
    let request = world.request(Method::GET, "/v1/runs");
    let full = (StatusCode::SERVICE_UNAVAILABLE, json!("too_many_connections"), true);
    assert_eq!(told(request).await, full);
    for probe in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(world.get(probe).await.0, StatusCode::OK, "{probe}");
    }
    drop(held.pop());
    let free = async { while world.get("/v1/runs").await.0 != StatusCode::OK {} };
    timeout(PATIENCE, free).await.expect("there is a place again");
    drop(held);
    world.close().await;
}

/// A13: a connection of HTTP/2 over which nothing is let in, one that is idle, and one that is old
/// are ended; a request under way is not.
#[tokio::test]
async fn http2_connections_have_their_time() {
    type Change = fn(&mut HttpLimits, Duration);
    let short = Duration::from_millis(200);
    let cases: [(&str, bool, Change); 3] = [
        ("header_timeout_sec", false, |limits, time| limits.header_time = time),
        ("idle_timeout_sec", true, |limits, time| limits.idle_time = time),
        ("connection_timeout_sec", true, |limits, time| limits.connection_time = time),
    ];
    for (limit, asks, change) in cases {
        let waits = FakeTool::new("wait", Behaviour::Takes(short * 5, "ok".into()));
        let turns = [Turn::new().call("wait", json!({})), Turn::new().text("Done.")];
        let plan = Plan::new(turns).server("m", [waits]).limits(|limits| change(limits, short));
        let world = plan.start().await;
        let (mut http, ended) = idle(&world).await;
        if asks {
            let body = json!({ "message": "Wait." }).to_string();
            let request = axum::http::Request::post(world.url("/chat"));
            let (answer, mut sending) =
                http.send_request(request.body(()).unwrap(), false).unwrap();
            sending.send_data(Bytes::from(body), true).unwrap();
            let answer = timeout(PATIENCE, answer).await.unwrap();
            assert_eq!(answer.expect(limit).status(), StatusCode::OK, "{limit}");
        }
        timeout(PATIENCE, ended).await.expect(limit).unwrap();
        assert_eq!(reached(&world, "", limit).await, 1, "{limit}");
        world.close().await;
    }
}

/// A13: probes have an address of their own, where nothing else is answered, also while the server
/// closes.
#[tokio::test]
async fn probes_have_an_address_of_their_own() {
    let world = Plan::new([]).start().await;
    let loopback = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(loopback, world.app.clone(), HttpLimits::default()).await.unwrap();
    let server = server.with_health(loopback).await.unwrap();
    let address = server.health_address().unwrap();
    #[expect(clippy::disallowed_methods, reason = "the test waits for it")]
    let serving = tokio::spawn(server.run());
    let get = async |path: &str| {
        let answer = world.http.get(format!("http://{address}{path}")).send().await.unwrap();
        answer.status()
    };
    for probe in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(probe).await, StatusCode::OK, "{probe}");
    }
    for other in ["/v1/runs", "/", "/openapi.json"] {
        assert_eq!(get(other).await, StatusCode::NOT_FOUND, "{other}");
    }
    // Whoever says nothing keeps no other probe waiting.
    let silent = join_all((0..20).map(|_| TcpStream::connect(address))).await;
    assert_eq!(get("/healthz").await, StatusCode::OK);
    drop(silent);
    world.close().await;
    serving.await.unwrap();
}

/// A13: a key may have so many runs at once; one more is told to come back, and another key is
/// not. When a run is over there is room again.
#[tokio::test]
async fn a_key_has_so_many_runs() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let model = Scripted::new([Turn::new().call("wait", json!({}))]).looping();
    let plan = with_keys(Plan::with_model(model).server("m", [waits]));
    let plan = plan.options(|options| options.admission.runs_per_key = 2);
    let world = plan.start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "Wait.", "background": true, "tools": tools });
    let post = |key| keyed(&world, key, Method::POST, "/v1/responses").json(&body);
    let first: Value = post("key-one").send().await.unwrap().json().await.unwrap();
    assert_eq!(told(post("key-one")).await.0, StatusCode::OK, "two may run");
    let refused = (StatusCode::TOO_MANY_REQUESTS, json!("too_many_runs"), true);
    assert_eq!(told(post("key-one")).await, refused);
    assert_eq!(reached(&world, "key-one", "max_runs_per_key").await, 1);
    assert_eq!(told(post("key-two")).await.0, StatusCode::OK, "another key has its own");
    let cancel = format!("/v1/responses/{}/cancel", first["id"].as_str().unwrap());
    let cancel = keyed(&world, "key-one", Method::POST, &cancel);
    assert_eq!(told(cancel).await.0, StatusCode::OK);
    assert_eq!(told(post("key-one")).await.0, StatusCode::OK, "there is room again");
    world.close().await;
}

/// A13: 2,000 runs in the background are not taken in: the process has so many and no more, and
/// every one of the others is told to come back.
#[tokio::test]
async fn a_flood_of_background_runs_is_bounded() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let model = Scripted::new([Turn::new().call("wait", json!({}))]).looping();
    let plan = Plan::with_model(model).server("m", [waits]);
    let world = plan.options(|options| options.admission.runs = 20).start().await;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "Wait.", "background": true, "tools": tools });
    let post = || told(world.request(Method::POST, "/v1/responses").json(&body));
    let answers = join_all((0..200).map(|_| post())).await;
    let n_taken = answers.iter().filter(|(status, ..)| *status == StatusCode::OK).count();
    assert_eq!(n_taken, 20);
    let refused = (StatusCode::TOO_MANY_REQUESTS, json!("too_many_runs"), true);
    assert_eq!(answers.iter().filter(|answer| **answer == refused).count(), 180);
    assert_eq!(world.app.runs().n_live(), 20);
    world.close().await;
}

/// A13: a key may have so many requests, streams and sockets open; a stream counts to its end.
#[tokio::test]
async fn a_key_has_so_many_connections() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let model = Scripted::new([Turn::new().call("wait", json!({}))]).looping();
    let plan = with_keys(Plan::with_model(model).server("m", [waits]));
    let plan = plan.options(|options| options.admission.connections_per_key = 2);
    let world = plan.start().await;
    let mut url = format!("ws://{}/ws/chat", world.address).into_client_request().unwrap();
    url.headers_mut().insert("authorization", "Bearer key-one".parse().unwrap());
    let socket = connect_async(url).await.unwrap().0;
    let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
    let body = json!({ "input": "Wait.", "stream": true, "tools": tools });
    let stream = keyed(&world, "key-one", Method::POST, "/v1/responses").json(&body);
    let stream = stream.send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK, "two may be open");
    let get = |key| keyed(&world, key, Method::GET, "/v1/runs");
    let refused = (StatusCode::TOO_MANY_REQUESTS, json!("too_many_connections"), true);
    assert_eq!(told(get("key-one")).await, refused);
    assert_eq!(told(get("key-two")).await.0, StatusCode::OK);
    drop((socket, stream));
    let free = async { while told(get("key-one")).await.0 != StatusCode::OK {} };
    timeout(PATIENCE, free).await.expect("there is room again");
    world.close().await;
}

/// A13: a body that comes drop by drop is not waited for, however steadily it drips.
#[tokio::test]
async fn a_body_has_its_time() {
    let time = Duration::from_millis(300);
    let plan = Plan::new([Turn::new().text("Hi.")]);
    let world = plan.options(|options| options.requests.body_time = time).start().await;
    let dripping = futures::stream::unfold(0, move |n| async move {
        sleep(time / 10).await;
        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), n + 1))
    });
    let post = world.request(Method::POST, "/v1/responses");
    let post = post.body(reqwest::Body::wrap_stream(dripping));
    let (status, code, _) = told(post).await;
    assert_eq!((status, code), (StatusCode::REQUEST_TIMEOUT, json!("body_timeout")));
    assert_eq!(reached(&world, "", "body_timeout_sec").await, 1);
    world.close().await;
}

/// A client that closes a socket is answered: it sees the code that it has sent, and a clean end.
#[tokio::test]
async fn a_close_frame_is_answered() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    for path in SOCKETS {
        let url = format!("ws://{}{path}", world.address);
        let (mut socket, _) = connect_async(url).await.unwrap();
        socket.send(Message::text(r#"{"type":"nonsense"}"#)).await.unwrap();
        socket.next().await.unwrap().unwrap();
        let frame = tokio_tungstenite::tungstenite::protocol::CloseFrame {
            code: 1000.into(),
            reason: "bye".into(),
        };
        socket.close(Some(frame)).await.unwrap();
        let answer = timeout(PATIENCE, async {
            loop {
                match socket.next().await {
                    Some(Ok(Message::Close(frame))) => break frame.map(|frame| frame.code.into()),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => panic!("{path}: it broke off: {error}"),
                    None => break None,
                }
            }
        });
        assert_eq!(answer.await.unwrap(), Some(1000_u16), "{path}");
        let end = timeout(PATIENCE, socket.next()).await.unwrap();
        assert!(end.is_none(), "{path}: the end is a clean one: {end:?}");
    }
    world.close().await;
}

/// A13: frames of every kind count: so many in a second are taken, and one more ends the socket.
#[tokio::test]
async fn frames_of_every_kind_are_counted() {
    let most = 10;
    let plan = Plan::new([]).limits(|limits| limits.socket_messages_per_second = most);
    let world = plan.start().await;
    let kinds = [
        Message::text(r#"{"type":"nonsense"}"#),
        Message::binary(vec![1]),
        Message::Ping(Bytes::new()),
        Message::Pong(Bytes::new()),
    ];
    for path in SOCKETS {
        for kind in &kinds {
            let url = format!("ws://{}{path}", world.address);
            let (mut socket, _) = connect_async(url).await.unwrap();
            for _ in 0..=most {
                socket.feed(kind.clone()).await.unwrap();
            }
            socket.flush().await.unwrap();
            let code = timeout(PATIENCE, async {
                loop {
                    match socket.next().await {
                        Some(Ok(Message::Close(frame))) => break u16::from(frame.unwrap().code),
                        Some(Ok(_)) => {}
                        other => panic!("{path} {kind:?}: {other:?}"),
                    }
                }
            });
            assert_eq!(code.await.unwrap(), 1008_u16, "{path} {kind:?}");
        }
    }
    assert_eq!(reached(&world, "", "max_socket_messages_per_sec").await, 8);
    // At the limit nobody is sent away.
    for path in SOCKETS {
        let mut socket = world.socket(path).await;
        for _ in 0..most {
            socket.send(json!({ "type": "nonsense" })).await;
        }
        for _ in 0..most {
            assert!(socket.next().await.is_some(), "{path}");
        }
    }
    world.close().await;
}

/// An `EventSource` that comes back to a run that is over, with the last frame it saw, is told that
/// nothing follows; with an earlier one it gets the rest.
#[tokio::test]
async fn an_event_source_at_the_end_is_told_so() {
    let world = Plan::new([Turn::new().text("Hi.")]).start().await;
    let (_, _) = world.post("/chat", json!({ "message": "Hello" })).await;
    let (_, runs) = world.get("/v1/runs").await;
    let run = runs["data"][0]["run_id"].as_str().unwrap().to_owned();
    let paths = [
        (format!("/v1/runs/{run}/events"), "0".to_owned()),
        (format!("/chat/stream?after={run}:0.0"), format!("{run}:0.0")),
    ];
    for (path, start) in paths {
        let come_back = async |id: &str| {
            let request = world.request(Method::GET, &path).header("last-event-id", id);
            let response = request.send().await.unwrap();
            (response.status(), response.text().await.unwrap())
        };
        let (status, text) = come_back(&start).await;
        assert_eq!(status, StatusCode::OK);
        let ids: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
        let [.., before, last] = ids.as_slice() else { panic!("{path}: {text}") };
        assert_eq!(come_back(last).await, (StatusCode::NO_CONTENT, String::new()), "{path}");
        let (status, text) = come_back(before).await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(text.contains(&format!("id: {last}\n")), "{path}: {text}");
    }
    world.close().await;
}

/// A13: the document says of every route behind a key that it may be too much, and when to come
/// back.
#[test]
fn too_much_is_described() {
    let document = serde_json::to_value(turnwire_gateway::openapi::document()).unwrap();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            if operation.get("security").is_some() {
                let answers = &operation["responses"];
                assert!(answers["429"].is_object(), "{method} {path}");
                assert!(answers["503"].is_object(), "{method} {path}");
            }
        }
    }
}
