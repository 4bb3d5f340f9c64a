//! Indexes the files in a library's queue, in the background.
//!
//! Tenants take turns: one with many files does not keep another one waiting.

use std::{
    collections::{HashMap, HashSet},
    future::Future,
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::Mutex,
    time::{Instant, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use turnwire_contract::{
    IndexQueue, IndexTask, IndexWork, Indexed, LibraryError, TenantId, TextAnalyzer, Vectors,
    partial_debug,
};

use crate::documents::{DocumentReader, Task, Unread};

/// Number of files that are indexed concurrently, of all tenants and of one. One can be read while
/// another waits for its vectors.
const AT_ONCE: usize = 3;
const AT_ONCE_PER_TENANT: usize = 2;

const LEASE: Duration = Duration::from_secs(30);

/// Interval at which the queue is polled for files from other processes.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Interval at which expired data is deleted.
const BETWEEN_TIDYINGS: Duration = Duration::from_mins(1);

/// Time without requests for vectors after one has failed.
const WITHOUT_VECTORS: Duration = Duration::from_secs(30);

/// Number of tenants that wait for the others to have their turn. With more, some of them may have
/// two turns in a round.
const MAX_SERVED: usize = 1_000;

/// Claims files from a queue, extracts their text, and stores the chunks.
///
/// If the embeddings model is unavailable, a file is stored without vectors and can be found by
/// words. Its vectors are added later.
#[derive(Clone)]
pub struct Indexer {
    queue: Arc<dyn IndexQueue>,
    analyzer: Arc<dyn TextAnalyzer>,
    documents: DocumentReader,
}

/// Whose file is next.
#[derive(Default)]
struct Turns {
    /// Number of files of each tenant that are being indexed.
    at_work: HashMap<TenantId, usize>,
    /// Tenants that had their turn in this round.
    served: HashSet<TenantId>,
}

impl Turns {
    /// Tenants that have no place left and, within a round, those that had their turn.
    fn passed_over(&self) -> Vec<TenantId> {
        let busy = self.at_work.iter().filter(|(_, n_files)| **n_files >= AT_ONCE_PER_TENANT);
        busy.map(|(tenant, _)| tenant).chain(&self.served).cloned().collect()
    }

    fn began(&mut self, tenant: &TenantId) {
        *self.at_work.entry(tenant.clone()).or_default() += 1;
        if self.served.len() >= MAX_SERVED {
            self.served.clear();
        }
        self.served.insert(tenant.clone());
    }

    fn ended(&mut self, tenant: &TenantId) {
        if let Some(n_files) = self.at_work.get_mut(tenant) {
            *n_files -= 1;
            if *n_files == 0 {
                self.at_work.remove(tenant);
            }
        }
    }
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
    /// Creates an indexer for `queue`, which reads its files with `documents`.
    pub fn new(
        queue: Arc<dyn IndexQueue>,
        analyzer: Arc<dyn TextAnalyzer>,
        documents: DocumentReader,
    ) -> Self {
        Self { queue, analyzer, documents }
    }

    /// Indexes files until `stop` is cancelled. Unfinished files are indexed after the next start,
    /// or by other processes.
    pub async fn run(self, stop: CancellationToken) {
        let turns = Mutex::default();
        let workers = (0..AT_ONCE).map(|_| self.work(&turns));
        let all = async { tokio::join!(futures::future::join_all(workers), self.keep_tidy()) };
        stop.run_until_cancelled(all).await;
    }

    /// Indexes all files that are queued now, and returns their number.
    pub async fn work_off(&self) -> Result<usize, LibraryError> {
        let (mut n_files, mut worker) = (0, WorkerState::default());
        let turns = Mutex::default();
        while self.next(&mut worker, &turns).await? {
            n_files += 1;
        }
        self.queue.tidy().await?;
        Ok(n_files)
    }

    async fn work(&self, turns: &Mutex<Turns>) {
        let mut worker = WorkerState::default();
        loop {
            match self.next(&mut worker, turns).await {
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
    async fn next(
        &self,
        worker: &mut WorkerState,
        turns: &Mutex<Turns>,
    ) -> Result<bool, LibraryError> {
        let Some(work) = self.claim(worker, turns).await? else { return Ok(false) };
        let indexed = self.index(&work, worker).await;
        turns.lock().await.ended(&work.tenant);
        indexed.map(|()| true)
    }

    /// Claims a file of a tenant that had no turn in this round, or else begins the next round.
    async fn claim(
        &self,
        worker: &WorkerState,
        turns: &Mutex<Turns>,
    ) -> Result<Option<IndexWork>, LibraryError> {
        let model = self.analyzer.model().filter(|_| worker.wants_vectors());
        // Held meanwhile: two workers that claim at once would not see each other's turn.
        let mut turns = turns.lock().await;
        loop {
            let work = self.queue.claim(model, LEASE, &turns.passed_over()).await?;
            if let Some(work) = work {
                turns.began(&work.tenant);
                return Ok(Some(work));
            }
            if turns.served.is_empty() {
                return Ok(None);
            }
            turns.served.clear();
        }
    }

    async fn index(&self, work: &IndexWork, worker: &mut WorkerState) -> Result<(), LibraryError> {
        let done = self.read(work, worker);
        if let Some(end) = self.while_ours(work, done).await? {
            let finished = self.queue.finish(work, end);
            self.while_ours(work, finished).await?.transpose()?;
        }
        Ok(())
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
                let task = Task::File { name: work.file_name.clone(), chunking: *chunking };
                let chunks = match self.documents.chunks(&work.tenant, task, content).await {
                    Ok(chunks) => chunks,
                    Err(Unread { why, reason }) => {
                        info!(file = %work.file_id, %reason, "text extraction failed");
                        return Indexed::Failed { why, reason };
                    }
                };
                let texts = chunks.iter().map(|chunk| chunk.text.as_str());
                let vectors = self.vectors(texts, worker).await;
                Indexed::Chunks { chunks, vectors }
            }
            IndexTask::Embed { chunks } => {
                match self.vectors(chunks.iter().map(String::as_str), worker).await {
                    Some(vectors) => Indexed::Vectors(vectors),
                    None => Indexed::NotNow(WITHOUT_VECTORS),
                }
            }
        }
    }

    /// Returns the vectors of these chunks, if a model is configured and available.
    async fn vectors<'a>(
        &self,
        texts: impl Iterator<Item = &'a str>,
        worker: &mut WorkerState,
    ) -> Option<Vectors> {
        let model = self.analyzer.model().filter(|_| worker.wants_vectors())?.to_owned();
        let texts: Vec<&str> = texts.collect();
        match self.analyzer.vectors(&texts).await {
            Ok(vectors) => Some(Vectors { model, vectors }),
            Err(cause) => {
                warn!(%cause, "embeddings unavailable, files indexed for full-text search only");
                worker.no_vectors_until = Some(Instant::now() + WITHOUT_VECTORS);
                None
            }
        }
    }
}

partial_debug!(Indexer { documents });

#[cfg(test)]
#[path = "indexer_tests.rs"]
mod tests;
