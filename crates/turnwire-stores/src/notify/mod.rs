//! What workers on one database tell each other: that a run has grown, and that there is
//! something to do.
//!
//! News makes things fast and nothing else: whoever misses some finds out from the database a
//! little later. So it may be dropped, and what it says is checked.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::database::Database;

pub(crate) mod postgres;
pub(crate) mod redis;
mod signature;

pub(crate) use redis::Publisher;

/// This worker's end of the news.
pub(crate) struct Notifier {
    work: Arc<Notify>,
    transport: Transport,
}

/// How others are told.
pub(crate) enum Transport {
    /// There are no others.
    None,
    /// By `NOTIFY`.
    Postgres(Arc<dyn Database>),
    /// By `PUBLISH`.
    Redis(Publisher),
}

impl Notifier {
    /// News over `transport`; whoever hears of something to do rings `work`.
    pub(crate) fn over(transport: Transport, work: Arc<Notify>) -> Self {
        Self { work, transport }
    }

    /// Tells all workers, this one too, that there is a wish or a run to claim.
    pub(crate) async fn notify_work(&self) {
        self.work.notify_one();
        match &self.transport {
            Transport::None => {}
            Transport::Postgres(database) => postgres::notify_work(&**database).await,
            Transport::Redis(publisher) => publisher.notify_work(),
        }
    }

    /// Waits until there may be a wish or a run to claim.
    pub(crate) async fn work(&self) {
        self.work.notified().await;
    }
}
