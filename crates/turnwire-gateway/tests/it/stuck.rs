//! Clients that do not read.

use std::time::Duration;

use bytes::Bytes;
use h2::client;
use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use turnwire_models::{Scripted, Turn};

use crate::world::{Plan, Socket, World, data_of};

/// How long a client of these tests may leave unread what is written to it.
const WRITE_TIME: Duration = Duration::from_millis(200);
/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);

/// A server whose model says more than any socket buffers.
async fn talkative() -> World {
    patient(WRITE_TIME).await
}

/// The same, for clients that may leave unread for so long what is written to them.
async fn patient(write_time: Duration) -> World {
    let pieces = (0..1_000).map(|n| format!("{n:04} {}", "words ".repeat(2_000)));
    let model = Scripted::new([Turn::new().text_in(pieces)]).repeat_last();
    let plan = Plan::with_model(model).limits(|limits| limits.write_time = write_time);
    let plan = plan.options(|options| {
        options.limits.max_turn_output = 64 * 1024 * 1024;
        options.limits.max_run_output = 64 * 1024 * 1024;
    });
    plan.start().await
}

/// A long run that is over.
async fn long_run(world: &World) -> String {
    let (_, answer) = world.post("/chat", json!({ "message": "Talk." })).await;
    assert!(answer["response"].as_str().unwrap().len() > 12_000_000);
    let (_, runs) = world.get("/v1/runs").await;
    runs["data"][0]["run_id"].as_str().unwrap().to_owned()
}

/// What `/metrics` says of a line that begins like this.
async fn metric(world: &World, line: &str) -> u64 {
    let text = world.text(world.request(Method::GET, "/metrics")).await;
    let value = text.lines().find_map(|found| found.strip_prefix(line));
    value.map_or(0, |value| value.trim().parse().unwrap())
}

/// Waits until so many clients were given up, and nobody's stream is open any more.
async fn until_given_up(world: &World, n_clients: u64) {
    let given_up = r#"turnwire_limits_reached_total{limit="limits.write_timeout_sec"}"#;
    let until = async {
        while metric(world, given_up).await < n_clients {
            sleep(Duration::from_millis(20)).await;
        }
        for kind in ["sse", "ndjson", "socket"] {
            while metric(world, &format!(r#"turnwire_streams_open{{kind="{kind}"}}"#)).await > 0 {
                sleep(Duration::from_millis(20)).await;
            }
        }
    };
    timeout(PATIENCE, until).await.expect("whoever does not read is given up");
}

/// C13: over HTTP/1.1 a blocked write closes the connection, whatever is written; what was not
/// read can be read later.
#[tokio::test(flavor = "multi_thread")]
async fn http1_a_blocked_write_closes_the_connection() {
    let world = talkative().await;
    let run = long_run(&world).await;
    let response = run.replacen("run_", "resp_", 1);
    let paths = [
        format!("/v1/runs/{run}/events"),
        format!("/v1/runs/{run}/events?format=ndjson"),
        format!("/v1/responses/{response}?stream=true"),
        format!("/v1/responses/{response}"),
        format!("/v1/runs/{run}"),
        format!("/chat/stream?tokens=true&after={run}:0.0"),
    ];
    let mut streams = Vec::new();
    for path in &paths {
        let mut stream = TcpStream::connect(world.address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    until_given_up(&world, paths.len() as u64).await;

    // It was cut, and tells so by its missing end; the rest is where it was.
    let mut text = String::new();
    let first = &mut streams[0];
    let _ = timeout(PATIENCE, first.read_to_string(&mut text)).await.expect("it was closed");
    assert!(!text.contains("\r\n0\r\n\r\n"), "the end of the body is not there");
    let whole = text.rfind("\n\n").map(|end| &text[..end]).unwrap();
    let seen = whole.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let rest = world.request(Method::GET, &paths[0]).header("last-event-id", seen);
    let rest = data_of(&world.text(rest).await);
    assert_eq!(rest[0]["seq"], seen.parse::<u64>().unwrap() + 1);
    assert_eq!(rest.last().unwrap()["event"]["type"], "run_finished");
    drop(streams);
    world.close().await;
}

/// C13: over HTTP/2 a peer that gives no window is given up, and its connection closed.
#[tokio::test(flavor = "multi_thread")]
async fn http2_a_peer_without_a_window_is_given_up() {
    let world = talkative().await;
    let run = long_run(&world).await;
    let stream = TcpStream::connect(world.address).await.unwrap();
    let mut builder = client::Builder::new();
    let (mut http, connection) =
        builder.initial_window_size(0).handshake::<_, Bytes>(stream).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let uri = world.url(&format!("/v1/runs/{run}/events"));
        let request = axum::http::Request::get(uri).body(()).unwrap();
        http = http.ready().await.unwrap();
        let (answer, _) = http.send_request(request, true).unwrap();
        answers.push(answer.await.unwrap());
    }
    until_given_up(&world, 3).await;
    let _ = timeout(PATIENCE, connection).await.expect("the connection is closed");
    world.close().await;
}

/// C13: over HTTP/2 a response that is not read goes alone; others of the same connection go on.
#[tokio::test(flavor = "multi_thread")]
async fn http2_a_stuck_stream_harms_no_other() {
    // Whoever reads must not be taken for stuck because the machine pauses.
    let world = patient(WRITE_TIME * 10).await;
    let run = long_run(&world).await;
    let stream = TcpStream::connect(world.address).await.unwrap();
    let mut builder = client::Builder::new();
    builder.initial_window_size(16 * 1024).initial_connection_window_size(1024 * 1024);
    let (mut http, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    #[expect(clippy::disallowed_methods, reason = "it ends with its connection")]
    let connection = tokio::spawn(connection);
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let uri = world.url(&format!("/v1/runs/{run}/events"));
        let request = axum::http::Request::get(uri).body(()).unwrap();
        http = http.ready().await.unwrap();
        let (answer, _) = http.send_request(request, true).unwrap();
        bodies.push(answer.await.unwrap().into_body());
    }
    let mut read = bodies.pop().unwrap();
    let reading = async {
        let mut n_bytes = 0;
        while let Some(bytes) = read.data().await {
            let n = bytes.expect("this one is read").len();
            n_bytes += n;
            read.flow_control().release_capacity(n).unwrap();
        }
        n_bytes
    };
    let n_bytes = timeout(PATIENCE * 3, reading).await.expect("it is read to its end");
    assert!(n_bytes > 12_000_000, "{n_bytes}");
    until_given_up(&world, 1).await;
    drop((bodies, http, connection));
    world.close().await;
}

/// C13: a socket whose client does not read is closed, and the run goes on.
#[tokio::test(flavor = "multi_thread")]
async fn sockets_a_blocked_write_closes_the_socket() {
    let world = talkative().await;
    let run = long_run(&world).await;
    let mut chat = world.socket("/ws/chat").await;
    chat.send(json!({ "type": "hello", "resume": true })).await;
    chat.send(json!({ "type": "resume", "run_id": run, "after": "0.0" })).await;
    let mut responses = world.socket("/v1/responses").await;
    responses.send(json!({ "type": "response.create", "input": "Talk." })).await;
    until_given_up(&world, 2).await;
    let (_, runs) = world.get("/v1/runs").await;
    assert_eq!(runs["data"].as_array().unwrap().len(), 2);
    let ended = async {
        while world.get("/v1/runs").await.1["data"][0]["status"] == "active" {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, ended).await.expect("nobody waits for its reader");
    let end_of = async |mut socket: Socket| socket.read_to_close().await.1;
    assert_eq!(end_of(chat).await, None);
    assert_eq!(end_of(responses).await, None);
    world.close().await;
}

/// C1: a response that is not stored is deleted when its reader has read it, however far behind the
/// reader is when the run ends.
#[tokio::test(flavor = "multi_thread")]
async fn who_is_behind_gets_the_end_of_what_is_not_stored() {
    let world = patient(PATIENCE).await;
    let asked = json!({ "input": "Talk.", "stream": true, "store": false });
    let mut response =
        world.request(Method::POST, "/v1/responses").json(&asked).send().await.unwrap();
    let mut text = response.chunk().await.unwrap().unwrap().to_vec();
    let over = async {
        while world.app.runs().n_live() > 0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, over).await.expect("the run does not wait for its reader");
    while let Some(piece) = response.chunk().await.expect("it is not cut") {
        text.extend_from_slice(&piece);
    }
    assert!(text.len() > 12_000_000, "{}", text.len());
    let end = String::from_utf8_lossy(&text[text.len() - 100..]).into_owned();
    assert!(end.ends_with("data: [DONE]\n\n"), "{end}");
    let gone = async {
        while !world.get("/v1/runs").await.1["data"].as_array().unwrap().is_empty() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("it is deleted then");
    world.close().await;
}
