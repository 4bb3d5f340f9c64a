//! How many calls of one tool, and of all tools of one server, are carried out at the same time
//! in this process. Those that find no place wait for one, before they are started.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use turnwire_contract::ToolSpec;

use crate::sync::lock;

/// The places there are, by tool and by server. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConcurrencyLimits(Arc<Mutex<HashMap<String, Arc<Semaphore>>>>);

/// A place in every lane that a call needs; given back when it is dropped.
pub(crate) type Permits = Vec<OwnedSemaphorePermit>;

impl ConcurrencyLimits {
    /// Waits for the places that a call of this tool needs. Always in the same order, so that
    /// no two calls can wait for each other.
    pub(crate) async fn permits(&self, spec: &ToolSpec) -> Permits {
        let mut permits = Vec::new();
        for lane in self.needed(spec) {
            // A lane is never closed.
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
            Arc::clone(concurrency.entry(name).or_insert_with(|| Arc::new(Semaphore::new(size))))
        };
        of_tool.into_iter().chain(of_server).map(lane).collect()
    }
}
