//! API keys.

use std::time::Duration;

use async_trait::async_trait;
use turnwire_contract::{ApiKey, ApiKeys, MAX_API_KEYS, Scope, StoreError, TenantId, Timestamp};

use crate::{
    Result, Store,
    database::{DatabaseError, Row, Value, values},
    workers::micros,
};

const COLUMNS: &str = "id, tenant, project, name, prefix, digest, scopes, created_at, expires_at,
                       revoked_at, last_used_at, replaced_by";

#[async_trait]
impl ApiKeys for Store {
    async fn create_key(&self, key: ApiKey) -> Result<()> {
        let (sql, scopes) = (self.insert_key(), joined(&key));
        if self.0.database.query(&sql, &values_of(&key, &scopes)).await?.is_empty() {
            return Err(too_many());
        }
        Ok(())
    }

    async fn rotate_key(&self, key_id: &str, until: Timestamp, new: ApiKey) -> Result<bool> {
        let sql = format!(
            "update api_keys set changed_at = (select {now}), replaced_by = $5,
             expires_at = case when expires_at < $4 then expires_at else $4 end,
             revoked_at = case when $4 <= $3 then $3 end
             where id = $1 and tenant = $2 and revoked_at is null and replaced_by is null
             and (expires_at is null or expires_at > $3) returning id",
            now = self.0.database.dialect().library.now
        );
        let values = values![
            key_id,
            &new.tenant,
            new.created_at.as_micros(),
            until.as_micros(),
            &new.key_id
        ];
        let mut transaction = self.0.database.begin().await?;
        if transaction.query(&sql, &values).await?.is_empty() {
            transaction.rollback().await;
            return Ok(false);
        }
        let (sql, scopes) = (self.insert_key(), joined(&new));
        if transaction.query(&sql, &values_of(&new, &scopes)).await?.is_empty() {
            transaction.rollback().await;
            return Err(too_many());
        }
        transaction.commit().await?;
        Ok(true)
    }

    async fn revoke_key(
        &self,
        tenant: Option<&TenantId>,
        key_id: &str,
        now: Timestamp,
    ) -> Result<Option<ApiKey>> {
        let sql = format!(
            "update api_keys set revoked_at = coalesce(revoked_at, $3), changed_at = (select {now})
             where id = $1 and tenant = coalesce($2, tenant) returning {COLUMNS}",
            now = self.0.database.dialect().library.now
        );
        let values = values![key_id, of_tenant(tenant), now.as_micros()];
        match self.0.database.query(&sql, &values).await {
            // An id that cannot be stored cannot exist.
            Err(DatabaseError::InvalidValue(_)) => Ok(None),
            found => Ok(found?.first().map(api_key).transpose()?),
        }
    }

    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<ApiKey>> {
        let sql = format!(
            "select {COLUMNS} from api_keys where tenant = coalesce($1, tenant)
             order by created_at, id"
        );
        let found = self.0.database.query(&sql, &[of_tenant(tenant)]).await?;
        Ok(found.iter().map(api_key).collect::<Result<_, _>>()?)
    }

    async fn find_key(&self, digest: &str) -> Result<Option<ApiKey>> {
        let sql = format!("select {COLUMNS} from api_keys where digest = $1");
        let found = self.0.database.query(&sql, &values![digest]).await?;
        Ok(found.first().map(api_key).transpose()?)
    }

    async fn has_keys(&self) -> Result<bool> {
        Ok(!self.0.database.query("select id from api_keys limit 1", &[]).await?.is_empty())
    }

    async fn changed_keys(&self, within: Duration) -> Result<Vec<ApiKey>> {
        let sql = format!(
            "select {COLUMNS} from api_keys where changed_at > (select {now}) - $1",
            now = self.0.database.dialect().library.now
        );
        let within = i64::try_from(within.as_micros()).unwrap_or(i64::MAX / 2);
        let found = self.0.database.query(&sql, &values![within]).await?;
        Ok(found.iter().map(api_key).collect::<Result<_, _>>()?)
    }

    async fn note_uses(&self, uses: &[(String, Timestamp)]) -> Result<()> {
        let sql = "update api_keys set last_used_at = $2
                   where id = $1 and coalesce(last_used_at, 0) < $2 returning id";
        // One by one: a transaction would hold rows that a revocation waits for.
        for (key_id, at) in uses {
            let values = values![key_id, at.as_micros()];
            self.0.database.query(sql, &values).await?;
        }
        Ok(())
    }
}

impl Store {
    /// Inserts a key, unless its tenant has too many.
    fn insert_key(&self) -> String {
        format!(
            "insert into api_keys ({COLUMNS}, changed_at)
             select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, (select {now})
             where (select count(*) from api_keys k where k.tenant = $2 and k.revoked_at is null
                    and (k.expires_at is null or k.expires_at > $8)) < {MAX_API_KEYS}
             returning id",
            now = self.0.database.dialect().library.now
        )
    }
}

/// The keys of one tenant, or of all.
fn of_tenant(tenant: Option<&TenantId>) -> Value<'_> {
    tenant.map_or(Value::OptionalText(None), Value::Tenant)
}

fn too_many() -> StoreError {
    StoreError::Rejected(format!("{MAX_API_KEYS} keys exist"))
}

/// API keys deleted per statement.
const DELETED_AT_ONCE: usize = 1_000;

impl Store {
    /// Deletes keys that were revoked or expired before the retention of the audit log: no entry of
    /// it names them any more. The newest key stays, because a store that had a key stays locked.
    pub(crate) async fn forget_dead_api_keys(
        &self,
        retention: Duration,
    ) -> Result<(), DatabaseError> {
        let database = &self.0.database;
        let sql = format!(
            "delete from api_keys where id in
                 (select id from api_keys
                  where coalesce(revoked_at, expires_at) <= (select {now}) - $1
                  and id <> (select id from api_keys order by created_at desc, id desc limit 1)
                  limit $2)
             returning id",
            now = database.dialect().library.now
        );
        let values = values![micros(retention), DELETED_AT_ONCE];
        while database.query(&sql, &values).await?.len() == DELETED_AT_ONCE {}
        Ok(())
    }
}

fn joined(key: &ApiKey) -> String {
    key.scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
}

fn values_of<'a>(key: &'a ApiKey, scopes: &'a str) -> [Value<'a>; 12] {
    let time = |at: Option<Timestamp>| Value::OptionalInteger(at.map(Timestamp::as_micros));
    values![
        &key.key_id,
        &key.tenant,
        key.project.as_deref(),
        &key.name,
        &key.prefix,
        &key.digest,
        scopes,
        key.created_at.as_micros(),
        time(key.expires_at),
        time(key.revoked_at),
        time(key.last_used_at),
        key.replaced_by.as_deref()
    ]
}

fn api_key(row: &Row) -> Result<ApiKey, DatabaseError> {
    let time = |n| Ok::<_, DatabaseError>(row.optional_integer(n)?.map(Timestamp::from_micros));
    // A scope of a later version allows nothing here.
    let scopes = row.text(6)?.split(' ').filter_map(|scope| scope.parse::<Scope>().ok()).collect();
    Ok(ApiKey {
        key_id: row.text(0)?.to_owned(),
        tenant: TenantId::from(row.text(1)?),
        project: row.optional_text(2)?.map(str::to_owned),
        name: row.text(3)?.to_owned(),
        prefix: row.text(4)?.to_owned(),
        digest: row.text(5)?.to_owned(),
        scopes,
        created_at: Timestamp::from_micros(row.integer(7)?),
        expires_at: time(8)?,
        revoked_at: time(9)?,
        last_used_at: time(10)?,
        replaced_by: row.optional_text(11)?.map(str::to_owned),
    })
}
