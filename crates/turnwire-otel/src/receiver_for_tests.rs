//! A receiver for tests that answers with one status, and keeps what it gets.

use std::sync::{Arc, Mutex};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    sync::watch,
};
use tokio_util::task::TaskTracker;

/// A receiver that answers with one status, and counts requests.
pub(crate) struct Receiver {
    pub(crate) url: String,
    pub(crate) n_requests: watch::Receiver<usize>,
    pub(crate) heads: Arc<Mutex<String>>,
    /// The bodies of all requests.
    pub(crate) bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Receiver {
    /// `None` reads requests and never answers.
    pub(crate) async fn start(status: Option<u16>) -> Self {
        Self::answering(status, Vec::new()).await
    }

    /// Answers with a body too.
    pub(crate) async fn answering(status: Option<u16>, body: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (count, n_requests) = watch::channel(0);
        let heads = Arc::<Mutex<String>>::default();
        let bodies = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (all_heads, all_bodies) = (Arc::clone(&heads), Arc::clone(&bodies));
        let tasks = TaskTracker::new();
        tasks.clone().spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let (count, heads) = (count.clone(), Arc::clone(&all_heads));
                let (bodies, says) = (Arc::clone(&all_bodies), body.clone());
                tasks.spawn(async move {
                    let mut connection = BufReader::new(connection);
                    let mut head = String::new();
                    while !head.ends_with("\r\n\r\n") {
                        if connection.read_line(&mut head).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let length = head.to_lowercase();
                    let (_, length) = length.split_once("content-length: ").unwrap();
                    let length = length.lines().next().unwrap().trim().parse().unwrap();
                    let mut body = vec![0; length];
                    connection.read_exact(&mut body).await.unwrap();
                    bodies.lock().unwrap().push(body);
                    *heads.lock().unwrap() += &head;
                    count.send_modify(|n| *n += 1);
                    let Some(status) = status else { return std::future::pending().await };
                    let length = says.len();
                    let mut answer = format!(
                        "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
                    )
                    .into_bytes();
                    answer.extend(says);
                    let _ = connection.write_all(&answer).await;
                });
            }
        });
        Self { url, n_requests, heads, bodies }
    }
}
