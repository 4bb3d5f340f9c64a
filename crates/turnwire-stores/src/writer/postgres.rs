//! Batches in PostgreSQL: one statement, and a transaction of several only when a webhook is due,
//! or a run ends that begins or changes its summary in the same append.

use std::{collections::HashSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{BatchWriter, Job, NewRunRow, probe_sql};
use crate::{
    database::{
        Database, DedicatedConnection, Dialect, PostgresDatabase, Result, STATEMENT_TIMEOUT,
        Transaction, in_time, values,
    },
    notify::postgres::{GROWN, payloads},
    progress::SummaryColumns,
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

    async fn try_to_write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>> {
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
    async fn write_in_transaction(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<String>> {
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

    async fn tags_of(&mut self, refused: &[&Job]) -> Result<Vec<(String, i64)>> {
        let runs: Vec<&str> = refused.iter().map(|job| job.run_id.as_str()).collect();
        let firsts: Vec<i64> =
            refused.iter().map(|job| job.rows.first().map_or(0, |row| row.first)).collect();
        let query = sqlx::query_as(TAGS).bind(runs).bind(firsts);
        in_time(STATEMENT_TIMEOUT, query.fetch_all(self.connection.get().await?)).await
    }

    async fn try_to_probe(&mut self) -> Result<()> {
        let sql = probe_sql(self.dialect);
        let mut transaction = self.connection.begin(STATEMENT_TIMEOUT).await?;
        transaction.query(&sql, &values![&self.worker]).await?;
        Box::new(transaction).commit().await
    }

    /// After an error the state of the connection is unknown, so it is closed.
    fn or_disconnect<T>(&mut self, done: Result<T>) -> Result<T> {
        if done.is_err() {
            self.connection.disconnect();
        }
        done
    }
}

#[async_trait]
impl BatchWriter for PostgresBatchWriter {
    async fn write(&mut self, jobs: &[Job], time: Duration) -> Result<Vec<bool>> {
        let written = self.try_to_write(jobs, time).await;
        self.or_disconnect(written)
    }

    async fn probe(&mut self) -> Result<()> {
        let probed = self.try_to_probe().await;
        self.or_disconnect(probed)
    }
}

/// Whether one statement cannot do it: a row can change once in it, and what it inserts it cannot
/// change.
fn needs_transaction(job: &Job) -> bool {
    let is_changed = job.summary.is_some() || job.new_run.is_some();
    (job.run_end.is_some() && is_changed) || !job.deliveries.is_empty()
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
    async fn execute(self, connection: &mut PgConnection, time: Duration) -> Result<Vec<String>> {
        let (mut first, mut rest) = (Rows::default(), Rows::default());
        let (mut summaries, mut new_runs) = (Summaries::default(), NewRuns::default());
        let jobs = || self.jobs.iter().filter(|job| !job.is_abandoned());
        for job in jobs() {
            let mut rows = job.rows.iter();
            if let Some(row) = rows.next() {
                first.add(job, row);
            }
            rows.for_each(|row| rest.add(job, row));
            job.summary.iter().for_each(|summary| summaries.add(job, summary));
            job.new_run.iter().for_each(|run| new_runs.add(job, run));
        }
        let heads = || jobs().filter_map(|job| Some((&job.run_id, job.events.last()?.seq)));
        let notifications = self.sender.map(|sender| payloads(sender, heads())).unwrap_or_default();
        let query = first.bind(sqlx::query_scalar(AssertSqlSafe(Arc::clone(self.sql))));
        let query = rest.bind(query).bind(GROWN).bind(notifications);
        let query = summaries.bind(query.bind(self.worker));
        let mut query = new_runs.bind(query);
        if !self.ends.is_empty() {
            query = self.ends.columns().into_iter().fold(query, sqlx::query::QueryScalar::bind);
        }
        let mut answer: Vec<String> = in_time(time, query.fetch_all(connection)).await?;
        // A notification adds an empty row.
        answer.retain(|run_id| !run_id.is_empty());
        Ok(answer)
    }
}

type Statement<'q> =
    sqlx::query::QueryScalar<'q, sqlx::Postgres, String, sqlx::postgres::PgArguments>;

/// Declares the column arrays of a bulk statement: their types, and what `add` appends to each.
/// `bind` binds them in this order.
macro_rules! columns {
    (
        $(#[$attribute:meta])*
        $name:ident<$lifetime:lifetime>($($source:ident: $source_type:ty),*) {
            $($column:ident: $type:ty = $value:expr,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Default)]
        struct $name<$lifetime> {
            $($column: Vec<$type>,)*
        }

        impl<$lifetime> $name<$lifetime> {
            fn add(&mut self, $($source: $source_type),*) {
                $(self.$column.push($value);)*
            }

            fn bind(self, statement: Statement<$lifetime>) -> Statement<$lifetime> {
                statement$(.bind(self.$column))*
            }
        }
    };
}

columns! {
    /// Rows of events, for a bulk insert.
    Rows<'a>(job: &'a Job, row: &'a EventRow) {
        tenant: &'a str = job.tenant.as_str(),
        run_id: &'a str = job.run_id.as_str(),
        first_seq: i64 = row.first,
        last_seq: i64 = row.last,
        tag: i64 = job.tag,
        kind: &'a str = row.kind,
        call_id: Option<&'a str> = row.call.as_deref(),
        body: &'a str = &row.body,
    }
}

columns! {
    /// Summaries, for a bulk update.
    Summaries<'a>(job: &'a Job, summary: &'a SummaryColumns) {
        run_id: &'a str = job.run_id.as_str(),
        tools: &'a str = &summary.tools,
        n_calls: i64 = summary.n_calls,
        n_failed_calls: i64 = summary.n_failed_calls,
        waiting: i64 = summary.is_waiting.into(),
    }
}

columns! {
    /// New runs, for a bulk insert.
    NewRuns<'a>(job: &'a Job, run: &'a NewRunRow) {
        run_id: &'a str = job.run_id.as_str(),
        tenant: &'a str = job.tenant.as_str(),
        created_at: i64 = run.created_at,
        request: &'a str = &run.request,
        model: &'a str = &run.model,
        input_text: &'a str = &run.input_text,
        tools: &'a str = &run.tools,
        n_calls: i64 = run.n_calls,
        holder: Option<&'a str> = run.holder.as_deref(),
    }
}
