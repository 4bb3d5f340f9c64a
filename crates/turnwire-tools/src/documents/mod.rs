//! Reads what strangers wrote: uploaded files, web pages, and searches in them.
//!
//! Such a document can loop, nest without end, decompress to any size, or take time out of
//! proportion to its bytes. So it is read where that does no harm (A15): a child process (`process`)
//! gets one `request` and the bytes, limits its own memory and time before it reads the first of
//! them (`worker`), and answers in `frames`. It ends with its document, or is killed. `places`
//! bounds how many there are, and gives each tenant one.
//!
//! A program that embeds the tools without the command line has no such child. It reads
//! [in its own process](DocumentReader::in_process), smaller files only.

mod chunking;
mod finding;
mod frames;
#[doc(hidden)]
pub mod fuzzing;
mod page;
mod places;
mod process;
mod request;
mod text;
mod words;
mod worker;

use std::{ffi::OsString, path::PathBuf, sync::Arc};

use turnwire_contract::{NewChunk, TenantId};

pub(crate) use self::{
    finding::Matches,
    request::{MAX_PATTERN, PageText, Task, Unread},
    words::asked,
};
use self::{
    places::Places,
    process::Program,
    request::{Answer, broke, invalid},
};
pub use self::{request::Limits, worker::serve};

/// Maximum size of a file that is read in this process.
const MAX_BYTES_IN_PROCESS: usize = 4 * 1024 * 1024;

/// Reads documents. Clones share their places: at most half of the processor cores, but at least
/// two, read documents at once, and one for each tenant.
#[derive(Debug, Clone)]
pub struct DocumentReader {
    how: How,
    places: Arc<Places>,
}

#[derive(Debug, Clone)]
enum How {
    Child(Program),
    InProcess,
}

impl DocumentReader {
    /// Reads every document in a child process: `program` with this argument, which calls
    /// [`serve`]. It is killed after ten seconds, and when nobody waits for it any more.
    pub fn program(program: impl Into<PathBuf>, argument: impl Into<OsString>) -> Self {
        Self {
            how: How::Child(Program::new(program.into(), argument.into())),
            ..Self::in_process()
        }
    }

    /// With another time after which a child is killed.
    #[cfg(test)]
    pub(crate) fn within(mut self, timeout: std::time::Duration) -> Self {
        if let How::Child(program) = &mut self.how {
            program.timeout = timeout;
        }
        self
    }

    /// Reads documents on a blocking thread of this process: no PDFs, and no files of more than
    /// 4 MiB. Nothing limits the memory and the time of one document. A thread that nobody waits
    /// for any more goes on to the end of its document, and keeps its place for as long.
    pub fn in_process() -> Self {
        Self { how: How::InProcess, places: Arc::new(Places::of_this_machine()) }
    }

    /// Returns the chunks of a file, with their words.
    pub(crate) async fn chunks(
        &self,
        tenant: &TenantId,
        task: Task,
        content: &Arc<[u8]>,
    ) -> Result<Vec<NewChunk>, Unread> {
        match self.read(tenant, task, content).await? {
            Answer::Chunks(chunks) => Ok(chunks),
            Answer::Page(_) => Err(broke()),
        }
    }

    /// Returns the text of a web page.
    pub(crate) async fn page(
        &self,
        tenant: &TenantId,
        task: Task,
        content: &Arc<[u8]>,
    ) -> Result<PageText, Unread> {
        match self.read(tenant, task, content).await? {
            Answer::Page(page) => Ok(page),
            Answer::Chunks(_) => Err(broke()),
        }
    }

    async fn read(
        &self,
        tenant: &TenantId,
        task: Task,
        content: &Arc<[u8]>,
    ) -> Result<Answer, Unread> {
        let place = self.places.take(tenant).await;
        match &self.how {
            How::Child(program) => program.read(&task, content).await,
            How::InProcess if content.len() > MAX_BYTES_IN_PROCESS => {
                Err(invalid(format!("{} has more than 4 MiB", task.subject())))
            }
            How::InProcess => {
                let content = Arc::clone(content);
                let reading = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    let mut frames = Vec::new();
                    worker::answer(&task, &content, None, &mut frames).map(|()| frames)
                });
                let frames = reading.await.map_err(|error| {
                    tracing::warn!(%error, "reading a document panicked");
                    broke()
                })?;
                let frames = frames.map_err(|_| broke())?;
                frames::read(&mut frames.as_slice()).await.unwrap_or_else(|_| Err(broke()))
            }
        }
    }
}

#[cfg(test)]
#[path = "documents_tests.rs"]
mod tests;
