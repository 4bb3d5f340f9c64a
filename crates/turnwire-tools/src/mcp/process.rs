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
    let tell = |lines: Vec<String>| {
        for line in lines {
            debug!(server = %label, %line, "MCP server stderr");
        }
    };
    let mut piece = [0; MAX_LINE_BYTES];
    let mut remaining = MAX_STDERR_BYTES;
    let mut lines = StderrLines { redactor: &redactor, pending: Vec::new() };
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let Some(text) = piece.get(..count.min(remaining)).filter(|text| !text.is_empty()) else {
            continue;
        };
        remaining -= text.len();
        tell(lines.push(text));
        if remaining == 0 {
            tell(lines.cut());
            debug!(server = %label, "MCP server stderr truncated");
        }
    }
    if remaining > 0 {
        tell(lines.end());
    }
}

/// Turns pieces of stderr into lines without secrets. A piece may end within a secret, so what may
/// be the beginning of one waits for the next piece.
struct StderrLines<'a> {
    redactor: &'a Redactor,
    /// What comes after the last complete line.
    pending: Vec<u8>,
}

impl StderrLines<'_> {
    fn push(&mut self, piece: &[u8]) -> Vec<String> {
        self.pending.extend_from_slice(piece);
        let end = self.pending.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let complete: Vec<u8> = self.pending.drain(..end).collect();
        let mut lines = self.lines_of(&complete);
        if self.pending.len() > MAX_LINE_BYTES + self.redactor.longest() {
            lines.extend(self.cut());
        }
        lines
    }

    /// Returns what is pending, without what may be the beginning of a secret.
    fn cut(&mut self) -> Vec<String> {
        let pending = std::mem::take(&mut self.pending);
        let text = String::from_utf8_lossy(&pending);
        let text = self.redactor.text(&text);
        let end = text.len().saturating_sub(self.redactor.longest().saturating_sub(1));
        let (sure, unsure) = text.split_at(text.floor_char_boundary(end));
        self.pending = unsure.as_bytes().to_vec();
        self.lines_of(sure.as_bytes())
    }

    /// Returns what is pending, because nothing follows it.
    fn end(&mut self) -> Vec<String> {
        let pending = std::mem::take(&mut self.pending);
        self.lines_of(&pending)
    }

    /// Returns lines without secrets, cut to the size of a log entry.
    fn lines_of(&self, bytes: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(bytes);
        let text = self.redactor.text(&text);
        let mut lines = Vec::new();
        for mut line in text.lines().filter(|line| !line.trim().is_empty()) {
            while !line.is_empty() {
                let (entry, rest) = line.split_at(line.floor_char_boundary(MAX_LINE_BYTES));
                lines.push(entry.to_owned());
                line = rest;
            }
        }
        lines
    }
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
