//! The table of keys of tenants: reads them, makes them, and replaces the keys of both kinds.

use std::sync::Arc;

use tracing::{error, warn};
use turnwire_contract::{SecretError, TenantId};
use zeroize::Zeroizing;

use super::{DataKey, Sealing, TenantKeys};
use crate::{
    database::{DatabaseError, Result, Row, values},
    secret_box::{KEY_LENGTH, SecretKeys, random},
    time::now,
};

/// What a key of the operator encrypts here.
const PURPOSE: &str = "turnwire tenant keys 1";

/// How many keys are encrypted anew per statement that reads them.
const AT_ONCE: i64 = 500;

const INSERT: &str = "insert into tenant_keys (tenant, number, id, wrapped_by, wrapped, created_at)
                      values ($1, $2, $3, $4, $5, $6) on conflict do nothing";

/// Which keys of the operator the keys of tenants are encrypted with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncryptionStatus {
    /// IDs of the keys in the settings. The first one encrypts.
    pub operator_keys: Vec<String>,
    /// By key of the operator.
    pub wrapped: Vec<WrappedKeys>,
}

/// The keys of tenants that one key of the operator encrypts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKeys {
    /// ID of the key of the operator.
    pub operator_key: String,
    /// Number of tenants.
    pub n_tenants: u64,
    /// Number of their keys.
    pub n_keys: u64,
    /// Whether the settings have this key of the operator.
    pub is_known: bool,
}

impl EncryptionStatus {
    /// The keys of tenants that this process cannot decrypt.
    pub fn closed(&self) -> impl Iterator<Item = &WrappedKeys> {
        self.wrapped.iter().filter(|wrapped| !wrapped.is_known)
    }
}

impl Sealing {
    /// Reads the keys of a tenant into memory.
    pub(super) async fn read(&self, tenant: &TenantId) -> Result<Arc<TenantKeys>> {
        let sql = "select id, wrapped_by, wrapped from tenant_keys where tenant = $1
                   order by number";
        let found = self.database.query(sql, &values![tenant]).await?;
        let before = self.cached(tenant);
        let in_memory = |id: &str| {
            let keys = &before.as_ref()?.keys;
            keys.opened.iter().find(|key| key.id() == id).cloned()
        };
        let mut keys = TenantKeys::default();
        for row in &found {
            let id = row.text(0)?;
            match self.unwrap(tenant, id, row.text(1)?, row.text(2)?) {
                Ok(key) => keys.opened.push(Arc::new(key)),
                Err(why) => match in_memory(id) {
                    // Encrypted anew with a key that is not here yet: runs at work go on.
                    Some(key) => keys.opened.push(key),
                    None => keys.closed.push((id.to_owned(), why)),
                },
            }
        }
        let keys = Arc::new(keys);
        self.cache(tenant, &keys);
        Ok(keys)
    }

    /// Decrypts a key of a tenant, or says why not.
    fn unwrap(
        &self,
        tenant: &TenantId,
        id: &str,
        wrapped_by: &str,
        wrapped: &str,
    ) -> Result<DataKey, String> {
        let operator_keys = self.operator_keys.as_ref();
        let operator_keys = operator_keys.ok_or_else(|| {
            format!("it is encrypted with the key `{wrapped_by}`, and there is no [encryption]")
        })?;
        let plain = operator_keys.unwrap(wrapped_by, &bound_to(tenant, id), wrapped);
        let plain = plain.map_err(|error| match error {
            SecretError::UnknownKey(_) => {
                format!("it is encrypted with the key `{wrapped_by}`, which is not in [encryption]")
            }
            _ => format!("the key `{id}` of the tenant is damaged"),
        })?;
        let key = <[u8; KEY_LENGTH]>::try_from(plain.as_slice());
        let key = key.map_err(|_| format!("the key `{id}` of the tenant is damaged"))?;
        Ok(DataKey::new(tenant, id, Zeroizing::new(key)))
    }

    /// Makes the first key of a tenant. Another process may do the same: the first one counts.
    pub(super) async fn create(&self, operator_keys: &SecretKeys, tenant: &TenantId) -> Result<()> {
        self.ensure_right_keys(operator_keys).await?;
        self.insert(operator_keys, tenant, 1).await
    }

    /// Fails if there are keys of tenants, and none of them is encrypted with a key of the
    /// settings: with a wrong key, nobody else could read what is encrypted from now on.
    async fn ensure_right_keys(&self, operator_keys: &SecretKeys) -> Result<()> {
        let known: Vec<&str> = operator_keys.ids().collect();
        let sql = format!(
            "select count(*) from (select 1 from tenant_keys limit 1) as any_key
             union all
             select count(*) from (select 1 from tenant_keys
                 where wrapped_by in (select value from {}) limit 1) as known_key",
            self.database.dialect().texts("$1")
        );
        let found = self.database.query(&sql, &values![&known]).await?;
        let counts = found.iter().map(|row| row.integer(0)).collect::<Result<Vec<_>, _>>()?;
        if counts == [1, 0] {
            let why = "no key of a tenant can be decrypted, so no new one is made";
            return Err(DatabaseError::KeyMissing(why.to_owned()));
        }
        Ok(())
    }

    async fn insert(
        &self,
        operator_keys: &SecretKeys,
        tenant: &TenantId,
        number: i64,
    ) -> Result<()> {
        let key = random::<KEY_LENGTH>().map_err(|error| unavailable(&error))?;
        let id = DataKey::new_id()?;
        let wrapped = operator_keys.wrap(&bound_to(tenant, &id), &*key);
        let (wrapped_by, wrapped) = wrapped.map_err(|error| unavailable(&error))?;
        let values = values![tenant, number, &id, &wrapped_by, &wrapped, now().as_micros()];
        self.database.query(INSERT, &values).await.map(drop)
    }

    /// Returns which keys are in use.
    pub(crate) async fn status(&self) -> Result<EncryptionStatus> {
        let sql = "select wrapped_by, count(distinct tenant), count(*) from tenant_keys
                   group by wrapped_by order by wrapped_by";
        let found = self.database.query(sql, &[]).await?;
        let operator_keys = self.operator_keys.as_ref();
        let operator_keys: Vec<String> =
            operator_keys.map(|keys| keys.ids().map(str::to_owned).collect()).unwrap_or_default();
        let count = |row: &Row, n| Ok::<_, DatabaseError>(row.integer(n)?.unsigned_abs());
        let wrapped = |row: &Row| {
            let operator_key = row.text(0)?.to_owned();
            let is_known = operator_keys.contains(&operator_key);
            let (n_tenants, n_keys) = (count(row, 1)?, count(row, 2)?);
            Ok(WrappedKeys { operator_key, n_tenants, n_keys, is_known })
        };
        let wrapped = found.iter().map(wrapped).collect::<Result<_>>()?;
        Ok(EncryptionStatus { operator_keys, wrapped })
    }

    /// Says at the start which keys cannot be decrypted.
    pub(crate) async fn check(&self) -> Result<()> {
        let status = self.status().await?;
        for WrappedKeys { operator_key, n_tenants, .. } in status.closed() {
            if self.operator_keys.is_some() {
                error!(
                    operator_key,
                    n_tenants,
                    "keys of tenants cannot be decrypted: the key is not in [encryption], and what is \
                     stored for these tenants cannot be read here"
                );
            } else {
                warn!(
                    operator_key,
                    n_tenants,
                    "there is encrypted data and no [encryption] in the settings: what is stored for \
                     these tenants cannot be read here, and new data is not encrypted"
                );
            }
        }
        Ok(())
    }
}

impl Sealing {
    /// Encrypts the keys of tenants with the first key of the operator, where an earlier one did.
    /// Returns how many.
    pub(crate) async fn rewrap(&self) -> Result<u64> {
        let Some(operator_keys) = &self.operator_keys else { return Ok(0) };
        // Those of unknown keys are left out, so that they do not come again and again.
        let earlier: Vec<&str> = operator_keys.ids().skip(1).collect();
        let sql = format!(
            "select tenant, number, id, wrapped_by, wrapped from tenant_keys
             where wrapped_by in (select value from {})
                 and (tenant > $2 or tenant = $2 and number > $3)
             order by tenant, number limit $4",
            self.database.dialect().texts("$1")
        );
        let (mut n_wrapped, mut last) = (0, (String::new(), 0));
        loop {
            let values = values![&earlier, &last.0, last.1, AT_ONCE];
            let found = self.database.query(&sql, &values).await?;
            let Some(end) = found.last() else { break };
            for row in &found {
                n_wrapped += u64::from(self.rewrap_one(operator_keys, row).await?);
            }
            last = (end.text(0)?.to_owned(), end.integer(1)?);
        }
        Ok(n_wrapped)
    }

    /// Returns whether the key was encrypted anew.
    async fn rewrap_one(&self, operator_keys: &SecretKeys, row: &Row) -> Result<bool> {
        let (tenant, id) = (TenantId::from(row.text(0)?), row.text(2)?);
        let bound_to = bound_to(&tenant, id);
        let Ok(plain) = operator_keys.unwrap(row.text(3)?, &bound_to, row.text(4)?) else {
            error!(%tenant, id, "a key of a tenant is damaged");
            return Ok(false);
        };
        let anew = operator_keys.wrap(&bound_to, &plain);
        let (wrapped_by, wrapped) = anew.map_err(|error| unavailable(&error))?;
        let sql = "update tenant_keys set wrapped_by = $3, wrapped = $4
                   where tenant = $1 and id = $2";
        let values = values![&tenant, id, &wrapped_by, &wrapped];
        self.database.query(sql, &values).await?;
        Ok(true)
    }

    /// Gives a tenant a new key, or every tenant that has one. Returns how many.
    pub(crate) async fn rotate(&self, tenant: Option<&TenantId>) -> Result<u64> {
        let Some(operator_keys) = &self.operator_keys else { return Ok(0) };
        self.ensure_right_keys(operator_keys).await?;
        let sql = "select tenant, max(number) from tenant_keys group by tenant order by tenant";
        let mut n_rotated = 0;
        for row in &self.database.query(sql, &[]).await? {
            let (rotated, number) = (TenantId::from(row.text(0)?), row.integer(1)?);
            if tenant.is_none_or(|tenant| *tenant == rotated) {
                self.insert(operator_keys, &rotated, number + 1).await?;
                self.read(&rotated).await?;
                n_rotated += 1;
            }
        }
        Ok(n_rotated)
    }
}

fn unavailable(error: &dyn std::fmt::Display) -> DatabaseError {
    DatabaseError::Unavailable(error.to_string())
}

/// Returns what is authenticated together with a key. Lengths keep two keys apart whose parts are
/// the same text.
fn bound_to(tenant: &TenantId, id: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in [PURPOSE, tenant.as_str(), id] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}
