//! Files in collections, and their batches.

use std::collections::HashSet;

use async_trait::async_trait;
use serde_json::{Map, Value as Json};
use turnwire_contract::{
    Attachment, Attachments, BatchId, BatchRecord, CollectionId, ExtractionFailure, FileCounts,
    FileId, Indexing, LibraryError, TenantId, Timestamp,
};

use super::{Result, StoreLibrary, now, signed};
use crate::{
    database::{DatabaseError, Row, Transaction, Value, values},
    failures::{decode, encode},
};

/// The columns of attachments `r` that [`read`] decodes.
const COLUMNS: &str = "r.file_id, r.created_at, r.attributes, r.chunking, r.batch_id, r.state, \
                       r.why, r.reason, r.usage_bytes";

#[async_trait]
impl Attachments for StoreLibrary {
    async fn attach(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        batch: Option<BatchRecord>,
        attachments: Vec<Attachment>,
    ) -> Result<()> {
        let mut transaction = self.database.begin().await?;
        let collection = self.to_fill(&mut *transaction, tenant, id).await?;
        self.all_there(&mut *transaction, tenant, &attachments).await?;
        if let Some(batch) = &batch {
            let sql = "insert into file_batches (tenant, id, collection, created_at)
                       values ($1, $2, $3, $4)";
            let values =
                values![tenant, batch.id.as_str(), collection, batch.created_at.as_micros()];
            transaction.query(sql, &values).await?;
        }
        let batch_id = batch.as_ref().map(|batch| &batch.id);
        for attachment in &attachments {
            put(&mut *transaction, tenant, collection, batch_id, attachment).await?;
        }
        transaction.commit().await?;
        self.changed.notify_one();
        Ok(())
    }

    async fn attachment(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Attachment> {
        let collection = self.kept(tenant, id).await?.number;
        let sql = format!(
            "select {COLUMNS} from attachments as r
             where r.tenant = $1 and r.collection = $2 and r.file_id = $3"
        );
        let values = values![tenant, collection, file_id.as_str()];
        let found = self.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| LibraryError::not_attached(file_id))?;
        Ok(read(row)?)
    }

    async fn attachments(&self, tenant: &TenantId, id: &CollectionId) -> Result<Vec<Attachment>> {
        let collection = self.kept(tenant, id).await?.number;
        let sql = format!(
            "select {COLUMNS} from attachments as r where r.tenant = $1 and r.collection = $2
             order by r.created_at desc, r.number desc"
        );
        let values = values![tenant, collection];
        let found = self.database.query(&sql, &values).await?;
        Ok(found.iter().map(read).collect::<Result<_, _>>()?)
    }

    async fn set_attributes(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        file_id: &FileId,
        attributes: Map<String, Json>,
    ) -> Result<()> {
        let collection = self.kept(tenant, id).await?.number;
        let sql = "update attachments set attributes = $4
                   where tenant = $1 and collection = $2 and file_id = $3 returning number";
        let attributes = encode(&attributes)?;
        let values = values![tenant, collection, file_id.as_str(), &attributes];
        let changed = self.database.query(sql, &values).await?;
        changed.first().map(drop).ok_or_else(|| LibraryError::not_attached(file_id))
    }

    async fn chunks(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        file_id: &FileId,
    ) -> Result<Vec<String>> {
        self.attachment(tenant, id, file_id).await?;
        let collection = self.kept(tenant, id).await?.number;
        let sql = "select p.text from attachments as r
                   join passages as p on p.attachment = r.number and p.tenant = r.tenant
                   where r.tenant = $1 and r.collection = $2 and r.file_id = $3
                       and r.state = 'completed'
                   order by p.place";
        let values = values![tenant, collection, file_id.as_str()];
        let found = self.database.query(sql, &values).await?;
        let text = |row: &Row| row.text(0).map(str::to_owned);
        Ok(found.iter().map(text).collect::<Result<_, _>>()?)
    }

    async fn detach(&self, tenant: &TenantId, id: &CollectionId, file_id: &FileId) -> Result<()> {
        let collection = self.kept(tenant, id).await?.number;
        let values = values![tenant, collection, file_id.as_str()];
        let mut transaction = self.database.begin().await?;
        let which = "tenant = $1 and collection = $2 and file_id = $3";
        if release(&mut *transaction, which, &values).await? == 0 {
            return Err(LibraryError::not_attached(file_id));
        }
        transaction.commit().await?;
        self.changed.notify_one();
        Ok(())
    }

    async fn batch(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<BatchRecord> {
        let collection = self.kept(tenant, id).await?.number;
        let sql = "select created_at, cancelled from file_batches
                   where tenant = $1 and collection = $2 and id = $3";
        let values = values![tenant, collection, batch_id.as_str()];
        let found = self.database.query(sql, &values).await?;
        let row = found.first().ok_or_else(|| LibraryError::no_batch(batch_id))?;
        let mut batch = BatchRecord {
            id: batch_id.clone(),
            created_at: Timestamp::from_micros(row.integer(0)?),
            cancelled: row.integer(1)? != 0,
            files: FileCounts::default(),
        };
        let sql = "select state, count(*) from attachments
                   where tenant = $1 and collection = $2 and batch_id = $3 group by state";
        for row in &self.database.query(sql, &values).await? {
            count(&mut batch.files, row.text(0)?, row.integer(1)?);
        }
        Ok(batch)
    }

    async fn cancel_batch(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        batch_id: &BatchId,
    ) -> Result<()> {
        let batch = self.batch(tenant, id, batch_id).await?;
        if batch.files.in_progress == 0 {
            return Ok(());
        }
        let collection = self.kept(tenant, id).await?.number;
        let values = values![tenant, collection, batch_id.as_str()];
        let mut transaction = self.database.begin().await?;
        let sql = "update file_batches set cancelled = 1
                   where tenant = $1 and collection = $2 and id = $3";
        transaction.query(sql, &values).await?;
        // The worker that indexes one of them loses its claim.
        let sql = "update attachments set state = 'cancelled', claim = 0
                   where tenant = $1 and collection = $2 and batch_id = $3
                       and state = 'in_progress'";
        transaction.query(sql, &values).await?;
        transaction.commit().await?;
        Ok(())
    }
}

impl StoreLibrary {
    /// Returns an error if any of the files does not exist.
    async fn all_there(
        &self,
        transaction: &mut dyn Transaction,
        tenant: &TenantId,
        attachments: &[Attachment],
    ) -> Result<()> {
        let ids: Vec<&str> = attachments.iter().map(|one| one.file_id.as_str()).collect();
        let sql = format!(
            "select id from files where tenant = $1 and bytes >= 0
                 and (expires_at is null or expires_at > $2)
                 and id in (select value from {})",
            self.database.dialect().texts("$3")
        );
        let values = values![tenant, now().as_micros(), &ids];
        let found = transaction.query(&sql, &values).await?;
        let found = found.iter().map(|row| row.text(0)).collect::<Result<HashSet<_>, _>>()?;
        match attachments.iter().find(|one| !found.contains(one.file_id.as_str())) {
            Some(missing) => Err(LibraryError::no_file(&missing.file_id)),
            None => Ok(()),
        }
    }
}

/// Adds a file to a collection. Replaces an earlier attachment of the file.
async fn put(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    collection: i64,
    batch_id: Option<&BatchId>,
    attachment: &Attachment,
) -> Result<(), DatabaseError> {
    let file_id = attachment.file_id.as_str();
    let which = "tenant = $1 and collection = $2 and file_id = $3";
    release(transaction, which, &values![tenant, collection, file_id]).await?;
    let sql = "insert into attachments
                   (tenant, collection, file_id, created_at, attributes, chunking, batch_id)
               values ($1, $2, $3, $4, $5, $6, $7)";
    let (attributes, chunking) = (encode(&attachment.attributes)?, encode(&attachment.chunking)?);
    let values = values![
        tenant,
        collection,
        file_id,
        attachment.created_at.as_micros(),
        &attributes,
        &chunking,
        batch_id.map(BatchId::as_str)
    ];
    transaction.query(sql, &values).await.map(drop)
}

/// Deletes the attachments selected by `which` and leaves their chunks for later deletion. Returns
/// how many.
pub(super) async fn release(
    transaction: &mut dyn Transaction,
    which: &str,
    values: &[Value<'_>],
) -> Result<i64, DatabaseError> {
    let sql = format!("delete from attachments where {which} returning number");
    let gone = transaction.query(&sql, values).await?;
    for row in &gone {
        let sql = "insert into attachments_gone (number) values ($1)";
        transaction.query(sql, &values![row.integer(0)?]).await?;
    }
    Ok(signed(gone.len()))
}

fn read(row: &Row) -> Result<Attachment, DatabaseError> {
    Ok(Attachment {
        file_id: FileId::from(row.text(0)?),
        created_at: Timestamp::from_micros(row.integer(1)?),
        attributes: decode(row.text(2)?)?,
        chunking: decode(row.text(3)?)?,
        batch_id: row.optional_text(4)?.map(BatchId::from),
        state: match row.text(5)? {
            "in_progress" => Indexing::InProgress,
            "completed" => Indexing::Completed,
            "cancelled" => Indexing::Cancelled,
            _ => Indexing::Failed {
                why: decode(row.text(6)?).unwrap_or(ExtractionFailure::Broke),
                reason: row.text(7)?.to_owned(),
            },
        },
        usage_bytes: u64::try_from(row.integer(8)?).unwrap_or(0),
    })
}

/// Adds `n` files with a state.
pub(super) fn count(counts: &mut FileCounts, state: &str, n: i64) {
    let place = match state {
        "in_progress" => &mut counts.in_progress,
        "completed" => &mut counts.completed,
        "cancelled" => &mut counts.cancelled,
        _ => &mut counts.failed,
    };
    *place += u64::try_from(n).unwrap_or(0);
}
