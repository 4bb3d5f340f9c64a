//! From what the database says to what the ports say.

use serde::{Serialize, de::DeserializeOwned};
use tracing::{error, warn};
use turnwire_contract::{BlobError, BlobId, LibraryError, StoreError};

use crate::database::{DatabaseError, Transaction};

/// The one place where a database's refusal becomes a caller's. What a client cannot repair goes
/// to the log, and the client learns no more than that it should come back.
impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Away(cause) | DatabaseError::TooSlow(cause) => {
                warn!(%cause, "database unavailable");
                Self::Unavailable("its database is away".to_owned())
            }
            DatabaseError::Broken(cause) => {
                error!(%cause, "database statement failed");
                Self::Unavailable("its database is in trouble".to_owned())
            }
            // What cannot be written down was never kept.
            DatabaseError::Refused(_) => Self::NotFound("thing of such a name".to_owned()),
            DatabaseError::Taken(_) => Self::Exists("thing of that name".to_owned()),
        }
    }
}

/// Undoes a transaction whose work was refused, and gives the refusal back. Where the database is
/// away, dropping the transaction is all that can be done.
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
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// The same for big results: `id` is the one that was asked about.
pub(crate) fn blob_error(error: DatabaseError, id: &BlobId) -> BlobError {
    match StoreError::from(error) {
        StoreError::NotFound(_) => BlobError::NotFound(id.clone()),
        StoreError::Unavailable(why) => BlobError::Unavailable(why),
        other => BlobError::Unavailable(other.to_string()),
    }
}

/// `value` as it is kept. JSON writes a NUL character as six others, so it fits everywhere.
pub(crate) fn encode(value: &impl Serialize) -> Result<String, DatabaseError> {
    serde_json::to_string(value).map_err(|error| DatabaseError::Broken(error.to_string()))
}

/// What was kept, read again.
pub(crate) fn decode<T: DeserializeOwned>(kept: &str) -> Result<T, DatabaseError> {
    serde_json::from_str(kept).map_err(|error| DatabaseError::Broken(error.to_string()))
}
