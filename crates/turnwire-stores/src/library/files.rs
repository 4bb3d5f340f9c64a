//! Files as they were handed in.

use std::sync::Arc;

use turnwire_contract::{FileId, FileRecord, LibraryError, TenantId, Timestamp};

use super::{Inner, MAX_FILE_BYTES, attachments, now, signed};
use crate::{
    database::{DatabaseError, Row, Value},
    failures::{read_again, written},
};

/// How much of a file one statement carries.
const SLICE: usize = 1024 * 1024;

/// For how long a file may be on its way in.
const PATIENCE_MICROS: i64 = 60 * 60 * 1_000_000;

/// The columns that [`record`] reads.
const COLUMNS: &str = "id, name, bytes, purpose, created_at, expires_at";

impl Inner {
    pub(super) async fn add_file(
        &self,
        tenant: &TenantId,
        file: &FileRecord,
        content: &[u8],
    ) -> Result<(), LibraryError> {
        if content.len() > MAX_FILE_BYTES {
            return Err(LibraryError::too_big(&file.name, MAX_FILE_BYTES));
        }
        let (tenant, id) = (Value::Text(tenant.as_str()), Value::Text(file.id.as_str()));
        let (name, purpose) = (written(&file.name)?, written(&file.purpose)?);
        // Nobody sees it before all of it is there, and if that never comes, it goes by itself.
        let sql = "insert into files (tenant, id, name, bytes, purpose, created_at, expires_at)
                   values ($1, $2, $3, -1, $4, $5, $6)";
        let created_at = Value::Integer(file.created_at.as_micros());
        let given_up = Value::Integer(now().as_micros() + PATIENCE_MICROS);
        let values = [tenant, id, Value::Text(&name), Value::Text(&purpose), created_at, given_up];
        match self.database.query(sql, &values).await {
            Ok(_) => {}
            Err(DatabaseError::Taken(_)) => {
                return Err(LibraryError::Exists(format!("file `{}`", file.id)));
            }
            Err(error) => return Err(error.into()),
        }
        for (place, slice) in content.chunks(SLICE).enumerate() {
            let sql = "insert into file_slices (tenant, file_id, place, body)
                       values ($1, $2, $3, $4)";
            let values = [tenant, id, Value::Integer(signed(place)), Value::Bytes(slice)];
            self.database.query(sql, &values).await?;
        }
        let sql = "update files set bytes = $3, expires_at = $4 where tenant = $1 and id = $2";
        let bytes = Value::Integer(i64::try_from(file.bytes).unwrap_or(i64::MAX));
        let expires_at = Value::OptionalInteger(file.expires_at.map(Timestamp::as_micros));
        self.database.query(sql, &[tenant, id, bytes, expires_at]).await?;
        Ok(())
    }

    pub(super) async fn file(
        &self,
        tenant: &TenantId,
        id: &FileId,
    ) -> Result<FileRecord, LibraryError> {
        let sql = format!(
            "select {COLUMNS} from files
             where tenant = $1 and id = $2 and bytes >= 0
                 and (expires_at is null or expires_at > $3)"
        );
        let values = [
            Value::Text(tenant.as_str()),
            Value::Text(id.as_str()),
            Value::Integer(now().as_micros()),
        ];
        let found = self.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| LibraryError::no_file(id))?;
        Ok(record(row)?)
    }

    pub(super) async fn files(&self, tenant: &TenantId) -> Result<Vec<FileRecord>, LibraryError> {
        let sql = format!(
            "select {COLUMNS} from files
             where tenant = $1 and bytes >= 0 and (expires_at is null or expires_at > $2)
             order by created_at desc, id desc"
        );
        let values = [Value::Text(tenant.as_str()), Value::Integer(now().as_micros())];
        let found = self.database.query(&sql, &values).await?;
        Ok(found.iter().map(record).collect::<Result<_, _>>()?)
    }

    pub(super) async fn content(
        &self,
        tenant: &TenantId,
        id: &FileId,
    ) -> Result<Arc<[u8]>, LibraryError> {
        let record = self.file(tenant, id).await?;
        let mut content = Vec::new();
        let sql = "select body from file_slices where tenant = $1 and file_id = $2 and place = $3";
        for place in 0.. {
            let values =
                [Value::Text(tenant.as_str()), Value::Text(id.as_str()), Value::Integer(place)];
            let found = self.database.query(sql, &values).await?;
            let Some(row) = found.first() else { break };
            let slice = row.bytes(0)?;
            content.extend_from_slice(slice);
            if slice.len() < SLICE {
                break;
            }
        }
        // It may have been removed while it was read.
        self.file(tenant, &record.id).await?;
        Ok(content.into())
    }

    pub(super) async fn remove_file(
        &self,
        tenant: &TenantId,
        id: &FileId,
    ) -> Result<(), LibraryError> {
        let values = [Value::Text(tenant.as_str()), Value::Text(id.as_str())];
        let mut transaction = self.database.begin().await?;
        let gone = "delete from files where tenant = $1 and id = $2 returning id";
        if transaction.query(gone, &values).await?.is_empty() {
            return Err(LibraryError::no_file(id));
        }
        attachments::let_go(&mut *transaction, "tenant = $1 and file_id = $2", &values).await?;
        let slices = "delete from file_slices where tenant = $1 and file_id = $2";
        transaction.query(slices, &values).await?;
        transaction.commit().await?;
        self.changed.notify_one();
        Ok(())
    }
}

fn record(row: &Row) -> Result<FileRecord, DatabaseError> {
    Ok(FileRecord {
        id: FileId::from(row.text(0)?),
        name: read_again(row.text(1)?)?,
        bytes: u64::try_from(row.integer(2)?).unwrap_or(0),
        purpose: read_again(row.text(3)?)?,
        created_at: Timestamp::from_micros(row.integer(4)?),
        expires_at: row.optional_integer(5)?.map(Timestamp::from_micros),
    })
}
