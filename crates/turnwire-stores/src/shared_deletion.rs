//! Deletes runs that are to go at the same time in one transaction.
//!
//! A response that is not stored is deleted when its run ends, so a busy gateway deletes as many
//! runs as it starts, and a deletion takes half a dozen statements. They cost the same for one run
//! and for a hundred. So the first caller, the leader, deletes all runs that wait; requests that
//! arrive meanwhile wait for the next batch. After a batch of several requests follows a pause, so
//! that even more share the next one; a caller that deletes one run after the other does not wait.

use std::{collections::HashMap, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep_until},
};
use turnwire_contract::{RunId, StoreError, TenantId};

use crate::{
    Result, Store,
    batch_queue::Waited,
    database::{DatabaseError, values},
    deletion::{self, Deleted, RunKey, WaitingDeletion},
    failures::rolled_back,
    run_store::{lock_finished_run, unknown},
};

/// From the end of a batch of several to the next one.
const PAUSE: Duration = Duration::from_millis(20);

impl Store {
    /// Deletes a finished run, together with others that wait.
    pub(crate) async fn delete_run(&self, tenant: &TenantId, run_id: &RunId) -> Result<()> {
        // In a task: a client that disconnects must not leave its deletion to whoever comes next.
        let (store, tenant, run_id) = (self.clone(), tenant.clone(), run_id.clone());
        let deleted =
            self.0.tasks.spawn(async move { store.delete_with_others(&tenant, &run_id).await });
        let panicked = |_| StoreError::Unavailable("the run was not deleted".to_owned());
        deleted.await.map_err(panicked)?
    }

    async fn delete_with_others(&self, tenant: &TenantId, run_id: &RunId) -> Result<()> {
        let run = RunKey { tenant: tenant.as_str().to_owned(), run_id: run_id.as_str().to_owned() };
        let queue = &self.0.deletions;
        loop {
            let (done, mut deleted) = oneshot::channel();
            queue.add(WaitingDeletion { run: run.clone(), done });
            let deleted = loop {
                match queue.wait(&mut deleted).await {
                    Waited::Done(deleted) => break deleted,
                    Waited::Leader(mut last_shared) => {
                        if let Some(last_end) = *last_shared
                            && !queue.is_full()
                        {
                            sleep_until(last_end + PAUSE).await;
                        }
                        let batch = queue.next_batch();
                        let is_shared = batch.len() > 1;
                        self.delete_batch(batch).await;
                        *last_shared = is_shared.then(Instant::now);
                    }
                }
            };
            match deleted {
                Some(Deleted::Done(result)) => return result,
                Some(Deleted::Alone) => return self.delete_alone(tenant, run_id, &run).await,
                // The leader was dropped.
                None => {}
            }
        }
    }

    async fn delete_batch(&self, batch: Vec<WaitingDeletion>) {
        if batch.is_empty() {
            return;
        }
        let runs: Vec<RunKey> = batch.iter().map(|one| one.run.clone()).collect();
        let Ok(states) = self.delete_finished(&runs).await else {
            // Nobody may wait for it any more; the same below.
            return batch.into_iter().for_each(|one| drop(one.done.send(Deleted::Alone)));
        };
        for (one, state) in batch.into_iter().zip(states) {
            let run_id = RunId::new(one.run.run_id);
            let result = match state {
                RunState::Finished => Ok(()),
                RunState::Active => Err(StoreError::Unfinished(run_id)),
                RunState::Unknown => Err(unknown(&run_id)),
            };
            drop(one.done.send(Deleted::Done(result)));
        }
    }

    /// Deletes those of `runs` that are finished, and returns the state that each had.
    async fn delete_finished(&self, runs: &[RunKey]) -> Result<Vec<RunState>, DatabaseError> {
        let dialect = self.0.database.dialect();
        let sql = format!(
            "select tenant, id, state from runs where state <> 'hidden' and (tenant, id) in
                 (select zipped.c1, zipped.c2 from {}) order by id{}",
            dialect.zip(&["$1", "$2"]),
            dialect.for_update
        );
        let tenants: Vec<&str> = runs.iter().map(|run| run.tenant.as_str()).collect();
        let run_ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let values = values![&tenants, &run_ids];
        let mut transaction = self.0.database.begin().await?;
        let found = transaction.query(&sql, &values).await?;
        let mut found = found
            .iter()
            .map(|row| Ok(((row.text(0)?, row.text(1)?), row.text(2)?)))
            .collect::<Result<HashMap<_, _>, DatabaseError>>()?;
        // Taken out, so that only the first of two who delete the same run has deleted it.
        let states = runs.iter().map(|run| match found.remove(&(&*run.tenant, &*run.run_id)) {
            None => RunState::Unknown,
            Some("active") => RunState::Active,
            Some(_) => RunState::Finished,
        });
        let states: Vec<RunState> = states.collect();
        let is_finished = |(_, state): &(_, &RunState)| **state == RunState::Finished;
        let finished: Vec<RunKey> =
            runs.iter().zip(&states).filter(is_finished).map(|(run, _)| run.clone()).collect();
        deletion::delete(&mut *transaction, dialect, &finished).await?;
        transaction.commit().await?;
        Ok(states)
    }

    async fn delete_alone(&self, tenant: &TenantId, run_id: &RunId, run: &RunKey) -> Result<()> {
        let dialect = self.0.database.dialect();
        let mut transaction = self.0.database.begin().await?;
        if let Err(refusal) = lock_finished_run(&mut *transaction, dialect, tenant, run_id).await {
            return Err(rolled_back(transaction, refusal).await);
        }
        match deletion::delete(&mut *transaction, dialect, std::slice::from_ref(run)).await {
            Err(DatabaseError::TooSlow(_)) => {
                drop(transaction);
                Ok(deletion::delete_in_slices(&*self.0.database, run).await?)
            }
            forgotten => {
                forgotten?;
                Ok(transaction.commit().await?)
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunState {
    Finished,
    Active,
    Unknown,
}

#[cfg(test)]
#[path = "shared_deletion_tests.rs"]
mod tests;
