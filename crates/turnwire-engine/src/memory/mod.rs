//! Journal, runs and big results in memory: for embedded runs, development and tests.
//!
//! They keep the same promises as the databases do, except that nothing outlives the process.
//! Finished runs and big results are forgotten after a while, oldest first, by their number and
//! by their weight, so that a program which embeds an agent does not grow with every run.
//! Conversations are not: a program that has endlessly many brings a store of its own.

mod blobs;
mod journal;
mod pins;
mod run_store;

use std::{collections::VecDeque, io};

use serde::Serialize;
use turnwire_contract::RunId;

pub use blobs::MemoryBlobStore;
pub use journal::MemoryJournal;
pub use pins::MemoryPins;
pub use run_store::MemoryRunStore;

/// How many finished runs are kept unless told otherwise.
const FINISHED_RUNS_KEPT: usize = 1_000;

/// How many bytes finished runs may have together, and big results; the latest is kept whatever
/// it weighs.
const MAX_FINISHED_BYTES: usize = 256 * 1024 * 1024;

/// What is finished, with its weight; what was finished last is at the end.
#[derive(Debug)]
struct Finished {
    runs: VecDeque<(RunId, usize)>,
    n_bytes: usize,
    max_runs: usize,
    max_bytes: usize,
}

impl Finished {
    fn keeping(max_runs: usize) -> Self {
        Self { runs: VecDeque::new(), n_bytes: 0, max_runs, max_bytes: MAX_FINISHED_BYTES }
    }

    /// Takes note of a run that is finished, and tells which ones are to be forgotten for it.
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
        if let Some(seq) = self.runs.iter().position(|(known, _)| known == run_id)
            && let Some((_, n_bytes)) = self.runs.remove(seq)
        {
            self.n_bytes -= n_bytes;
        }
    }
}

/// How long something is as JSON, without writing it.
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
    // What cannot be written weighs nothing; it cannot be kept anywhere else either.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
