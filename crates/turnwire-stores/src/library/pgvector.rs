//! PostgreSQL with the extension `vector`: vectors have a column of their own, and the database
//! compares them.
//!
//! The comparison is exact: an approximate index returns too few hits when few of its neighbours
//! are in the collection or pass the filter. The gain is that vectors are not transferred. Vectors
//! stored before the extension was installed stay in blocks and are still found.

use tracing::{info, warn};
use turnwire_contract::TenantId;

use super::{
    StoreLibrary,
    vectors::{ChunkPosition, Nearest},
};
use crate::database::{DatabaseError, Result, Transaction, Value, values};

/// Not a migration, because the extension is optional.
const TABLE: &str = "create table if not exists passage_embeddings (
    attachment bigint not null,
    place      bigint not null,
    tenant     text   not null,
    model      text   not null,
    embedding  vector not null,
    primary key (attachment, place)
)";

/// The scope of a search, as SQL.
pub(super) struct Region<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) collections: &'a [i64],
    pub(super) among: Option<&'a [i64]>,
    pub(super) model: &'a str,
}

impl StoreLibrary {
    /// Returns whether vectors use a pgvector column.
    pub(super) async fn has_column(&self) -> Result<bool> {
        if self.dialect().counts {
            return Ok(false);
        }
        self.column.get_or_try_init(|| self.make_column()).await.copied()
    }

    async fn make_column(&self) -> Result<bool> {
        let count = async |sql: &str| {
            let found = self.database.query(sql, &[]).await?;
            found.first().map_or(Ok(0), |row| row.integer(0))
        };
        if count("select count(*) from pg_extension where extname = 'vector'").await? == 0 {
            let sql = "select count(*) from pg_available_extensions where name = 'vector'";
            if count(sql).await? == 0 {
                return Ok(false);
            }
            let made = self.database.query("create extension if not exists vector", &[]).await;
            if let Err(cause) = made {
                warn!(%cause, "extension `vector` is installed but may not be created by this user");
                return Ok(false);
            }
        }
        match self.database.query(TABLE, &[]).await {
            // Another node creates it at the same time.
            Ok(_) | Err(DatabaseError::UniqueViolation(_)) => {}
            Err(error) => return Err(error),
        }
        self.database.share_table("passage_embeddings").await?;
        info!("pgvector in use");
        Ok(true)
    }

    /// Compares all vectors of the region in the column.
    pub(super) async fn look_in_column(
        &self,
        region: &Region<'_>,
        question: &[f32],
        nearest: &mut Nearest,
    ) -> Result<()> {
        let among = if region.among.is_some() { "and a.number = any($7::bigint[])" } else { "" };
        // The vectors are normalized, so the inner product is the cosine similarity.
        let sql = format!(
            "select e.attachment, e.place,
                    cast(-(e.embedding <#> $4::vector) * 1000000000 as bigint) as likeness
             from passage_embeddings as e
             join attachments as a on a.number = e.attachment and a.tenant = e.tenant
             where a.tenant = $1 and a.collection = any($2::bigint[]) and a.state = 'completed'
                 and e.model = $3 and vector_dims(e.embedding) = $5 {among}
             order by e.embedding <#> $4::vector limit $6"
        );
        let asked = encode(question);
        let (tenant, collections, model) = (region.tenant, region.collections, region.model);
        let (n_dimensions, most) = (question.len(), nearest.most());
        let mut values = values![tenant, collections, model, &asked, n_dimensions, most].to_vec();
        values.extend(region.among.map(Value::Integers));
        for row in &self.database.query(&sql, &values).await? {
            #[expect(clippy::cast_precision_loss, reason = "how alike two are need not be exact")]
            let likeness = row.integer(2)? as f32 / 1e9;
            nearest.see((row.integer(0)?, row.integer(1)?), likeness);
        }
        Ok(())
    }
}

/// Inserts vectors into the column, starting at position `first`.
pub(super) async fn write(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    first: ChunkPosition,
    model: &str,
    vectors: &[Vec<f32>],
) -> Result<()> {
    let sql = "insert into passage_embeddings (attachment, place, tenant, model, embedding)
               select $1::bigint, $2::bigint + n - 1, $3::text, $4::text, one::vector
               from unnest($5::text[]) with ordinality as list(one, n)";
    let texts: Vec<String> = vectors.iter().map(|vector| encode(vector)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let values = values![first.0, first.1, tenant, model, &texts];
    transaction.query(sql, &values).await.map(drop)
}

/// Deletes the vectors of an attachment from the column.
pub(super) async fn remove(transaction: &mut dyn Transaction, attachment: i64) -> Result<()> {
    let sql = "delete from passage_embeddings where attachment = $1";
    transaction.query(sql, &values![attachment]).await.map(drop)
}

/// Encodes a vector for the extension.
fn encode(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(","))
}
