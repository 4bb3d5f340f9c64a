//! What was seen from outside: by clients, by readers, and by whoever did the damage.
//!
//! Everything is written down as it happens and judged only at the end, by the
//! [checker](crate::checker). A frame is kept as its number and the hash of its bytes.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::Value;
use turnwire_contract::{CallId, RecordedEvent, RunId};

/// Microseconds since 1970, by the clock that the nodes of this machine share with us.
pub fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// The fingerprint of a frame's bytes.
pub fn fingerprint(bytes: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes.as_bytes());
    hasher.finish()
}

/// A way to watch a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Surface {
    /// `/v1/responses`, numbered by `sequence_number`.
    Responses,
    /// `/v1/runs/{id}/events`, numbered by `seq`.
    Runs,
    /// `/chat/stream` with tokens and approvals, numbered by event and frame.
    Chat,
}

/// The number of a frame on its surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The event, or the number of the frame where frames are counted.
    pub seq: u64,
    /// The frame among those of one event.
    pub index: u32,
}

impl Place {
    /// A frame on a surface that counts with one number.
    pub fn at(seq: u64) -> Self {
        Self { seq, index: 0 }
    }
}

/// A frame that somebody saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub place: Place,
    /// Its bytes, in short.
    pub fingerprint: u64,
}

/// What one reader saw of one run, over all of its connections. It begins at the beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The run.
    pub run_id: RunId,
    /// The way it was watched.
    pub surface: Surface,
    /// Every frame, in the order it came.
    pub seen: Vec<Seen>,
    /// Whether the frame came that ends the stream.
    pub ended: bool,
    /// How often the reader connected.
    pub n_connections: u32,
    /// How many comments came in between.
    pub n_comments: u32,
    /// What the server said when it last turned the reader away.
    pub refused: Option<String>,
}

impl View {
    /// A reader that has seen nothing yet.
    pub fn new(run_id: RunId, surface: Surface) -> Self {
        let (seen, ended, refused) = (Vec::new(), false, None);
        Self { run_id, surface, seen, ended, n_connections: 0, n_comments: 0, refused }
    }
}

/// A request that was made until somebody took it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// What kind of run.
    pub shape: &'static str,
    /// The runs that the servers named for its key; one, if all is well.
    pub run_ids: BTreeSet<RunId>,
    /// What the model says last.
    pub answer: String,
    /// Whether somebody cancels the run.
    pub is_cancelled: bool,
}

/// A cancel that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// The run.
    pub run_id: RunId,
    /// When it was asked for first.
    pub asked_at: i64,
    /// When a server had taken it.
    pub taken_at: Option<i64>,
    /// When a server had said first that there was nothing to cancel.
    pub refused_at: Option<i64>,
}

/// An answer about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The run.
    pub run_id: RunId,
    /// The call.
    pub call_id: CallId,
    /// Whether a server said that it was taken.
    pub taken: bool,
}

/// What the nemesis can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Deed {
    /// A node was ended without a word.
    Kill,
    /// A node was stopped for longer than its lease, and woke again.
    Stop,
    /// A node was asked to go.
    Term,
    /// The database was ended without a word.
    StoreKill,
    /// The database was stopped for a while.
    StoreFreeze,
    /// The news server lost everything.
    RedisFlush,
    /// The news server was ended without a word.
    RedisKill,
    /// News of somebody else was told to everybody.
    RedisNoise,
    /// The answer to a commit was lost.
    CutAfterCommit,
    /// All connections of a node to the database were cut.
    Cut,
    /// A node's connections to the database went silent.
    BlackHole,
    /// Nobody's deed: the machine stood still for a moment, for us and so perhaps for a node.
    Stall,
}

impl Deed {
    /// In a few letters.
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

/// Something the nemesis did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// What.
    pub deed: Deed,
    /// To which node; nothing if to all.
    pub node: Option<usize>,
    /// When it began.
    pub at: i64,
    /// When it was over.
    pub until: i64,
    /// The runs that the node worked on at that moment.
    pub owned: Vec<RunId>,
}

/// What went wrong on the way and is no verdict by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Answers by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Requests that got no answer.
    pub n_lost: u64,
    /// 503 without a `Retry-After`.
    pub n_without_retry_after: u64,
    /// Statuses above 500 that are not 503, with what was asked.
    pub server_errors: Vec<String>,
    /// Requests that nobody took for a long time.
    pub given_up: Vec<String>,
    /// Conversations that were busy although their run was over.
    pub n_busy_after_end: u64,
    /// What a snapshot of the database showed that must never be.
    pub torn: Vec<String>,
    /// Writers that were turned away, as the nodes count them; by node and start.
    pub fenced: BTreeMap<(usize, u32), u64>,
    /// Nodes that did not go as they should when they were asked to.
    pub bad_exits: Vec<String>,
}

/// Everything, while it is being gathered. Clones are the same notes.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Observations>>);

impl Notes {
    /// To write something down.
    pub fn write(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was written down.
    pub fn take(&self) -> Observations {
        std::mem::take(&mut *self.write())
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub struct Observations {
    /// Every request by its key.
    pub asked: BTreeMap<String, Asked>,
    /// Every reader.
    pub views: Vec<View>,
    /// Every cancel.
    pub cancels: Vec<Cancel>,
    /// Every answer about a call.
    pub approvals: Vec<Approval>,
    /// Everything the nemesis did.
    pub acts: Vec<Act>,
    /// Journals as a node told them while it was sure to know them; for nodes that forget.
    pub told: BTreeMap<RunId, Told>,
    /// The rest.
    pub tally: Tally,
}

/// A finished run as a node tells of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Its events, in the order they came.
    pub journal: Vec<RecordedEvent>,
    /// The response it is.
    pub response: Value,
}
