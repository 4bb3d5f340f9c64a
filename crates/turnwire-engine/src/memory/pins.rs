//! In-memory pins of tool definitions.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;
use turnwire_contract::{PinnedTool, Pins, TenantId, ports::Result};

use crate::sync::lock;

/// Pins of tool definitions in memory.
#[derive(Debug, Default)]
pub struct MemoryPins {
    /// Definition hash by tenant, server and tool.
    trusted: Mutex<HashMap<(TenantId, String, String), String>>,
}

#[async_trait]
impl Pins for MemoryPins {
    async fn meet(
        &self,
        tenant: &TenantId,
        server: &str,
        tools: &[PinnedTool],
    ) -> Result<Vec<PinnedTool>> {
        let mut trusted = lock(&self.trusted);
        let met = tools.iter().map(|PinnedTool { tool, definition }| {
            let key = (tenant.clone(), server.to_owned(), tool.clone());
            let definition = trusted.entry(key).or_insert_with(|| definition.clone()).clone();
            PinnedTool { tool: tool.clone(), definition }
        });
        Ok(met.collect())
    }

    async fn trusted(&self, tenant: &TenantId, server: &str) -> Result<Vec<PinnedTool>> {
        let trusted = lock(&self.trusted);
        let of_server = trusted.iter().filter(|((t, s, _), _)| t == tenant && s == server);
        let pinned = of_server.map(|((_, _, tool), definition)| PinnedTool {
            tool: tool.clone(),
            definition: definition.clone(),
        });
        Ok(pinned.collect())
    }

    async fn trust(&self, tenant: &TenantId, server: &str, tool: PinnedTool) -> Result<()> {
        let PinnedTool { tool, definition } = tool;
        lock(&self.trusted).insert((tenant.clone(), server.to_owned(), tool), definition);
        Ok(())
    }
}
