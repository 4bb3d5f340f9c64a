//! A TCP proxy with fault injection between one node and the database.

use std::{
    io,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::sleep,
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

/// How the proxy treats traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkFaults {
    None,
    /// Forwards it after this many milliseconds.
    Slow(u8),
    /// Forwards nothing and keeps connections open.
    Silent,
    /// Closes all connections and accepts none.
    Cut,
}

/// Modes for the response to the next commit.
const FORWARD_ALL: u8 = 0;
const DROP_COMMIT: u8 = 1;
const DROP_ANY: u8 = 2;

/// How long to wait for the response to a commit before any response is dropped.
const COMMIT_WAIT: Duration = Duration::from_millis(300);
const CHUNK: usize = 64 * 1024;

/// A loopback port that forwards to another one.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    tasks: TaskTracker,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    target: u16,
    faults: watch::Sender<NetworkFaults>,
    drop_mode: AtomicU8,
    n_dropped: AtomicU64,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Proxy {
    /// Starts a proxy to `target`.
    pub async fn to(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let shared = Arc::new(Shared {
            target,
            faults: watch::Sender::new(NetworkFaults::None),
            drop_mode: AtomicU8::new(FORWARD_ALL),
            n_dropped: AtomicU64::new(0),
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        tasks.spawn(listen(listener, Arc::clone(&shared)));
        Ok(Self { port, shared, tasks, _stop: stop.drop_guard() })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets how traffic is treated from now on.
    pub fn set(&self, faults: NetworkFaults) {
        self.shared.faults.send_replace(faults);
    }

    /// Returns how traffic is treated.
    pub fn faults(&self) -> NetworkFaults {
        *self.shared.faults.borrow()
    }

    /// Drops the response to the next commit: the database has committed, the node is not told, and
    /// the connection is reset. Returns whether that happened in time.
    pub async fn drop_next_response(&self, patience: Duration) -> bool {
        let before = self.n_dropped();
        self.shared.drop_mode.store(DROP_COMMIT, Ordering::Release);
        let has_lost = || self.n_dropped() > before;
        let steps = patience.as_millis() / 5;
        for step in 0..steps {
            if has_lost() {
                return true;
            }
            if step == COMMIT_WAIT.as_millis() / 5 {
                let (picky, any) = (DROP_COMMIT, DROP_ANY);
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                let _ = self.shared.drop_mode.compare_exchange(picky, any, order.0, order.1);
            }
            sleep(Duration::from_millis(5)).await;
        }
        self.shared.drop_mode.store(FORWARD_ALL, Ordering::Release);
        has_lost()
    }

    /// Returns the number of dropped responses.
    pub fn n_dropped(&self) -> u64 {
        self.shared.n_dropped.load(Ordering::Acquire)
    }

    /// Returns the number of open connections.
    pub fn n_connections(&self) -> usize {
        self.tasks.len().saturating_sub(1)
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((client, _)) = accepted else { continue };
        if *shared.faults.borrow() == NetworkFaults::Cut {
            reset(&client);
            continue;
        }
        let connection = forward_connection(client, Arc::clone(&shared));
        shared.tasks.spawn(connection);
    }
}

/// Forwards bytes both ways until either side closes, the proxy is cut, or a response is dropped.
async fn forward_connection(client: TcpStream, shared: Arc<Shared>) {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, shared.target)).await;
    let Ok(server) = server else { return reset(&client) };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut faults = shared.faults.subscribe();
    let is_lost = {
        let there = forward(&client, &server, &shared, false);
        let back = forward(&server, &client, &shared, true);
        let cut = faults.wait_for(|faults| *faults == NetworkFaults::Cut);
        tokio::select! {
            () = shared.stop.cancelled() => true,
            _ = cut => true,
            ended = there => ended.is_lost(),
            ended = back => ended.is_lost(),
        }
    };
    if is_lost {
        reset(&client);
        reset(&server);
    }
}

enum Ended {
    Quietly,
    Lost,
}

impl Ended {
    fn is_lost(&self) -> bool {
        matches!(self, Self::Lost)
    }
}

async fn forward(from: &TcpStream, to: &TcpStream, shared: &Shared, is_answer: bool) -> Ended {
    let mut chunk = vec![0; CHUNK];
    let mut faults = shared.faults.subscribe();
    loop {
        let read = async {
            from.readable().await?;
            from.try_read(&mut chunk)
        };
        let n_bytes = match read.await {
            Ok(n_bytes) => n_bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(_) => return Ended::Lost,
        };
        let bytes = chunk.get(..n_bytes).unwrap_or_default();
        if bytes.is_empty() {
            return Ended::Quietly;
        }
        if is_answer && should_drop(shared, bytes) {
            return Ended::Lost;
        }
        let now = *faults.borrow_and_update();
        match now {
            NetworkFaults::None | NetworkFaults::Cut => {}
            NetworkFaults::Slow(ms) => sleep(Duration::from_millis(ms.into())).await,
            NetworkFaults::Silent => {
                let _ = faults.wait_for(|faults| *faults != NetworkFaults::Silent).await;
            }
        }
        if write_all(to, bytes).await.is_err() {
            return Ended::Lost;
        }
    }
}

async fn write_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(n_bytes) => bytes = bytes.get(n_bytes..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns whether to drop this response.
fn should_drop(shared: &Shared, bytes: &[u8]) -> bool {
    let is_it = match shared.drop_mode.load(Ordering::Acquire) {
        DROP_COMMIT => is_commit_response(bytes),
        DROP_ANY => has(bytes, b"Z\0\0\0\x05"),
        _ => false,
    };
    // Only one connection drops its response.
    let is_it = is_it && shared.drop_mode.swap(FORWARD_ALL, Ordering::AcqRel) != FORWARD_ALL;
    if is_it {
        shared.n_dropped.fetch_add(1, Ordering::AcqRel);
    }
    is_it
}

/// Returns whether these bytes contain PostgreSQL's completion of a write, outside or at the end of
/// a transaction.
fn is_commit_response(bytes: &[u8]) -> bool {
    let is_idle = has(bytes, b"Z\0\0\0\x05I");
    is_idle
        && ([&b"COMMIT\0"[..], b"INSERT 0 "].iter().any(|tag| has(bytes, tag))
            || names_written_runs(bytes))
}

/// Whether this is the answer to a batch of the writer: rows with one column, the run that was
/// written.
fn names_written_runs(bytes: &[u8]) -> bool {
    bytes.windows(10).any(|row| matches!(row, [0, 1, 0, 0, 0, _, b'r', b'u', b'n', b'_']))
}

fn has(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

/// Makes the peer see a reset instead of a normal close.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
#[path = "proxy_tests.rs"]
mod tests;
