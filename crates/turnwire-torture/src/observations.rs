//! Observations from outside: by clients, by readers, and by the fault injector.
//!
//! They are recorded during the test and checked at the end by the [checker](crate::checker). A
//! frame is stored as its id and the hash of its bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use turnwire_contract::{CallId, RecordedEvent, RunId};

/// Microseconds since 1970, by the clock shared with the nodes.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Hashes the bytes of a frame.
pub fn fingerprint(bytes: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.as_bytes());
    hasher.finish()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Surface {
    /// `/v1/responses`, numbered by `sequence_number`.
    Responses,
    /// `/v1/runs/{id}/events`, numbered by `seq`.
    Runs,
    /// `/chat/stream` with tokens and approvals, numbered by event and frame.
    Chat,
    /// `/v1/runs/{id}/stream` in the Durable Streams protocol, numbered by `seq`.
    DurableStream,
    /// `/ai-sdk/chat/{id}/stream`, numbered by chunk.
    AiSdk,
    /// `/ag-ui/runs/{id}`, numbered by frame.
    AgUi,
}

impl Surface {
    pub const ALL: [Self; 6] =
        [Self::Responses, Self::Runs, Self::Chat, Self::DurableStream, Self::AiSdk, Self::AgUi];

    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Responses => "responses",
            Self::Runs => "runs",
            Self::Chat => "chat",
            Self::DurableStream => "durable_stream",
            Self::AiSdk => "ai_sdk",
            Self::AgUi => "ag_ui",
        }
    }

    /// Whether a stream of this surface ends when only people are awaited.
    pub fn ends_for_people(self) -> bool {
        matches!(self, Self::AiSdk | Self::AgUi)
    }
}

/// The id of a frame on its surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameId {
    /// Seq of the event, or the number of the frame where frames are numbered.
    pub seq: u64,
    /// Index of the frame among those of one event.
    pub index: u32,
}

impl FrameId {
    /// Creates the id of a frame on a surface with one number.
    pub fn at(seq: u64) -> Self {
        Self { seq, index: 0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedFrame {
    pub frame_id: FrameId,
    /// Hash of its bytes.
    pub fingerprint: u64,
}

/// What one reader received of one run from its start, over all connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub run_id: RunId,
    pub surface: Surface,
    /// Every frame, in order of arrival.
    pub seen: Vec<ReceivedFrame>,
    /// Whether the last frame of the stream arrived.
    pub ended: bool,
    pub n_connections: u32,
    /// Number of comments in the stream.
    pub n_comments: u32,
    /// The latest error response to the reader.
    pub refused: Option<String>,
}

impl View {
    /// Creates an empty view.
    pub fn new(run_id: RunId, surface: Surface) -> Self {
        let (seen, ended, refused) = (Vec::new(), false, None);
        Self { run_id, surface, seen, ended, n_connections: 0, n_comments: 0, refused }
    }
}

/// A request that was retried until a node accepted it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SubmittedRequest {
    /// Name of its shape.
    pub shape: &'static str,
    /// The runs that nodes returned for its key; must be one.
    pub run_ids: BTreeSet<RunId>,
    /// The last text of the model's script.
    pub answer: String,
    /// Whether the run is cancelled.
    pub is_cancelled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    pub run_id: RunId,
    /// Time of the first request.
    pub asked_at: i64,
    /// Time when a node accepted it.
    pub taken_at: Option<i64>,
    /// Time when a node first responded that there is nothing to cancel.
    pub refused_at: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub run_id: RunId,
    pub call_id: CallId,
    /// Whether a node accepted it.
    pub taken: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// A node was killed.
    Kill,
    /// A node was stopped for longer than its lease, and resumed.
    Stop,
    /// A node was terminated with SIGTERM.
    Term,
    /// The database was killed.
    StoreKill,
    /// The database was frozen for a while.
    StoreFreeze,
    RedisFlush,
    RedisKill,
    /// Foreign messages were published on all channels.
    RedisNoise,
    /// The response to a commit was lost.
    CutAfterCommit,
    /// All database connections of a node were cut.
    Cut,
    /// A node's database connections stalled.
    BlackHole,
    /// Not injected: the machine stalled, and so perhaps a node.
    Stall,
}

impl FaultKind {
    /// Returns a short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::Stop => "SIGSTOP, SIGCONT",
            Self::Term => "SIGTERM",
            Self::StoreKill => "store kill -9",
            Self::StoreFreeze => "store frozen",
            Self::RedisFlush => "redis flushed",
            Self::RedisKill => "redis kill -9",
            Self::RedisNoise => "redis noise",
            Self::CutAfterCommit => "answer of a commit lost",
            Self::Cut => "store connections cut",
            Self::BlackHole => "store connections silent",
            Self::Stall => "the machine stood still",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InjectedFault {
    pub kind: FaultKind,
    /// The affected node; `None` means all.
    pub node: Option<usize>,
    /// Start time.
    pub at: i64,
    /// End time.
    pub until: i64,
    /// The runs that the node executed at that time.
    pub owned: Vec<RunId>,
}

/// Other counts during the test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Responses by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests without a response.
    pub n_lost: u64,
    /// Responses 503 without `Retry-After`.
    pub n_without_retry_after: u64,
    /// Statuses above 500 other than 503, with the request.
    pub server_errors: Vec<String>,
    /// Requests that no node accepted for a long time.
    pub given_up: Vec<String>,
    /// Conversations reported busy after the end of their run.
    pub n_busy_after_end: u64,
    /// Inconsistencies in a snapshot of the database.
    pub torn: Vec<String>,
    /// Appends rejected by fencing, from the nodes' metrics; by node and start.
    pub fenced: BTreeMap<(usize, u32), u64>,
    /// Nodes that did not exit properly on SIGTERM.
    pub bad_exits: Vec<String>,
}

/// Shared recorder of observations. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Observations>>);

impl Recorder {
    /// Locks the observations for writing.
    pub fn write(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(&self) -> Observations {
        std::mem::take(&mut *self.write())
    }
}

#[derive(Debug, Default)]
pub struct Observations {
    /// Requests by key.
    pub submitted: BTreeMap<String, SubmittedRequest>,
    /// What each reader received.
    pub views: Vec<View>,
    pub cancels: Vec<Cancel>,
    pub approvals: Vec<Approval>,
    pub faults: Vec<InjectedFault>,
    /// Journals reported by a node right after the run, for nodes that store runs in memory.
    pub reported: BTreeMap<RunId, ReportedRun>,
    pub tally: Tally,
}

/// A finished run as reported by a node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReportedRun {
    /// Its events, in order of arrival.
    pub journal: Vec<RecordedEvent>,
    pub response: Value,
}
