//! Encrypted secrets of runs. They are inserted in the transaction that creates a run, and deleted
//! in the one that ends it, or with the run.

use turnwire_contract::{RunId, SealedSecret, StoreError, TenantId};

use crate::{
    Store,
    database::{DatabaseError, Row, Transaction, values},
};

const INSERT: &str = "insert into run_secrets (tenant, run_id, server, key_id, sealed)
                      values ($1, $2, $3, $4, $5)";

/// Inserts the secrets of a new run.
pub(crate) async fn insert(
    transaction: &mut dyn Transaction,
    tenant: &TenantId,
    run_id: &RunId,
    secrets: &[SealedSecret],
) -> Result<(), DatabaseError> {
    for SealedSecret { server, key_id, sealed } in secrets {
        let values = values![tenant, run_id.as_str(), server, key_id, sealed];
        transaction.query(INSERT, &values).await?;
    }
    Ok(())
}

impl Store {
    /// Returns the secrets of a run.
    pub(crate) async fn run_secrets(
        &self,
        tenant: &TenantId,
        run_id: &RunId,
    ) -> Result<Vec<SealedSecret>, StoreError> {
        let sql = "select server, key_id, sealed from run_secrets
                   where tenant = $1 and run_id = $2 order by server";
        let values = values![tenant, run_id.as_str()];
        let found = self.0.database.query(sql, &values).await?;
        let secret = |row: &Row| {
            Ok(SealedSecret {
                server: row.text(0)?.to_owned(),
                key_id: row.text(1)?.to_owned(),
                sealed: row.text(2)?.to_owned(),
            })
        };
        Ok(found.iter().map(secret).collect::<Result<_, DatabaseError>>()?)
    }

    /// Deletes secrets and commands of runs that have ended. There are none, unless a worker of an
    /// earlier version ended the run, or a command came while it ended.
    pub(crate) async fn forget_left_behind(&self) -> Result<(), StoreError> {
        for table in ["run_secrets", "commands"] {
            let sql = format!(
                "delete from {table} where not exists
                     (select 1 from runs where runs.id = {table}.run_id
                      and runs.tenant = {table}.tenant and runs.state = 'active')"
            );
            self.0.database.query(&sql, &[]).await?;
        }
        Ok(())
    }
}
