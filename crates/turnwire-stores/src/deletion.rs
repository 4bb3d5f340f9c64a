//! Deletes a run with all its data in one transaction, by request or by age.
//!
//! A run that a later one continues cannot be deleted yet, because its entries are part of the
//! later run's context. It is hidden: no query returns it, and only its entries stay. It is deleted
//! with the last run that continues it.

use tokio::{sync::oneshot, time::Instant};
use turnwire_contract::StoreError;

use crate::{
    batch_queue::BatchQueue,
    database::{Database, Dialect, Result, Row, Transaction, Value, values},
    entries::IS_INPUT,
    input_lists::{self, ListKey},
};

/// Runs that wait to be deleted together. The leader knows when the last batch
/// ended, if several shared it.
pub(crate) type DeletionQueue = BatchQueue<WaitingDeletion, Option<Instant>>;

pub(crate) struct WaitingDeletion {
    pub(crate) run: RunKey,
    pub(crate) done: oneshot::Sender<Deleted>,
}

/// What became of a run in a batch.
pub(crate) enum Deleted {
    Done(Result<(), StoreError>),
    /// The batch failed. The run is tried alone: it may not be the cause.
    Alone,
}

/// Tenant and id of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunKey {
    pub(crate) tenant: String,
    pub(crate) run_id: String,
}

/// Decodes the columns `tenant` and `id`.
pub(crate) fn run_key(row: &Row) -> Result<RunKey> {
    Ok(RunKey { tenant: row.text(0)?.to_owned(), run_id: row.text(1)?.to_owned() })
}

/// Deletes locked, inactive runs.
pub(crate) async fn delete(
    transaction: &mut dyn Transaction,
    dialect: &'static Dialect,
    runs: &[RunKey],
) -> Result<()> {
    const TABLES: [&str; 8] = [
        "run_events",
        "blobs",
        "commands",
        "request_keys",
        "run_secrets",
        "shares",
        "webhook_deliveries",
        "run_catalogues",
    ];
    let mut runs = Batch { transaction, dialect, runs: runs.to_vec() };
    let mut changes =
        TABLES.map(|table| format!("delete from {table} where (tenant, run_id) in")).to_vec();
    changes.push(
        "update runs set state = 'hidden', request = '', outcome = null, worker = ''
         where (tenant, id) in"
            .to_owned(),
    );
    runs.change(&changes).await?;
    runs.delete_unreferenced().await
}

/// Rows of a large run deleted per statement.
const SLICE: i64 = 5_000;

/// Deletes an unlocked run that is too large for one transaction. It is hidden first, so that it
/// disappears at once; then its rows are deleted in slices.
pub(crate) async fn delete_in_slices(database: &dyn Database, run: &RunKey) -> Result<()> {
    let (tenant, run_id) = (Value::Text(&run.tenant), Value::Text(&run.run_id));
    let hide = "update runs set state = 'hidden', request = '', outcome = null, worker = ''
                where tenant = $1 and id = $2 and state <> 'active' returning id";
    if database.query(hide, &[tenant, run_id]).await?.is_empty() {
        return Ok(());
    }
    let slices = [("run_events", "first_seq", SLICE), ("blobs", "id", 1)];
    for (table, key, most) in slices {
        let sql = format!(
            "delete from {table} where tenant = $1 and run_id = $2 and {key} in
                 (select {key} from {table} where tenant = $1 and run_id = $2 limit $3)
             returning 1"
        );
        let some_left = format!("select 1 from {table} where tenant = $1 and run_id = $2 limit 1");
        // Another worker may delete the same slice, and more.
        while !database.query(&sql, &values![tenant, run_id, most]).await?.is_empty()
            || !database.query(&some_left, &[tenant, run_id]).await?.is_empty()
        {}
    }
    let mut transaction = database.begin().await?;
    delete(&mut *transaction, database.dialect(), std::slice::from_ref(run)).await?;
    transaction.commit().await
}

struct Batch<'a> {
    transaction: &'a mut dyn Transaction,
    dialect: &'static Dialect,
    runs: Vec<RunKey>,
}

impl Batch<'_> {
    /// Executes a statement about all runs of the batch: `{before} (…) {after}`.
    async fn ask(&mut self, before: &str, after: &str) -> Result<Vec<Row>> {
        let sql = format!("{before} {} {after}", self.keys());
        self.query(&sql).await
    }

    /// Executes statements about all runs of the batch, `{before} (…)`, in one go. No two of them
    /// concern the same row.
    async fn change(&mut self, beginnings: &[impl AsRef<str>]) -> Result<()> {
        let keys = self.keys();
        let all: Vec<String> =
            beginnings.iter().map(|before| format!("{} {keys}", before.as_ref())).collect();
        let sql = self.dialect.together(&all);
        self.query(&sql).await.map(drop)
    }

    fn keys(&self) -> String {
        format!("(select zipped.c1, zipped.c2 from {})", self.dialect.zip(&["$1", "$2"]))
    }

    async fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        let tenants: Vec<&str> = self.runs.iter().map(|run| run.tenant.as_str()).collect();
        let run_ids: Vec<&str> = self.runs.iter().map(|run| run.run_id.as_str()).collect();
        self.transaction.query(sql, &values![&tenants, &run_ids]).await
    }

    /// Deletes hidden runs that no run continues, then those that only these continued, and so on
    /// up the chains.
    async fn delete_unreferenced(&mut self) -> Result<()> {
        let mut lists = Vec::new();
        while !self.runs.is_empty() {
            // If two runs that continue the same one are deleted concurrently, the second waits
            // here and then sees that it is the last.
            let parents = "select tenant, id from runs where (tenant, id) in
                           (select tenant, continues from runs where (tenant, id) in";
            let locked = format!(") order by id{}", self.dialect.for_update);
            self.ask(parents, &locked).await?;
            let gone = "delete from runs where state = 'hidden' and not exists
                            (select 1 from runs as next
                             where next.continues = runs.id and next.tenant = runs.tenant)
                        and (tenant, id) in";
            let gone =
                self.ask(gone, "returning tenant, id, continues, preamble, input_list").await?;
            if gone.is_empty() {
                break;
            }
            add_lists(&mut lists, &gone, 3)?;
            let blocked = std::mem::take(&mut self.runs);
            self.runs = gone.iter().map(run_key).collect::<Result<_, _>>()?;
            let entries = "delete from entries where conversation_id is null
                           and run_id is not null and (tenant, run_id) in";
            let shared = "update entries set run_id = null where conversation_id is not null
                          and run_id is not null and (tenant, run_id) in";
            self.change(&[entries, shared]).await?;
            self.go_up(&gone, blocked)?;
        }
        self.let_go_of_lists(&mut lists).await?;
        input_lists::delete_unused(self.transaction, self.dialect, lists).await
    }

    /// Of a run that stays hidden, only the input is needed, and that only if entries refer to it.
    /// Adds the other lists to `lists`.
    async fn let_go_of_lists(&mut self, lists: &mut Vec<ListKey>) -> Result<()> {
        if self.runs.is_empty() {
            return Ok(());
        }
        let held = "select tenant, preamble, input_list from runs
                    where state = 'hidden' and preamble is not null and (tenant, id) in";
        let held = self.ask(held, "").await?;
        if held.is_empty() {
            return Ok(());
        }
        add_lists(lists, &held, 1)?;
        let release = format!(
            "update runs set preamble = null, input_list = case when exists
                 (select 1 from entries e where e.tenant = runs.tenant and e.run_id = runs.id
                  and {IS_INPUT}) then input_list end
             where state = 'hidden' and preamble is not null and (tenant, id) in"
        );
        self.change(&[release]).await
    }

    /// Next are the runs that `gone` continued, and the runs that were blocked.
    fn go_up(&mut self, gone: &[Row], mut blocked: Vec<RunKey>) -> Result<()> {
        blocked.retain(|run| !self.runs.contains(run));
        for row in gone {
            if let Some(continues) = row.optional_text(2)? {
                let next = RunKey { tenant: row.text(0)?.to_owned(), run_id: continues.to_owned() };
                if !blocked.contains(&next) {
                    blocked.push(next);
                }
            }
        }
        self.runs = blocked;
        Ok(())
    }
}

/// Adds the lists in column `first` and the next one. The tenant is in the first column.
fn add_lists(lists: &mut Vec<ListKey>, rows: &[Row], first: usize) -> Result<()> {
    for row in rows {
        for column in [first, first + 1] {
            if let Some(list) = row.optional_text(column)? {
                lists.push((row.text(0)?.to_owned(), list.to_owned()));
            }
        }
    }
    Ok(())
}
