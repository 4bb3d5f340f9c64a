//! Deletes old runs, conversations, idempotency keys, counters of use, input lists and catalogues
//! of tools that nobody needs, entries of the audit log and API keys that ended.

use std::time::Duration;

use tracing::warn;

use crate::{
    Result, Store, catalogues,
    database::{DatabaseError, values},
    deletion::{self, run_key},
    input_lists,
    sync::lock,
    workers::micros,
};

/// Runs deleted per transaction: few enough to keep locks short.
const AT_ONCE: usize = 50;

/// Idempotency keys deleted per transaction; they are small.
const KEYS_AT_ONCE: usize = 1_000;

/// Hidden runs that are looked at each time.
const HIDDEN_LOOKED_AT: i64 = 10_000;

/// Input lists deleted per transaction, each with what only it continues.
const LISTS_AT_ONCE: usize = 20;

impl Store {
    /// Deletes runs finished before the retention period, unused conversations and entries of the
    /// audit log past theirs, API keys that ended before that, and expired idempotency keys.
    /// Entries in conversations stay. Returns the number of deleted runs. Several workers may do
    /// this concurrently.
    pub async fn forget_old_runs(&self) -> Result<u64> {
        let n_forgotten = self.forget_runs_and_what_belongs_to_them().await?;
        self.finish_deletions().await?;
        self.forget_unused_lists().await?;
        catalogues::delete_unused(&*self.0.database).await?;
        // Last, because it may be the largest.
        if let Some(retention) = self.0.options.audit_retention {
            self.forget_dead_api_keys(retention).await?;
            self.forget_old_audit(retention).await?;
        }
        Ok(n_forgotten)
    }

    async fn forget_runs_and_what_belongs_to_them(&self) -> Result<u64> {
        self.forget_old_keys().await?;
        self.forget_expired_shares().await?;
        self.forget_old_usage().await?;
        self.forget_left_behind().await?;
        if let Some(retention) = self.0.options.conversation_retention {
            while self.forget_unused_conversations(retention, AT_ONCE).await? == AT_ONCE {}
        }
        let Some(retention) = self.0.options.retention else {
            return Ok(0);
        };
        let (mut n_forgotten, mut at_once) = (0, AT_ONCE);
        loop {
            match self.forget_some(retention, at_once).await {
                Ok(n_now) => {
                    n_forgotten += n_now as u64;
                    if n_now < at_once {
                        return Ok(n_forgotten);
                    }
                    at_once = (at_once * 2).min(AT_ONCE);
                }
                // A smaller batch is faster, and a single run can be deleted in slices.
                Err(DatabaseError::TooSlow(_)) if at_once > 1 => at_once = 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn forget_some(
        &self,
        retention: Duration,
        at_once: usize,
    ) -> Result<usize, DatabaseError> {
        let dialect = self.0.database.dialect();
        let mut transaction = self.0.database.begin().await?;
        // Hidden runs are deleted with the last run that continues them.
        let sql = format!(
            "select tenant, id from runs r where state = 'finished' and finished_at <= (select {})
             order by finished_at limit $2{}",
            dialect.later("$1"),
            dialect.skip_locked
        );
        let values = values![-micros(retention), at_once];
        let found = transaction.query(&sql, &values).await?;
        let runs = found.iter().map(run_key).collect::<Result<Vec<_>, _>>()?;
        if runs.is_empty() {
            transaction.rollback().await;
            return Ok(0);
        }
        let forgotten = deletion::delete(&mut *transaction, dialect, &runs).await;
        match (forgotten, runs.as_slice()) {
            (Err(DatabaseError::TooSlow(_)), [run]) => {
                drop(transaction);
                deletion::delete_in_slices(&*self.0.database, run).await?;
            }
            (forgotten, _) => {
                forgotten?;
                transaction.commit().await?;
            }
        }
        Ok(runs.len())
    }

    /// Deletes hidden runs that no run continues: somebody was interrupted while deleting them.
    /// Looks at some hidden runs at a time, so that their number does not matter.
    async fn finish_deletions(&self) -> Result<()> {
        let database = &*self.0.database;
        let from = lock(&self.0.swept_hidden).clone();
        let sql = "select id from runs where state = 'hidden' and id > $1
                   order by id limit 1 offset $2";
        let values = values![&from, HIDDEN_LOOKED_AT];
        let next = database.query(sql, &values).await?;
        let next = next.first().map(|row| row.text(0)).transpose()?.unwrap_or_default();
        let until = if next.is_empty() { "$2 = ''" } else { "id <= $2" };
        let sql = format!(
            "select tenant, id from runs where state = 'hidden' and id > $1 and {until}
             and not exists (select 1 from runs next
                             where next.continues = runs.id and next.tenant = runs.tenant)"
        );
        let left = database.query(&sql, &values![&from, next]).await?;
        // Whatever cannot be deleted now does not keep it from looking at the others.
        next.clone_into(&mut lock(&self.0.swept_hidden));
        for run in left.iter().map(run_key) {
            let run = run?;
            if let Err(error) = deletion::delete_in_slices(database, &run).await {
                warn!(run_id = run.run_id, %error, "run not deleted to the end, retried later");
            }
        }
        Ok(())
    }

    /// Deletes input lists that nobody needs and that are there all the same: a worker of a version
    /// that does not know of lists deletes runs without them. Looks at some of them at a time, so
    /// that their number does not matter.
    async fn forget_unused_lists(&self) -> Result<()> {
        let database = &*self.0.database;
        let from = lock(&self.0.swept_lists).clone();
        let (unused, next) = input_lists::find_unused(database, &from).await?;
        // Whatever cannot be deleted now does not keep it from looking at the others.
        *lock(&self.0.swept_lists) = next;
        for lists in unused.chunks(LISTS_AT_ONCE) {
            let mut transaction = database.begin().await?;
            let lists = lists.to_vec();
            input_lists::delete_unused(&mut *transaction, database.dialect(), lists).await?;
            transaction.commit().await?;
        }
        Ok(())
    }

    async fn forget_old_keys(&self) -> Result<()> {
        // The condition is repeated, because a key that is reused concurrently is locked and must
        // be checked again.
        let sql = format!(
            "delete from request_keys where expires_at <= (select {now})
             and (tenant, endpoint, key) in
                 (select tenant, endpoint, key from request_keys
                  where expires_at <= (select {now}) limit $1)
             returning run_id",
            now = self.0.database.dialect().now
        );
        while self.0.database.query(&sql, &values![KEYS_AT_ONCE]).await?.len() == KEYS_AT_ONCE {}
        Ok(())
    }
}
