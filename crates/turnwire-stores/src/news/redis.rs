//! News by Redis: the rows themselves, signed, on one channel per run.
//!
//! A worker listens to the channels of the runs that are read here and written elsewhere. What
//! arrives is taken if it is signed and follows on what is known; otherwise the journal is
//! asked. Redis may be slow, flushed, restarted or gone: then news comes later.

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
use turnwire_contract::RunId;

use super::signature::Secret;
use crate::{
    follower::Follower,
    outage::{Outage, Patience},
    pages::Page,
    rows::{EventRow, StoredRow},
    tails::{Arrival, Tails},
};

/// How much waits to be published. What comes on top is dropped: its readers ask the journal.
const QUEUE: usize = 4096;

/// How much is published at once.
const AT_ONCE: usize = 512;

/// How long Redis may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often a connection on which nothing arrives is tried.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Where news of one database is said.
#[derive(Clone)]
pub(crate) struct Channels {
    secret: Secret,
    prefix: String,
}

impl Channels {
    /// The channels of the database with this secret.
    pub(crate) fn of(secret: String) -> Self {
        let secret = Secret::new(secret);
        let prefix = format!("turnwire:{}:", secret.database());
        Self { secret, prefix }
    }

    fn of_run(&self, run_id: &RunId) -> String {
        format!("{}{run_id}", self.prefix)
    }

    /// No run is called like this.
    fn to_do(&self) -> String {
        format!("{}:to-do", self.prefix)
    }
}

/// Something to be published.
#[derive(Debug)]
pub(crate) enum Post {
    Grown { run_id: RunId, rows: Vec<EventRow> },
    ToDo,
}

/// The way to whoever publishes.
#[derive(Debug, Clone)]
pub(crate) struct Publisher {
    posts: mpsc::Sender<Post>,
}

impl Publisher {
    /// A publisher, and what it has to publish.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Post>) {
        let (posts, received) = mpsc::channel(QUEUE);
        (Self { posts }, received)
    }

    /// Tells whoever follows the run. Never waits.
    pub(crate) fn publish(&self, run_id: RunId, rows: Vec<EventRow>) {
        let _ = self.posts.try_send(Post::Grown { run_id, rows });
    }

    /// Tells all workers that there is something to do. Never waits.
    pub(crate) fn tell_to_do(&self) {
        let _ = self.posts.try_send(Post::ToDo);
    }
}

/// Publishes what it is given.
pub(crate) struct Publishing {
    pub(crate) client: Client,
    pub(crate) channels: Channels,
    pub(crate) posts: mpsc::Receiver<Post>,
    pub(crate) outage: Arc<Outage>,
}

impl Publishing {
    /// Publishes until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled_owned(self.go_on()).await;
    }

    async fn go_on(mut self) {
        let (mut connection, mut posts) = (None, Vec::new());
        while self.posts.recv_many(&mut posts, AT_ONCE).await > 0 {
            let published = self.publish(&mut connection, &posts).await;
            posts.clear();
            if let Err(error) = published {
                self.outage.note_away(&error.to_string());
                connection = None;
            }
        }
    }

    async fn publish(
        &self,
        connection: &mut Option<MultiplexedConnection>,
        posts: &[Post],
    ) -> Result<(), RedisError> {
        let connection = match connection {
            Some(connection) => connection,
            None => connection.insert(self.connect().await?),
        };
        let mut pipeline = redis::pipe();
        for post in posts {
            match post {
                Post::Grown { run_id, rows } => {
                    let signed = self.channels.secret.sign(run_id, &written(rows));
                    pipeline.publish(self.channels.of_run(run_id), signed).ignore()
                }
                Post::ToDo => pipeline.publish(self.channels.to_do(), "").ignore(),
            };
        }
        pipeline.query_async(connection).await
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }
}

/// Rows as they are sent: a list of `[first, last, body]`.
fn written(rows: &[EventRow]) -> Vec<u8> {
    let rows: Vec<(i64, i64, &str)> =
        rows.iter().map(|row| (row.first, row.last, row.body.as_str())).collect();
    serde_json::to_vec(&rows).unwrap_or_default()
}

/// The events in what was sent; none if it makes no sense.
fn read(run_id: &RunId, body: &[u8]) -> Option<Page> {
    let rows: Vec<(i64, i64, String)> = serde_json::from_slice(body).ok()?;
    let mut page = Page::default();
    for (first, last, body) in &rows {
        let row = StoredRow { first: *first, last: *last, kind: "", call: None, body };
        page.add_events(row.decoded(run_id).ok()?, body.len());
    }
    let places = page.events.iter().map(|recorded| recorded.seq);
    places.clone().zip(places.skip(1)).all(|(one, next)| one.next() == next).then_some(page)
}

/// Listens to the runs that are followed here.
pub(crate) struct Subscribing {
    pub(crate) client: Client,
    pub(crate) channels: Channels,
    pub(crate) tails: Arc<Tails>,
    pub(crate) follower: Arc<Follower>,
    pub(crate) to_do: Arc<Notify>,
    pub(crate) outage: Arc<Outage>,
}

/// Why listening ended.
type Lost = RedisError;

impl Subscribing {
    /// Listens until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.go_on()).await;
    }

    async fn go_on(&self) {
        let mut patience = Patience::default();
        loop {
            let Err(error) = self.listen(&mut patience).await;
            self.follower.note_news(false);
            self.outage.note_away(&error.to_string());
            // Those who came meanwhile are found again when Redis is back.
            self.tails.take_changes();
            sleep(patience.next_pause()).await;
        }
    }

    async fn listen(&self, patience: &mut Patience) -> Result<std::convert::Infallible, Lost> {
        let (mut sink, mut stream) = in_time(self.client.get_async_pubsub()).await?.split();
        in_time(sink.subscribe(self.channels.to_do())).await?;
        self.tails.take_changes();
        let followed = self.tails.followed().into_iter().map(|(run_id, _)| (run_id, true));
        self.change(&mut sink, followed.collect()).await?;
        *patience = Patience::default();
        self.outage.note_back();
        self.follower.note_news(true);
        self.to_do.notify_one();
        self.hear_all(&mut sink, &mut stream).await
    }

    async fn hear_all(
        &self,
        sink: &mut PubSubSink,
        stream: &mut PubSubStream,
    ) -> Result<std::convert::Infallible, Lost> {
        let mut heartbeat = interval(HEARTBEAT);
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    Some(message) => self.hear(&message),
                    None => return Err(lost("the connection is closed")),
                },
                () = self.tails.changed() => {
                    self.change(sink, self.tails.take_changes()).await?;
                }
                _ = heartbeat.tick() => {
                    in_time(sink.ping::<redis::Value>()).await?;
                }
            }
        }
    }

    /// Listens to other runs, and looks at those that are new: they may have grown before.
    async fn change(
        &self,
        sink: &mut PubSubSink,
        changes: HashMap<RunId, bool>,
    ) -> Result<(), Lost> {
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

    fn hear(&self, message: &Msg) {
        let Some(name) = message.get_channel_name().strip_prefix(&self.channels.prefix) else {
            return;
        };
        if name == ":to-do" {
            self.to_do.notify_one();
            return;
        }
        let run_id = RunId::from(name);
        let payload = message.get_payload_bytes();
        let Some(body) = self.channels.secret.check(&run_id, payload) else {
            tracing::warn!(%run_id, "news that is not ours was ignored");
            return;
        };
        // The journal has what does not follow on what is known, and says more of what cannot be
        // read.
        let page = read(&run_id, body);
        if page.is_none_or(|page| self.tails.arrived(&run_id, &page) == Arrival::Gap) {
            self.follower.look_at(run_id);
        }
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, RedisError>>) -> Result<T, Lost> {
    timeout(PATIENCE, work).await.unwrap_or_else(|_| Err(lost("it does not answer")))
}

fn lost(words: &'static str) -> Lost {
    RedisError::from((redis::ErrorKind::Io, words))
}
