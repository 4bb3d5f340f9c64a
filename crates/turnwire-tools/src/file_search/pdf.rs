//! Extracts text from PDFs in a separate process.
//!
//! A malicious PDF can loop, nest without end, or decompress to any size. So it is processed where
//! that does no harm (A15): in a child process that gets only the bytes, limits its own resources
//! before it reads them, and is killed when it takes too long or writes too much.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::timeout,
};
use turnwire_contract::ExtractionFailure;

use super::text::NoText;

/// Maximum size of the extracted text in bytes.
const MAX_TEXT: u64 = 16 * 1024 * 1024;

/// The program that extracts text from PDFs. It reads the PDF from standard input, writes UTF-8 to
/// standard output, and exits with 0 on success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdfProgram {
    /// Path of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
    /// Time after which the program is killed.
    pub timeout: Duration,
}

impl PdfProgram {
    /// A program that is killed after five seconds.
    pub fn new(program: impl Into<PathBuf>, argument: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: vec![argument.into()],
            timeout: Duration::from_secs(5),
        }
    }

    pub(super) async fn text_of(&self, name: &str, content: &[u8]) -> Result<String, NoText> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| {
                tracing::error!(%error, "PDF extraction unavailable");
                NoText {
                    why: ExtractionFailure::Broke,
                    reason: "PDFs cannot be read now".to_owned(),
                }
            })?;
        match timeout(self.timeout, exchange(&mut child, content)).await {
            Ok(Some(text)) => Ok(text),
            Ok(None) => Err(invalid(format!("`{name}` is damaged, or not a PDF that can be read"))),
            // Dropping the child kills it.
            Err(_) => Err(invalid(format!("`{name}` takes too long to read"))),
        }
    }
}

/// Writes the PDF and reads the text. Returns `None` if there is no text, or too much.
async fn exchange(child: &mut Child, content: &[u8]) -> Option<String> {
    let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
    let write = async {
        // The child may close its input early.
        let _ = stdin.write_all(content).await;
        drop(stdin);
    };
    let mut text = Vec::new();
    let mut stdout = stdout.take(MAX_TEXT + 1);
    let ((), read) = tokio::join!(write, stdout.read_to_end(&mut text));
    read.ok()?;
    if u64::try_from(text.len()).is_ok_and(|length| length > MAX_TEXT) {
        return None;
    }
    let ended_well = child.wait().await.is_ok_and(|status| status.success());
    String::from_utf8(text).ok().filter(|_| ended_well)
}

fn invalid(reason: String) -> NoText {
    NoText { why: ExtractionFailure::Invalid, reason }
}

#[cfg(test)]
#[path = "pdf_tests.rs"]
mod tests;
