//! Concurrency limits per tool and per tool server, in this process. A call without a permit waits
//! before it starts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnwire_contract::ToolSpec;

use crate::sync::lock;

/// Semaphores by tool and by server, and by their size: settings may change it. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Mutex<Semaphores>>);

type Semaphores = HashMap<(String, u32), Arc<Semaphore>>;

/// All permits of one call, released on drop.
pub(crate) type Permits = Vec<OwnedSemaphorePermit>;

impl ConcurrencyLimits {
    /// Acquires all permits of a call, always in the same order to prevent deadlock.
    pub(crate) async fn permits(&self, spec: &ToolSpec) -> Permits {
        let mut permits = Vec::new();
        for lane in self.needed(spec) {
            // The semaphore is never closed.
            permits.extend(lane.acquire_owned().await);
        }
        permits
    }

    fn needed(&self, spec: &ToolSpec) -> Vec<Arc<Semaphore>> {
        let server = spec.server.as_deref().unwrap_or_default();
        let own_name = spec.reference().own_name().to_owned();
        let of_tool = spec.most_at_once.map(|most| (format!("tool {server} {own_name}"), most));
        let of_server = spec.server_most_at_once.filter(|_| !server.is_empty());
        let of_server = of_server.map(|most| (format!("server {server}"), most));
        let lane = |(name, most): (String, u32)| {
            let size = usize::try_from(most.max(1)).unwrap_or(1).min(Semaphore::MAX_PERMITS);
            let mut concurrency = lock(&self.0);
            Arc::clone(
                concurrency.entry((name, most)).or_insert_with(|| Arc::new(Semaphore::new(size))),
            )
        };
        of_tool.into_iter().chain(of_server).map(lane).collect()
    }
}
