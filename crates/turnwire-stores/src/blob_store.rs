//! Blobs, in the same database as the journal.

use async_trait::async_trait;
use turnwire_contract::{BlobError, BlobId, BlobStore, RunId, TenantId};

use crate::{
    Store,
    database::{DatabaseError, Row, values},
    failures::blob_error,
    sealing::Place,
};

#[async_trait]
impl BlobStore for Store {
    async fn put(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
        id: &BlobId,
        text: String,
    ) -> Result<(), BlobError> {
        let key = self.0.sealing.current(tenant).await.map_err(|error| blob_error(error, id))?;
        let sealed = key.map(|key| key.seal_bytes(Place::blob(id), text.as_bytes())).transpose();
        let sealed = sealed.map_err(|error| blob_error(error, id))?;
        // The same id has the same text: a retry after a lost response.
        let sql = "insert into blobs (tenant, id, run_id, body) values ($1, $2, $3, $4)
                   on conflict (tenant, id) do update set body = excluded.body";
        let values = values![
            tenant,
            id.as_str(),
            run_id.as_str(),
            sealed.as_deref().unwrap_or(text.as_bytes())
        ];
        match self.0.database.query(sql, &values).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_transient() => Err(blob_error(error, id)),
            Err(error) => Err(BlobError::Rejected(error.to_string())),
        }
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        let sql = "select body from blobs where tenant = $1 and id = $2";
        let values = values![tenant, id.as_str()];
        let found = self.0.database.query(sql, &values).await;
        let found = found.map_err(|error| blob_error(error, id))?;
        let row = found.first().ok_or_else(|| BlobError::NotFound(id.clone()))?;
        self.text_of(tenant, id, row).await.map_err(|error| blob_error(error, id))
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        let sql = "delete from blobs where tenant = $1 and run_id = $2";
        let values = values![tenant, run_id.as_str()];
        match self.0.database.query(sql, &values).await {
            Ok(_) | Err(DatabaseError::InvalidValue(_)) => Ok(()),
            Err(error) => Err(blob_error(error, &BlobId::from(run_id.as_str()))),
        }
    }
}

impl Store {
    async fn text_of(
        &self,
        tenant: &TenantId,
        id: &BlobId,
        row: &Row,
    ) -> Result<String, DatabaseError> {
        let bytes = self.0.sealing.open_bytes(tenant, Place::blob(id), row.bytes(0)?).await?;
        String::from_utf8(bytes).map_err(|error| DatabaseError::Failed(error.to_string()))
    }
}
