//! Batches in PostgreSQL: one statement, and a transaction of several only when a webhook is due, or a
//! run ends that begins or changes its summary in the same append.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{BatchWriter, Job, probe_sql};
use crate::{
    database::{
        Database, DatabaseError, DedicatedConnection, Dialect, PostgresDatabase, STATEMENT_TIMEOUT,
        Transaction, Value, in_time,
    },
    notify::postgres::{GROWN, payloads},
    rows::EventRow,
    run_ends::{self, EndColumns, EndOfRun},
    webhook_rows::{self, NewDelivery},
};

/// First the fence: inserts the first row of each append, at a seq that must be free. Then the
/// remaining rows of the appends that succeeded, what lists say about their runs, and the runs that
/// are new.
const WRITE: &str = "with first as ( \
        insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
        select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], \
            $6::text[], $7::text[], $8::text[]) \
        on conflict (run_id, first_seq) do nothing \
        returning run_id), \
    rest as ( \
        insert into run_events (tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
        select r.* from unnest($9::text[], $10::text[], $11::bigint[], $12::bigint[], \
            $13::bigint[], $14::text[], $15::text[], $16::text[]) \
            as r(tenant, run_id, first_seq, last_seq, tag, kind, call_id, body) \
        where r.run_id in (select run_id from first)), \
    summed as ( \
        update runs set tools = s.tools, n_calls = s.n_calls, n_failed_calls = s.n_failed_calls, \
            waiting_by = case when s.waiting = 1 then $19 end, changed_at = clock_timestamp() \
        from unnest($20::text[], $21::text[], $22::bigint[], $23::bigint[], $24::bigint[]) \
            as s(run_id, tools, n_calls, n_failed_calls, waiting) \
        where runs.id = s.run_id and s.run_id in (select run_id from first)), \
    created as ( \
        insert into runs (id, tenant, created_at, request, worker, model, input_text, tools, \
            n_calls, holder, changed_at) \
        select c.id, c.tenant, c.created_at, c.request, $19, c.model, c.input_text, c.tools, \
            c.n_calls, c.holder, clock_timestamp() \
        from unnest($25::text[], $26::text[], $27::bigint[], $28::text[], $29::text[], \
            $30::text[], $31::text[], $32::bigint[], $33::text[]) \
            as c(id, tenant, created_at, request, model, input_text, tools, n_calls, holder) \
        where c.id in (select run_id from first))";

/// The same statement notifies followers.
const RESULT: &str = "select run_id from first \
    union all \
    select pg_notify($17, news)::text from unnest($18::text[]) as news";

/// The ends of the runs whose appends succeeded are stored by the same statement, too.
fn write_with_ends(dialect: &Dialect) -> String {
    let parameters = ["$34", "$35", "$36", "$37", "$38", "$39"];
    let succeeded = "and runs.id in (select run_id from first)";
    format!("{WRITE}, {} {RESULT}", run_ends::with_clauses(dialect, parameters, succeeded))
}

/// Returns the tags of the rows that block refused appends.
const TAGS: &str = "select e.run_id, e.tag from unnest($1::text[], $2::bigint[]) \
        as ours(run_id, first_seq) \
    join run_events e on e.run_id = ours.run_id and e.first_seq = ours.first_seq";

/// The [`BatchWriter`] for PostgreSQL.
pub(crate) struct PostgresBatchWriter {
    connection: DedicatedConnection,
    dialect: &'static Dialect,
    worker: String,
    /// Whether every batch is announced by `NOTIFY`.
    notifies: bool,
    write: Arc<str>,
    write_with_ends: Arc<str>,
}

impl PostgresBatchWriter {
    /// Creates a writer for `worker`, with a dedicated connection.
    pub(crate) fn new(database: &PostgresDatabase, worker: String, notifies: bool) -> Self {
        Self {
            connection: database.dedicated_connection(),
            dialect: database.dialect(),
            worker,
            notifies,
            write: format!("{WRITE} {RESULT}").into(),
            write_with_ends: write_with_ends(database.dialect()).into(),
        }
    }

    fn sender(&self) -> Option<String> {
        self.notifies.then(|| self.worker.clone())
    }

    async fn try_to_write(
        &mut self,
        jobs: &[Job],
        time: Duration,
    ) -> Result<Vec<bool>, DatabaseError> {
        let sender = self.sender();
        let winners = if jobs.iter().any(needs_transaction) {
            self.write_in_transaction(jobs, time).await?
        } else {
            let ends: Vec<EndOfRun<'_>> = jobs.iter().filter_map(Job::end).collect();
            let sql = if ends.is_empty() { &self.write } else { &self.write_with_ends };
            let (worker, sender) = (self.worker.as_str(), sender.as_deref());
            let batch = BatchStatement { sql, jobs, ends: EndColumns::of(&ends)?, worker, sender };
            batch.execute(self.connection.get().await?, time).await?
        };
        if winners.len() == jobs.len() {
            return Ok(vec![true; jobs.len()]);
        }
        let winners: HashSet<&str> = winners.iter().map(String::as_str).collect();
        let won = |job: &Job| winners.contains(job.run_id.as_str());
        let refused: Vec<&Job> = jobs.iter().filter(|job| !won(job)).collect();
        let tags = self.tags_of(&refused).await?;
        let is_there = |job: &Job| tags.contains(&(job.run_id.to_string(), job.tag));
        Ok(jobs.iter().map(|job| won(job) || is_there(job)).collect())
    }

    /// Also stores the ends of runs, and what is to be sent to receivers of webhooks.
    async fn write_in_transaction(
        &mut self,
        jobs: &[Job],
        time: Duration,
    ) -> Result<Vec<String>, DatabaseError> {
        let sender = self.sender();
        let mut transaction = self.connection.begin(time).await?;
        let (worker, sender) = (self.worker.as_str(), sender.as_deref());
        let batch =
            BatchStatement { sql: &self.write, jobs, ends: EndColumns::default(), worker, sender };
        let winners = batch.execute(transaction.connection(), time).await?;
        let winning: HashSet<&str> = winners.iter().map(String::as_str).collect();
        let won = |job: &&Job| winning.contains(job.run_id.as_str());
        let deliveries: Vec<&NewDelivery> =
            jobs.iter().filter(won).flat_map(|job| &job.deliveries).collect();
        webhook_rows::store(&mut transaction, self.dialect, &deliveries).await?;
        let ends: Vec<EndOfRun<'_>> = jobs.iter().filter(won).filter_map(Job::end).collect();
        run_ends::store(&mut transaction, self.dialect, &ends).await?;
        Box::new(transaction).commit().await?;
        Ok(winners)
    }

    async fn tags_of(&mut self, refused: &[&Job]) -> Result<Vec<(String, i64)>, DatabaseError> {
        let runs: Vec<&str> = refused.iter().map(|job| job.run_id.as_str()).collect();
        let firsts: Vec<i64> =
            refused.iter().map(|job| job.rows.first().map_or(0, |row| row.first)).collect();
        let query = sqlx::query_as(TAGS).bind(runs).bind(firsts);
        in_time(STATEMENT_TIMEOUT, query.fetch_all(self.connection.get().await?)).await
    }

    async fn try_to_probe(&mut self) -> Result<(), DatabaseError> {
        let sql = probe_sql(self.dialect);
        let mut transaction = self.connection.begin(STATEMENT_TIMEOUT).await?;
        transaction.query(&sql, &[Value::Text(&self.worker)]).await?;
        Box::new(transaction).commit().await
    }

    /// After an error the state of the connection is unknown, so it is closed.
    fn or_disconnect<T>(&mut self, done: Result<T, DatabaseError>) -> Result<T, DatabaseError> {
        if done.is_err() {
            self.connection.disconnect();
        }
        done
    }
}

#[async_trait]
impl BatchWriter for PostgresBatchWriter {
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>, DatabaseError> {
        let written = self.try_to_write(jobs, time).await;
        self.or_disconnect(written)
    }

    async fn probe(&mut self) -> Result<(), DatabaseError> {
        let probed = self.try_to_probe().await;
        self.or_disconnect(probed)
    }
}

/// Whether one statement cannot do it: a row can change once in it, and what it inserts it cannot
/// change.
fn needs_transaction(job: &Job) -> bool {
    let is_changed = job.summary.is_some() || job.new_run.is_some();
    (job.ending.is_some() && is_changed) || !job.deliveries.is_empty()
}

/// The statement that writes a batch.
struct BatchStatement<'a> {
    sql: &'a Arc<str>,
    jobs: &'a [Job],
    /// What `sql` has parameters for, unless there are none.
    ends: EndColumns<'a>,
    worker: &'a str,
    /// Who followers are told that it was, if they are told.
    sender: Option<&'a str>,
}

impl BatchStatement<'_> {
    /// Returns the runs whose first row was inserted.
    async fn execute(
        self,
        connection: &mut PgConnection,
        time: Duration,
    ) -> Result<Vec<String>, DatabaseError> {
        let (mut first, mut rest) = (Columns::default(), Columns::default());
        let jobs = || self.jobs.iter().filter(|job| !job.is_abandoned());
        for job in jobs() {
            let mut rows = job.rows.iter();
            if let Some(row) = rows.next() {
                first.add(job, row);
            }
            rows.for_each(|row| rest.add(job, row));
        }
        let heads = || jobs().filter_map(|job| Some((&job.run_id, job.events.last()?.seq)));
        let notifications = self.sender.map(|sender| payloads(sender, heads())).unwrap_or_default();
        let query = first.bind(sqlx::query_scalar(AssertSqlSafe(Arc::clone(self.sql))));
        let query = rest.bind(query).bind(GROWN).bind(notifications);
        let query = Summaries::of(jobs()).bind(query.bind(self.worker));
        let mut query = NewRuns::of(jobs()).bind(query);
        if !self.ends.is_empty() {
            query = self.ends.columns().into_iter().fold(query, sqlx::query::QueryScalar::bind);
        }
        let mut answer: Vec<String> = in_time(time, query.fetch_all(connection)).await?;
        // A notification adds an empty row.
        answer.retain(|run_id| !run_id.is_empty());
        Ok(answer)
    }
}

/// Summaries as column arrays, for a bulk update.
#[derive(Default)]
struct Summaries<'a> {
    run_id: Vec<&'a str>,
    tools: Vec<&'a str>,
    n_calls: Vec<i64>,
    n_failed_calls: Vec<i64>,
    waiting: Vec<i64>,
}

impl<'a> Summaries<'a> {
    fn of(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut columns = Self::default();
        for job in jobs {
            let Some(summary) = &job.summary else { continue };
            columns.run_id.push(job.run_id.as_str());
            columns.tools.push(&summary.tools);
            columns.n_calls.push(summary.n_calls);
            columns.n_failed_calls.push(summary.n_failed_calls);
            columns.waiting.push(summary.is_waiting.into());
        }
        columns
    }

    fn bind(self, statement: Statement<'a>) -> Statement<'a> {
        statement
            .bind(self.run_id)
            .bind(self.tools)
            .bind(self.n_calls)
            .bind(self.n_failed_calls)
            .bind(self.waiting)
    }
}

/// New runs as column arrays, for a bulk insert.
#[derive(Default)]
struct NewRuns<'a> {
    run_id: Vec<&'a str>,
    tenant: Vec<&'a str>,
    created_at: Vec<i64>,
    request: Vec<&'a str>,
    model: Vec<&'a str>,
    input_text: Vec<&'a str>,
    tools: Vec<&'a str>,
    n_calls: Vec<i64>,
    holder: Vec<Option<&'a str>>,
}

impl<'a> NewRuns<'a> {
    fn of(jobs: impl Iterator<Item = &'a Job>) -> Self {
        let mut columns = Self::default();
        for job in jobs {
            let Some(run) = &job.new_run else { continue };
            columns.run_id.push(job.run_id.as_str());
            columns.tenant.push(job.tenant.as_str());
            columns.created_at.push(run.created_at);
            columns.request.push(&run.request);
            columns.model.push(&run.model);
            columns.input_text.push(&run.input_text);
            columns.tools.push(&run.tools);
            columns.n_calls.push(run.n_calls);
            columns.holder.push(run.holder.as_deref());
        }
        columns
    }

    fn bind(self, statement: Statement<'a>) -> Statement<'a> {
        statement
            .bind(self.run_id)
            .bind(self.tenant)
            .bind(self.created_at)
            .bind(self.request)
            .bind(self.model)
            .bind(self.input_text)
            .bind(self.tools)
            .bind(self.n_calls)
            .bind(self.holder)
    }
}

/// Rows as column arrays, for a bulk insert in PostgreSQL.
#[derive(Default)]
struct Columns<'a> {
    tenant: Vec<&'a str>,
    run_id: Vec<&'a str>,
    first_seq: Vec<i64>,
    last_seq: Vec<i64>,
    tag: Vec<i64>,
    kind: Vec<&'a str>,
    call_id: Vec<Option<&'a str>>,
    body: Vec<&'a str>,
}

type Statement<'q> =
    sqlx::query::QueryScalar<'q, sqlx::Postgres, String, sqlx::postgres::PgArguments>;

impl<'a> Columns<'a> {
    fn add(&mut self, job: &'a Job, row: &'a EventRow) {
        self.tenant.push(job.tenant.as_str());
        self.run_id.push(job.run_id.as_str());
        self.first_seq.push(row.first);
        self.last_seq.push(row.last);
        self.tag.push(job.tag);
        self.kind.push(row.kind);
        self.call_id.push(row.call.as_deref());
        self.body.push(&row.body);
    }

    fn bind(self, statement: Statement<'a>) -> Statement<'a> {
        statement
            .bind(self.tenant)
            .bind(self.run_id)
            .bind(self.first_seq)
            .bind(self.last_seq)
            .bind(self.tag)
            .bind(self.kind)
            .bind(self.call_id)
            .bind(self.body)
    }
}
