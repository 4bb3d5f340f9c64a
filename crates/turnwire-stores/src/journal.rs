//! The journal, in the database.
//!
//! An append is queued at the [`writer`](crate::writer). After the commit, its `reports` put the
//! events into the [live tails](crate::live_tails), which wakes the [readers](crate::reader), and
//! then answer the caller.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use tokio::time::Instant;
use tracing::warn;
use turnwire_contract::{
    Event, EventStream, Journal, JournalError, JournalHead, RecordedEvent, RunEnd, RunId,
    RunProgress, Seq, StoreStatistics, TenantId,
};

use crate::{
    catalogues::{Catalogue, HeldCatalogue},
    database::{DatabaseError, values},
    live_tails::Subscription,
    outage::Backoff,
    pages::{self, Head},
    progress::SummaryColumns,
    reader::RunReader,
    run_ends::StoredEnd,
    sealing::DataKey,
    store::Store,
    writer::Append,
};

#[async_trait]
impl Journal for Store {
    /// Once queued, a batch is written even if the caller's future is dropped. Waits while the
    /// database is unavailable.
    async fn append(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
    ) -> Result<(), JournalError> {
        self.append_with(tenant, batch, None).await
    }

    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        run_end: RunEnd,
    ) -> Result<bool, JournalError> {
        self.append_with(tenant, batch, Some(run_end)).await?;
        Ok(true)
    }

    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        let subscription = match self.0.tails.subscribe(tenant, run_id) {
            Some(subscription) => subscription,
            None => self.0.tails.subscribe_at(run_id, self.head_of(tenant, run_id).await?),
        };
        Ok(self.reader(subscription, after).into_stream())
    }

    /// Reads the database: an event that a client saw on another node is included, even if this
    /// node has not received it.
    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, JournalError> {
        let Head { last, is_over, .. } = self.head_of(tenant, run_id).await?;
        Ok(JournalHead { last, is_over })
    }

    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, JournalError> {
        let head = self.head_of(tenant, run_id).await?;
        let last = head.last;
        let subscription = self.0.tails.subscribe_at(run_id, head);
        Ok(self.reader(subscription, after).until(last).into_stream())
    }

    async fn probe(&self) -> Result<(), JournalError> {
        self.0.writer.probe().await
    }

    fn statistics(&self) -> Option<StoreStatistics> {
        let (writer, counters) = (&self.0.writer, &self.0.counters);
        // A worker without work writes nothing that could fail, except its heartbeats.
        let is_late = self.0.heartbeats.are_overdue(Instant::now(), self.0.options.lease);
        Some(StoreStatistics {
            is_available: !self.0.outage.is_down() && !is_late,
            n_waiting: writer.n_waiting(),
            stuck_for: writer.stuck_for(),
            lag: self.0.tails.lag(),
            pool: self.0.database.pool_use(),
            ..counters.statistics()
        })
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError> {
        let sql = "delete from run_events where tenant = $1 and run_id = $2";
        let values = values![tenant, run_id.as_str()];
        match self.0.database.query(sql, &values).await {
            Ok(_) => self.0.tails.delete(tenant, run_id),
            // There is no such run, so there is nothing to delete.
            Err(DatabaseError::InvalidValue(_)) => {}
            Err(error) => return Err(unavailable(error)),
        }
        Ok(())
    }
}

impl Store {
    fn reader(&self, subscription: Subscription, after: Seq) -> RunReader {
        let (database, outage) = (Arc::clone(&self.0.database), Arc::clone(&self.0.outage));
        RunReader::new(subscription, database, Arc::clone(&self.0.sealing), outage, after)
    }

    async fn head_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Head, JournalError> {
        let head = pages::head(&*self.0.database, run_id).await;
        let head = head.map_err(|error| of_run(error, run_id))?;
        let head = head.filter(|head| head.tenant == *tenant);
        head.ok_or_else(|| JournalError::NotFound(run_id.clone()))
    }

    async fn append_with(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        run_end: Option<RunEnd>,
    ) -> Result<(), JournalError> {
        let Some(first) = batch.first() else { return Ok(()) };
        let conflict = || JournalError::Conflict { run_id: first.run_id.clone(), seq: first.seq };
        if !is_in_order(&batch) {
            return Err(conflict());
        }
        if !self.may_follow(tenant, &first.run_id, first.seq).await? {
            self.0.tails.release(&first.run_id);
            return Err(conflict());
        }
        let run_id = first.run_id.clone();
        let key = self.retry_until_available(|| self.0.sealing.current(tenant)).await?;
        let catalogues = self.hold_catalogues(tenant, &batch, key.as_deref()).await;
        let run_end = match run_end {
            Some(run_end) => Some(StoredEnd::of(&*self.0.database, tenant, &run_id, run_end).await),
            None => None,
        };
        let summary = self.summary_after(tenant, &batch).await;
        // What the events cause for receivers of webhooks.
        let deliveries = self.deliveries_of(tenant, batch.iter().map(AsRef::as_ref)).await;
        let (is_over, is_noted) = (run_end.is_some(), run_end.is_some() || summary.is_some());
        let (tenant, new_run, has_deliveries) = (tenant.clone(), None, !deliveries.is_empty());
        let append = Append {
            tenant,
            events: batch,
            catalogues,
            run_end,
            summary,
            deliveries,
            new_run,
            key,
        };
        let appended = self.0.writer.append(append).await;
        if has_deliveries {
            self.0.delivery_added.notify_one();
        }
        if is_over || appended.is_err() {
            self.0.tails.progress().forget(&run_id);
        }
        if is_noted {
            self.0.list_changed.notify_waiters();
        }
        appended
    }

    /// Stores long lists of tools of `batch` once for all runs. One that cannot be is stored with
    /// its event.
    async fn hold_catalogues(
        &self,
        tenant: &TenantId,
        batch: &[Arc<RecordedEvent>],
        key: Option<&DataKey>,
    ) -> Vec<HeldCatalogue> {
        let mut all_held = Vec::new();
        if !self.0.heartbeats.may_write_catalogues() {
            return all_held;
        }
        for recorded in batch {
            let run_id = &recorded.run_id;
            let held = match Catalogue::of(recorded, key) {
                Ok(None) => continue,
                Ok(Some(catalogue)) => {
                    let (database, catalogue) = (&*self.0.database, &catalogue);
                    let hold = || catalogue.hold(database, tenant, run_id, key);
                    self.retry_until_available(hold).await
                }
                Err(error) => Err(unavailable(error)),
            };
            match held {
                Ok(held) => {
                    held.share(&self.0.sealing, tenant, &recorded.event);
                    all_held.push(held);
                }
                Err(error) => warn!(%run_id, %error, "list of tools stored with its run"),
            }
        }
        all_held
    }

    /// Returns the columns to store with `batch`, if it changes them.
    async fn summary_after(
        &self,
        tenant: &TenantId,
        batch: &[Arc<RecordedEvent>],
    ) -> Option<SummaryColumns> {
        let first = batch.first()?;
        if !batch.iter().any(|recorded| RunProgress::concerns(&recorded.event)) {
            return None;
        }
        let table = self.0.tails.progress();
        let known = table.find(&first.run_id);
        let mut progress = match known.clone() {
            Some(progress) => progress,
            None => match self.stored_progress(tenant, &first.run_id, first.seq).await {
                Ok(progress) => progress,
                Err(error) => {
                    warn!(run_id = %first.run_id, %error, "summary of the run not updated");
                    return None;
                }
            },
        };
        let before = known.as_ref().map(SummaryColumns::of);
        for recorded in batch {
            progress.note(recorded);
        }
        let after = SummaryColumns::of(&progress);
        // Set before the append: its caller may not wait for the result. Removed if it fails.
        table.set(&first.run_id, progress);
        // Another worker may have recorded that the run waits.
        let is_new_here =
            batch.iter().any(|recorded| matches!(recorded.event, Event::RunTakenOver { .. }));
        (is_new_here || before.as_ref() != Some(&after)).then_some(after)
    }

    /// Folds the stored events of a run before `end`.
    async fn stored_progress(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        end: Seq,
    ) -> Result<RunProgress, JournalError> {
        let mut progress = RunProgress::default();
        if end == Seq(1) {
            return Ok(progress);
        }
        let mut events = self.stored(tenant, run_id, Seq::START).await?;
        while let Some(recorded) = events.try_next().await? {
            if recorded.seq >= end {
                break;
            }
            progress.note(&recorded);
        }
        Ok(progress)
    }

    /// Returns whether `seq` is the next one of the run. The unique key on seq is the fence; this
    /// check rejects gaps.
    async fn may_follow(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        seq: Seq,
    ) -> Result<bool, JournalError> {
        let not_found = || JournalError::NotFound(run_id.clone());
        if let Some(tail) = self.0.tails.find(run_id) {
            let head = tail.head();
            if head.tenant != *tenant {
                return Err(not_found());
            }
            if head.is_over || seq <= head.last {
                return Ok(false);
            }
            if seq == head.last.next() {
                return Ok(true);
            }
        } else if seq == Seq(1) {
            return Ok(true);
        }
        let head = self.retry_until_available(|| pages::head(&*self.0.database, run_id)).await?;
        let head = head.filter(|head| head.tenant == *tenant).ok_or_else(not_found)?;
        Ok(!head.is_over && seq == head.last.next())
    }

    /// Asks the database, and asks again while it is unavailable.
    async fn retry_until_available<T, F>(&self, ask: impl Fn() -> F) -> Result<T, JournalError>
    where
        F: Future<Output = Result<T, DatabaseError>>,
    {
        let mut backoff = Backoff::default();
        loop {
            match ask().await {
                Err(error) if error.is_transient() => self.0.outage.mark_down(&error.to_string()),
                done => return done.map_err(unavailable),
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }
}

/// Returns whether `batch` belongs to one run, has no gaps, and has nothing after the end.
fn is_in_order(batch: &[Arc<RecordedEvent>]) -> bool {
    batch.iter().zip(batch.iter().skip(1)).all(|(one, next)| {
        one.run_id == next.run_id && one.seq.next() == next.seq && !one.event.ends_the_run()
    })
}

/// Maps an error about a requested run. A run id that cannot be stored cannot exist.
fn of_run(error: DatabaseError, run_id: &RunId) -> JournalError {
    match error {
        DatabaseError::InvalidValue(_) => JournalError::NotFound(run_id.clone()),
        other => unavailable(other),
    }
}

fn unavailable(error: DatabaseError) -> JournalError {
    match error {
        DatabaseError::KeyMissing(why) => JournalError::KeyMissing(why),
        other => JournalError::Unavailable(other.to_string()),
    }
}
