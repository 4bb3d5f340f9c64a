//! Permissions that outlast one call: tools allowed for a conversation, and pinned tool
//! definitions.

use async_trait::async_trait;
use turnwire_contract::{Allowed, ConversationId, PinnedTool, Pins, StoreError, TenantId};

use crate::{
    Store,
    database::{DatabaseError, Row, Value},
};

impl Store {
    pub(crate) async fn find_allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
    ) -> Result<Vec<Allowed>, StoreError> {
        let sql = "select tool, definition from allowed where tenant = $1 and conversation_id = $2";
        let values = [Value::Tenant(tenant), Value::Text(id.as_str())];
        let found = self.0.database.query(sql, &values).await?;
        let allowed = |row: &Row| {
            let (tool, definition) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
            Ok::<_, DatabaseError>(Allowed { tool, definition })
        };
        Ok(found.iter().map(allowed).collect::<Result<_, _>>()?)
    }

    pub(crate) async fn keep_allowed(
        &self,
        tenant: &TenantId,
        id: &ConversationId,
        allowed: &Allowed,
    ) -> Result<(), StoreError> {
        // Only for an existing conversation: permissions are deleted with it.
        let sql = "insert into allowed (tenant, conversation_id, tool, definition)
                   select tenant, id, $3, $4 from conversations where tenant = $1 and id = $2
                   on conflict (tenant, conversation_id, tool, definition) do nothing";
        let values = [
            Value::Tenant(tenant),
            Value::Text(id.as_str()),
            Value::Text(&allowed.tool),
            Value::Text(&allowed.definition),
        ];
        self.0.database.query(sql, &values).await?;
        Ok(())
    }

    async fn find_trusted(
        &self,
        tenant: &TenantId,
        server: &str,
    ) -> Result<Vec<PinnedTool>, StoreError> {
        let sql = "select tool, definition from pins where tenant = $1 and server = $2";
        let values = [Value::Tenant(tenant), Value::Text(server)];
        let found = self.0.database.query(sql, &values).await?;
        let pinned = |row: &Row| {
            let (tool, definition) = (row.text(0)?.to_owned(), row.text(1)?.to_owned());
            Ok::<_, DatabaseError>(PinnedTool { tool, definition })
        };
        Ok(found.iter().map(pinned).collect::<Result<_, _>>()?)
    }
}

#[async_trait]
impl Pins for Store {
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[PinnedTool],
    ) -> Result<Vec<PinnedTool>, StoreError> {
        let is_met = |pinned: &PinnedTool| tools.iter().any(|met| met.tool == pinned.tool);
        let mut trusted = self.find_trusted(tenant, server).await?;
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
            let values = [
                Value::Tenant(tenant),
                Value::Text(server),
                Value::Texts(&names),
                Value::Texts(&definitions),
            ];
            self.0.database.query(&sql, &values).await?;
            // Another worker may have pinned another definition first.
            trusted = self.find_trusted(tenant, server).await?;
        }
        trusted.retain(is_met);
        Ok(trusted)
    }

    async fn trusted(
        &self,
        tenant: &TenantId,
        server: &str,
    ) -> Result<Vec<PinnedTool>, StoreError> {
        self.find_trusted(tenant, server).await
    }

    async fn trust(
        &self,
        tenant: &TenantId,
        server: &str,
        tool: PinnedTool,
    ) -> Result<(), StoreError> {
        let sql = "insert into pins (tenant, server, tool, definition) values ($1, $2, $3, $4)
                   on conflict (tenant, server, tool)
                   do update set definition = excluded.definition";
        let values = [
            Value::Tenant(tenant),
            Value::Text(server),
            Value::Text(&tool.tool),
            Value::Text(&tool.definition),
        ];
        self.0.database.query(sql, &values).await?;
        Ok(())
    }
}
