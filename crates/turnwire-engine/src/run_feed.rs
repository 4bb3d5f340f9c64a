//! A live feed of the runs of a tenant: which were created, changed their status or called a tool.
//!
//! The readers of one tenant share one task, which asks the store for the runs that changed lately
//! and passes on those that look different than before. The store wakes it after a change by this
//! process. Changes by other workers are found by polling. So the feed costs a query per second and
//! tenant at most, whatever happens in the runs, and nothing while nobody reads.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::{
    sync::broadcast::error::RecvError,
    time::{Instant, sleep, sleep_until},
};
use tracing::debug;
use turnwire_contract::{RunId, RunSummary, TenantId, ports::Result};

use crate::{
    run_changes::{Changes, RunChange},
    runs::{Engine, Runs},
};

/// Polling interval, for changes by other workers.
const POLL: Duration = Duration::from_secs(1);

/// Minimum time between two queries.
const PAUSE: Duration = Duration::from_millis(100);

/// How far back a query looks. Longer than a transaction takes, because changes are dated before
/// they are committed.
const WINDOW: Duration = Duration::from_secs(15);

/// Maximum number of runs per query.
const MAX_CHANGED: usize = 2_000;

/// Number of changes that a slow reader may lag behind.
const QUEUE: usize = 1_024;

impl Runs {
    /// Streams the changes of the runs of `tenant` from now on. A change that is committed after
    /// this returns is in the stream, unless [`RunChange::Missed`] is.
    pub async fn changes(&self, tenant: &TenantId) -> Result<BoxStream<'static, RunChange>> {
        let receiver = match self.0.feeds.subscribe(tenant) {
            Some(receiver) => receiver,
            None => self.start_feed(tenant).await?,
        };
        let changes = stream::unfold(receiver, |mut receiver| async move {
            let change = match receiver.recv().await {
                Ok(change) => change,
                Err(RecvError::Lagged(_)) => RunChange::Missed,
                Err(RecvError::Closed) => return None,
            };
            Some((change, receiver))
        });
        Ok(changes.boxed())
    }

    async fn start_feed(&self, tenant: &TenantId) -> Result<Changes> {
        let known = self.0.parts.store.changed(tenant, WINDOW, MAX_CHANGED).await?;
        let (receiver, is_new) = self.0.feeds.open(tenant, QUEUE);
        if !is_new {
            // Another reader was faster.
            return Ok(receiver);
        }
        let known = known.into_iter().map(|run| (run.run_id.clone(), Arc::new(run))).collect();
        let feed =
            Feed { engine: Arc::downgrade(&self.0), tenant: tenant.clone(), known, missed: false };
        let (stop, leave) = (self.0.stop.clone(), self.0.leave.clone());
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = feed.run() => {}
                () = stop.cancelled() => {}
                () = leave.cancelled() => {}
            }
        });
        Ok(receiver)
    }
}

/// The task behind the feed of one tenant.
struct Feed {
    engine: Weak<Engine>,
    tenant: TenantId,
    /// The runs that changed lately, as last seen.
    known: HashMap<RunId, Arc<RunSummary>>,
    /// Whether a query failed since the last one that succeeded.
    missed: bool,
}

impl Feed {
    async fn run(mut self) {
        let mut polled = Instant::now();
        while let Some(engine) = self.engine.upgrade() {
            tokio::select! {
                () = engine.parts.store.change_noted() => {}
                () = sleep_until(polled + POLL) => {}
            }
            sleep(PAUSE).await;
            if engine.feeds.is_unread(&self.tenant) {
                return;
            }
            polled = Instant::now();
            self.poll(&engine).await;
        }
    }

    async fn poll(&mut self, engine: &Engine) {
        let changed = match engine.parts.store.changed(&self.tenant, WINDOW, MAX_CHANGED).await {
            Ok(changed) => changed,
            Err(error) => {
                debug!(%error, "feed of runs waits for the store");
                self.missed = true;
                return;
            }
        };
        let is_cut = changed.len() >= MAX_CHANGED;
        let (mut known, mut news) = (HashMap::new(), Vec::new());
        // Oldest change first.
        for run in changed.into_iter().rev() {
            let before = self.known.get(&run.run_id).filter(|before| ***before == run);
            let run = before.cloned().unwrap_or_else(|| {
                let run = Arc::new(run);
                news.push(Arc::clone(&run));
                run
            });
            known.insert(run.run_id.clone(), run);
        }
        self.known = known;
        if self.missed || is_cut && !news.is_empty() {
            self.missed = false;
            engine.feeds.send(&self.tenant, RunChange::Missed);
        }
        for run in news {
            engine.feeds.send(&self.tenant, RunChange::Run(run));
        }
    }
}
