//! Faults that a build of the gateway has on purpose.
//!
//! The checker has to find each of them. They are in no other build: `seeded-faults.patch` beside
//! this crate adds them to a copy of the sources, which `scripts/torture --negative-controls`
//! builds.

/// A guarantee that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Overwrites the event of another worker at the same sequence number.
    NoFence,
    /// Publishes events before they are durable.
    PublishBeforeCommit,
    /// Relies on notifications alone and does not poll while they arrive.
    NotificationAsTruth,
    /// Measures leases with the worker's own clock, which is wrong.
    WorkerClockLease,
    /// Stores the end of a run outside the transaction of its final event.
    EndOutsideTransaction,
    /// Treats a conflict as another worker's write without reading it back.
    NoReadBack,
    /// Accepts commands only while the sender owns the run.
    CancelThroughFence,
    /// Starts a tool before its start is recorded.
    StartAfterCall,
    /// Trusts a tool server's annotation that its tool may be called twice.
    TrustAnnotations,
    /// Skips one event when a stream is resumed.
    CursorOffByOne,
    /// Drops events when a reader is slow.
    DropOnOverflow,
    /// Repeats a call whose outcome is unknown, regardless of its effect class.
    BlindRetry,
}

impl Fault {
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

    /// Name of the fault, as used in `TURNWIRE_SEEDED_FAULT`.
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
