//! Notifications by Redis: signed rows, on one channel per run.
//!
//! A worker subscribes to the runs that are read here and written elsewhere. A message is used if
//! its signature is valid and its rows follow the known head; otherwise the journal is read. If
//! Redis is slow, flushed, restarted or unavailable, readers only see events later.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use redis::{
    AsyncConnectionConfig, Client, Msg, RedisError,
    aio::{MultiplexedConnection, PubSubSink, PubSubStream},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use turnwire_contract::{RunId, TenantId};

use super::signature::Secret;
use crate::{
    follower::Follower,
    live_tails::{AddOutcome, LiveTails},
    outage::{Availability, Backoff},
    pages::Page,
    rows::{EventRow, StoredRow},
    sealing::{Place, Sealing},
};

/// Queue length of the publisher. Messages beyond it are dropped; readers then poll the journal.
const QUEUE: usize = 4096;

/// Maximum number of messages per pipeline.
const AT_ONCE: usize = 512;

/// Timeout of a Redis response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Ping interval of an idle connection.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Channel names of one database.
#[derive(Clone)]
pub(crate) struct Channels {
    secret: Secret,
    prefix: String,
}

impl Channels {
    /// Returns the channels of the database with this secret.
    pub(crate) fn of(secret: Secret) -> Self {
        let prefix = format!("turnwire:{}:", secret.database());
        Self { secret, prefix }
    }

    fn of_run(&self, run_id: &RunId) -> String {
        format!("{}{run_id}", self.prefix)
    }

    /// No run has this name.
    fn work(&self) -> String {
        format!("{}:to-do", self.prefix)
    }
}

#[derive(Debug)]
pub(crate) enum Notification {
    Grown { run_id: RunId, rows: Vec<EventRow> },
    Work,
}

/// Handle of the publishing task.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    notifications: mpsc::Sender<Notification>,
}

impl Publisher {
    /// Returns a publisher and the receiver of its queue.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Notification>) {
        let (notifications, received) = mpsc::channel(QUEUE);
        (Self { notifications }, received)
    }

    /// Queues rows for the followers of the run. Never waits.
    pub(crate) fn publish(&self, run_id: RunId, rows: Vec<EventRow>) {
        let _ = self.notifications.try_send(Notification::Grown { run_id, rows });
    }

    /// Queues a work notification for all workers. Never waits.
    pub(crate) fn notify_work(&self) {
        let _ = self.notifications.try_send(Notification::Work);
    }
}

/// The task that publishes queued messages.
pub(crate) struct PublishTask {
    pub(crate) client: Client,
    pub(crate) channels: Channels,
    pub(crate) notifications: mpsc::Receiver<Notification>,
    pub(crate) outage: Arc<Availability>,
}

impl PublishTask {
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled_owned(self.go_on()).await;
    }

    async fn go_on(mut self) {
        let (mut connection, mut notifications) = (None, Vec::new());
        while self.notifications.recv_many(&mut notifications, AT_ONCE).await > 0 {
            let published = self.publish(&mut connection, &notifications).await;
            notifications.clear();
            if let Err(error) = published {
                self.outage.mark_down(&error.to_string());
                connection = None;
            }
        }
    }

    async fn publish(
        &self,
        connection: &mut Option<MultiplexedConnection>,
        notifications: &[Notification],
    ) -> Result<(), RedisError> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.connect().await?),
        };
        let mut pipeline = redis::pipe();
        for notification in notifications {
            match notification {
                Notification::Grown { run_id, rows } => {
                    let signed = self.channels.secret.sign(run_id.as_str(), &encode_rows(rows));
                    pipeline.publish(self.channels.of_run(run_id), signed).ignore()
                }
                Notification::Work => pipeline.publish(self.channels.work(), "").ignore(),
            };
        }
        pipeline.query_async(connection).await
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(RESPONSE_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

/// Encodes rows as a list of `[first, last, body]`.
fn encode_rows(rows: &[EventRow]) -> Vec<u8> {
    let rows: Vec<(i64, i64, &str)> =
        rows.iter().map(|row| (row.first, row.last, row.body.as_str())).collect();
    serde_json::to_vec(&rows).unwrap_or_default()
}

/// Decodes the events of a message, or returns `None` if it is malformed, or encrypted with a key
/// that is not in memory.
fn decode_page(sealing: &Sealing, tenant: &TenantId, run_id: &RunId, body: &[u8]) -> Option<Page> {
    let rows: Vec<(i64, i64, String)> = serde_json::from_slice(body).ok()?;
    let mut page = Page::default();
    for (first, last, body) in &rows {
        let plain = sealing.open_cached(tenant, Place::events(run_id, *first), body)?;
        let row = StoredRow { first: *first, last: *last, kind: "", call: None, body: &plain };
        // What a long request or list of tools has in common with others is not in its row.
        if row.shared_ids().is_some() {
            return None;
        }
        let events = row.decoded(run_id).ok()?;
        if row.catalogue(&events).is_some() {
            return None;
        }
        page.add_events(events, body.len());
    }
    let places = page.events.iter().map(|recorded| recorded.seq);
    places.clone().zip(places.skip(1)).all(|(one, next)| one.next() == next).then_some(page)
}

/// Subscribes to the runs that are followed here.
pub(crate) struct SubscribeTask {
    pub(crate) client: Client,
    pub(crate) channels: Channels,
    pub(crate) tails: Arc<LiveTails>,
    pub(crate) sealing: Arc<Sealing>,
    pub(crate) follower: Arc<Follower>,
    pub(crate) work: Arc<Notify>,
    pub(crate) outage: Arc<Availability>,
}

impl SubscribeTask {
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.go_on()).await;
    }

    async fn go_on(&self) {
        let mut backoff = Backoff::default();
        loop {
            let Err(error) = self.listen(&mut backoff).await;
            self.follower.set_notified(false);
            self.outage.mark_down(&error.to_string());
            // All subscriptions are made again when Redis is back.
            self.tails.take_changes();
            sleep(backoff.next_pause()).await;
        }
    }

    async fn listen(&self, backoff: &mut Backoff) -> Result<std::convert::Infallible, RedisError> {
        let (mut sink, mut stream) = in_time(self.client.get_async_pubsub()).await?.split();
        in_time(sink.subscribe(self.channels.work())).await?;
        self.tails.take_changes();
        let followed = self.tails.followed().into_iter().map(|(run_id, _)| (run_id, true));
        self.change(&mut sink, followed.collect()).await?;
        *backoff = Backoff::default();
        self.outage.mark_up();
        self.follower.set_notified(true);
        self.work.notify_one();
        self.receive_all(&mut sink, &mut stream).await
    }

    async fn receive_all(
        &self,
        sink: &mut PubSubSink,
        stream: &mut PubSubStream,
    ) -> Result<std::convert::Infallible, RedisError> {
        let mut pings = interval(PING_INTERVAL);
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => self.receive(&message),
                    None => return Err(lost("the connection is closed")),
                },
                () = self.tails.changed() => {
                    self.change(sink, self.tails.take_changes()).await?;
                }
                _ = pings.tick() => {
                    in_time(sink.ping::<redis::Value>()).await?;
                }
            }
        }
    }

    /// Updates the subscriptions and reads new runs, which may have grown before.
    async fn change(
        &self,
        sink: &mut PubSubSink,
        changes: HashMap<RunId, bool>,
    ) -> Result<(), RedisError> {
        let (wanted, unwanted): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(_, is_followed)| *is_followed);
        let names = |runs: &[(RunId, bool)]| -> Vec<String> {
            runs.iter().map(|(run_id, _)| self.channels.of_run(run_id)).collect()
        };
        for some in unwanted.chunks(AT_ONCE) {
            in_time(sink.unsubscribe(names(some))).await?;
        }
        for some in wanted.chunks(AT_ONCE) {
            in_time(sink.subscribe(names(some))).await?;
        }
        for (run_id, _) in wanted {
            self.follower.look_at(run_id);
        }
        Ok(())
    }

    fn receive(&self, message: &Msg) {
        let Some(name) = message.get_channel_name().strip_prefix(&self.channels.prefix) else {
            return;
        };
        if name == ":to-do" {
            self.work.notify_one();
            return;
        }
        let run_id = RunId::from(name);
        let payload = message.get_payload_bytes();
        let Some(body) = self.channels.secret.check(run_id.as_str(), payload) else {
            tracing::warn!(%run_id, "notification with an invalid signature ignored");
            return;
        };
        // The journal fills gaps, and reports malformed rows.
        let Some(tail) = self.tails.find(&run_id) else { return };
        let page = decode_page(&self.sealing, tail.tenant(), &run_id, body);
        if page.is_none_or(|page| self.tails.arrived(&run_id, &page) == AddOutcome::Gap) {
            self.follower.look_at(run_id);
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    timeout(RESPONSE_TIMEOUT, work).await.unwrap_or_else(|_| Err(lost("no response in time")))
}

fn lost(words: &'static str) -> RedisError {
    RedisError::from((redis::ErrorKind::Io, words))
}
