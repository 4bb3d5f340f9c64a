//! The journal of runs, in the database.

use std::sync::Arc;

use async_trait::async_trait;
use turnwire_contract::{
    EventStream, Journal, JournalError, JournalHead, RecordedEvent, RunEnd, RunId, Seq, TenantId,
};

use crate::{
    database::{DatabaseError, Value},
    live_tails::Subscription,
    outage::Backoff,
    pages::{self, Head},
    reader::RunReader,
    store::Store,
};

#[async_trait]
impl Journal for Store {
    /// Once handed over, a batch is written even if nobody waits for the answer any more. While
    /// the database is away, this waits.
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
        ending: RunEnd,
    ) -> Result<bool, JournalError> {
        self.append_with(tenant, batch, Some(ending)).await?;
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

    /// As the database has it: the event that somebody saw on another node is there, whether it
    /// has been heard of here or not.
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

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), JournalError> {
        let sql = "delete from run_events where tenant = $1 and run_id = $2";
        let values = [Value::Text(tenant.as_str()), Value::Text(run_id.as_str())];
        match self.0.database.query(sql, &values).await {
            Ok(_) => self.0.tails.delete(tenant, run_id),
            // There is no such run, and so nothing to forget.
            Err(DatabaseError::Refused(_)) => {}
            Err(error) => return Err(unavailable(error)),
        }
        Ok(())
    }
}

impl Store {
    fn reader(&self, subscription: Subscription, after: Seq) -> RunReader {
        let (database, outage) = (Arc::clone(&self.0.database), Arc::clone(&self.0.outage));
        RunReader::new(subscription, database, outage, after)
    }

    async fn head_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Head, JournalError> {
        let head = pages::head(&*self.0.database, run_id).await;
        let head = head.map_err(|error| of_run(error, run_id))?;
        let run_key = head.filter(|head| head.tenant == *tenant);
        run_key.ok_or_else(|| JournalError::NotFound(run_id.clone()))
    }

    async fn append_with(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<RecordedEvent>>,
        ending: Option<RunEnd>,
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
        self.0.writer.append(tenant, batch, ending).await
    }

    /// Whether `seq` is the next one of the run, as far as can be told before it is tried. The
    /// place itself is the fence; this is for those that would leave a gap.
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
        let head = self.stored_head(run_id).await?;
        let head = head.filter(|head| head.tenant == *tenant).ok_or_else(not_found)?;
        Ok(!head.is_over && seq == head.last.next())
    }

    /// How far the run has come; waits while the database is away.
    async fn stored_head(&self, run_id: &RunId) -> Result<Option<Head>, JournalError> {
        let mut backoff = Backoff::default();
        loop {
            match pages::head(&*self.0.database, run_id).await {
                Err(error) if error.is_transient() => self.0.outage.note_away(&error.to_string()),
                done => return done.map_err(unavailable),
            }
            tokio::time::sleep(backoff.next_pause()).await;
        }
    }
}

/// Whether all of `batch` is of one run, without gaps, and nothing follows the end.
fn is_in_order(batch: &[Arc<RecordedEvent>]) -> bool {
    batch.iter().zip(batch.iter().skip(1)).all(|(one, next)| {
        one.run_id == next.run_id && one.seq.next() == next.seq && !one.event.ends_the_run()
    })
}

/// The same for a run that somebody asks for. What cannot be written down was never kept.
fn of_run(error: DatabaseError, run_id: &RunId) -> JournalError {
    match error {
        DatabaseError::Refused(_) => JournalError::NotFound(run_id.clone()),
        other => unavailable(other),
    }
}

fn unavailable(error: DatabaseError) -> JournalError {
    JournalError::Unavailable(error.to_string())
}
