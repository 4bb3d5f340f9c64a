//! Indexes the files in a library's queue, in the background.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use turnwire_contract::{
    Chunking, ExtractionFailure, IndexQueue, IndexTask, IndexWork, Indexed, LibraryError, NewChunk,
    TextAnalyzer, Vectors, partial_debug,
};

use super::{
    PdfProgram, chunking,
    text::{Kind, NoText, without_markup},
};

/// Number of files that are indexed concurrently. One can be split while another waits for its
/// vectors.
const AT_ONCE: usize = 2;

const LEASE: Duration = Duration::from_secs(30);

/// Interval at which the queue is polled for files from other processes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Interval at which expired data is deleted.
const BETWEEN_TIDYINGS: Duration = Duration::from_mins(1);

/// Time without requests for vectors after one has failed.
const WITHOUT_VECTORS: Duration = Duration::from_secs(30);

/// Maximum number of chunks per file. A regular file within the size limit has fewer.
const MAX_CHUNKS: usize = 200_000;

/// Claims files from a queue, extracts their text, and stores the chunks.
///
/// If the embeddings model is unavailable, a file is stored without vectors and can be found by
/// words. Its vectors are added later.
#[derive(Clone)]
pub struct Indexer {
    queue: Arc<dyn IndexQueue>,
    reader: Arc<dyn TextAnalyzer>,
    pdf: Option<PdfProgram>,
}

/// State of a worker between two files.
#[derive(Default)]
struct WorkerState {
    /// No vectors are requested before this time.
    no_vectors_until: Option<Instant>,
}

impl WorkerState {
    fn wants_vectors(&self) -> bool {
        self.no_vectors_until.is_none_or(|moment| moment <= Instant::now())
    }
}

impl Indexer {
    /// Creates an indexer for `queue`. Without a program for them, PDFs cannot be indexed.
    pub fn new(
        queue: Arc<dyn IndexQueue>,
        reader: Arc<dyn TextAnalyzer>,
        pdf: Option<PdfProgram>,
    ) -> Self {
        Self { queue, reader, pdf }
    }

    /// Indexes files until `stop` is cancelled. Unfinished files are indexed after the next start,
    /// or by other processes.
    pub async fn run(self, stop: CancellationToken) {
        let workers = (0..AT_ONCE).map(|_| self.work());
        let all = async { tokio::join!(futures::future::join_all(workers), self.keep_tidy()) };
        stop.run_until_cancelled(all).await;
    }

    /// Indexes all files that are queued now, and returns their number.
    pub async fn work_off(&self) -> Result<usize, LibraryError> {
        let (mut n_files, mut worker) = (0, WorkerState::default());
        while self.next(&mut worker).await? {
            n_files += 1;
        }
        self.queue.tidy().await?;
        Ok(n_files)
    }

    async fn work(&self) {
        let mut worker = WorkerState::default();
        loop {
            match self.next(&mut worker).await {
                Ok(true) => {}
                Ok(false) => self.pause().await,
                Err(error) => {
                    warn!(%error, "indexing paused");
                    sleep(BETWEEN_LOOKS).await;
                }
            }
        }
    }

    async fn pause(&self) {
        tokio::select! {
            () = self.queue.changed() => {}
            () = sleep(BETWEEN_LOOKS) => {}
        }
    }

    async fn keep_tidy(&self) {
        loop {
            if let Err(error) = self.queue.tidy().await {
                warn!(%error, "expiry of files failed, retried later");
            }
            sleep(BETWEEN_TIDYINGS).await;
        }
    }

    /// Indexes one file. Returns false if none is queued.
    async fn next(&self, worker: &mut WorkerState) -> Result<bool, LibraryError> {
        let model = self.reader.model().filter(|_| worker.wants_vectors());
        let Some(work) = self.queue.claim(model, LEASE).await? else { return Ok(false) };
        let done = self.read(&work, worker);
        if let Some(end) = self.while_ours(&work, done).await? {
            let finished = self.queue.finish(&work, end);
            self.while_ours(&work, finished).await?.transpose()?;
        }
        Ok(true)
    }

    /// Awaits `doing` and renews the claim meanwhile. Returns `None` if the claim is lost.
    async fn while_ours<T>(
        &self,
        work: &IndexWork,
        doing: impl Future<Output = T>,
    ) -> Result<Option<T>, LibraryError> {
        let mut renewals = interval(LEASE / 3);
        renewals.tick().await;
        tokio::pin!(doing);
        loop {
            tokio::select! {
                biased;
                done = &mut doing => return Ok(Some(done)),
                _ = renewals.tick() => {
                    if !self.queue.renew(work, LEASE).await? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    async fn read(&self, work: &IndexWork, worker: &mut WorkerState) -> Indexed {
        match &work.task {
            IndexTask::Read { content, chunking } => {
                let texts = match self.chunks(&work.file_name, content, *chunking).await {
                    Ok(texts) => texts,
                    Err(NoText { why, reason }) => {
                        info!(file = %work.file_id, %reason, "text extraction failed");
                        return Indexed::Failed { why, reason };
                    }
                };
                let vectors = self.vectors(&texts, worker).await;
                let chunks = texts
                    .into_iter()
                    .map(|text| NewChunk { words: self.reader.words(&text), text });
                Indexed::Chunks { chunks: chunks.collect(), vectors }
            }
            IndexTask::Embed { chunks } => match self.vectors(chunks, worker).await {
                Some(vectors) => Indexed::Vectors(vectors),
                None => Indexed::NotNow(WITHOUT_VECTORS),
            },
        }
    }

    /// Returns the vectors of these chunks, if a model is configured and available.
    async fn vectors(&self, texts: &[String], worker: &mut WorkerState) -> Option<Vectors> {
        let model = self.reader.model().filter(|_| worker.wants_vectors())?.to_owned();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        match self.reader.vectors(&texts).await {
            Ok(vectors) => Some(Vectors { model, vectors }),
            Err(cause) => {
                warn!(%cause, "embeddings unavailable, files indexed for full-text search only");
                worker.no_vectors_until = Some(Instant::now() + WITHOUT_VECTORS);
                None
            }
        }
    }

    async fn chunks(
        &self,
        name: &str,
        content: &Arc<[u8]>,
        chunking: Chunking,
    ) -> Result<Vec<String>, NoText> {
        let (text, is_markdown) = match Kind::of(name, content) {
            Kind::Text(text) => (text.to_owned(), false),
            Kind::Markdown(text) => (text.to_owned(), true),
            Kind::Page(page) => (without_markup(page), false),
            Kind::Pdf => (self.text_of_pdf(name, content).await?, false),
            Kind::Unknown => return Err(unsupported(name)),
        };
        // Splitting a large text is slow.
        let cut = move || chunking::chunks(&text.replace('\0', " "), is_markdown, chunking);
        let chunks = tokio::task::spawn_blocking(cut).await.map_err(|error| {
            warn!(%error, "chunking failed");
            NoText { why: ExtractionFailure::Broke, reason: "text extraction failed".to_owned() }
        })?;
        if chunks.len() > MAX_CHUNKS {
            let reason = format!("`{name}` has more than {MAX_CHUNKS} chunks");
            return Err(NoText { why: ExtractionFailure::Invalid, reason });
        }
        Ok(chunks)
    }

    async fn text_of_pdf(&self, name: &str, content: &[u8]) -> Result<String, NoText> {
        match &self.pdf {
            Some(program) => program.text_of(name, content).await,
            None => Err(unsupported(name)),
        }
    }
}

fn unsupported(name: &str) -> NoText {
    let reason = format!(
        "`{name}` cannot be searched: only text in UTF-8, Markdown, HTML and PDF can be read"
    );
    NoText { why: ExtractionFailure::Unsupported, reason }
}

partial_debug!(Indexer { pdf });

#[cfg(test)]
#[path = "indexer_tests.rs"]
mod tests;
