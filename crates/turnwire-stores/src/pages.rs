//! Reads the journal from the database.

use std::sync::Arc;

use turnwire_contract::{Event, RecordedEvent, RunId, Seq, TenantId, Timestamp};

use crate::{
    catalogues,
    database::{
        Database, DatabaseError, DedicatedConnection, Result, Row, STATEMENT_TIMEOUT, Value,
        in_time, values,
    },
    input_lists::{self, Shared},
    rows::{StoredRow, seq_column},
    sealing::{Place, Sealing},
    time::now,
};

/// Rows per run when many runs are read together.
pub(crate) const PAGE: i64 = 64;

/// Maximum rows per page of a reader.
const PAGE_ROWS: i64 = 256;

/// Maximum size of a page: an idle reader holds at most this much and one row.
pub(crate) const MAX_PAGE_BYTES: i64 = 256 * 1024;

/// Memory overhead of an event, without its text.
pub(crate) const EVENT_OVERHEAD_BYTES: i64 = 256;

/// The last seq of a run, and whether it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) tenant: TenantId,
    pub(crate) last: Seq,
    pub(crate) is_over: bool,
}

/// Consecutive events of a run, with their size.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Page {
    pub(crate) events: Vec<Arc<RecordedEvent>>,
    pub(crate) bytes: usize,
    pub(crate) n_rows: i64,
    /// Whether nothing tells the time of its first events: their row is damaged.
    pub(crate) is_undated: bool,
}

/// Returns the head of the run, if it exists.
pub(crate) async fn head(database: &dyn Database, run_id: &RunId) -> Result<Option<Head>> {
    let sql = "select tenant, last_seq, kind from run_events \
               where run_id = $1 order by first_seq desc limit 1";
    let rows = database.query(sql, &values![run_id.as_str()]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let last = Seq(u64::try_from(row.integer(1)?).unwrap_or_default());
    Ok(Some(Head { tenant: row.text(0)?.into(), last, is_over: row.text(2)? == "over" }))
}

/// Returns the events after `after`: rows up to `max_bytes`, and at least one.
pub(crate) async fn page(
    database: &dyn Database,
    sealing: &Sealing,
    tenant: &TenantId,
    run_id: &RunId,
    after: Seq,
    max_bytes: i64,
) -> Result<Page> {
    // A reader may start in the middle of a row. Sizes are summed before bodies are fetched.
    let sql = "select e.first_seq, e.last_seq, e.kind, e.call_id, e.body \
               from (select first_seq, sum(n_bytes) over (order by first_seq) - n_bytes as before \
                     from (select first_seq, \
                               octet_length(body) + (last_seq - first_seq + 1) * $4 as n_bytes \
                           from run_events \
                           where run_id = $1 and tenant = $2 and first_seq >= coalesce( \
                               (select max(first_seq) from run_events \
                                where run_id = $1 and first_seq <= $3), 1) \
                           order by first_seq limit $5) as ahead) as sized \
               join run_events e on e.run_id = $1 and e.first_seq = sized.first_seq \
               where sized.before < $6 order by e.first_seq";
    let next = seq_column(after)?.saturating_add(1);
    let values = values![run_id.as_str(), tenant, next, EVENT_OVERHEAD_BYTES, PAGE_ROWS, max_bytes];
    let mut page = Page::default();
    for row in database.query(sql, &values).await? {
        page.add(sealing, tenant, run_id, stored_row(&row)?).await?;
        // A row may be larger than it is stored.
        if i64::try_from(page.bytes).unwrap_or(i64::MAX) >= max_bytes {
            break;
        }
    }
    if page.is_undated {
        let sql = "select created_at from runs where id = $1 and tenant = $2";
        let found = database.query(sql, &values![run_id.as_str(), tenant]).await?;
        if let Some(created_at) = found.first().map(|row| row.integer(0)).transpose()? {
            page.date(Timestamp::from_micros(created_at));
        }
    }
    page.events.retain(|recorded| recorded.seq > after);
    Ok(page)
}

/// Decodes the columns `first_seq, last_seq, kind, call_id, body`.
pub(crate) fn stored_row(row: &Row) -> Result<StoredRow<'_>> {
    Ok(StoredRow {
        first: row.integer(0)?,
        last: row.integer(1)?,
        kind: row.text(2)?,
        call: row.optional_text(3)?,
        body: row.text(4)?,
    })
}

impl Page {
    /// Decodes and adds a row.
    async fn add(
        &mut self,
        sealing: &Sealing,
        tenant: &TenantId,
        run_id: &RunId,
        row: StoredRow<'_>,
    ) -> Result<()> {
        let body = sealing.open(tenant, Place::events(run_id, row.first), row.body).await?;
        let stored = StoredRow { body: &body, ..row };
        let before = self.events.last().map(|recorded| recorded.at);
        self.is_undated |= before.is_none() && stored.time().is_none();
        let mut events = stored.events(run_id, before.unwrap_or(Timestamp::from_micros(0)));
        let mut n_bytes = row.body.len();
        if let (Some(ids), Some(first)) = (stored.shared_ids(), events.first_mut()) {
            let shared = input_lists::read(sealing, tenant, run_id, &ids).await?;
            match (&mut Arc::make_mut(first).event, shared) {
                (Event::RunQueued { request }, Shared::Read(parts, n_shared)) => {
                    parts.join(Arc::make_mut(request));
                    n_bytes += n_shared;
                }
                (_, Shared::RunDeleted) => return Ok(()),
                (event, _) => *event = Event::unreadable(),
            }
        }
        if let Some(id) = stored.catalogue(&events)
            && let Some(recorded) = events.first_mut()
        {
            let event = &mut Arc::make_mut(recorded).event;
            match catalogues::join(sealing, tenant, run_id, &id, event).await? {
                Some(n_joined) => n_bytes += n_joined,
                None => return Ok(()),
            }
        }
        self.add_events(events, n_bytes);
        Ok(())
    }

    /// Sets the time of the first events, if nothing tells it.
    fn date(&mut self, at: Timestamp) {
        if !std::mem::take(&mut self.is_undated) {
            return;
        }
        let undated = |recorded: &&mut Arc<RecordedEvent>| recorded.at == Timestamp::from_micros(0);
        for recorded in self.events.iter_mut().take_while(undated) {
            Arc::make_mut(recorded).at = at;
        }
    }

    /// Adds the events of a row of `bytes` bytes.
    pub(crate) fn add_events(&mut self, events: Vec<Arc<RecordedEvent>>, bytes: usize) {
        self.events.extend(events);
        self.bytes += bytes;
        self.n_rows += 1;
    }
}

/// A run and its known head.
pub(crate) type KnownHead = (RunId, Seq);

/// Source for runs that other workers write.
pub(crate) enum Source {
    /// All runs in one query.
    Postgres(Box<DedicatedConnection>),
    /// One query per run.
    Any(Arc<dyn Database>),
}

impl Source {
    /// Returns the new events of `runs`, at most one page each.
    pub(crate) async fn grown(
        &mut self,
        sealing: &Sealing,
        runs: &[KnownHead],
    ) -> Result<Vec<(RunId, Page)>> {
        match self {
            Self::Any(database) => grown_one_by_one(&**database, sealing, runs).await,
            Self::Postgres(connection) => {
                let grown = grown_together(connection, sealing, runs).await;
                let is_broken =
                    |error: &DatabaseError| !matches!(error, DatabaseError::KeyMissing(_));
                if grown.as_ref().is_err_and(is_broken) {
                    connection.disconnect();
                }
                grown
            }
        }
    }

    /// Returns those of `runs` that no longer exist.
    pub(crate) async fn gone(&mut self, runs: &[KnownHead]) -> Result<Vec<RunId>> {
        match self {
            Self::Any(database) => {
                let mut gone = Vec::new();
                for (run_id, _) in runs {
                    if head(&**database, run_id).await?.is_none() {
                        gone.push(run_id.clone());
                    }
                }
                Ok(gone)
            }
            Self::Postgres(connection) => {
                let gone = gone_of(connection, runs).await;
                if gone.is_err() {
                    connection.disconnect();
                }
                gone
            }
        }
    }
}

async fn grown_one_by_one(
    database: &dyn Database,
    sealing: &Sealing,
    runs: &[KnownHead],
) -> Result<Vec<(RunId, Page)>> {
    let sql = "select first_seq, last_seq, kind, call_id, body, tenant from run_events \
               where run_id = $1 and first_seq > $2 order by first_seq limit $3";
    let mut grown = Vec::new();
    for (run_id, head) in runs {
        let (id, head) = (Value::Text(run_id.as_str()), Value::Integer(seq_column(*head)?));
        let mut page = Page::default();
        for row in database.query(sql, &values![id, head, PAGE]).await? {
            let tenant = TenantId::from(row.text(5)?);
            page.add(sealing, &tenant, run_id, stored_row(&row)?).await?;
        }
        page.date(now());
        if !page.events.is_empty() {
            grown.push((run_id.clone(), page));
        }
    }
    Ok(grown)
}

/// A row from PostgreSQL: index of the requested run, then the columns of a [`StoredRow`], and
/// the tenant.
type GrownRow = (i64, i64, i64, String, Option<String>, String, String);

async fn grown_together(
    connection: &mut DedicatedConnection,
    sealing: &Sealing,
    runs: &[KnownHead],
) -> Result<Vec<(RunId, Page)>> {
    const SQL: &str = "select known.n, grown.first_seq, grown.last_seq, grown.kind, \
             grown.call_id, grown.body, grown.tenant \
         from unnest($1::text[], $2::bigint[]) with ordinality as known(run_id, head, n) \
         cross join lateral ( \
             select first_seq, last_seq, kind, call_id, body, tenant from run_events e \
             where e.run_id = known.run_id and e.first_seq > known.head \
             order by e.first_seq limit $3) grown \
         order by known.n, grown.first_seq";
    let ids: Vec<&str> = runs.iter().map(|(run_id, _)| run_id.as_str()).collect();
    let heads: Result<Vec<i64>> = runs.iter().map(|(_, head)| seq_column(*head)).collect();
    let query = sqlx::query_as(SQL).bind(ids).bind(heads?).bind(PAGE);
    let rows: Vec<GrownRow> =
        in_time(STATEMENT_TIMEOUT, query.fetch_all(connection.get().await?)).await?;
    let mut grown: Vec<(RunId, Page)> = Vec::new();
    for (n, first, last, kind, call, body, tenant) in rows {
        let n = usize::try_from(n - 1).unwrap_or_default();
        let Some((run_id, _)) = runs.get(n) else { continue };
        if grown.last().is_none_or(|(last, _)| last != run_id) {
            grown.push((run_id.clone(), Page::default()));
        }
        let Some((_, page)) = grown.last_mut() else { continue };
        let (kind, call, body) = (kind.as_str(), call.as_deref(), body.as_str());
        let row = StoredRow { first, last, kind, call, body };
        page.add(sealing, &TenantId::new(tenant), run_id, row).await?;
    }
    for (_, page) in &mut grown {
        page.date(now());
    }
    Ok(grown)
}

async fn gone_of(connection: &mut DedicatedConnection, runs: &[KnownHead]) -> Result<Vec<RunId>> {
    const SQL: &str = "select known.run_id from unnest($1::text[]) as known(run_id) \
         where not exists (select 1 from run_events e where e.run_id = known.run_id)";
    let ids: Vec<&str> = runs.iter().map(|(run_id, _)| run_id.as_str()).collect();
    let query = sqlx::query_scalar(SQL).bind(ids);
    let gone: Vec<String> =
        in_time(STATEMENT_TIMEOUT, query.fetch_all(connection.get().await?)).await?;
    Ok(gone.into_iter().map(RunId::new).collect())
}
