//! Whether a key or token that was proven is in use, and what is to end with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio_util::sync::CancellationToken;
use turnwire_contract::Timestamp;

/// How long something without an open request is remembered.
const KEPT_FOR: Duration = Duration::from_mins(10);

/// The requests of one key or token.
#[derive(Debug)]
pub(super) struct InUse {
    /// Cancelled when the key or token ends.
    ended: CancellationToken,
    /// Held by every open request.
    open: Arc<()>,
    /// Time of the last use, in microseconds.
    used_at: AtomicI64,
}

/// Whether the key or token of an open request is still valid.
#[derive(Debug, Clone)]
pub(crate) struct Validity {
    ended: CancellationToken,
    _open: Arc<()>,
}

impl InUse {
    pub(super) fn new(now: Timestamp) -> Self {
        let used_at = AtomicI64::new(now.as_micros());
        Self { ended: CancellationToken::new(), open: Arc::default(), used_at }
    }

    /// Begins a request. Its token is a child, so that many requests of one key do not contend.
    pub(super) fn begin(&self, now: Timestamp) -> Validity {
        self.used_at.store(now.as_micros(), Ordering::Relaxed);
        Validity { ended: self.ended.child_token(), _open: Arc::clone(&self.open) }
    }

    pub(super) fn used_at(&self) -> Timestamp {
        Timestamp::from_micros(self.used_at.load(Ordering::Relaxed))
    }

    pub(super) fn is_open(&self) -> bool {
        Arc::strong_count(&self.open) > 1
    }

    /// Whether it can be forgotten.
    pub(super) fn is_idle(&self, now: Timestamp) -> bool {
        now.since(self.used_at()) >= KEPT_FOR && !self.is_open()
    }

    /// Ends all its requests.
    pub(super) fn end(&self) {
        self.ended.cancel();
    }
}

impl Validity {
    /// For a request that ends when `ended` is cancelled.
    pub(super) fn until(ended: &CancellationToken) -> Self {
        Self { ended: ended.child_token(), _open: Arc::default() }
    }

    /// Waits until the key or token is revoked or expires.
    pub(crate) async fn ended(self) {
        self.ended.cancelled().await;
    }
}
