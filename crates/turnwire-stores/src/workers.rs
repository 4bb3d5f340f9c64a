//! Leases, takeovers and pending commands.
//!
//! A lease belongs to a worker, not to a run: one row is renewed for ten thousand runs.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{debug, warn};
use turnwire_contract::{
    AbandonedRun, Commands, Lease, Leases, PendingCommand, RunCommand, RunId, StoreError, TenantId,
    Timestamp,
};

use crate::{
    OpenError, Result, Store, StoreOptions,
    database::{
        Database, DatabaseError, Dialect, PostgresDatabase, Row, SqliteDatabase, Value, values,
    },
    deletion::{self, run_key},
    failures::{decode, encode},
    heartbeats::{FORMAT, FORMAT_OF_ALL},
    sealing::Place,
    store::refused,
};

/// Heartbeats between deletions of dead workers.
const HEARTBEATS_BETWEEN_SWEEPS: u64 = 100;

/// A worker is deleted an hour after its lease expired.
const DEAD_FOR_MICROS: i64 = -60 * 60 * 1_000_000;

/// How long a death without an explanation counts against the runs of the worker: ten minutes.
const SUSPECTED_FOR_MICROS: &str = "600000000";

/// A run that killed its worker waits for 1 s, 2 s, and so on, doubled at most this often.
const MAX_PAUSE: u32 = 4;

/// A suspect is on probation for 1 s, 2 s, and so on, doubled at most this often: about a minute.
const MAX_PROBATION: u32 = 6;

#[async_trait]
impl Leases for Store {
    fn worker_name(&self) -> Option<String> {
        Some(self.0.worker.clone())
    }

    async fn heartbeat(&self) -> Result<Lease> {
        let (database, length) = (&self.0.database, self.0.options.lease);
        let now = Instant::now();
        if !self.0.heartbeats.may_send(now, self.0.writer.stuck_for()) {
            return Err(StoreError::Unavailable("the journal does not accept writes".to_owned()));
        }
        let sql = format!(
            "insert into workers (id, lease_until, reads_lists) values ($1, {}, {FORMAT})
             on conflict (id) do update
                 set lease_until = excluded.lease_until, reads_lists = excluded.reads_lists
             returning ({FORMAT_OF_ALL} as other where other.id <> $1)",
            database.dialect().later("$2")
        );
        let values = values![&self.0.worker, micros(length)];
        let renewed = database.query(&sql, &values).await?;
        self.0.heartbeats.set_format(&renewed)?;
        let n_heartbeats = self.0.heartbeats.record(now, length);
        if n_heartbeats.is_multiple_of(HEARTBEATS_BETWEEN_SWEEPS) {
            self.delete_dead_workers().await?;
        }
        if let Err(error) = self.resolve_uncertain().await {
            warn!(%error, "cleanup of uncertain runs failed, retried later");
        }
        Ok(Lease { length })
    }

    async fn claim(&self, most: usize) -> Result<Vec<AbandonedRun>> {
        let (database, lease) = (&self.0.database, self.0.options.lease);
        let steady = self.0.heartbeats.are_steady(Instant::now(), lease);
        let values = values![&self.0.worker, most, steady];
        let sql = claim_sql(database.dialect(), Claimed::Unsuspected);
        let claimed = database.query(&sql, &values).await?;
        let abandoned = |row: &Row| abandoned(row, lease);
        let mut claimed = claimed.iter().map(abandoned).collect::<Result<Vec<_>, _>>()?;
        if claimed.len() < most {
            claimed.extend(self.claim_suspect(steady).await?);
        }
        Ok(claimed)
    }

    async fn end_probation(&self, run_id: &RunId) -> Result<()> {
        let sql = "update workers set suspect = null where id = $1 and suspect = $2";
        let values = values![&self.0.worker, run_id.as_str()];
        self.0.database.query(sql, &values).await?;
        Ok(())
    }

    async fn release(&self, run_id: &RunId) -> Result<()> {
        let sql = "update runs set worker = '' where id = $1 and worker = $2";
        let values = values![run_id.as_str(), &self.0.worker];
        self.0.database.query(sql, &values).await?;
        // Readers here now follow another worker.
        self.0.tails.release(run_id);
        self.0.notifier.notify_work().await;
        Ok(())
    }

    async fn defer(&self, run_id: &RunId) -> Result<()> {
        // 0.2 s, 0.4 s, and so on up to a minute.
        let pause = "((case when n_failed_takeovers >= 9 then 60000
                       else 200 << n_failed_takeovers end) * 1000)";
        let sql = format!(
            "update runs set worker = '', n_failed_takeovers = n_failed_takeovers + 1,
                 claimable_at = {}, deferred_by = $2
             where id = $1 and worker = $2",
            self.0.database.dialect().later(pause)
        );
        let values = values![run_id.as_str(), &self.0.worker];
        self.0.database.query(&sql, &values).await?;
        self.0.tails.release(run_id);
        Ok(())
    }

    async fn decline(&self, run_id: &RunId, reason: &str) -> Result<()> {
        let (id, worker) = (Value::Text(run_id.as_str()), Value::Text(&self.0.worker));
        let mut transaction = self.0.database.begin().await?;
        let sql = "insert into declined_runs (run_id, worker, reason) values ($1, $2, $3)
                   on conflict (run_id, worker) do update set reason = excluded.reason";
        transaction.query(sql, &values![id, worker, reason]).await?;
        let sql = format!(
            "update runs set worker = '', changed_at = {} where id = $1 and worker = $2",
            self.0.database.dialect().now
        );
        transaction.query(&sql, &[id, worker]).await?;
        transaction.commit().await?;
        self.0.tails.release(run_id);
        self.0.list_changed.notify_waiters();
        self.0.notifier.notify_work().await;
        Ok(())
    }

    async fn owned_runs(&self) -> Result<Vec<RunId>> {
        let sql = "select id from runs where worker = $1 and state = 'active'";
        let rows = self.0.database.query(sql, &values![&self.0.worker]).await?;
        let run_id = |row: &Row| row.text(0).map(RunId::from);
        let mut ours: Vec<RunId> = rows.iter().map(run_id).collect::<Result<_, _>>()?;
        let uncertain = self.0.heartbeats.uncertain();
        ours.retain(|run_id| !uncertain.contains(run_id));
        Ok(ours)
    }

    async fn lost_runs(&self, run_ids: &[RunId]) -> Result<Vec<RunId>> {
        let run_ids: Vec<&str> = run_ids.iter().map(RunId::as_str).collect();
        let sql = format!(
            "select value from {} where not exists
                 (select 1 from runs where id = value and worker = $2 and state = 'active')",
            self.0.database.dialect().texts("$1")
        );
        let values = values![&run_ids, &self.0.worker];
        let lost = self.0.database.query(&sql, &values).await?;
        let run_id = |row: &Row| row.text(0).map(RunId::from);
        let lost: Vec<RunId> = lost.iter().map(run_id).collect::<Result<_, _>>()?;
        for run_id in &lost {
            self.0.tails.release(run_id);
        }
        Ok(lost)
    }
}

#[async_trait]
impl Commands for Store {
    async fn enqueue(&self, tenant: &TenantId, run_id: &RunId, command: RunCommand) -> Result<()> {
        // Locked, so that the run does not end in between. A statement that ends it and has begun
        // before may leave the command behind; retention deletes it.
        let sql = format!(
            "insert into commands (tenant, run_id, command)
             select tenant, id, $3 from runs
             where tenant = $1 and id = $2 and state = 'active'{} returning id",
            self.0.database.dialect().for_update
        );
        let mut text = encode(&command)?;
        // Whoever lacks the key still sees that a run is to be cancelled.
        if command != RunCommand::Cancel
            && let Some(key) = self.0.sealing.current(tenant).await?
        {
            key.seal(Place::command(run_id), &mut text)?;
        }
        let values = values![tenant, run_id.as_str(), &text];
        if self.0.database.query(&sql, &values).await?.is_empty() {
            return Err(StoreError::NotFound(format!("unfinished run `{run_id}`")));
        }
        if command == RunCommand::Cancel {
            self.make_claimable(run_id).await?;
        }
        self.0.notifier.notify_work().await;
        Ok(())
    }

    async fn pending_commands(&self) -> Result<Vec<PendingCommand>> {
        // Commands are few and runs are many; the query fixes the join order.
        let sql = "select c.id, c.run_id, c.command, c.tenant from commands c
                   where (select r.worker from runs r where r.id = c.run_id
                          and r.tenant = c.tenant and r.state = 'active') = $1
                   order by c.id";
        let found = self.0.database.query(sql, &values![&self.0.worker]).await?;
        Ok(self.decoded_commands(&found).await)
    }

    async fn pending_commands_for(&self, run_id: &RunId) -> Result<Vec<PendingCommand>> {
        let sql = "select id, run_id, command, tenant from commands where run_id = $1 order by id";
        let found = self.0.database.query(sql, &values![run_id.as_str()]).await?;
        Ok(self.decoded_commands(&found).await)
    }

    async fn acknowledge(&self, pending_commands: &[i64]) -> Result<()> {
        let list = self.0.database.dialect().integers("$1");
        let sql = format!("delete from commands where id in (select value from {list})");
        self.0.database.query(&sql, &values![pending_commands]).await?;
        Ok(())
    }

    async fn woken(&self) {
        self.0.notifier.work().await;
    }
}

impl Store {
    /// Records that the death of `worker`, which is about to come, is to be blamed on this run.
    /// With a connection of its own: the runtime of the store may be blocked.
    pub async fn blame(
        options: &StoreOptions,
        worker: &str,
        run_id: &RunId,
    ) -> Result<(), OpenError> {
        let url = options.url.as_str();
        let database: Arc<dyn Database> = match url.split_once("://") {
            Some(("sqlite", path)) => {
                Arc::new(SqliteDatabase::open(path.as_ref()).await.map_err(refused)?)
            }
            _ => Arc::new(PostgresDatabase::open(url, 1).await.map_err(refused)?),
        };
        blame(database.as_ref(), worker, run_id).await.map_err(refused)
    }

    /// Claims one suspect, if this worker has none.
    async fn claim_suspect(&self, steady: bool) -> Result<Option<AbandonedRun>> {
        let database = &self.0.database;
        let sql = claim_sql(database.dialect(), Claimed::Suspects);
        let values = values![&self.0.worker, 1_usize, steady];
        let claimed = database.query(&sql, &values).await?;
        let Some(row) = claimed.first() else { return Ok(None) };
        let mut suspect = abandoned(row, self.0.options.lease)?;
        let n_suspicions = u32::try_from(row.integer(6)?).unwrap_or(u32::MAX);
        // Before anything of the run is executed. If it fails, another death is needed.
        let named = blame(database.as_ref(), &self.0.worker, &suspect.run_id).await;
        if let Err(error) = named {
            warn!(%error, run_id = %suspect.run_id, "suspect not recorded");
        }
        suspect.probation = Some(probation(n_suspicions, suspect.n_blamed));
        Ok(Some(suspect))
    }

    async fn delete_dead_workers(&self) -> Result<()> {
        let long_ago = self.0.database.dialect().later("$1");
        let sql = format!("delete from workers where lease_until < {long_ago}");
        self.0.database.query(&sql, &values![DEAD_FOR_MICROS]).await?;
        let sql = "delete from declined_runs where not exists
                       (select 1 from runs where id = run_id and state = 'active')
                   or not exists (select 1 from workers where id = worker)";
        self.0.database.query(sql, &[]).await?;
        Ok(())
    }

    /// Decodes pending commands. One of a newer version, or whose key is not here, is ignored; it
    /// stays until the run ends.
    async fn decoded_commands(&self, rows: &[Row]) -> Vec<PendingCommand> {
        let mut commands = Vec::with_capacity(rows.len());
        for row in rows {
            match self.decoded_command(row).await {
                Ok(command) => commands.push(command),
                Err(error @ DatabaseError::KeyMissing(_)) => {
                    warn!(%error, "command for a run not executed, its key is missing");
                }
                Err(error) => debug!(%error, "unknown command for a run ignored"),
            }
        }
        commands
    }

    async fn decoded_command(&self, row: &Row) -> Result<PendingCommand, DatabaseError> {
        let (id, run_id) = (row.integer(0)?, RunId::from(row.text(1)?));
        let (command, tenant) = (row.text(2)?, TenantId::from(row.text(3)?));
        let command = self.0.sealing.open(&tenant, Place::command(&run_id), command).await?;
        let command = decode(&command)?;
        Ok(PendingCommand { id, run_id, command })
    }

    /// Makes the run claimable at once, also for workers that deferred or declined it.
    async fn make_claimable(&self, run_id: &RunId) -> Result<()> {
        let id = values![run_id.as_str()];
        let sql = "delete from declined_runs where run_id = $1";
        self.0.database.query(sql, &id).await?;
        let sql = "update runs set claimable_at = null where id = $1 and claimable_at is not null";
        self.0.database.query(sql, &id).await?;
        Ok(())
    }

    /// Looks for runs that were stored although the response was lost. They have this worker's
    /// lease and would stay active. A run with an idempotency key is released, because its client
    /// retries and finds it. Any other is deleted.
    async fn resolve_uncertain(&self) -> Result<()> {
        let uncertain = self.0.heartbeats.uncertain();
        if uncertain.is_empty() {
            return Ok(());
        }
        let run_ids: Vec<&str> = uncertain.iter().map(RunId::as_str).collect();
        let dialect = self.0.database.dialect();
        let mut transaction = self.0.database.begin().await?;
        let release = format!(
            "update runs set worker = '' where id in (select value from {})
             and worker = $2 and state = 'active'
             and exists (select 1 from request_keys k
                         where k.run_id = runs.id and k.tenant = runs.tenant)
             returning tenant, id",
            dialect.texts("$1"),
        );
        let values = values![&run_ids, &self.0.worker];
        let released = transaction.query(&release, &values).await?;
        let others = format!(
            "select tenant, id from runs where id in (select value from {})
             and worker = $2 and state = 'active'{}",
            dialect.texts("$1"),
            dialect.for_update
        );
        let others = transaction.query(&others, &values).await?;
        let mut found = others.iter().map(run_key).collect::<Result<Vec<_>, _>>()?;
        deletion::delete(&mut *transaction, dialect, &found).await?;
        transaction.commit().await?;
        found.extend(released.iter().map(run_key).collect::<Result<Vec<_>, _>>()?);
        self.0.heartbeats.clear_uncertain(&found);
        if !released.is_empty() {
            self.0.notifier.notify_work().await;
        }
        Ok(())
    }
}

/// Which runs of dead workers to claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    /// Those that did not kill their worker, as far as anybody knows.
    Unsuspected,
    /// Those that may have. A worker claims one if it has none, least blamed first.
    Suspects,
}

/// Claims runs of dead workers. It first skips through the worker names in the index, so that the
/// number of runs of live workers does not matter.
///
/// A run is a suspect if its worker named it so, or if nothing explains the death of the worker and
/// the run has lost another one in the same way. A run that was released stays what it was. One
/// that is to blame waits, longer each time, so that its neighbours have time to go on.
fn claim_sql(dialect: &Dialect, which: Claimed) -> String {
    let now = dialect.now;
    let recent = format!("(case when r.suspected_until > {now} then r.n_suspicions else 0 end)");
    let is_suspect = format!(
        "(gone.suspect = r.id or gone.suspect is null
             and {recent} >= case when gone.worker = '' then 2 else 1 end)"
    );
    let (which, may_claim, order) = match which {
        Claimed::Unsuspected => (format!("{is_suspect} is not true"), "", ""),
        Claimed::Suspects => (
            format!(
                "{is_suspect} and (gone.lease_until is null or gone.suspect is null
                     or {until} + (1000000 << case when r.n_blamed > {MAX_PAUSE}
                         then {MAX_PAUSE} else r.n_blamed end) <= {now_micros})",
                until = dialect.micros("gone.lease_until"),
                now_micros = dialect.micros(now),
            ),
            " and not exists (select 1 from workers me join runs s on s.id = me.suspect
                 where me.id = $1 and s.worker = $1 and s.state = 'active')",
            "r.n_blamed + case when gone.suspect = r.id then 1 else 0 end, r.n_suspicions desc, ",
        ),
    };
    format!(
        "with picked as materialized (
             with recursive at_work (worker) as (
                 select min(worker) from runs where state = 'active'
                 union all
                 select (select min(r.worker) from runs r
                         where r.state = 'active' and r.worker > at_work.worker)
                 from at_work where at_work.worker is not null
             ), gone as (
                 select at_work.worker, w.suspect, w.lease_until
                 from at_work left join workers w on w.id = at_work.worker
                 where at_work.worker is not null and ($3 = 1 or at_work.worker = '')
                     and (w.lease_until is null or w.lease_until <= {now})
             )
             select r.id, {heard} as lease_until,
                 case when gone.suspect = r.id then 1 else 0 end as is_to_blame,
                 case when gone.worker = '' or gone.suspect is not null then null
                      else {recent} + 1 end as n_suspicions
             from gone{runs_of_gone}
             where exists (select 1 from workers where id = $1 and lease_until > {now}){may_claim}
             {sorted} limit $2
         )
         update runs set worker = $1, previous_lease_until = picked.lease_until,
             n_deaths = n_deaths + case when runs.worker = '' then 0 else 1 end,
             n_blamed = n_blamed + picked.is_to_blame,
             n_suspicions = coalesce(picked.n_suspicions, runs.n_suspicions),
             suspected_until = case when picked.n_suspicions is null then runs.suspected_until
                 else {expiry} end,
             n_failed_takeovers = case when runs.worker = '' then n_failed_takeovers else 0 end
         from picked where runs.id = picked.id
         returning tenant, runs.id, n_deaths, n_failed_takeovers, previous_lease_until, n_blamed,
             runs.n_suspicions",
        heard = dialect.micros("gone.lease_until"),
        runs_of_gone = dialect.runs_of_gone.replace("{which}", &which).replace("{order}", order),
        sorted = if order.is_empty() {
            String::new()
        } else {
            format!("order by {}", order.trim_end_matches(", "))
        },
        expiry = dialect.later(SUSPECTED_FOR_MICROS),
    )
}

/// `lease` is the length of a lease, which begins with a heartbeat.
fn abandoned(row: &Row, lease: Duration) -> Result<AbandonedRun, DatabaseError> {
    let count = |n| Ok::<_, DatabaseError>(u32::try_from(row.integer(n)?).unwrap_or(u32::MAX));
    Ok(AbandonedRun {
        tenant: TenantId::from(row.text(0)?),
        run_id: RunId::from(row.text(1)?),
        n_deaths: count(2)?,
        n_blamed: count(5)?,
        probation: None,
        n_failed_takeovers: count(3)?,
        last_heard: row
            .optional_integer(4)?
            .map(|lease_until| Timestamp::from_micros(lease_until - micros(lease))),
    })
}

/// How long a run is a suspect after its takeover: each time longer, so that one is found that takes
/// a while to kill its worker.
fn probation(n_suspicions: u32, n_blamed: u32) -> Duration {
    let n_times = n_suspicions.saturating_sub(2).saturating_add(n_blamed);
    Duration::from_secs(1 << n_times.min(MAX_PROBATION))
}

/// Records that the death of a worker is to be blamed on this run.
async fn blame(database: &dyn Database, worker: &str, run_id: &RunId) -> Result<(), DatabaseError> {
    let sql = "update workers set suspect = $2 where id = $1";
    database.query(sql, &values![worker, run_id.as_str()]).await.map(drop)
}

/// Converts a duration to microseconds.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
