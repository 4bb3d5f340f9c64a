//! What is old goes away by itself.

use std::{sync::Weak, time::Duration};

use tracing::{info, warn};
use turnwire_contract::StoreError;

use crate::{
    Store,
    database::{DatabaseError, Value},
    deletion::{self, run_key},
    store::Inner,
    workers::micros,
};

/// How many runs are forgotten in one transaction: few enough that nobody waits long for it.
const AT_ONCE: usize = 50;

/// The same for keys, which are small.
const KEYS_AT_ONCE: usize = 1_000;

/// How often it is looked for what has grown old.
const BETWEEN_LOOKS: Duration = Duration::from_mins(10);

/// Forgets what has grown old, from time to time, for as long as the store is open.
pub(crate) async fn retention_loop(store: Weak<Inner>) {
    while let Some(inner) = store.upgrade() {
        match Store(inner).forget_old_runs().await {
            Ok(0) => {}
            Ok(n_forgotten) => info!(n_forgotten, "expired runs deleted"),
            Err(error) => warn!(%error, "retention failed, retried later"),
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

impl Store {
    /// Forgets the runs that were finished longer ago than runs are kept, with everything of
    /// theirs, the conversations that nobody has used for as long as those are kept, and the keys
    /// that hold no more. What runs have added to conversations stays with them. Tells how many
    /// runs it were. Several workers may do this at once.
    pub async fn forget_old_runs(&self) -> Result<u64, StoreError> {
        self.forget_old_keys().await?;
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
                // Fewer at once are quicker, and one alone can be taken apart.
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
        // Hidden ones are looked at again only when nobody continues them any more.
        let sql = format!(
            "select r.tenant, r.id from runs r
             where r.state <> 'active' and r.finished_at <= (select {})
             and (r.state = 'finished' or not exists
                 (select 1 from runs next where next.continues = r.id and next.tenant = r.tenant))
             order by r.finished_at limit $2{}",
            dialect.later("$1"),
            dialect.skip_locked
        );
        let most = i64::try_from(at_once).unwrap_or(i64::MAX);
        let values = [Value::Integer(-micros(retention)), Value::Integer(most)];
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

    async fn forget_old_keys(&self) -> Result<(), StoreError> {
        // Said twice: a key that is taken anew in the same moment is locked, and looked at again.
        let sql = format!(
            "delete from request_keys where expires_at <= (select {now})
             and (tenant, endpoint, key) in
                 (select tenant, endpoint, key from request_keys
                  where expires_at <= (select {now}) limit $1)
             returning run_id",
            now = self.0.database.dialect().now
        );
        let most = Value::Integer(i64::try_from(KEYS_AT_ONCE).unwrap_or(i64::MAX));
        while self.0.database.query(&sql, &[most]).await?.len() == KEYS_AT_ONCE {}
        Ok(())
    }
}
