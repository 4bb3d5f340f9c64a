//! Whether the store responds. Probes need no API key, so the result is cached.

use std::time::Duration;

use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use turnwire_engine::Runs;

/// Timeout of the check of the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long the result of a check is cached.
const HOLDS_FOR: Duration = Duration::from_secs(1);

/// Time and result of the last check of the store. Requests during a check wait for its result.
#[derive(Debug, Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, bool)>>);

impl Readiness {
    pub(crate) async fn of(&self, runs: &Runs) -> bool {
        let mut known = self.0.lock().await;
        if let Some((asked, is_ready)) = *known
            && asked.elapsed() < HOLDS_FOR
        {
            return is_ready;
        }
        let is_ready = timeout(PATIENCE, runs.is_ready()).await.unwrap_or(false);
        *known = Some((Instant::now(), is_ready));
        is_ready
    }
}
