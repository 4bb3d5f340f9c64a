//! A site that says too much. What it says is made while it is sent, and it counts what is taken.

use std::{collections::BTreeMap, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Fillings are sent in pieces of this size.
const PIECE: usize = 64 * 1024;

/// What a path is answered with: a beginning, pieces by their number, and an end.
pub(super) struct Flow {
    status: &'static str,
    kind: &'static str,
    header: String,
    head: String,
    piece: Box<dyn Fn(usize) -> String + Send>,
    n_pieces: usize,
    tail: String,
}

impl Flow {
    pub(super) fn new(kind: &'static str, head: &str, tail: &str) -> Self {
        Self {
            status: "200 OK",
            kind,
            header: String::new(),
            head: head.to_owned(),
            piece: Box::new(|_| String::new()),
            n_pieces: 0,
            tail: tail.to_owned(),
        }
    }

    pub(super) fn json(head: &str, tail: &str) -> Self {
        Self::new("application/json", head, tail)
    }

    pub(super) fn events(head: &str, tail: &str) -> Self {
        Self::new("text/event-stream", head, tail)
    }

    pub(super) fn status(self, status: &'static str, header: &str) -> Self {
        Self { status, header: format!("{header}\r\n"), ..self }
    }

    /// With so many pieces between beginning and end.
    pub(super) fn of(
        self,
        n_pieces: usize,
        piece: impl Fn(usize) -> String + Send + 'static,
    ) -> Self {
        Self { n_pieces, piece: Box::new(piece), ..self }
    }

    /// With this many bytes between beginning and end.
    pub(super) fn filled(self, n_bytes: usize) -> Self {
        self.of(n_bytes.div_ceil(PIECE), |_| "x".repeat(PIECE))
    }
}

/// What became of the answers to a path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Taken {
    /// Answers that are over, because all was sent or the other side has hung up.
    pub(super) n_ended: usize,
    pub(super) n_bytes: usize,
}

/// The site, until dropped.
pub(super) struct Flood {
    pub(super) port: u16,
    taken: watch::Sender<BTreeMap<String, Taken>>,
    _serving: JoinSet<()>,
}

type Flows = dyn Fn(&str, &str) -> Flow + Send + Sync;

impl Flood {
    /// Answers a path and a body as `flows` says.
    pub(super) async fn start(flows: impl Fn(&str, &str) -> Flow + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let flows: Arc<Flows> = Arc::new(flows);
        let taken = watch::Sender::default();
        let mut serving = JoinSet::new();
        let shared = taken.clone();
        serving.spawn(async move {
            let mut answers = JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                answers.spawn(answer(connection, flows.clone(), shared.clone()));
            }
        });
        Self { port, taken, _serving: serving }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Waits until an answer to `path` is over, and says what was taken of all so far.
    pub(super) async fn taken(&self, path: &str) -> Taken {
        let mut taken = self.taken.subscribe();
        let over =
            |taken: &BTreeMap<String, Taken>| taken.get(path).is_some_and(|it| it.n_ended > 0);
        taken.wait_for(over).await.unwrap()[path]
    }
}

async fn answer(
    connection: TcpStream,
    flows: Arc<Flows>,
    taken: watch::Sender<BTreeMap<String, Taken>>,
) -> Option<()> {
    let mut connection = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let path = head.split(' ').nth(1)?.split('?').next()?.to_owned();
    let length = head
        .to_ascii_lowercase()
        .split_once("content-length: ")
        .map_or(0, |(_, rest)| rest.split("\r\n").next().unwrap().parse().unwrap());
    let mut body = vec![0; length];
    connection.read_exact(&mut body).await.ok()?;
    let flow = flows(&path, &String::from_utf8_lossy(&body));
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: {}\r\n{}connection: close\r\n\r\n{}",
        flow.status, flow.kind, flow.header, flow.head
    );
    let pieces = (0..flow.n_pieces).map(flow.piece);
    for piece in std::iter::once(head).chain(pieces).chain([flow.tail]) {
        let sent = connection.write_all(piece.as_bytes()).await;
        if sent.is_err() {
            break;
        }
        taken.send_modify(|taken| taken.entry(path.clone()).or_default().n_bytes += piece.len());
    }
    let _ = connection.shutdown().await;
    taken.send_modify(|taken| taken.entry(path).or_default().n_ended += 1);
    Some(())
}
