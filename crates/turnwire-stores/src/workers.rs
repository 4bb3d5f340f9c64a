//! Leases, takeovers and pending commands.
//!
//! A lease belongs to a worker, not to a run: one row is renewed for ten thousand runs.

use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::{debug, warn};
use turnwire_contract::{
    AbandonedRun, Commands, Lease, Leases, PendingCommand, RunCommand, RunId, StoreError, TenantId,
    Timestamp,
};

use crate::{
    Result, Store,
    database::{DatabaseError, Dialect, Row, Value, values},
    deletion::{self, run_key},
    failures::{decode, encode},
    heartbeats::{FORMAT, FORMAT_OF_ALL},
    sealing::Place,
};

/// Heartbeats between deletions of dead workers.
const HEARTBEATS_BETWEEN_SWEEPS: u64 = 100;

/// A worker is deleted an hour after its lease expired.
const DEAD_FOR_MICROS: i64 = -60 * 60 * 1_000_000;

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
        let claimed = database.query(&claim_sql(database.dialect()), &values).await?;
        let abandoned = |row: &Row| abandoned(row, lease);
        Ok(claimed.iter().map(abandoned).collect::<Result<_, _>>()?)
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

/// Claims runs of dead workers. It first skips through the worker names in the index, so that the
/// number of runs of live workers does not matter.
fn claim_sql(dialect: &Dialect) -> String {
    format!(
        "with picked as materialized (
             with recursive at_work (worker) as (
                 select min(worker) from runs where state = 'active'
                 union all
                 select (select min(r.worker) from runs r
                         where r.state = 'active' and r.worker > at_work.worker)
                 from at_work where at_work.worker is not null
             ), gone as (
                 select worker from at_work
                 where worker is not null and ($3 = 1 or worker = '') and not exists
                     (select 1 from workers where id = worker and lease_until > {now})
             )
             select r.id, (select {heard} from workers w where w.id = gone.worker) as lease_until
             from gone{runs_of_gone}
             where exists (select 1 from workers where id = $1 and lease_until > {now})
             limit $2
         )
         update runs set worker = $1, previous_lease_until = picked.lease_until,
             n_deaths = n_deaths + case when runs.worker = '' then 0 else 1 end,
             n_failed_takeovers = case when runs.worker = '' then n_failed_takeovers else 0 end
         from picked where runs.id = picked.id
         returning tenant, runs.id, n_deaths, n_failed_takeovers, previous_lease_until",
        now = dialect.now,
        heard = dialect.micros("w.lease_until"),
        runs_of_gone = dialect.runs_of_gone,
    )
}

/// `lease` is the length of a lease, which begins with a heartbeat.
fn abandoned(row: &Row, lease: Duration) -> Result<AbandonedRun, DatabaseError> {
    let count = |n| Ok::<_, DatabaseError>(u32::try_from(row.integer(n)?).unwrap_or(u32::MAX));
    Ok(AbandonedRun {
        tenant: TenantId::from(row.text(0)?),
        run_id: RunId::from(row.text(1)?),
        n_deaths: count(2)?,
        n_failed_takeovers: count(3)?,
        last_heard: row
            .optional_integer(4)?
            .map(|lease_until| Timestamp::from_micros(lease_until - micros(lease))),
    })
}

/// Converts a duration to microseconds.
pub(crate) fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
