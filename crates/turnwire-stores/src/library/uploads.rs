//! Streaming upload and download of files, in slices.
//!
//! A file is never in memory as a whole. A slice is written when enough bytes have arrived, and
//! read after the previous one was sent. A file is visible only when it is complete. An aborted
//! upload is deleted, and one whose process died expires.

use std::mem;

use async_trait::async_trait;
use futures::stream;
use tokio::runtime::Handle;
use turnwire_contract::{
    ContentStream, FileId, FileRecord, FileUpload, Files, LibraryError, TenantId, Timestamp,
};

use super::{MAX_FILE_BYTES, Result, StoreLibrary, now, signed};
use crate::{
    database::{DatabaseError, values},
    failures::encode,
    sealing::Place,
};

/// Bytes per statement.
const SLICE: usize = 1024 * 1024;

/// Maximum duration of an upload.
const PATIENCE_MICROS: i64 = 60 * 60 * 1_000_000;

/// An upload in progress.
pub(super) struct Upload {
    library: StoreLibrary,
    tenant: TenantId,
    file_id: FileId,
    /// Bytes of an incomplete slice.
    rest: Vec<u8>,
    n_slices: usize,
    n_bytes: usize,
    is_finished: bool,
}

impl Upload {
    pub(super) async fn begin(
        library: StoreLibrary,
        tenant: TenantId,
        file_id: FileId,
    ) -> Result<Self> {
        let sql = "insert into files (tenant, id, name, bytes, purpose, created_at, expires_at)
                   values ($1, $2, '\"\"', -1, '\"\"', $3, $4)";
        let now = now().as_micros();
        let values = values![&tenant, file_id.as_str(), now, now + PATIENCE_MICROS];
        match library.database.query(sql, &values).await {
            Ok(_) => {}
            Err(DatabaseError::UniqueViolation(_)) => {
                return Err(LibraryError::Exists(format!("file `{file_id}`")));
            }
            Err(error) => return Err(error.into()),
        }
        let (rest, n_slices, n_bytes) = (Vec::new(), 0, 0);
        Ok(Self { library, tenant, file_id, rest, n_slices, n_bytes, is_finished: false })
    }

    async fn write_slice(&mut self, slice: &[u8]) -> Result<()> {
        let sql = "insert into file_slices (tenant, file_id, place, body) values ($1, $2, $3, $4)";
        let (place, sealing) = (signed(self.n_slices), &self.library.store.0.sealing);
        let key = sealing.current(&self.tenant).await?;
        let sealed = key.map(|key| key.seal_bytes(Place::slice(&self.file_id, place), slice));
        let sealed = sealed.transpose()?;
        let values =
            values![&self.tenant, self.file_id.as_str(), place, sealed.as_deref().unwrap_or(slice)];
        self.library.database.query(sql, &values).await?;
        self.n_slices += 1;
        Ok(())
    }
}

#[async_trait]
impl FileUpload for Upload {
    async fn write(&mut self, mut piece: &[u8]) -> Result<()> {
        self.n_bytes += piece.len();
        if self.n_bytes > MAX_FILE_BYTES {
            return Err(LibraryError::too_big(MAX_FILE_BYTES));
        }
        while self.rest.len() + piece.len() >= SLICE {
            let (fits, more) = piece.split_at(SLICE - self.rest.len());
            let mut slice = mem::take(&mut self.rest);
            slice.extend_from_slice(fits);
            self.write_slice(&slice).await?;
            piece = more;
        }
        self.rest.extend_from_slice(piece);
        Ok(())
    }

    async fn finish(mut self: Box<Self>, file: FileRecord) -> Result<()> {
        let rest = mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.write_slice(&rest).await?;
        }
        let (name, purpose) = (encode(&file.name)?, encode(&file.purpose)?);
        let sql = "update files set name = $3, bytes = $4, purpose = $5, created_at = $6,
                       expires_at = $7
                   where tenant = $1 and id = $2 and bytes < 0 returning id";
        let values = values![
            &self.tenant,
            self.file_id.as_str(),
            &name,
            self.n_bytes,
            &purpose,
            file.created_at.as_micros(),
            file.expires_at.map(Timestamp::as_micros)
        ];
        if self.library.database.query(sql, &values).await?.is_empty() {
            return Err(LibraryError::Refused("the upload took too long".to_owned()));
        }
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_finished || Handle::try_current().is_err() {
            return;
        }
        let library = self.library.clone();
        let (tenant, file_id) = (self.tenant.clone(), self.file_id.clone());
        self.library.store.0.tasks.spawn(async move {
            if let Err(error) = library.remove_file(&tenant, &file_id).await {
                tracing::debug!(%file_id, %error, "abandoned upload not deleted, it expires in an hour");
            }
        });
    }
}

/// A download in progress.
pub(super) struct Download {
    library: StoreLibrary,
    tenant: TenantId,
    file_id: FileId,
    next: i64,
    n_left: u64,
}

impl Download {
    /// Streams the content of a file in slices.
    pub(super) fn begin(
        library: StoreLibrary,
        tenant: TenantId,
        file: FileRecord,
    ) -> ContentStream {
        let download = Self { library, tenant, file_id: file.id, next: 0, n_left: file.bytes };
        Box::pin(stream::try_unfold(download, Self::next))
    }

    async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>> {
        if self.n_left == 0 {
            return Ok(None);
        }
        let slice = self.library.slice(&self.tenant, &self.file_id, self.next).await?;
        // The file was deleted during the download.
        let slice = slice.ok_or_else(|| LibraryError::no_file(&self.file_id))?;
        self.next += 1;
        self.n_left = self.n_left.saturating_sub(slice.len() as u64);
        Ok(Some((slice, self)))
    }
}
