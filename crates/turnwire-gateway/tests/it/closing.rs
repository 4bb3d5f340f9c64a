//! How many connections there are at once, and how they end.

use std::{
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::{self, Message, WebSocket};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};

use crate::world::{Plan, World};

/// A13: whoever says nothing, or only begins to, keeps nobody out for long.
#[tokio::test]
async fn a_silent_connection_is_ended() {
    for first in ["", "P", "PRI * HTTP/2.0"] {
        let plan = Plan::new([]).limits(|limits| {
            limits.header_time = Duration::from_millis(100);
            limits.connections = 1;
        });
        let world = plan.start().await;
        let mut silent = tokio::net::TcpStream::connect(world.address).await.unwrap();
        silent.write_all(first.as_bytes()).await.unwrap();
        let health = tokio::time::timeout(Duration::from_secs(5), world.get("/healthz")).await;
        assert_eq!(health.expect("there is a place again").0, 200, "{first:?}");
        let _ = silent.read(&mut [0; 1]).await;
        world.close().await;
    }
}

/// A13: a socket is a connection for as long as it is open.
#[tokio::test]
async fn sockets_are_counted() {
    for path in ["/ws/chat", "/v1/responses"] {
        let world = Plan::new([]).limits(|limits| limits.connections = 1).start().await;
        let mut socket = world.socket(path).await;
        // An answer: it has been upgraded, and HTTP is done with it.
        socket.send(json!({ "type": "nonsense" })).await;
        socket.next().await.unwrap();
        let (status, refusal) = world.get("/v1/runs").await;
        assert_eq!(status, 503, "{path}: there was a place for one");
        assert_eq!(refusal["error"]["code"], "too_many_connections");
        drop(socket);
        let again = async { while world.get("/v1/runs").await.0 != 200 {} };
        let again = tokio::time::timeout(Duration::from_secs(5), again).await;
        again.expect("there is a place again");
        world.close().await;
    }
}

/// A13: a message of the biggest size is taken in, and a bigger one ends the socket with 1009.
#[tokio::test]
async fn big_messages_end_a_socket() {
    let world = Plan::new([]).start().await;
    for path in ["/ws/chat", "/v1/responses"] {
        let mut socket = world.socket(path).await;
        socket.send_text(&"x".repeat(1024 * 1024)).await;
        let answer = socket.next().await.expect("it was read");
        assert!(answer.to_string().contains("rror"), "{path}: it made no sense: {answer:#}");
        socket.send_text(&"x".repeat(1024 * 1024 + 1)).await;
        assert_eq!(socket.read_to_end().await, (Vec::new(), Some(1009)), "{path}");
    }
    world.close().await;
}

type Blocking = WebSocket<TcpStream>;

fn next(socket: &mut Blocking) -> Option<Value> {
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Message::Close(frame) => {
                assert_eq!(u16::from(frame.unwrap().code), 1012);
                return None;
            }
            _ => {}
        }
    }
}

/// Opens a socket, says `hello`, and waits until a tool is at work.
async fn at_work(world: &World, path: &str, hello: Value) -> Blocking {
    let (address, url) = (world.address, format!("ws://{}{path}", world.address));
    let opened = tokio::task::spawn_blocking(move || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let (mut socket, _) = tungstenite::client(url, stream).unwrap();
        socket.send(Message::text(hello.to_string())).unwrap();
        let starts = ["tool_start", "response.mcp_call.in_progress"];
        while !starts.contains(&next(&mut socket).unwrap()["type"].as_str().unwrap()) {}
        socket
    });
    opened.await.unwrap()
}

/// C3: When the server closes, a socket gets the end of its turn and is told why it ends, before
/// the server is gone.
///
/// The client reads only after the server is gone, and without giving its thread to anybody: it
/// finds what was written by then, and nothing else.
#[tokio::test]
async fn sockets_are_told_the_end_when_the_server_closes() {
    for path in ["/ws/chat", "/v1/responses"] {
        let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
        let turns = [Turn::new().call("wait", json!({}))];
        let world = Plan::new(turns).server("m", [waits]).start().await;
        let (_, conversation) = world.post("/v1/conversations", json!({})).await;
        let tools = json!([{ "type": "mcp", "server_label": "m", "require_approval": "never" }]);
        let hello = match path {
            "/ws/chat" => {
                json!({ "type": "message", "conversation_id": conversation["id"], "content": "?" })
            }
            _ => json!({ "type": "response.create", "input": "?", "tools": tools }),
        };
        let mut socket = at_work(&world, path, hello).await;
        let asked = Instant::now();
        world.close().await;
        assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
        let mut last = Value::Null;
        while let Some(message) = next(&mut socket) {
            last = message;
        }
        match path {
            "/ws/chat" => assert!(last["outcome"].is_string(), "{last:#}"),
            _ => assert!(last["response"]["status"].is_string(), "{last:#}"),
        }
    }
}

/// An idle socket does not hold up the server.
#[tokio::test]
async fn idle_sockets_are_told_that_the_server_closes() {
    for path in ["/ws/chat", "/v1/responses"] {
        let world = Plan::new([]).start().await;
        let mut socket = world.socket(path).await;
        world.app.close();
        assert_eq!(socket.read_to_end().await, (Vec::new(), Some(1012)), "{path}");
        world.close().await;
    }
}
