use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{NetworkFaults, Proxy};

/// Answers every chunk as a database does after a commit.
async fn database(tasks: &TaskTracker) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let connections = tasks.clone();
    tasks.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            connections.spawn(async move {
                let mut chunk = [0; 64];
                while stream.read(&mut chunk).await.is_ok_and(|n_bytes| n_bytes > 0) {
                    let answer = b"C\0\0\0\x0fINSERT 0 1\0Z\0\0\0\x05I";
                    if stream.write_all(answer).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

async fn ask(stream: &mut TcpStream) -> std::io::Result<usize> {
    stream.write_all(b"x").await?;
    let mut chunk = [0; 64];
    stream.read(&mut chunk).await
}

const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn bytes_pass_and_stop_and_pass_again() {
    let tasks = TaskTracker::new();
    let proxy = Proxy::to(database(&tasks).await).await.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), 22);
    proxy.set(NetworkFaults::Silent);
    let waiting = timeout(Duration::from_millis(100), ask(&mut stream)).await;
    assert!(waiting.is_err(), "nothing passes");
    proxy.set(NetworkFaults::None);
    let mut chunk = [0; 64];
    let n_bytes = timeout(SOON, stream.read(&mut chunk)).await.unwrap().unwrap();
    assert_eq!(n_bytes, 22, "what was held comes, on the same connection");
}

#[tokio::test]
async fn a_cut_breaks_what_is_there_and_keeps_out_what_comes() {
    let tasks = TaskTracker::new();
    let proxy = Proxy::to(database(&tasks).await).await.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), 22);
    proxy.set(NetworkFaults::Cut);
    let mut chunk = [0; 64];
    let broken = timeout(SOON, stream.read(&mut chunk)).await.unwrap();
    assert!(!broken.is_ok_and(|n_bytes| n_bytes > 0));
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    assert!(!timeout(SOON, ask(&mut stream)).await.unwrap().is_ok_and(|n_bytes| n_bytes > 0));
    proxy.set(NetworkFaults::None);
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    assert_eq!(ask(&mut stream).await.unwrap(), 22);
}

/// C16: the database has committed, and the client is not told.
#[tokio::test]
async fn an_answer_is_lost_after_the_commit() {
    let tasks = TaskTracker::new();
    let proxy = Proxy::to(database(&tasks).await).await.unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", proxy.port())).await.unwrap();
    let asking = async {
        while proxy.shared.drop_mode.load(std::sync::atomic::Ordering::Acquire)
            == super::FORWARD_ALL
        {
            tokio::task::yield_now().await;
        }
        ask(&mut stream).await
    };
    let (was_lost, answer) = tokio::join!(proxy.drop_next_response(SOON), asking);
    assert!(was_lost);
    assert!(!answer.is_ok_and(|n_bytes| n_bytes > 0));
    assert_eq!(proxy.n_dropped(), 1);
}
