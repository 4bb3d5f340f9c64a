//! Uploads to and downloads from the library in memory.

use std::{collections::hash_map::Entry, sync::Arc};

use async_trait::async_trait;
use futures::stream;
use turnwire_contract::{ContentStream, FileId, FileRecord, FileUpload, LibraryError};

use super::tenant_library::{File, TenantLibrary};
use crate::sync::lock;

/// Maximum size of a file in bytes.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;

/// Size of a piece in a download.
const PIECE: usize = 256 * 1024;

pub(super) struct Upload {
    tenant_library: Arc<TenantLibrary>,
    content: Vec<u8>,
}

impl Upload {
    pub(super) fn to(tenant_library: Arc<TenantLibrary>) -> Self {
        Self { tenant_library, content: Vec::new() }
    }
}

#[async_trait]
impl FileUpload for Upload {
    async fn write(&mut self, piece: &[u8]) -> Result<(), LibraryError> {
        if self.content.len() + piece.len() > MAX_FILE_BYTES {
            return Err(LibraryError::too_big(MAX_FILE_BYTES));
        }
        self.content.extend_from_slice(piece);
        Ok(())
    }

    async fn finish(self: Box<Self>, file: FileRecord) -> Result<(), LibraryError> {
        let Self { tenant_library, content } = *self;
        let record = FileRecord { bytes: content.len() as u64, ..file };
        match lock(&tenant_library.files).entry(record.id.clone()) {
            Entry::Occupied(_) => Err(already_there(&record.id)),
            Entry::Vacant(free) => {
                free.insert(File { record, content: content.into() });
                Ok(())
            }
        }
    }
}

/// Error for a file ID that exists already.
pub(super) fn already_there(file_id: &FileId) -> LibraryError {
    LibraryError::Exists(format!("file `{file_id}`"))
}

pub(super) fn in_pieces(content: Arc<[u8]>) -> ContentStream {
    let n_bytes = content.len();
    let pieces = (0..n_bytes).step_by(PIECE).map(move |begin| {
        let piece = content.get(begin..n_bytes.min(begin + PIECE));
        Ok(piece.unwrap_or_default().to_vec())
    });
    Box::pin(stream::iter(pieces))
}
