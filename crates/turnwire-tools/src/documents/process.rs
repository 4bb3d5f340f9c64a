//! Reads a document in a child process.

use std::{convert::Infallible, ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    time::timeout,
};

use super::{
    frames::{self, Broken},
    request::{Answer, Limits, Request, Task, Unread, broke, invalid},
};

/// The program that reads, and the time after which it is killed.
#[derive(Debug, Clone)]
pub(super) struct Program {
    path: PathBuf,
    arguments: Vec<OsString>,
    pub(super) timeout: Duration,
}

impl Program {
    pub(super) fn new(program: PathBuf, argument: OsString) -> Self {
        Self { path: program, arguments: vec![argument], timeout: Duration::from_secs(10) }
    }

    /// Reads one document. A child costs four milliseconds, so each of them reads one.
    pub(super) async fn read(&self, task: &Task, content: &[u8]) -> Result<Answer, Unread> {
        let limits = Limits::for_content(content);
        let request = Request { task: task.clone(), bytes: content.len(), limits };
        let mut head = serde_json::to_vec(&request).map_err(|_| broke())?;
        head.push(b'\n');
        let mut child = self.start().map_err(|error| {
            tracing::error!(%error, "cannot start the process that reads documents");
            broke()
        })?;
        let what = task.subject();
        let answer = timeout(self.timeout, exchange(&mut child, &head, content)).await;
        match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(Broken::TooLong(why))) => Err(invalid(format!("{what} {why}"))),
            Ok(Err(Broken::Cut)) => Err(invalid(format!("{what} {}", why_it_ended(child).await))),
            // Dropping the child kills it.
            Err(_) => Err(invalid(format!("{what} {TOO_SLOW}"))),
        }
    }

    fn start(&self) -> std::io::Result<Child> {
        Command::new(&self.path)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
    }
}

const TOO_SLOW: &str = "takes too long to read";

/// Time for a child to end after its last word.
const TO_END: Duration = Duration::from_secs(1);

/// Writes the request and the document, and reads the answer meanwhile.
async fn exchange(
    child: &mut Child,
    head: &[u8],
    content: &[u8],
) -> Result<Result<Answer, Unread>, Broken> {
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Broken::Cut);
    };
    let mut stdout = BufReader::new(stdout);
    tokio::select! {
        answer = frames::read(&mut stdout) => answer,
        never = write(stdin, head, content) => match never {},
    }
}

/// Writes for as long as the child reads, and never returns: only the answer counts.
async fn write(mut stdin: ChildStdin, head: &[u8], content: &[u8]) -> Infallible {
    for piece in [head, content] {
        // The child may close its input early.
        if stdin.write_all(piece).await.is_err() {
            break;
        }
    }
    drop(stdin);
    std::future::pending().await
}

/// Words what became of a child whose answer ended too early.
async fn why_it_ended(mut child: Child) -> &'static str {
    // One that goes on is killed, as it is dropped.
    match timeout(TO_END, child.wait()).await {
        Ok(Ok(status)) if was_out_of_time(status) => TOO_SLOW,
        _ => "is damaged, or needs too much memory to be read",
    }
}

/// The system ends a process that has used its CPU time with one of these signals.
#[cfg(unix)]
fn was_out_of_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    const SIGKILL: i32 = 9;
    const SIGXCPU: i32 = 24;
    matches!(status.signal(), Some(SIGKILL | SIGXCPU))
}

#[cfg(not(unix))]
fn was_out_of_time(_: std::process::ExitStatus) -> bool {
    false
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
