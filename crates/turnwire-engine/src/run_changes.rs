//! The feeds of runs that somebody reads, and what they carry.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex},
};

use tokio::sync::broadcast;
use turnwire_contract::{RunSummary, TenantId};

use crate::sync::lock;

/// What a reader of the feed receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunChange {
    /// The run was created, changed its status or called a tool.
    Run(Arc<RunSummary>),
    /// Some changes were left out: list the runs again.
    Missed,
}

/// A reader of a feed.
pub(crate) type Changes = broadcast::Receiver<RunChange>;

/// The feeds that somebody reads, by tenant.
#[derive(Debug, Default)]
pub(crate) struct RunFeeds(Mutex<HashMap<TenantId, broadcast::Sender<RunChange>>>);

impl RunFeeds {
    /// Opens the feed of a tenant, with room for `queue` changes. Returns whether it is new.
    pub(crate) fn open(&self, tenant: &TenantId, queue: usize) -> (Changes, bool) {
        match lock(&self.0).entry(tenant.clone()) {
            Entry::Occupied(entry) => (entry.get().subscribe(), false),
            Entry::Vacant(entry) => (entry.insert(broadcast::channel(queue).0).subscribe(), true),
        }
    }

    pub(crate) fn subscribe(&self, tenant: &TenantId) -> Option<Changes> {
        lock(&self.0).get(tenant).map(broadcast::Sender::subscribe)
    }

    /// Removes the feed if nobody reads it.
    pub(crate) fn is_unread(&self, tenant: &TenantId) -> bool {
        let mut feeds = lock(&self.0);
        let is_unread = feeds.get(tenant).is_none_or(|feed| feed.receiver_count() == 0);
        if is_unread {
            feeds.remove(tenant);
        }
        is_unread
    }

    pub(crate) fn send(&self, tenant: &TenantId, change: RunChange) {
        if let Some(feed) = lock(&self.0).get(tenant) {
            // Nobody may read it any more.
            let _ = feed.send(change);
        }
    }
}
