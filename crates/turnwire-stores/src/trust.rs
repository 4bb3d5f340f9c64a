//! Pinned tool definitions.

use async_trait::async_trait;
use turnwire_contract::{PinnedTool, Pins, TenantId};

use crate::{
    Result, Store,
    database::{DatabaseError, Row, values},
};

#[async_trait]
impl Pins for Store {
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[PinnedTool],
    ) -> Result<Vec<PinnedTool>> {
        let is_met = |pinned: &PinnedTool| tools.iter().any(|met| met.tool == pinned.tool);
        let mut trusted = self.trusted(tenant, server).await?;
        let is_known = |met: &&PinnedTool| trusted.iter().any(|pinned| pinned.tool == met.tool);
        let new: Vec<&PinnedTool> = tools.iter().filter(|met| !is_known(met)).collect();
        if !new.is_empty() {
            let names: Vec<&str> = new.iter().map(|pinned| pinned.tool.as_str()).collect();
            let definitions: Vec<&str> =
                new.iter().map(|pinned| pinned.definition.as_str()).collect();
            // The `where` clause prevents SQLite from parsing `on conflict` as a join.
            let sql = format!(
                "insert into pins (tenant, server, tool, definition)
                 select $1, $2, zipped.c1, zipped.c2 from {} where zipped.c1 <> ''
                 on conflict (tenant, server, tool) do nothing",
                self.0.database.dialect().zip(&["$3", "$4"])
            );
            let values = values![tenant, server, &names, &definitions];
            self.0.database.query(&sql, &values).await?;
            // Another worker may have pinned another definition first.
            trusted = self.trusted(tenant, server).await?;
        }
        trusted.retain(is_met);
        Ok(trusted)
    }

    async fn trusted(&self, tenant: &TenantId, server: &str) -> Result<Vec<PinnedTool>> {
        let sql = "select tool, definition from pins where tenant = $1 and server = $2";
        let values = values![tenant, server];
        let found = self.0.database.query(sql, &values).await?;
        let pinned = |row: &Row| {
            let (tool, definition) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
            Ok::<_, DatabaseError>(PinnedTool { tool, definition })
        };
        Ok(found.iter().map(pinned).collect::<Result<_, _>>()?)
    }

    async fn trust(&self, tenant: &TenantId, server: &str, tool: PinnedTool) -> Result<()> {
        let sql = "insert into pins (tenant, server, tool, definition) values ($1, $2, $3, $4)
                   on conflict (tenant, server, tool)
                   do update set definition = excluded.definition";
        let values = values![tenant, server, &tool.tool, &tool.definition];
        self.0.database.query(sql, &values).await?;
        Ok(())
    }
}
