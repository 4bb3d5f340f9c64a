//! The journal of runs, in the database.

use std::sync::Arc;

use async_trait::async_trait;
use turnwire_contract::{
    Ending, EventLog, EventStream, JournalHead, LogError, Recorded, RunId, Seq, TenantId,
};

use crate::{
    database::{DatabaseError, Value},
    outage::Patience,
    pages::{self, Head},
    reader::Reader,
    store::Store,
    tails::Seat,
};

#[async_trait]
impl EventLog for Store {
    /// Once handed over, a batch is written even if nobody waits for the answer any more. While
    /// the database is away, this waits.
    async fn append(&self, tenant: &TenantId, batch: Vec<Arc<Recorded>>) -> Result<(), LogError> {
        self.append_with(tenant, batch, None).await
    }

    async fn append_end(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<Recorded>>,
        ending: Ending,
    ) -> Result<bool, LogError> {
        self.append_with(tenant, batch, Some(ending)).await?;
        Ok(true)
    }

    async fn read(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, LogError> {
        let seat = match self.0.tails.seat(tenant, run_id) {
            Some(seat) => seat,
            None => self.0.tails.seat_at(run_id, self.head_of(tenant, run_id).await?),
        };
        Ok(self.reader(seat, after).into_stream())
    }

    /// As the database has it: the event that somebody saw on another node is there, whether it
    /// has been heard of here or not.
    async fn head(&self, tenant: &TenantId, run_id: &RunId) -> Result<JournalHead, LogError> {
        let Head { last, is_over, .. } = self.head_of(tenant, run_id).await?;
        Ok(JournalHead { last, is_over })
    }

    async fn stored(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        after: Seq,
    ) -> Result<EventStream, LogError> {
        let head = self.head_of(tenant, run_id).await?;
        let last = head.last;
        let seat = self.0.tails.seat_at(run_id, head);
        Ok(self.reader(seat, after).until(last).into_stream())
    }

    async fn probe(&self) -> Result<(), LogError> {
        self.0.writer.probe().await
    }

    async fn forget(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), LogError> {
        let sql = "delete from run_events where tenant = $1 and run_id = $2";
        let values = [Value::Text(tenant.as_str()), Value::Text(run_id.as_str())];
        match self.0.database.query(sql, &values).await {
            Ok(_) => self.0.tails.forget(tenant, run_id),
            // There is no such run, and so nothing to forget.
            Err(DatabaseError::Refused(_)) => {}
            Err(error) => return Err(unavailable(error)),
        }
        Ok(())
    }
}

impl Store {
    fn reader(&self, seat: Seat, after: Seq) -> Reader {
        let (database, outage) = (Arc::clone(&self.0.database), Arc::clone(&self.0.outage));
        Reader::new(seat, database, outage, after)
    }

    async fn head_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Head, LogError> {
        let head = pages::head(&*self.0.database, run_id).await;
        let head = head.map_err(|error| of_run(error, run_id))?;
        let theirs = head.filter(|head| head.tenant == *tenant);
        theirs.ok_or_else(|| LogError::NotFound(run_id.clone()))
    }

    async fn append_with(
        &self,
        tenant: &TenantId,
        batch: Vec<Arc<Recorded>>,
        ending: Option<Ending>,
    ) -> Result<(), LogError> {
        let Some(first) = batch.first() else { return Ok(()) };
        let conflict = || LogError::Conflict { run_id: first.run_id.clone(), place: first.seq };
        if !is_in_order(&batch) {
            return Err(conflict());
        }
        if !self.may_follow(tenant, &first.run_id, first.seq).await? {
            self.0.tails.let_go(&first.run_id);
            return Err(conflict());
        }
        self.0.writer.append(tenant, batch, ending).await
    }

    /// Whether `place` is the next one of the run, as far as can be told before it is tried. The
    /// place itself is the fence; this is for those that would leave a gap.
    async fn may_follow(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        place: Seq,
    ) -> Result<bool, LogError> {
        let not_found = || LogError::NotFound(run_id.clone());
        if let Some(tail) = self.0.tails.find(run_id) {
            let head = tail.head();
            if head.tenant != *tenant {
                return Err(not_found());
            }
            if head.is_over || place <= head.last {
                return Ok(false);
            }
            if place == head.last.next() {
                return Ok(true);
            }
        } else if place == Seq(1) {
            return Ok(true);
        }
        let head = self.stored_head(run_id).await?;
        let head = head.filter(|head| head.tenant == *tenant).ok_or_else(not_found)?;
        Ok(!head.is_over && place == head.last.next())
    }

    /// How far the run has come; waits while the database is away.
    async fn stored_head(&self, run_id: &RunId) -> Result<Option<Head>, LogError> {
        let mut patience = Patience::default();
        loop {
            match pages::head(&*self.0.database, run_id).await {
                Err(error) if error.is_transient() => self.0.outage.note_away(&error.to_string()),
                done => return done.map_err(unavailable),
            }
            tokio::time::sleep(patience.next_pause()).await;
        }
    }
}

/// Whether all of `batch` is of one run, without gaps, and nothing follows the end.
fn is_in_order(batch: &[Arc<Recorded>]) -> bool {
    batch.iter().zip(batch.iter().skip(1)).all(|(one, next)| {
        one.run_id == next.run_id && one.seq.next() == next.seq && !one.event.ends_the_run()
    })
}

/// The same for a run that somebody asks for. What cannot be written down was never kept.
fn of_run(error: DatabaseError, run_id: &RunId) -> LogError {
    match error {
        DatabaseError::Refused(_) => LogError::NotFound(run_id.clone()),
        other => unavailable(other),
    }
}

fn unavailable(error: DatabaseError) -> LogError {
    LogError::Unavailable(error.to_string())
}
