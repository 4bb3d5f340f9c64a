//! The index queue: adds files to the index and deletes stale entries.
//!
//! Attachments are their own queue. A worker that indexes one holds a lease, by the database's
//! clock. Its unique `claim` number is the fence: every write for the attachment checks that the
//! claim is still current.

use std::time::Duration;

use async_trait::async_trait;
use tracing::warn;
use turnwire_contract::{
    Chunking, CollectionId, ExtractionFailure, FileId, Files, IndexQueue, IndexTask, IndexWork,
    Indexed, LibraryError, MAX_CLAIMS, NewChunk, TenantId, Vectors,
};

use super::{Result, StoreLibrary, attachments, micros, now, pgvector, signed, vectors::packed};
use crate::{
    database::{DatabaseError, Row, Transaction, Value, is_word, values},
    failures::{decode, encode},
};

/// Chunks per transaction, and vectors per block.
const SLICE: usize = 128;

/// Chunks deleted per transaction.
const REMOVED_AT_ONCE: i64 = 500;

struct ClaimedAttachment {
    number: i64,
    collection: i64,
    n_passages: i64,
}

#[async_trait]
impl IndexQueue for StoreLibrary {
    async fn claim(
        &self,
        model: Option<&str>,
        lease: Duration,
        passed_over: &[TenantId],
    ) -> Result<Option<IndexWork>> {
        let passed_over: Vec<&str> = passed_over.iter().map(TenantId::as_str).collect();
        for due in WorkKind::all(model) {
            if let Some(work) = self.claim_of(&due, lease, &passed_over).await? {
                return Ok(Some(work));
            }
        }
        Ok(None)
    }

    async fn renew(&self, work: &IndexWork, lease: Duration) -> Result<bool> {
        let sql = format!(
            "update attachments set not_before = {} + $2 where tenant = $1 and claim = $3
             returning number",
            self.dialect().now
        );
        let values = values![&work.tenant, micros(lease), work.claim];
        Ok(!self.database.query(&sql, &values).await?.is_empty())
    }

    async fn finish(&self, work: &IndexWork, end: Indexed) -> Result<bool> {
        // Checked before the transaction starts.
        self.has_column().await?;
        let done = match end {
            Indexed::Chunks { chunks, vectors } => {
                self.write_all(work, &chunks, vectors.as_ref()).await
            }
            Indexed::Vectors(vectors) => self.write_vectors(work, &vectors).await,
            Indexed::NotNow(wait) => {
                let sql = format!("not_before = {} + $3, n_claims = 0", self.dialect().now);
                self.end(work, &sql, &values![micros(wait)]).await
            }
            Indexed::Failed { why, reason } => {
                let (why, reason) = (encode(&why)?, without_nul(&reason));
                let values = values![&why, &reason];
                self.end(work, "state = 'failed', why = $3, reason = $4", &values).await
            }
        };
        match done {
            Ok(()) => Ok(true),
            Err(WriteError::Claim) => Ok(false),
            Err(WriteError::Database(error)) => Err(error.into()),
        }
    }

    async fn changed(&self) {
        self.changed.notified().await;
    }

    async fn tidy(&self) -> Result<()> {
        self.has_column().await?;
        self.forget_expired().await?;
        let sql = "select number from attachments_gone order by number limit 1";
        while let Some(row) = self.database.query(sql, &[]).await?.first() {
            let number = row.integer(0)?;
            loop {
                let mut transaction = self.database.begin().await?;
                let some = self.remove_some(&mut *transaction, number).await?;
                if !some {
                    let sql = "delete from attachments_gone where number = $1";
                    transaction.query(sql, &values![number]).await?;
                }
                transaction.commit().await?;
                if !some {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl StoreLibrary {
    async fn claim_of(
        &self,
        due: &WorkKind<'_>,
        lease: Duration,
        passed_over: &[&str],
    ) -> Result<Option<IndexWork>> {
        let (now, dialect) = (self.dialect().now, self.database.dialect());
        let others = dialect.texts("$1");
        let (look, take) = (due.sql(now, &others, ""), due.sql(now, &others, dialect.skip_locked));
        let values = due.values(passed_over);
        // Reading is cheap; in SQLite, starting a write transaction is not.
        while !self.database.query(&look, &values).await?.is_empty() {
            let mut transaction = self.database.begin().await?;
            let found = transaction.query(&take, &values).await?;
            let Some(row) = found.first() else { return Ok(None) };
            let next = AttachmentRow::of(row)?;
            let claim = new_claim();
            let taken = self.take(&mut *transaction, &next, claim, lease).await?;
            transaction.commit().await?;
            if taken {
                // The file may have been deleted since.
                match self.work(next, claim).await {
                    Err(LibraryError::NotFound(_)) => {}
                    // Another process may have the key. This attempt does not count.
                    Err(LibraryError::KeyMissing(why)) => {
                        warn!(why, "file not indexed, it is encrypted and the key is missing");
                        let sql = "update attachments set n_claims = n_claims - 1 where claim = $1";
                        self.database.query(sql, &values![claim]).await?;
                    }
                    done => return done.map(Some),
                }
            }
        }
        Ok(None)
    }

    /// Claims an attachment. Returns `false` if it has been claimed too often.
    async fn take(
        &self,
        transaction: &mut dyn Transaction,
        next: &AttachmentRow,
        claim: i64,
        lease: Duration,
    ) -> Result<bool, DatabaseError> {
        if !next.is_read && next.n_claims >= i64::from(MAX_CLAIMS) {
            let why = encode(&ExtractionFailure::Broke)?;
            let reason = "text extraction failed on every attempt";
            let sql = "update attachments set state = 'failed', why = $2, reason = $3, claim = 0
                       where number = $1";
            let values = values![next.number, &why, reason];
            transaction.query(sql, &values).await?;
            return Ok(false);
        }
        let sql = format!(
            "update attachments set claim = $2, n_claims = n_claims + 1, not_before = {} + $3
             where number = $1",
            self.dialect().now
        );
        let values = values![next.number, claim, micros(lease)];
        transaction.query(&sql, &values).await?;
        Ok(true)
    }

    async fn work(&self, next: AttachmentRow, claim: i64) -> Result<IndexWork> {
        let AttachmentRow { number, tenant, collection_id, file_id, chunking, is_read, .. } = next;
        let file_name = self.file(&tenant, &file_id).await?.name;
        let task = if is_read {
            let sql = "select text from passages where tenant = $1 and attachment = $2
                       order by place";
            let values = values![&tenant, number];
            let found = self.database.query(sql, &values).await?;
            let text = |row: &Row| row.text(0).map(str::to_owned);
            IndexTask::Embed { chunks: found.iter().map(text).collect::<Result<_, _>>()? }
        } else {
            IndexTask::Read { content: self.content(&tenant, &file_id).await?, chunking }
        };
        Ok(IndexWork { tenant, collection_id, file_id, file_name, claim, task })
    }

    /// Ends a claim with these changes, whose parameters start at `$3`.
    async fn end(
        &self,
        work: &IndexWork,
        changes: &str,
        values: &[Value<'_>],
    ) -> Result<(), WriteError> {
        let sql = format!(
            "update attachments set {changes}, claim = 0 where tenant = $1 and claim = $2
             returning number"
        );
        let mut all = values![&work.tenant, work.claim].to_vec();
        all.extend_from_slice(values);
        let ended = self.database.query(&sql, &all).await?;
        ended.first().map(drop).ok_or(WriteError::Claim)
    }

    async fn write_all(
        &self,
        work: &IndexWork,
        chunks: &[NewChunk],
        vectors: Option<&Vectors>,
    ) -> Result<(), WriteError> {
        // An earlier claim may have written some chunks.
        while self.remove_some_of(work).await? {}
        for (n, slice) in chunks.chunks(SLICE).enumerate() {
            let mut transaction = self.database.begin().await?;
            let claimed = self.claimed(&mut *transaction, work).await?;
            let first = signed(n * SLICE);
            self.write_slice(&mut *transaction, work, &claimed, first, slice).await?;
            if let Some(vectors) = vectors {
                let block = vectors.vectors.iter().skip(n * SLICE).take(SLICE);
                let block: Vec<Vec<f32>> = block.cloned().collect();
                self.write_block(&mut *transaction, work, &claimed, first, &vectors.model, &block)
                    .await?;
            }
            transaction.commit().await?;
        }
        let text: usize = chunks.iter().map(|chunk| chunk.text.len()).sum();
        let model = vectors.map_or("", |vectors| &vectors.model);
        let values = values![text + vectors.map_or(0, bytes_of), chunks.len(), model];
        let changes = "state = 'completed', not_before = 0, n_claims = 0, usage_bytes = $3,
                       n_passages = $4, model = $5";
        self.end(work, changes, &values).await
    }

    async fn write_slice(
        &self,
        transaction: &mut dyn Transaction,
        work: &IndexWork,
        claimed: &ClaimedAttachment,
        first: i64,
        chunks: &[NewChunk],
    ) -> Result<(), DatabaseError> {
        let dialect = self.dialect();
        let texts: Vec<String> = chunks.iter().map(|chunk| without_nul(&chunk.text)).collect();
        let words: Vec<String> = chunks
            .iter()
            .map(|chunk| {
                let words: Vec<&str> =
                    chunk.words.split(' ').filter(|word| is_word(word)).collect();
                (dialect.worded)(claimed.collection, &words)
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let values =
            values![&work.tenant, claimed.number, first, &texts, &words, claimed.collection];
        transaction.query(dialect.insert, &values).await.map(drop)
    }

    async fn write_block(
        &self,
        transaction: &mut dyn Transaction,
        work: &IndexWork,
        claimed: &ClaimedAttachment,
        first: i64,
        model: &str,
        block: &[Vec<f32>],
    ) -> Result<(), DatabaseError> {
        let tenant = &work.tenant;
        if self.has_column().await? {
            let spot = (claimed.number, first);
            return pgvector::write(transaction, tenant, spot, model, block).await;
        }
        let sql = "insert into passage_vectors (attachment, place, tenant, model, n, body)
                   values ($1, $2, $3, $4, $5, $6)";
        let body = packed(block);
        let values = values![claimed.number, first, tenant, model, block.len(), &body];
        transaction.query(sql, &values).await.map(drop)
    }

    /// Deletes some chunks and all vectors of an attachment. Returns `false` if there are none.
    async fn remove_some(
        &self,
        transaction: &mut dyn Transaction,
        attachment: i64,
    ) -> Result<bool, DatabaseError> {
        self.remove_vectors(transaction, attachment).await?;
        let sql = "delete from passages where number in
                       (select number from passages where attachment = $1 order by place limit $2)
                   returning number";
        let values = values![attachment, REMOVED_AT_ONCE];
        Ok(!transaction.query(sql, &values).await?.is_empty())
    }

    async fn remove_vectors(
        &self,
        transaction: &mut dyn Transaction,
        attachment: i64,
    ) -> Result<(), DatabaseError> {
        if self.has_column().await? {
            pgvector::remove(transaction, attachment).await?;
        }
        let sql = "delete from passage_vectors where attachment = $1";
        transaction.query(sql, &values![attachment]).await.map(drop)
    }

    async fn write_vectors(&self, work: &IndexWork, vectors: &Vectors) -> Result<(), WriteError> {
        let mut transaction = self.database.begin().await?;
        let claimed = self.claimed(&mut *transaction, work).await?;
        if claimed.n_passages != signed(vectors.vectors.len()) {
            return Err(WriteError::Claim);
        }
        self.remove_vectors(&mut *transaction, claimed.number).await?;
        transaction.commit().await?;
        for (n, block) in vectors.vectors.chunks(SLICE).enumerate() {
            let mut transaction = self.database.begin().await?;
            let claimed = self.claimed(&mut *transaction, work).await?;
            let first = signed(n * SLICE);
            self.write_block(&mut *transaction, work, &claimed, first, &vectors.model, block)
                .await?;
            transaction.commit().await?;
        }
        let values = values![&vectors.model, bytes_of(vectors)];
        let changes = "not_before = 0, n_claims = 0, model = $3, usage_bytes = usage_bytes + $4";
        self.end(work, changes, &values).await
    }

    /// Returns and locks the attachment, if the claim is still current.
    async fn claimed(
        &self,
        transaction: &mut dyn Transaction,
        work: &IndexWork,
    ) -> Result<ClaimedAttachment, WriteError> {
        let sql = format!(
            "select number, collection, n_passages from attachments
             where tenant = $1 and claim = $2{}",
            self.database.dialect().for_update
        );
        let values = values![&work.tenant, work.claim];
        let found = transaction.query(&sql, &values).await?;
        let row = found.first().ok_or(WriteError::Claim)?;
        Ok(ClaimedAttachment {
            number: row.integer(0)?,
            collection: row.integer(1)?,
            n_passages: row.integer(2)?,
        })
    }

    /// Deletes some chunks of a file that is indexed again. Returns `false` if there are none.
    async fn remove_some_of(&self, work: &IndexWork) -> Result<bool, WriteError> {
        let mut transaction = self.database.begin().await?;
        let claimed = self.claimed(&mut *transaction, work).await?;
        let some = self.remove_some(&mut *transaction, claimed.number).await?;
        transaction.commit().await?;
        Ok(some)
    }

    async fn forget_expired(&self) -> Result<()> {
        let now = Value::Integer(now().as_micros());
        let sql = "select tenant, id from files where expires_at <= $1 limit 100";
        for row in &self.database.query(sql, &[now]).await? {
            let (tenant, id) = (TenantId::from(row.text(0)?), FileId::from(row.text(1)?));
            match self.remove_file(&tenant, &id).await {
                // Another worker was faster.
                Ok(()) | Err(LibraryError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // The collection itself stays, marked as expired.
        let sql = "select number from collections as c
                   where expires_days is not null
                       and last_active_at + expires_days * 86400000000 <= $1
                       and exists (select 1 from attachments where collection = c.number)
                   limit 100";
        for row in &self.database.query(sql, &[now]).await? {
            let mut transaction = self.database.begin().await?;
            let number = values![row.integer(0)?];
            attachments::release(&mut *transaction, "collection = $1", &number).await?;
            transaction.commit().await?;
        }
        Ok(())
    }
}

/// Why a write failed.
enum WriteError {
    /// The claim is lost, or the attachment was deleted.
    Claim,
    Database(DatabaseError),
}

impl From<DatabaseError> for WriteError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

/// Work that is due, in order of priority.
enum WorkKind<'a> {
    /// Files that are not indexed at all.
    Read,
    /// Files without vectors of this model whose current model name sorts before it (none sorts
    /// first), or after it: two ranges of the same index.
    EmbedBefore(&'a str),
    EmbedAfter(&'a str),
}

impl<'a> WorkKind<'a> {
    fn all(model: Option<&'a str>) -> Vec<Self> {
        let to_embed = model.map(|model| [Self::EmbedBefore(model), Self::EmbedAfter(model)]);
        std::iter::once(Self::Read).chain(to_embed.into_iter().flatten()).collect()
    }

    fn sql(&self, now: &str, others: &str, lock: &str) -> String {
        let which = match self {
            Self::Read => "r.state = 'in_progress'",
            Self::EmbedBefore(_) => "r.state = 'completed' and r.model < $2 and n_passages > 0",
            Self::EmbedAfter(_) => "r.state = 'completed' and r.model > $2 and n_passages > 0",
        };
        format!(
            "select r.number, r.tenant, r.file_id, r.chunking, r.state, r.n_claims, c.id
             from attachments as r join collections as c on c.number = r.collection
             where {which} and r.not_before <= {now}
                 and r.tenant not in (select value from {others}) order by r.number limit 1{lock}"
        )
    }

    fn values<'b>(&self, passed_over: &'b [&'b str]) -> Vec<Value<'b>>
    where
        'a: 'b,
    {
        let passed_over = Value::Texts(passed_over);
        match self {
            Self::Read => vec![passed_over],
            Self::EmbedBefore(model) | Self::EmbedAfter(model) => {
                vec![passed_over, Value::Text(model)]
            }
        }
    }
}

struct AttachmentRow {
    number: i64,
    tenant: TenantId,
    collection_id: CollectionId,
    file_id: FileId,
    chunking: Chunking,
    is_read: bool,
    n_claims: i64,
}

impl AttachmentRow {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        Ok(Self {
            number: row.integer(0)?,
            tenant: TenantId::from(row.text(1)?),
            file_id: FileId::from(row.text(2)?),
            chunking: decode(row.text(3)?)?,
            is_read: row.text(4)? == "completed",
            n_claims: row.integer(5)?,
            collection_id: CollectionId::from(row.text(6)?),
        })
    }
}

/// Returns a unique claim number.
fn new_claim() -> i64 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    i64::try_from(high >> 1).unwrap_or(i64::MAX)
}

fn bytes_of(vectors: &Vectors) -> usize {
    vectors.vectors.iter().map(|vector| size_of_val(vector.as_slice())).sum()
}

/// PostgreSQL cannot store a NUL character in text.
fn without_nul(text: &str) -> String {
    text.replace('\0', " ")
}
