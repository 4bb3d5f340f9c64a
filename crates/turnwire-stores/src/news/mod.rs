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
pub(crate) struct News {
    to_do: Arc<Notify>,
    way: Way,
}

/// How others are told.
pub(crate) enum Way {
    /// There are no others.
    Alone,
    /// By `NOTIFY`.
    Postgres(Arc<dyn Database>),
    /// By `PUBLISH`.
    Redis(Publisher),
}

impl News {
    /// News over `way`; whoever hears of something to do rings `to_do`.
    pub(crate) fn over(way: Way, to_do: Arc<Notify>) -> Self {
        Self { to_do, way }
    }

    /// Tells all workers, this one too, that there is a wish or a run to claim.
    pub(crate) async fn tell_to_do(&self) {
        self.to_do.notify_one();
        match &self.way {
            Way::Alone => {}
            Way::Postgres(database) => postgres::tell_to_do(&**database).await,
            Way::Redis(publisher) => publisher.tell_to_do(),
        }
    }

    /// Waits until there may be a wish or a run to claim.
    pub(crate) async fn to_do(&self) {
        self.to_do.notified().await;
    }
}
