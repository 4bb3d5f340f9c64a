//! A server as a child process.
//!
//! The command comes only from the operator's settings. The process gets a clean environment and
//! its own process group. The whole group is killed when the connection is closed.

use std::{collections::BTreeMap, io, path::Path, process::Stdio, sync::Arc, time::Duration};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::{Transport, async_rw::AsyncRwTransport},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::debug;

use super::redactor::Redactor;

/// Environment variables that the server inherits. Others may contain keys.
const INHERITED_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Time for the server to exit after its stdin is closed.
const EXIT_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum number of bytes of the server's stderr that are logged. The rest is read and dropped, so
/// that the server never blocks.
const MAX_STDERR_BYTES: usize = 64 * 1024;

/// Maximum number of bytes per log entry.
const MAX_LINE_BYTES: usize = 1024;

/// A running server and its pipes.
pub(super) struct ServerProcess {
    transport: AsyncRwTransport<RoleClient, ChildStdout, ChildStdin>,
    child: Box<dyn ChildWrapper>,
}

impl ServerProcess {
    /// Starts `command`. Its stderr is logged with `label`.
    pub(super) fn start(
        label: &str,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&Path>,
        redactor: &Arc<Redactor>,
        (tasks, closing): (&TaskTracker, &CancellationToken),
    ) -> io::Result<Self> {
        let mut process = Command::new(command);
        process.args(args).env_clear();
        process.envs(
            INHERITED_VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))),
        );
        process.envs(env);
        if let Some(folder) = cwd {
            process.current_dir(folder);
        }
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = CommandWrap::from(process).wrap(ProcessGroup::leader()).spawn()?;
        let missing = || io::Error::other("a pipe of the process is missing");
        let stdin = child.stdin().take().ok_or_else(missing)?;
        let stdout = child.stdout().take().ok_or_else(missing)?;
        let stderr = child.stderr().take().ok_or_else(missing)?;
        let logging = log_stderr(label.to_owned(), stderr, Arc::clone(redactor));
        tasks.spawn(closing.clone().run_until_cancelled_owned(logging));
        Ok(Self { transport: AsyncRwTransport::new(stdout, stdin), child })
    }
}

impl Transport<RoleClient> for ServerProcess {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.transport.send(item)
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.transport.receive()
    }

    /// Closes stdin, which tells a server to exit, and waits briefly.
    async fn close(&mut self) -> io::Result<()> {
        let closed = self.transport.close().await;
        let _ = timeout(EXIT_TIMEOUT, self.child.wait()).await;
        closed
    }
}

impl Drop for ServerProcess {
    /// Kills the whole process group, including children of the server.
    fn drop(&mut self) {
        // An error means that the process has already exited.
        let _ = self.child.start_kill();
    }
}

/// Logs the server's stderr, up to the limit.
async fn log_stderr(label: String, mut stderr: impl AsyncRead + Unpin, redactor: Arc<Redactor>) {
    let mut piece = [0; MAX_LINE_BYTES];
    let mut remaining = MAX_STDERR_BYTES;
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let Some(text) = piece.get(..count.min(remaining)).filter(|text| !text.is_empty()) else {
            continue;
        };
        remaining -= text.len();
        for line in String::from_utf8_lossy(text).lines().filter(|line| !line.trim().is_empty()) {
            debug!(server = %label, line = %redactor.text(line), "MCP server stderr");
        }
        if remaining == 0 {
            debug!(server = %label, "MCP server stderr truncated");
        }
    }
}
