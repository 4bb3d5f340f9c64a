//! A way to a server that can be cut: after the server has done what it was asked, and before
//! anybody hears of it.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_util::task::TaskTracker;

/// A request that contains this is a candidate.
pub(crate) const MARK: &str = "CUT-ME";

/// A way to a server.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cuts: Arc<Cuts>,
    _tasks: TaskTracker,
}

#[derive(Default)]
struct Cuts {
    left: AtomicUsize,
    done: AtomicUsize,
}

impl Proxy {
    /// A way to the server that listens on `port` of loopback.
    pub(crate) async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cuts, tasks) = (Arc::new(Cuts::default()), TaskTracker::new());
        let (ours, connections) = (Arc::clone(&cuts), tasks.clone());
        tasks.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let cuts = Arc::clone(&ours);
                connections.spawn(async move {
                    if let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await {
                        carry(client, server, &cuts).await;
                    }
                });
            }
        });
        Self { address, cuts, _tasks: tasks }
    }

    /// The answer to the next request with the mark does not arrive.
    pub(crate) fn cut_next(&self) {
        self.cuts.left.store(1, Ordering::SeqCst);
    }

    /// How many answers did not arrive.
    pub(crate) fn n_cuts(&self) -> usize {
        self.cuts.done.load(Ordering::SeqCst)
    }
}

async fn carry(client: TcpStream, server: TcpStream, cuts: &Cuts) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let is_marked = AtomicBool::new(false);
    let there = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from_client.read(&mut bytes).await {
            let has_mark = bytes[..n].windows(MARK.len()).any(|some| some == MARK.as_bytes());
            is_marked.store(has_mark, Ordering::SeqCst);
            if to_server.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 64 * 1024];
        while let Ok(n @ 1..) = from_server.read(&mut bytes).await {
            let is_cut =
                is_marked.load(Ordering::SeqCst) && cuts.left.swap(0, Ordering::SeqCst) > 0;
            if is_cut {
                cuts.done.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if to_client.write_all(&bytes[..n]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}
