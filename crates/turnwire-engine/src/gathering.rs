//! How long the parts of an answer wait for those that follow: what Kafka calls `linger.ms`, chosen
//! by the number of answers in progress.
//!
//! Every append wakes the writer, the readers and their connections, however little it appends. So
//! a node that streams many answers appends to each of them less often, and the parts that arrive
//! in between share a row, a commit and a write. A node with few answers appends every part at
//! once, and so does every node with the first part of an answer.
//!
//! While several tenants use the node, the window of a tenant with very many answers grows beyond
//! the bound. Those of the others do not.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use turnwire_contract::TenantId;

use crate::sync::lock;

/// Default of [`EngineParts::max_gathering`](crate::EngineParts::max_gathering): two parts of an
/// ordinary model share an append.
pub(crate) const MAX_GATHERING: Duration = Duration::from_millis(40);

/// How much every answer in progress adds to the window. Until the window reaches its bound, a node
/// makes at most 10,000 appends per second.
const PER_ANSWER: Duration = Duration::from_micros(100);

/// A shorter window counts as zero: tokio's timers have a resolution of one millisecond.
const SHORTEST: Duration = Duration::from_millis(1);

/// If several tenants share the node, the window of one may be this many times the bound.
const LOUDEST: u32 = 6;

/// A tenant counts as using the node while it has an answer, and for this long after its last
/// answer began.
const PRESENT: Duration = Duration::from_mins(1);

/// The answers that are streamed now, and the window between two appends to one of them.
#[derive(Debug)]
pub(crate) struct Gathering {
    longest: Duration,
    n_answers: AtomicU32,
    /// Whether several tenants use the node.
    is_shared: AtomicBool,
    tenants: Mutex<Tenants>,
}

#[derive(Debug)]
struct Tenants {
    by_id: HashMap<TenantId, Present>,
    swept_at: Instant,
}

/// A tenant that uses the node.
#[derive(Debug)]
struct Present {
    n_answers: Arc<AtomicU32>,
    began_at: Instant,
}

impl Gathering {
    /// Creates a window of at most `longest`. Zero disables it.
    pub(crate) fn up_to(longest: Duration) -> Self {
        let tenants = Tenants { by_id: HashMap::new(), swept_at: Instant::now() };
        Self {
            longest,
            n_answers: AtomicU32::new(0),
            is_shared: AtomicBool::new(false),
            tenants: Mutex::new(tenants),
        }
    }

    /// Counts an answer for `tenant` as long as the result exists.
    pub(crate) fn begin(self: &Arc<Self>, tenant: &TenantId) -> CountedAnswer {
        let (of_tenant, n_tenants) = lock(&self.tenants).begin(tenant);
        self.is_shared.store(n_tenants > 1, Ordering::Relaxed);
        self.n_answers.fetch_add(1, Ordering::Relaxed);
        CountedAnswer { gathering: Arc::clone(self), of_tenant }
    }
}

impl Tenants {
    /// Counts an answer. Returns the count of the tenant, and how many tenants there are.
    fn begin(&mut self, tenant: &TenantId) -> (Arc<AtomicU32>, usize) {
        let now = Instant::now();
        // Not at every answer: there may be very many tenants.
        if now.duration_since(self.swept_at) >= PRESENT {
            self.swept_at = now;
            self.by_id.retain(|_, present| {
                present.n_answers.load(Ordering::Relaxed) > 0
                    || now.duration_since(present.began_at) < PRESENT
            });
        }
        let usual = || Present { n_answers: Arc::default(), began_at: now };
        let present = self.by_id.entry(tenant.clone()).or_insert_with(usual);
        present.began_at = now;
        present.n_answers.fetch_add(1, Ordering::Relaxed);
        (Arc::clone(&present.n_answers), self.by_id.len())
    }
}

/// An answer that is streamed.
#[derive(Debug)]
pub(crate) struct CountedAnswer {
    gathering: Arc<Gathering>,
    /// The answers of the same tenant.
    of_tenant: Arc<AtomicU32>,
}

impl CountedAnswer {
    /// Returns the time between two appends to this answer.
    pub(crate) fn window(&self) -> Duration {
        let Gathering { longest, n_answers, is_shared, .. } = &*self.gathering;
        let window = PER_ANSWER.saturating_mul(n_answers.load(Ordering::Relaxed)).min(*longest);
        if window < SHORTEST {
            return Duration::ZERO;
        }
        if !is_shared.load(Ordering::Relaxed) {
            return window;
        }
        let own = PER_ANSWER.saturating_mul(self.of_tenant.load(Ordering::Relaxed));
        own.min(longest.saturating_mul(LOUDEST)).max(window)
    }
}

impl Drop for CountedAnswer {
    fn drop(&mut self) {
        self.gathering.n_answers.fetch_sub(1, Ordering::Relaxed);
        self.of_tenant.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "gathering_tests.rs"]
mod tests;
