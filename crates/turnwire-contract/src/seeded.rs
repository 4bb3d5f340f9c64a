//! Faults that a test build commits on purpose.
//!
//! The torture harness says that nothing went wrong. That is worth something only if it would
//! notice; so each promise that it checks can be broken on purpose, in a build made for that
//! (`TURNWIRE_SEEDED_FAULTS=1 cargo build`), and the harness has to find out. In every other
//! build [`is_seeded`] is `false` before the compiler is done, and nothing of this is left.

/// A promise broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Writes over what another worker wrote at the same place.
    NoFence,
    /// Shows events before they are durable.
    PublishBeforeCommit,
    /// Believes news, and looks for nothing else while it arrives.
    NotificationAsTruth,
    /// Takes the time of a lease from the worker's own clock, which is wrong.
    WorkerClockLease,
    /// Stores what a run leaves behind apart from its end, or not at all.
    EndOutsideTransaction,
    /// Takes a collision for somebody else's without reading who it was.
    NoReadBack,
    /// Takes wishes only while the one who leaves them has the run.
    CancelThroughFence,
    /// Lets a tool work before its start is recorded.
    StartAfterCall,
    /// Believes a tool server that its tool may be called twice.
    TrustAnnotations,
    /// Reads on one place too far.
    CursorOffByOne,
    /// Drops events when a reader is slow.
    DropOnOverflow,
    /// Calls a tool again whose outcome is unknown, whatever that does to the world.
    BlindRetry,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::NoFence,
        Self::PublishBeforeCommit,
        Self::NotificationAsTruth,
        Self::WorkerClockLease,
        Self::EndOutsideTransaction,
        Self::NoReadBack,
        Self::CancelThroughFence,
        Self::StartAfterCall,
        Self::TrustAnnotations,
        Self::CursorOffByOne,
        Self::DropOnOverflow,
        Self::BlindRetry,
    ];

    /// What it is called outside.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoFence => "no_fence",
            Self::PublishBeforeCommit => "publish_before_commit",
            Self::NotificationAsTruth => "redis_as_truth",
            Self::WorkerClockLease => "worker_clock_lease",
            Self::EndOutsideTransaction => "end_outside_transaction",
            Self::NoReadBack => "no_read_back",
            Self::CancelThroughFence => "cancel_through_fence",
            Self::StartAfterCall => "start_after_call",
            Self::TrustAnnotations => "trust_annotations",
            Self::CursorOffByOne => "cursor_off_by_one",
            Self::DropOnOverflow => "drop_on_overflow",
            Self::BlindRetry => "blind_retry",
        }
    }
}

/// Whether this process is to commit `fault`. Never, but in a build made for it.
#[cfg(not(seeded_faults))]
#[inline]
pub const fn is_seeded(_fault: Fault) -> bool {
    false
}

/// Whether this process is to commit `fault`: the one that `TURNWIRE_SEEDED_FAULT` names.
#[cfg(seeded_faults)]
pub fn is_seeded(fault: Fault) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "only in a build made for tests")]
    let named = NAME.get_or_init(|| std::env::var("TURNWIRE_SEEDED_FAULT").ok());
    named.as_deref() == Some(fault.name())
}
