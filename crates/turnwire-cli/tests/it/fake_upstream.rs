//! An upstream that speaks Chat Completions over a real socket and works, fails, hangs or is gone
//! as the test says.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// Time between two pieces of an answer.
const PACE: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Answers,
    /// Every request gets this status, with this `Retry-After`.
    Refuses(u16, Option<u64>),
    /// Requests are read and never answered.
    Hangs,
    /// Nothing listens, and open connections are closed.
    Gone,
    /// Answers begin, and do not end before the mode changes.
    Dawdles,
    /// Answers count from 0, at the pace of a model, and end when the mode changes.
    Counts,
}

pub(crate) struct FakeUpstream {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    asked: Arc<AtomicUsize>,
    /// Ends with the upstream.
    _serving: JoinSet<()>,
}

impl FakeUpstream {
    pub(crate) async fn start(mode: Mode) -> Self {
        let listener = TcpListener::bind((own_loopback(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, modes) = watch::channel(mode);
        let asked = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, address, modes, asked.clone()));
        Self { address, mode, asked, _serving: serving }
    }

    pub(crate) fn becomes(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// The number of requests that it has read.
    pub(crate) fn n_asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }
}

/// The loopback address of this process, so that nobody takes the port of an upstream while it is
/// gone: neither a test in another process nor an outgoing connection.
fn own_loopback() -> Ipv4Addr {
    if !cfg!(target_os = "linux") {
        return Ipv4Addr::LOCALHOST;
    }
    let [_, a, b, c] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 100 + a % 100, b, c)
}

async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    mut modes: watch::Receiver<Mode>,
    asked: Arc<AtomicUsize>,
) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        if *modes.borrow_and_update() == Mode::Gone {
            listener = None;
            connections.shutdown().await;
        } else if listener.is_none() {
            listener = Some(TcpListener::bind(address).await.unwrap());
        }
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = modes.changed() => changed.unwrap(),
            accepted = accepted => {
                let (modes, asked) = (modes.clone(), asked.clone());
                connections.spawn(answer_all(accepted.unwrap().0, modes, asked));
            }
        }
    }
}

async fn answer_all(
    connection: TcpStream,
    mut modes: watch::Receiver<Mode>,
    asked: Arc<AtomicUsize>,
) -> Option<()> {
    let mut connection = BufReader::new(connection);
    loop {
        read_request(&mut connection).await?;
        asked.fetch_add(1, Ordering::Relaxed);
        let mode = *modes.borrow_and_update();
        let text = match mode {
            Mode::Answers => whole(&answer()),
            Mode::Refuses(status, wait) => refusal(status, wait),
            Mode::Hangs | Mode::Gone => std::future::pending().await,
            Mode::Dawdles => {
                let mut first = answer();
                let rest = first.split_off(1);
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                            transfer-encoding: chunked\r\n\r\n";
                connection.write_all(format!("{head}{}", chunk(&first)).as_bytes()).await.ok()?;
                // An upstream that is gone does not finish its answers.
                modes.wait_for(|mode| ![Mode::Dawdles, Mode::Gone].contains(mode)).await.ok()?;
                format!("{}0\r\n\r\n", chunk(&rest))
            }
            Mode::Counts => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                            transfer-encoding: chunked\r\n\r\n";
                connection.write_all(head.as_bytes()).await.ok()?;
                for n in 0.. {
                    let piece = chunk(&[delta(&json!({ "content": format!("{n} ") }))]);
                    connection.write_all(piece.as_bytes()).await.ok()?;
                    let changes = modes.wait_for(|mode| *mode != Mode::Counts);
                    if timeout(PACE, changes).await.is_ok() {
                        break;
                    }
                }
                let rest = answer().split_off(2);
                format!("{}0\r\n\r\n", chunk(&rest))
            }
        };
        connection.write_all(text.as_bytes()).await.ok()?;
    }
}

async fn read_request(connection: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().unwrap();
        }
    }
    connection.read_exact(&mut vec![0; length]).await.ok().map(|_| ())
}

fn delta(delta: &Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta }] })
}

/// The chunks of an answer.
fn answer() -> Vec<Value> {
    let usage = json!({ "prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7 });
    vec![
        delta(&json!({ "content": "Good " })),
        delta(&json!({ "content": "day." })),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }),
        json!({ "choices": [], "usage": usage }),
    ]
}

fn frames(chunks: &[Value]) -> String {
    let frames: Vec<String> = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    frames.concat()
}

fn chunk(chunks: &[Value]) -> String {
    let text = frames(chunks);
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A whole answer in one piece, so that an upstream that goes away does not cut it in two.
fn whole(chunks: &[Value]) -> String {
    let text = format!("{}data: [DONE]\n\n", frames(chunks));
    let length = text.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{text}"
    )
}

fn refusal(status: u16, wait: Option<u64>) -> String {
    let message = if status == 404 { "The model `m` does not exist" } else { "no" };
    let body = json!({ "error": { "message": message } }).to_string();
    let wait = wait.map_or(String::new(), |wait| format!("retry-after: {wait}\r\n"));
    let length = body.len();
    format!(
        "HTTP/1.1 {status} No\r\ncontent-type: application/json\r\n{wait}content-length: \
         {length}\r\n\r\n{body}"
    )
}
