//! The store: opens the database and starts its background tasks.

use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use redis::RedisError;
use tokio::{sync::Notify, time::timeout};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};
use tracing::{info, warn};
use turnwire_contract::WebhookRoute;

use crate::{
    audit_chain::AuditQueue,
    database::{Database, DatabaseError, PostgresDatabase, SqliteDatabase, values},
    deletion::DeletionQueue,
    follower::Follower,
    heartbeats::{FORMAT_OF_ALL, HeartbeatState},
    input_lists::ListKey,
    live_tails::LiveTails,
    notify::{
        Notifier, Transport,
        postgres::ListenTask,
        redis::{Channels, PublishTask, Publisher, SubscribeTask},
        signature::Secret,
    },
    outage::Availability,
    pages::Source,
    sealing::Sealing,
    secret_box::SecretKeys,
    statistics::{Counters, TimedBatchWriter},
    usage::MinuteCounters,
    writer::{
        BatchWriter, CommitNotifier, IsolatedWriter, PostgresBatchWriter, SqliteBatchWriter,
        Writer, WriterHandle,
    },
};

/// Timeout of `close` for queued appends, and for closing the connections.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// Interval between deletions of old data.
const BETWEEN_CLEANUPS: Duration = Duration::from_mins(10);

/// Interval between looks for journals to compact.
const BETWEEN_COMPACTIONS: Duration = Duration::from_secs(30);

/// Options for opening a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreOptions {
    /// `sqlite://path/to/file.db` or `postgres://user@host/database`.
    pub url: String,
    /// The Redis for notifications between nodes, `redis://host:port/`. `None` uses PostgreSQL's
    /// `LISTEN`.
    pub fanout: Option<String>,
    /// How long a lease lasts after a heartbeat.
    pub lease: Duration,
    /// How long finished runs are stored. `None` means forever.
    pub retention: Option<Duration>,
    /// How long an unused conversation is stored. `None` means forever.
    pub conversation_retention: Option<Duration>,
    /// How long entries of the audit log are stored. `None` means forever.
    pub audit_retention: Option<Duration>,
    /// How long after its end the journal of a run is stored in fewer rows: longer than a statement
    /// can be in flight. `None` means never.
    pub compact_after: Option<Duration>,
    /// Which events are stored for which receiver of webhooks.
    pub webhooks: Vec<WebhookRoute>,
    /// Maximum pooled connections to PostgreSQL, in addition to three dedicated ones: writer,
    /// follower and listener.
    pub connections: u32,
    /// A role of PostgreSQL as which statements for one tenant run, so that row-level security
    /// applies to them. The role of `url` must be a member of it.
    pub tenant_role: Option<String>,
    /// Keys of the operator, with which the keys are encrypted that encrypt what is stored for each
    /// tenant. `None` encrypts nothing.
    pub encryption: Option<SecretKeys>,
}

impl StoreOptions {
    /// Returns the default options for `url`.
    pub fn at(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            fanout: None,
            lease: Duration::from_secs(2),
            retention: Some(Duration::from_hours(7 * 24)),
            conversation_retention: Some(Duration::from_hours(30 * 24)),
            audit_retention: None,
            compact_after: Some(Duration::from_mins(10)),
            webhooks: Vec::new(),
            connections: 16,
            tenant_role: None,
            encryption: None,
        }
    }

    /// Returns the options for a process beside the servers: how long runs are stored, and in what
    /// form, is up to these, and nobody waits for its notifications.
    #[must_use]
    pub fn beside_servers(self) -> Self {
        Self {
            fanout: None,
            retention: None,
            conversation_retention: None,
            compact_after: None,
            ..self
        }
    }
}

/// Everything about runs, in one database. Cheap to clone.
///
/// It runs background tasks. [`close`](Self::close) waits for them. If the last clone is dropped
/// without it, queued appends are still written while the runtime lives.
#[derive(Clone)]
pub struct Store(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) database: Arc<dyn Database>,
    pub(crate) options: StoreOptions,
    /// Unique id of this process as a worker.
    pub(crate) worker: String,
    pub(crate) sealing: Arc<Sealing>,
    pub(crate) notifier: Notifier,
    pub(crate) heartbeats: HeartbeatState,
    pub(crate) tails: Arc<LiveTails>,
    pub(crate) writer: WriterHandle,
    /// How far retention has come in looking for input lists that nobody needs.
    pub(crate) swept_lists: Mutex<ListKey>,
    /// How far it has come in looking for runs that were not deleted to the end.
    pub(crate) swept_hidden: Mutex<String>,
    pub(crate) deletions: DeletionQueue,
    pub(crate) audit: AuditQueue,
    pub(crate) outage: Arc<Availability>,
    pub(crate) counters: Arc<Counters>,
    /// Counters of use that are in Redis.
    pub(crate) minutes: Option<MinuteCounters>,
    /// Notified when this process has changed what a list says about a run.
    pub(crate) list_changed: Notify,
    /// Notified when this process has stored a delivery of a webhook.
    pub(crate) delivery_added: Notify,
    /// All background tasks. `stop` ends them.
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
    _stops_when_dropped: DropGuard,
}

impl Store {
    /// Opens the database named in the options.
    pub async fn open(options: StoreOptions) -> Result<Self, OpenError> {
        let url = options.url.as_str();
        match url.split_once("://") {
            Some(("sqlite", path)) => {
                let database = SqliteDatabase::open(path.as_ref()).await.map_err(refused)?;
                Self::over(Arc::new(database), None, options).await
            }
            Some(("postgres" | "postgresql", _)) => {
                let opened = PostgresDatabase::open(url, options.connections).await;
                let postgres = opened.map_err(refused)?;
                let postgres = match &options.tenant_role {
                    Some(role) => postgres.with_tenant_role(role).await.map_err(refused)?,
                    None => postgres,
                };
                Self::over(Arc::new(postgres.clone()), Some(postgres), options).await
            }
            _ => Err(OpenError::UnknownKind),
        }
    }

    /// Opens a store in memory, which lasts as long as its last clone.
    pub async fn in_memory() -> Result<Self, OpenError> {
        let database = SqliteDatabase::in_memory().await.map_err(refused)?;
        Self::over(Arc::new(database), None, StoreOptions::at("memory:")).await
    }

    /// Creates a store on an open database; `postgres` is the same database, if it is PostgreSQL.
    pub(crate) async fn over(
        database: Arc<dyn Database>,
        postgres: Option<PostgresDatabase>,
        options: StoreOptions,
    ) -> Result<Self, OpenError> {
        let builder = StoreBuilder {
            worker: format!("worker_{}", uuid::Uuid::new_v4().simple()),
            outage: Arc::new(Availability::of("database")),
            counters: Arc::default(),
            tails: Arc::default(),
            follower: Arc::default(),
            work: Arc::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            sealing: Arc::new(Sealing::new(Arc::clone(&database), options.encryption.clone())),
            database,
            postgres,
        };
        builder.open(options).await
    }

    /// Returns the unique id of this process as a worker.
    pub fn worker(&self) -> &str {
        &self.0.worker
    }

    /// Writes queued appends, stops the background tasks, and closes the database. Waits only
    /// briefly for an unavailable database.
    pub async fn close(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        if timeout(CLOSING_TIME, self.0.tasks.wait()).await.is_err() {
            warn!("store closed with unwritten events, database unavailable");
        }
        if timeout(CLOSING_TIME, self.0.database.close()).await.is_err() {
            warn!("database connections not closed in time");
        }
    }
}

/// A store that is being opened.
struct StoreBuilder {
    worker: String,
    database: Arc<dyn Database>,
    postgres: Option<PostgresDatabase>,
    sealing: Arc<Sealing>,
    tails: Arc<LiveTails>,
    follower: Arc<Follower>,
    work: Arc<Notify>,
    outage: Arc<Availability>,
    counters: Arc<Counters>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl StoreBuilder {
    async fn open(self, options: StoreOptions) -> Result<Store, OpenError> {
        self.sealing.check().await.map_err(refused)?;
        let heartbeats = HeartbeatState::default();
        let format = self.database.query(FORMAT_OF_ALL, &[]).await.map_err(refused)?;
        heartbeats.set_format(&format).map_err(refused)?;
        let mut minutes = None;
        let (transport, publisher) = match (&self.postgres, &options.fanout) {
            (Some(_), Some(url)) => {
                let (publisher, counters) = self.use_redis(url).await?;
                minutes = Some(counters);
                (Transport::Redis(publisher.clone()), Some(publisher))
            }
            (Some(postgres), None) => {
                self.listen_to(postgres);
                (Transport::Postgres(Arc::clone(&self.database)), None)
            }
            (None, _) => {
                // Only this process writes to the file.
                self.follower.set_notified(true);
                (Transport::None, None)
            }
        };
        self.follow(publisher.is_none());
        let writer = self.start_writer(publisher);
        let (tasks, stop) = (self.tasks.clone(), self.stop.clone());
        let store = Store(Arc::new(Inner {
            worker: self.worker,
            notifier: Notifier::over(transport, self.work),
            database: self.database,
            sealing: self.sealing,
            options,
            heartbeats,
            tails: self.tails,
            writer,
            deletions: DeletionQueue::default(),
            swept_lists: Mutex::default(),
            swept_hidden: Mutex::default(),
            audit: AuditQueue::default(),
            outage: self.outage,
            counters: self.counters,
            minutes,
            list_changed: Notify::new(),
            delivery_added: Notify::new(),
            tasks: self.tasks,
            _stops_when_dropped: self.stop.clone().drop_guard(),
            stop: self.stop,
        }));
        let retention = retention_loop(Arc::downgrade(&store.0));
        tasks.spawn(stop.clone().run_until_cancelled_owned(retention));
        let compaction = compaction_loop(Arc::downgrade(&store.0));
        tasks.spawn(stop.run_until_cancelled_owned(compaction));
        Ok(store)
    }

    async fn use_redis(&self, url: &str) -> Result<(Publisher, MinuteCounters), OpenError> {
        let bad_address =
            |error: RedisError| OpenError::Refused(format!("the address of Redis: {error}"));
        let client = redis::Client::open(url).map_err(bad_address)?;
        let sql = "select value from secrets where name = $1";
        let found = self.database.query(sql, &values!["news"]).await.map_err(refused)?;
        let secret = found.first().map(|row| row.text(0).map(str::to_owned));
        let missing = || OpenError::Refused("the database has no notification secret".to_owned());
        let secret = Secret::new(secret.ok_or_else(missing)?.map_err(refused)?);
        let channels = Channels::of(secret.clone());
        let (publisher, notifications) = Publisher::new();
        let outage = Arc::new(Availability::of("Redis"));
        let minutes = MinuteCounters::new(client.clone(), secret, Arc::clone(&outage))
            .map_err(bad_address)?;
        let publish_task = PublishTask {
            client: client.clone(),
            channels: channels.clone(),
            notifications,
            outage: Arc::clone(&outage),
        };
        let subscribe_task = SubscribeTask {
            client,
            channels,
            tails: Arc::clone(&self.tails),
            sealing: Arc::clone(&self.sealing),
            follower: Arc::clone(&self.follower),
            work: Arc::clone(&self.work),
            outage,
        };
        self.tasks.spawn(publish_task.run(self.stop.clone()));
        self.tasks.spawn(subscribe_task.run(self.stop.clone()));
        Ok((publisher, minutes))
    }

    fn listen_to(&self, postgres: &PostgresDatabase) {
        let listen_task = ListenTask {
            sender: self.worker.clone(),
            options: (*postgres.pool().connect_options()).clone(),
            tails: Arc::clone(&self.tails),
            follower: Arc::clone(&self.follower),
            work: Arc::clone(&self.work),
            outage: Arc::new(Availability::of("notification listener")),
        };
        self.tasks.spawn(listen_task.run(self.stop.clone()));
    }

    fn follow(&self, notes_changes: bool) {
        let source = match &self.postgres {
            Some(postgres) => Source::Postgres(Box::new(postgres.dedicated_connection())),
            None => Source::Any(Arc::clone(&self.database)),
        };
        let (tails, outage) = (Arc::clone(&self.tails), Arc::clone(&self.outage));
        let (follower, sealing) = (Arc::clone(&self.follower), Arc::clone(&self.sealing));
        let stop = self.stop.clone();
        self.tasks.spawn(follower.run(tails, source, sealing, outage, notes_changes, stop));
    }

    fn start_writer(&self, publisher: Option<Publisher>) -> WriterHandle {
        let notifies = publisher.is_none();
        let commit_notifier = CommitNotifier { tails: Arc::clone(&self.tails), publisher };
        let (outage, stop) = (&self.outage, &self.stop);
        let (isolated, isolated_writer) = IsolatedWriter::new(
            self.journal(notifies),
            commit_notifier.clone(),
            Arc::clone(outage),
            stop.clone(),
        );
        let journal = self.journal(notifies);
        let (handle, writer) =
            Writer::new(journal, isolated, commit_notifier, Arc::clone(outage), stop.clone());
        self.tasks.spawn(isolated_writer.run());
        self.tasks.spawn(writer.run());
        handle
    }

    fn journal(&self, notifies: bool) -> Box<dyn BatchWriter> {
        let worker = self.worker.clone();
        let writer: Box<dyn BatchWriter> = match &self.postgres {
            Some(postgres) => Box::new(PostgresBatchWriter::new(postgres, worker, notifies)),
            None => Box::new(SqliteBatchWriter::new(Arc::clone(&self.database), worker)),
        };
        Box::new(TimedBatchWriter::new(writer, Arc::clone(&self.counters)))
    }
}

/// Deletes old data periodically while the store is open.
async fn retention_loop(store: Weak<Inner>) {
    while let Some(inner) = store.upgrade() {
        let counters = Arc::clone(&inner.counters);
        let forgotten = Store(inner).forget_old_runs().await;
        if let Ok(n_forgotten) = forgotten {
            counters.note_cleaned(n_forgotten);
        }
        match forgotten {
            Ok(0) => {}
            Ok(n_forgotten) => info!(n_forgotten, "expired runs deleted"),
            Err(error) => warn!(%error, "retention failed, retried later"),
        }
        tokio::time::sleep(BETWEEN_CLEANUPS).await;
    }
}

/// Compacts journals while the store is open.
async fn compaction_loop(store: Weak<Inner>) {
    while let Some(inner) = store.upgrade() {
        let Some(age) = inner.options.compact_after else { return };
        let may_compact = inner.heartbeats.may_compact();
        let more = if may_compact { Store(inner).compact_some(age).await } else { Ok(false) };
        if let Err(error) = &more {
            warn!(%error, "journals not compacted, the next ones later");
        }
        if !more.unwrap_or_default() {
            tokio::time::sleep(age.min(BETWEEN_COMPACTIONS)).await;
        }
    }
}

pub(crate) fn refused(cause: DatabaseError) -> OpenError {
    OpenError::Refused(cause.to_string())
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("worker", &self.0.worker).finish_non_exhaustive()
    }
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The URL is neither SQLite nor PostgreSQL.
    #[error("a store is `sqlite://…` or `postgres://…`")]
    UnknownKind,
    /// The database is unreachable or unsuitable.
    #[error("{0}")]
    Refused(String),
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
