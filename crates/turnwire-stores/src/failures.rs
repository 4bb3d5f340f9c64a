//! Maps database errors to port errors.

use serde::{Serialize, de::DeserializeOwned};
use tracing::{error, warn};
use turnwire_contract::{BlobError, BlobId, LibraryError, StoreError};

use crate::database::{DatabaseError, Transaction};

/// The only conversion of database errors for callers. The cause is logged, and the client is only
/// told to retry.
impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unavailable(cause)
            | DatabaseError::NoRoom(cause)
            | DatabaseError::TooSlow(cause) => {
                warn!(%cause, "database unavailable");
                Self::Unavailable("the database is unavailable".to_owned())
            }
            DatabaseError::KeyMissing(cause) => Self::KeyMissing(cause),
            DatabaseError::Failed(cause) => {
                error!(%cause, "database statement failed");
                Self::Unavailable("a database statement failed".to_owned())
            }
            // A key that cannot be stored cannot exist.
            DatabaseError::InvalidValue(_) => Self::NotFound("object with this name".to_owned()),
            DatabaseError::UniqueViolation(_) => Self::Exists("object with this name".to_owned()),
        }
    }
}

/// Rolls back a refused transaction and returns the refusal. If the database is unavailable,
/// dropping the transaction is enough.
pub(crate) async fn rolled_back(
    transaction: Box<dyn Transaction>,
    refusal: StoreError,
) -> StoreError {
    if !matches!(refusal, StoreError::Unavailable(_)) {
        transaction.rollback().await;
    }
    refusal
}

/// The same for the library.
impl From<DatabaseError> for LibraryError {
    fn from(error: DatabaseError) -> Self {
        match StoreError::from(error) {
            StoreError::NotFound(what) => Self::NotFound(what),
            StoreError::Exists(what) => Self::Exists(what),
            StoreError::KeyMissing(why) => Self::KeyMissing(why),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// The same for blobs.
pub(crate) fn blob_error(error: DatabaseError, id: &BlobId) -> BlobError {
    match StoreError::from(error) {
        StoreError::NotFound(_) => BlobError::NotFound(id.clone()),
        StoreError::Unavailable(why) => BlobError::Unavailable(why),
        StoreError::KeyMissing(why) => BlobError::KeyMissing(why),
        other => BlobError::Unavailable(other.to_string()),
    }
}

/// Encodes `value` as JSON. JSON escapes NUL characters, so every column can store it.
pub(crate) fn encode(value: &impl Serialize) -> Result<String, DatabaseError> {
    serde_json::to_string(value).map_err(|error| DatabaseError::Failed(error.to_string()))
}

/// Decodes a stored JSON value.
pub(crate) fn decode<T: DeserializeOwned>(kept: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(kept).map_err(|error| DatabaseError::Failed(error.to_string()))
}
