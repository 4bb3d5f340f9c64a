//! Collections of files.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use turnwire_contract::{
    CollectionId, CollectionNotes, CollectionRecord, CollectionUsage, Collections, LibraryError,
    Query, SearchResults, TenantId, Timestamp,
};

use super::{Result, StoreLibrary, attachments, now};
use crate::{
    database::{DatabaseError, Row, Transaction, values},
    failures::{decode, encode},
};

/// The columns that [`CollectionRow::of`] decodes.
const COLUMNS: &str = "number, id, created_at, last_active_at, notes, expires_days";

/// Minimum interval between updates of the last use, so that not every search writes.
const STILL_ACTIVE_MICROS: i64 = 60 * 1_000_000;

/// A collection and its internal row number.
#[derive(Debug)]
pub(super) struct CollectionRow {
    pub(super) number: i64,
    pub(super) record: CollectionRecord,
}

/// The metadata that is stored as JSON.
#[derive(Debug, Serialize, Deserialize)]
struct CollectionMetadata {
    name: String,
    metadata: BTreeMap<String, String>,
}

impl CollectionMetadata {
    fn of(notes: &CollectionNotes) -> Result<String, DatabaseError> {
        encode(&Self { name: notes.name.clone(), metadata: notes.metadata.clone() })
    }
}

impl CollectionRow {
    fn of(row: &Row) -> Result<Self, DatabaseError> {
        let CollectionMetadata { name, metadata } = decode(row.text(4)?)?;
        let days = row.optional_integer(5)?;
        let expires_after_days = days.and_then(|days| u32::try_from(days).ok());
        let record = CollectionRecord {
            id: CollectionId::from(row.text(1)?),
            created_at: Timestamp::from_micros(row.integer(2)?),
            last_active_at: Timestamp::from_micros(row.integer(3)?),
            notes: CollectionNotes { name, metadata, expires_after_days },
        };
        Ok(Self { number: row.integer(0)?, record })
    }
}

#[async_trait]
impl Collections for StoreLibrary {
    async fn open_collection(&self, tenant: &TenantId, collection: CollectionRecord) -> Result<()> {
        let sql = "insert into collections
                       (tenant, id, created_at, last_active_at, notes, expires_days)
                   values ($1, $2, $3, $4, $5, $6)";
        let notes = CollectionMetadata::of(&collection.notes)?;
        let values = values![
            tenant,
            collection.id.as_str(),
            collection.created_at.as_micros(),
            collection.last_active_at.as_micros(),
            &notes,
            collection.notes.expires_after_days.map(i64::from)
        ];
        match self.database.query(sql, &values).await {
            Ok(_) => Ok(()),
            Err(DatabaseError::UniqueViolation(_)) => {
                Err(LibraryError::Exists(format!("collection `{}`", collection.id)))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn collection(&self, tenant: &TenantId, id: &CollectionId) -> Result<CollectionRecord> {
        Ok(self.kept(tenant, id).await?.record)
    }

    async fn collections(&self, tenant: &TenantId) -> Result<Vec<CollectionRecord>> {
        let sql = format!(
            "select {COLUMNS} from collections where tenant = $1
             order by created_at desc, id desc"
        );
        let found = self.database.query(&sql, &values![tenant]).await?;
        let record = |row| CollectionRow::of(row).map(|kept| kept.record);
        Ok(found.iter().map(record).collect::<Result<_, _>>()?)
    }

    async fn usage(&self, tenant: &TenantId, id: &CollectionId) -> Result<CollectionUsage> {
        let collection = self.kept(tenant, id).await?;
        let sql = "select state, count(*), cast(coalesce(sum(usage_bytes), 0) as bigint)
                   from attachments where tenant = $1 and collection = $2 group by state";
        let values = values![tenant, collection.number];
        let found = self.database.query(sql, &values).await?;
        let mut usage = CollectionUsage::default();
        for row in &found {
            attachments::count(&mut usage.files, row.text(0)?, row.integer(1)?);
            usage.bytes += u64::try_from(row.integer(2)?).unwrap_or(0);
        }
        Ok(usage)
    }

    async fn annotate_collection(
        &self,
        tenant: &TenantId,
        id: &CollectionId,
        notes: CollectionNotes,
    ) -> Result<()> {
        let sql = "update collections set notes = $3, expires_days = $4, last_active_at = $5
                   where tenant = $1 and id = $2 returning number";
        let words = CollectionMetadata::of(&notes)?;
        let values = values![
            tenant,
            id.as_str(),
            &words,
            notes.expires_after_days.map(i64::from),
            now().as_micros()
        ];
        let changed = self.database.query(sql, &values).await?;
        changed.first().map(drop).ok_or_else(|| LibraryError::no_collection(id))
    }

    async fn remove_collection(&self, tenant: &TenantId, id: &CollectionId) -> Result<()> {
        let mut transaction = self.database.begin().await?;
        let sql = "delete from collections where tenant = $1 and id = $2 returning number";
        let values = values![tenant, id.as_str()];
        let gone = transaction.query(sql, &values).await?;
        let row = gone.first().ok_or_else(|| LibraryError::no_collection(id))?;
        let values = values![tenant, row.integer(0)?];
        attachments::release(&mut *transaction, "tenant = $1 and collection = $2", &values).await?;
        let batches = "delete from file_batches where tenant = $1 and collection = $2";
        transaction.query(batches, &values).await?;
        transaction.commit().await?;
        self.changed.notify_one();
        Ok(())
    }

    async fn search(
        &self,
        tenant: &TenantId,
        collections: &[CollectionId],
        query: &Query,
    ) -> Result<SearchResults> {
        self.find_chunks(tenant, collections, query).await
    }
}

impl StoreLibrary {
    pub(super) async fn kept(&self, tenant: &TenantId, id: &CollectionId) -> Result<CollectionRow> {
        let sql = format!("select {COLUMNS} from collections where tenant = $1 and id = $2");
        let values = values![tenant, id.as_str()];
        let found = self.database.query(&sql, &values).await?;
        let row = found.first().ok_or_else(|| LibraryError::no_collection(id))?;
        Ok(CollectionRow::of(row)?)
    }

    /// Returns the collections to search and marks them as used.
    pub(super) async fn to_search(
        &self,
        tenant: &TenantId,
        ids: &[CollectionId],
    ) -> Result<Vec<CollectionRow>> {
        let mut collections: Vec<CollectionRow> = Vec::new();
        for id in ids {
            if collections.iter().any(|known| known.record.id == *id) {
                continue;
            }
            let kept = self.kept(tenant, id).await?;
            if kept.record.is_expired(now()) {
                return Err(LibraryError::expired(id));
            }
            self.touch(tenant, &kept).await?;
            collections.push(kept);
        }
        Ok(collections)
    }

    async fn touch(&self, tenant: &TenantId, kept: &CollectionRow) -> Result<()> {
        let now = now().as_micros();
        if now - kept.record.last_active_at.as_micros() < STILL_ACTIVE_MICROS {
            return Ok(());
        }
        let sql = "update collections set last_active_at = $3 where tenant = $1 and number = $2";
        let values = values![tenant, kept.number, now];
        self.database.query(sql, &values).await?;
        Ok(())
    }

    /// Returns a collection for new attachments, locked against deletion.
    pub(super) async fn to_fill(
        &self,
        transaction: &mut dyn Transaction,
        tenant: &TenantId,
        id: &CollectionId,
    ) -> Result<i64> {
        let sql = format!(
            "select {COLUMNS} from collections where tenant = $1 and id = $2{}",
            self.database.dialect().for_update
        );
        let values = values![tenant, id.as_str()];
        let found = transaction.query(&sql, &values).await?;
        let kept =
            CollectionRow::of(found.first().ok_or_else(|| LibraryError::no_collection(id))?)?;
        let now = now();
        if kept.record.is_expired(now) {
            return Err(LibraryError::expired(id));
        }
        let sql = "update collections set last_active_at = $3 where tenant = $1 and number = $2";
        let values = values![tenant, kept.number, now.as_micros()];
        transaction.query(sql, &values).await?;
        Ok(kept.number)
    }
}
