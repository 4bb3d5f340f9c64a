//! A real SQLite database with fault injection, in simulated time.
//!
//! The clock is paused while a statement runs, and SQLite sees the simulated time. So leases expire
//! and hours pass in milliseconds, deterministically.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs,
    future::pending,
    path::Path,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use futures::executor::block_on;
use tokio::{
    runtime::Runtime,
    sync::{Mutex as AsyncMutex, OwnedMutexGuard},
    time::Instant,
};

use crate::{
    database::{
        Database, DatabaseError, Dialect, Row, SqliteDatabase, Transaction, Value, only_reads,
    },
    sync::lock,
};

/// Runs `work` in real time while the simulated clock is paused.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    static REAL_TIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("threads"));
    let _real_time = REAL_TIME.enter();
    block_on(work)
}

/// A migrated, empty database.
static EMPTY: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("empty.db");
    at_once(async {
        SqliteDatabase::open(&path).await.expect("it can be opened").close().await;
    });
    fs::read(&path).expect("it is there")
});

/// The tenant whose run the faults affect.
pub(super) const VICTIM: &str = "victim";

#[derive(Debug, Clone)]
pub(super) struct Fault {
    /// The statement, as named by [`Faults::statements`].
    pub(super) statement: String,
    pub(super) error: DatabaseError,
    /// Whether the statement is executed anyway.
    pub(super) is_done: bool,
    /// How often the fault occurs.
    pub(super) times: u32,
    /// Whether only statements about the victim fail.
    pub(super) only_for_victim: bool,
    /// The affected node; `None` means all.
    pub(super) node: Option<&'static str>,
}

/// Faults of all databases in a test, and the statements executed.
#[derive(Debug, Default)]
pub(super) struct Faults {
    fault: Mutex<Option<Fault>>,
    statements: Mutex<BTreeMap<String, Named>>,
    /// The runs of the affected tenant.
    runs: Mutex<HashSet<String>>,
    hits: Mutex<Vec<Instant>>,
}

/// Whether a statement names a run or a tenant in at least one execution.
pub(super) type Named = bool;

impl Faults {
    pub(super) fn set(&self, fault: Option<Fault>) {
        *lock(&self.fault) = fault;
    }

    /// Returns every statement executed so far.
    pub(super) fn statements(&self) -> BTreeMap<String, Named> {
        lock(&self.statements).clone()
    }

    /// Returns when faults occurred.
    pub(super) fn hits(&self) -> Vec<Instant> {
        lock(&self.hits).clone()
    }

    /// Returns whether a statement concerns the victim. A statement with the victim's tenant and
    /// one run id identifies the victim's run.
    fn is_of_victim(&self, concerns: &[String]) -> bool {
        let mut runs = lock(&self.runs);
        let names_victim = concerns.iter().any(|text| text == VICTIM);
        let is_it = names_victim || concerns.iter().any(|text| runs.contains(text));
        let named: BTreeSet<&String> =
            concerns.iter().filter(|text| text.starts_with("run_")).collect();
        if let (true, Some(run_id), 1) = (names_victim, named.first(), named.len()) {
            runs.insert((*run_id).clone());
        }
        is_it
    }

    /// Returns the fault for this statement, if it fails now. `concerns` are the texts in it and in
    /// its transaction.
    fn strike(&self, node: &str, name: &str, concerns: &[String]) -> Option<Fault> {
        let is_named = self.is_of_victim(concerns);
        let mut statements = lock(&self.statements);
        match statements.get_mut(name) {
            Some(named) => *named |= is_named,
            None => _ = statements.insert(name.to_owned(), is_named),
        }
        drop(statements);
        let mut fault = lock(&self.fault);
        let strikes = fault.as_mut().filter(|fault| {
            fault.statement == name
                && fault.times > 0
                && (is_named || !fault.only_for_victim)
                && fault.node.is_none_or(|known| known == node)
        })?;
        strikes.times -= u32::from(strikes.times < u32::MAX);
        lock(&self.hits).push(Instant::now());
        Some(strikes.clone())
    }
}

/// One node's connection to the database.
#[derive(Clone)]
pub(super) struct FaultyDatabase {
    node: &'static str,
    inner: SqliteDatabase,
    /// Held by the writer. Another writer of the same process would block the thread while waiting
    /// for the file lock.
    one_writer: Arc<AsyncMutex<()>>,
    pub(super) faults: Arc<Faults>,
    began: Instant,
    is_dead: Arc<AtomicBool>,
}

impl FaultyDatabase {
    /// Creates a database at `path`.
    pub(super) fn open(path: &Path) -> Self {
        fs::write(path, &*EMPTY).expect("there is room");
        Self {
            node: "",
            inner: at_once(SqliteDatabase::open(path)).expect("it can be opened"),
            one_writer: Arc::default(),
            faults: Arc::default(),
            began: Instant::now(),
            is_dead: Arc::default(),
        }
    }

    /// Returns another node's connection to the same database.
    pub(super) fn of_node(&self, node: &'static str) -> Self {
        Self { node, is_dead: Arc::default(), ..self.clone() }
    }

    /// Simulates the death of the node: its statements never return.
    pub(super) fn die(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    async fn is_alive(&self) {
        if self.is_dead.load(Ordering::SeqCst) {
            pending::<()>().await;
        }
    }

    /// Returns the statement and its values with the simulated time as one value more. Its text is
    /// the same in every execution, so SQLite prepares it once.
    fn at_simulated_time<'v>(&self, sql: &str, values: &[Value<'v>]) -> (String, Vec<Value<'v>>) {
        let mut values = values.to_vec();
        let sql = sql.replace(self.dialect().now, &format!("${}", values.len() + 1));
        let micros = 1_000_000_000_000_000 + self.began.elapsed().as_micros();
        values.push(Value::Integer(i64::try_from(micros).expect("a short test")));
        (sql, values)
    }
}

fn texts_of(values: &[Value<'_>]) -> Vec<String> {
    let texts = values.iter().flat_map(|value| match value {
        // Rows of one statement.
        Value::Text(text) if text.starts_with("[[") => {
            let rows: Vec<Vec<serde_json::Value>> = serde_json::from_str(text).expect("rows");
            let texts = rows.iter().flatten().filter_map(serde_json::Value::as_str);
            texts.map(str::to_owned).collect()
        }
        Value::Text(text) | Value::OptionalText(Some(text)) => vec![(*text).to_owned()],
        Value::Tenant(tenant) => vec![tenant.as_str().to_owned()],
        Value::Texts(texts) => texts.iter().map(|text| (*text).to_owned()).collect(),
        _ => Vec::new(),
    });
    texts.filter(|text| text.len() < 100).collect()
}

#[async_trait]
impl Database for FaultyDatabase {
    fn dialect(&self) -> &'static Dialect {
        self.inner.dialect()
    }

    async fn begin(&self) -> Result<Box<dyn Transaction>, DatabaseError> {
        self.is_alive().await;
        let guard = Arc::clone(&self.one_writer).lock_owned().await;
        self.is_alive().await;
        if let Some(fault) = self.faults.strike(self.node, "begin", &[]) {
            return Err(fault.error);
        }
        let inner = at_once(self.inner.begin())?;
        let concerns = Vec::new();
        Ok(Box::new(FaultyTransaction { database: self.clone(), inner, concerns, _guard: guard }))
    }

    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        self.is_alive().await;
        let _guard = if only_reads(sql) { None } else { Some(self.one_writer.lock().await) };
        self.is_alive().await;
        let struck = self.faults.strike(self.node, sql, &texts_of(values));
        if let Some(fault) = struck.as_ref().filter(|fault| !fault.is_done) {
            return Err(fault.error.clone());
        }
        let (sql, values) = self.at_simulated_time(sql, values);
        let done = at_once(self.inner.query(&sql, &values))?;
        struck.map_or(Ok(done), |fault| Err(fault.error))
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

struct FaultyTransaction {
    database: FaultyDatabase,
    inner: Box<dyn Transaction>,
    concerns: Vec<String>,
    _guard: OwnedMutexGuard<()>,
}

#[async_trait]
impl Transaction for FaultyTransaction {
    async fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, DatabaseError> {
        let database = self.database.clone();
        database.is_alive().await;
        let texts = texts_of(values);
        let struck = database.faults.strike(database.node, sql, &texts);
        self.concerns.extend(texts);
        if let Some(fault) = struck {
            return Err(fault.error);
        }
        let (sql, values) = database.at_simulated_time(sql, values);
        at_once(self.inner.query(&sql, &values))
    }

    async fn commit(self: Box<Self>) -> Result<(), DatabaseError> {
        self.database.is_alive().await;
        let struck = self.database.faults.strike(self.database.node, "commit", &self.concerns);
        if let Some(fault) = struck.as_ref().filter(|fault| !fault.is_done) {
            return Err(fault.error.clone());
        }
        at_once(self.inner.commit())?;
        struck.map_or(Ok(()), |fault| Err(fault.error))
    }

    async fn rollback(self: Box<Self>) {
        at_once(self.inner.rollback());
    }
}
