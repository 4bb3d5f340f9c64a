//! Notifications between workers on one database: a run has grown, or there is work.
//!
//! Notifications only reduce latency. A worker that misses one finds the change in the database
//! later. So they may be dropped, and their content is verified.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::database::Database;

pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod signature;

pub(crate) use redis::Publisher;

/// This worker's end of the notifications.
pub(crate) struct Notifier {
    work: Arc<Notify>,
    transport: Transport,
}

/// How notifications are sent.
pub(crate) enum Transport {
    /// There are no other workers.
    None,
    /// By `NOTIFY`.
    Postgres(Arc<dyn Database>),
    /// By `PUBLISH`.
    Redis(Publisher),
}

impl Notifier {
    /// Sends over `transport`; received work notifications wake `work`.
    pub(crate) fn over(transport: Transport, work: Arc<Notify>) -> Self {
        Self { work, transport }
    }

    /// Notifies all workers, including this one, of a pending command or a run to claim.
    pub(crate) async fn notify_work(&self) {
        self.work.notify_one();
        match &self.transport {
            Transport::None => {}
            Transport::Postgres(database) => postgres::notify_work(&**database).await,
            Transport::Redis(publisher) => publisher.notify_work(),
        }
    }

    /// Waits until there may be a pending command or a run to claim.
    pub(crate) async fn work(&self) {
        self.work.notified().await;
    }
}
