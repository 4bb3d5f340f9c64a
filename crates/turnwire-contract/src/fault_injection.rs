//! Faults that a test build injects on purpose.
//!
//! The torture harness checks guarantees. To show that it detects violations, each guarantee can be
//! broken in a special build (`TURNWIRE_SEEDED_FAULTS=1 cargo build`), and the harness must report
//! it. In every other build [`is_injected`] is a constant `false`, and the compiler removes the
//! faults.

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
    /// All faults.
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

/// Whether this process injects `fault`. Always false in a normal build.
#[cfg(not(seeded_faults))]
#[inline]
pub const fn is_injected(_fault: Fault) -> bool {
    false
}

/// Whether this process injects `fault`, as named by `TURNWIRE_SEEDED_FAULT`.
#[cfg(seeded_faults)]
pub fn is_injected(fault: Fault) -> bool {
    static NAME: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    #[expect(clippy::disallowed_methods, reason = "only in a build made for tests")]
    let named = NAME.get_or_init(|| std::env::var("TURNWIRE_SEEDED_FAULT").ok());
    named.as_deref() == Some(fault.name())
}
