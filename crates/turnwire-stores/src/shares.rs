//! Share links of runs.

use async_trait::async_trait;
use turnwire_contract::{MAX_SHARES, RunId, Share, Shares, StoreError, TenantId, Timestamp};

use crate::{
    Result, Store,
    database::{DatabaseError, Row, values},
};

const COLUMNS: &str = "select s.id, s.tenant, s.run_id, s.created_at, s.expires_at, s.redact
                       from shares s";

#[async_trait]
impl Shares for Store {
    async fn secret(&self) -> Result<String> {
        let sql = "select value from secrets where name = $1";
        let found = self.0.database.query(sql, &values!["shares"]).await?;
        let missing = || StoreError::NotFound("secret of share links".to_owned());
        Ok(found.first().ok_or_else(missing)?.text(0)?.to_owned())
    }

    async fn share(&self, share: Share) -> Result<()> {
        let sql = "insert into shares (id, tenant, run_id, created_at, expires_at, redact)
                   select $1, tenant, id, $4, $5, $6 from runs
                   where tenant = $2 and id = $3 and state <> 'hidden'
                   and (select count(*) from shares s where s.run_id = $3 and s.expires_at > $4) < $7
                   returning id";
        let values = values![
            &share.share_id,
            &share.tenant,
            share.run_id.as_str(),
            share.created_at.as_micros(),
            share.expires_at.as_micros(),
            share.redact,
            MAX_SHARES
        ];
        if self.0.database.query(sql, &values).await?.is_empty() {
            return Err(StoreError::Rejected(format!("{MAX_SHARES} share links exist")));
        }
        Ok(())
    }

    async fn shares_of(&self, tenant: &TenantId, run_id: &RunId) -> Result<Vec<Share>> {
        let sql =
            format!("{COLUMNS} where s.tenant = $1 and s.run_id = $2 order by s.created_at, s.id");
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(&sql, &values).await?;
        Ok(found.iter().map(share).collect::<Result<_, _>>()?)
    }

    async fn find_share(&self, share_id: &str) -> Result<Option<Share>> {
        // A worker of an earlier version deletes runs without their shares.
        let sql = format!(
            "{COLUMNS} join runs r on r.id = s.run_id and r.tenant = s.tenant
             where s.id = $1 and r.state <> 'hidden'"
        );
        let found = self.0.database.query(&sql, &values![share_id]).await;
        match found {
            // An id that cannot be stored cannot exist.
            Err(DatabaseError::InvalidValue(_)) => Ok(None),
            found => Ok(found?.first().map(share).transpose()?),
        }
    }

    async fn revoke(&self, tenant: &TenantId, run_id: &RunId, share_id: &str) -> Result<bool> {
        let sql = "delete from shares where tenant = $1 and run_id = $2 and id = $3 returning id";
        let values = values![tenant, run_id.as_str(), share_id];
        Ok(!self.0.database.query(sql, &values).await?.is_empty())
    }
}

impl Store {
    /// Deletes shares that expired, by the database's clock.
    pub(crate) async fn forget_expired_shares(&self) -> Result<()> {
        let sql = format!(
            "delete from shares where expires_at <= (select {}) returning id",
            self.0.database.dialect().library.now
        );
        self.0.database.query(&sql, &[]).await?;
        Ok(())
    }
}

fn share(row: &Row) -> Result<Share, DatabaseError> {
    Ok(Share {
        share_id: row.text(0)?.to_owned(),
        tenant: TenantId::from(row.text(1)?),
        run_id: RunId::from(row.text(2)?),
        created_at: Timestamp::from_micros(row.integer(3)?),
        expires_at: Timestamp::from_micros(row.integer(4)?),
        redact: row.integer(5)? != 0,
    })
}
