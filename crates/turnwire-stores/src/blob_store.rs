//! Blobs, in the same database as the journal.

use async_trait::async_trait;
use turnwire_contract::{BlobError, BlobId, BlobStore, RunId, TenantId};

use crate::{
    Store,
    database::{DatabaseError, Row, Value},
    failures::blob_error,
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
        // The same id has the same text: a retry after a lost response.
        let sql = "insert into blobs (tenant, id, run_id, body) values ($1, $2, $3, $4)
                   on conflict (tenant, id) do update set body = excluded.body";
        let values = [
            Value::Tenant(tenant),
            Value::Text(id.as_str()),
            Value::Text(run_id.as_str()),
            Value::Bytes(text.as_bytes()),
        ];
        match self.0.database.query(sql, &values).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_transient() => Err(blob_error(error, id)),
            Err(error) => Err(BlobError::Rejected(error.to_string())),
        }
    }

    async fn get(&self, tenant: &TenantId, id: &BlobId) -> Result<String, BlobError> {
        let sql = "select body from blobs where tenant = $1 and id = $2";
        let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
        let found = self.0.database.query(sql, &values).await;
        let found = found.map_err(|error| blob_error(error, id))?;
        let row = found.first().ok_or_else(|| BlobError::NotFound(id.clone()))?;
        text_of(row).map_err(|error| blob_error(error, id))
    }

    async fn delete(&self, tenant: &TenantId, run_id: &RunId) -> Result<(), BlobError> {
        let sql = "delete from blobs where tenant = $1 and run_id = $2";
        let values = [Value::Tenant(tenant), Value::Text(run_id.as_str())];
        match self.0.database.query(sql, &values).await {
            Ok(_) | Err(DatabaseError::InvalidValue(_)) => Ok(()),
            Err(error) => Err(blob_error(error, &BlobId::from(run_id.as_str()))),
        }
    }
}

fn text_of(row: &Row) -> Result<String, DatabaseError> {
    let text = String::from_utf8(row.bytes(0)?.to_vec());
    text.map_err(|error| DatabaseError::Failed(error.to_string()))
}
