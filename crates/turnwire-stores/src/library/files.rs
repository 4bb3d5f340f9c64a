//! Uploaded files.

use std::sync::Arc;

use async_trait::async_trait;
use turnwire_contract::{
    ContentStream, FileId, FileRecord, FileUpload, Files, LibraryError, TenantId, Timestamp,
};

use super::{
    Result, StoreLibrary, attachments, now,
    uploads::{Download, Upload},
};
use crate::{
    database::{DatabaseError, Row, values},
    failures::decode,
    sealing::Place,
};

/// The columns that [`record`] decodes.
const COLUMNS: &str = "id, name, bytes, purpose, created_at, expires_at";

#[async_trait]
impl Files for StoreLibrary {
    async fn upload(&self, tenant: &TenantId, id: &FileId) -> Result<Box<dyn FileUpload>> {
        Ok(Box::new(Upload::begin(self.clone(), tenant.clone(), id.clone()).await?))
    }

    async fn file(&self, tenant: &TenantId, id: &FileId) -> Result<FileRecord> {
        let sql = format!(
            "select {COLUMNS} from files
             where tenant = $1 and id = $2 and bytes >= 0
                 and (expires_at is null or expires_at > $3)"
        );
        let values = values![tenant, id.as_str(), now().as_micros()];
        let found = self.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| LibraryError::no_file(id))?;
        Ok(record(row)?)
    }

    async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>> {
        let sql = format!(
            "select {COLUMNS} from files
             where tenant = $1 and bytes >= 0 and (expires_at is null or expires_at > $2)
             order by created_at desc, id desc"
        );
        let values = values![tenant, now().as_micros()];
        let found = self.database.query(&sql, &values).await?;
        Ok(found.iter().map(record).collect::<Result<_, _>>()?)
    }

    async fn stored_bytes(&self, tenant: &TenantId) -> Result<u64> {
        let sql = "select cast(coalesce(sum(bytes), 0) as bigint) from files
                   where tenant = $1 and bytes > 0";
        let found = self.database.query(sql, &values![tenant]).await?;
        let bytes = found.first().map(|row| row.integer(0)).transpose()?;
        Ok(u64::try_from(bytes.unwrap_or_default()).unwrap_or_default())
    }

    async fn content(&self, tenant: &TenantId, id: &FileId) -> Result<Arc<[u8]>> {
        let record = self.file(tenant, id).await?;
        let mut content = Vec::with_capacity(usize::try_from(record.bytes).unwrap_or_default());
        for place in 0.. {
            let Some(slice) = self.slice(tenant, id, place).await? else { break };
            content.extend_from_slice(&slice);
        }
        // It may have been deleted while it was read.
        self.file(tenant, &record.id).await?;
        Ok(content.into())
    }

    async fn content_stream(&self, tenant: &TenantId, id: &FileId) -> Result<ContentStream> {
        let file = self.file(tenant, id).await?;
        Ok(Download::begin(self.clone(), tenant.clone(), file))
    }

    async fn remove_file(&self, tenant: &TenantId, id: &FileId) -> Result<()> {
        let values = values![tenant, id.as_str()];
        let mut transaction = self.database.begin().await?;
        let gone = "delete from files where tenant = $1 and id = $2 returning id";
        if transaction.query(gone, &values).await?.is_empty() {
            return Err(LibraryError::no_file(id));
        }
        attachments::release(&mut *transaction, "tenant = $1 and file_id = $2", &values).await?;
        let slices = "delete from file_slices where tenant = $1 and file_id = $2";
        transaction.query(slices, &values).await?;
        transaction.commit().await?;
        self.changed.notify_one();
        Ok(())
    }
}

impl StoreLibrary {
    /// Returns the slice at `place`, or `None` past the end of the file.
    pub(super) async fn slice(
        &self,
        tenant: &TenantId,
        id: &FileId,
        place: i64,
    ) -> Result<Option<Vec<u8>>> {
        let sql = "select body from file_slices where tenant = $1 and file_id = $2 and place = $3";
        let values = values![tenant, id.as_str(), place];
        let found = self.database.query(sql, &values).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let at = Place::slice(id, place);
        Ok(Some(self.store.0.sealing.open_bytes(tenant, at, row.bytes(0)?).await?))
    }
}

fn record(row: &Row) -> Result<FileRecord, DatabaseError> {
    Ok(FileRecord {
        id: FileId::from(row.text(0)?),
        name: decode(row.text(1)?)?,
        bytes: u64::try_from(row.integer(2)?).unwrap_or(0),
        purpose: decode(row.text(3)?)?,
        created_at: Timestamp::from_micros(row.integer(4)?),
        expires_at: row.optional_integer(5)?.map(Timestamp::from_micros),
    })
}
