//! Notifications by PostgreSQL: `NOTIFY` carries the runs that have grown and their heads. The
//! events are read from the journal.

use std::{sync::Arc, time::Duration};

use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions},
};
use tokio::{sync::Notify, time::sleep};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{RunId, Seq};

use crate::{
    database::{Database, values},
    follower::Follower,
    live_tails::LiveTails,
    outage::{Availability, Backoff},
};

/// Channel for runs that have grown.
pub(crate) const GROWN: &str = "turnwire_grown";

const WORK: &str = "turnwire_to_do";

/// PostgreSQL limits a payload to less than 8000 bytes.
const LONGEST: usize = 7_900;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Encodes `runs` into as few payloads as possible: a line with the `sender`, then a line `run seq`
/// for each run.
pub(crate) fn payloads<'a>(
    sender: &str,
    runs: impl Iterator<Item = (&'a RunId, Seq)>,
) -> Vec<String> {
    let mut payloads: Vec<String> = Vec::new();
    for (run_id, head) in runs {
        let line = format!("{run_id} {head}\n");
        match payloads.last_mut() {
            Some(last) if last.len() + line.len() <= LONGEST => last.push_str(&line),
            _ if sender.len() + line.len() < LONGEST => payloads.push(format!("{sender}\n{line}")),
            // No real run id is this long; its readers poll.
            _ => {}
        }
    }
    payloads
}

/// Notifies all workers that there is work.
pub(crate) async fn notify_work(database: &dyn Database) {
    let told = database.query("select pg_notify($1, '')::text", &values![WORK]).await;
    if let Err(error) = told {
        tracing::debug!("work notification failed: {error}");
    }
}

/// The task that listens until stopped.
pub(crate) struct ListenTask {
    /// This worker's name in payloads.
    pub(crate) sender: String,
    pub(crate) options: PgConnectOptions,
    pub(crate) tails: Arc<LiveTails>,
    pub(crate) follower: Arc<Follower>,
    pub(crate) work: Arc<Notify>,
    pub(crate) outage: Arc<Availability>,
}

impl ListenTask {
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.go_on()).await;
    }

    async fn go_on(&self) {
        let mut backoff = Backoff::default();
        loop {
            match self.connect().await {
                Ok(mut listener) => {
                    backoff = Backoff::default();
                    self.outage.mark_up();
                    self.follower.set_notified(true);
                    self.look_at_all();
                    let error = self.listen(&mut listener).await;
                    self.follower.set_notified(false);
                    self.outage.mark_down(&error.to_string());
                }
                Err(error) => self.outage.mark_down(&error.to_string()),
            }
            sleep(backoff.next_pause()).await;
        }
    }

    /// Creates a new pool each time: a hanging connection would occupy the old one.
    async fn connect(&self) -> Result<PgListener, sqlx::Error> {
        let pool: PgPool = PgPoolOptions::new()
            .max_connections(1)
            .acquire_timeout(CONNECT_TIMEOUT)
            .connect_lazy_with(self.options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.eager_reconnect(false);
        listener.listen_all([GROWN, WORK]).await?;
        Ok(listener)
    }

    async fn listen(&self, listener: &mut PgListener) -> sqlx::Error {
        loop {
            match listener.try_recv().await {
                Ok(Some(notifier)) => self.receive(&notifier),
                Ok(None) => return sqlx::Error::PoolClosed,
                Err(error) => return error,
            }
        }
    }

    fn receive(&self, notifier: &PgNotification) {
        if notifier.channel() == WORK {
            self.work.notify_one();
            return;
        }
        let mut lines = notifier.payload().lines();
        if lines.next() == Some(&*self.sender) {
            // This process knows what it wrote.
            return;
        }
        for line in lines {
            let Some((run_id, head)) = line.rsplit_once(' ') else { continue };
            let (run_id, Ok(head)) = (RunId::from(run_id), head.parse()) else { continue };
            if self.tails.misses(&run_id, Seq(head)) {
                self.follower.look_at(run_id);
            }
        }
    }

    /// Notifications sent while disconnected are lost, so all runs are read.
    fn look_at_all(&self) {
        for (run_id, _) in self.tails.followed() {
            self.follower.look_at(run_id);
        }
        self.work.notify_one();
    }
}
