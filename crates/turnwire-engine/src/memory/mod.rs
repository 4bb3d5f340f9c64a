//! In-memory journal, run store and blob store, for embedding, development and tests.
//!
//! They behave like the database stores but are not durable. The oldest finished runs and blobs are
//! deleted above a count and a size limit, so that memory does not grow with every run.
//! Conversations are never deleted; a program with an unbounded number of them needs another store.

mod api_keys;
mod audit;
mod blobs;
mod journal;
mod pins;
mod run_store;
mod shares;

use std::{collections::VecDeque, io};

use serde::Serialize;
use turnwire_contract::RunId;

pub use api_keys::MemoryApiKeys;
pub use audit::MemoryAuditLog;
pub use blobs::MemoryBlobStore;
pub use journal::MemoryJournal;
pub use pins::MemoryPins;
pub use run_store::MemoryRunStore;
pub use shares::MemoryShares;

/// Default number of finished runs to keep.
const FINISHED_RUNS_KEPT: usize = 1_000;

/// Default total size of finished runs, and of blobs. The latest one is kept whatever its size.
const MAX_FINISHED_BYTES: usize = 256 * 1024 * 1024;

/// Finished runs with their sizes, oldest first.
#[derive(Debug)]
struct FinishedRuns {
    runs: VecDeque<(RunId, usize)>,
    n_bytes: usize,
    max_runs: usize,
    max_bytes: usize,
}

impl FinishedRuns {
    fn keeping(max_runs: usize) -> Self {
        Self { runs: VecDeque::new(), n_bytes: 0, max_runs, max_bytes: MAX_FINISHED_BYTES }
    }

    /// Adds a finished run and returns the runs to delete.
    fn add(&mut self, run_id: RunId, n_bytes: usize) -> Vec<RunId> {
        self.runs.push_back((run_id, n_bytes));
        self.n_bytes += n_bytes;
        let mut forgotten = Vec::new();
        while self.runs.len() > self.max_runs
            || self.n_bytes > self.max_bytes && self.runs.len() > 1
        {
            let Some((run_id, n_bytes)) = self.runs.pop_front() else { break };
            self.n_bytes -= n_bytes;
            forgotten.push(run_id);
        }
        forgotten
    }

    fn remove(&mut self, run_id: &RunId) {
        // From the end: a run that is not stored is deleted when it has just finished.
        if let Some(at) = self.runs.iter().rposition(|(known, _)| known == run_id)
            && let Some((_, n_bytes)) = self.runs.remove(at)
        {
            self.n_bytes -= n_bytes;
        }
    }
}

/// Returns the length of the JSON form without allocating it.
fn json_length(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // A value that cannot be serialized counts as 0.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
