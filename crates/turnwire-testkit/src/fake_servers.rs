//! Fake tool servers: fast, slow or dead.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::sleep;
use turnwire_contract::{ServerRef, TenantId, Tool, ToolError, ToolKind, ToolServers};

use crate::fake_tools::FakeTool;

/// Tool servers by label. Clones share the servers.
#[derive(Debug, Clone, Default)]
pub struct FakeServers {
    servers: BTreeMap<String, Arc<FakeServer>>,
}

#[derive(Debug)]
struct FakeServer {
    answer: Result<Vec<FakeTool>, String>,
    time: Duration,
    is_known: Mutex<bool>,
    n_asked: AtomicU32,
}

impl FakeServers {
    /// Adds a server with cached tools.
    pub fn with(self, label: &str, tools: impl IntoIterator<Item = FakeTool>) -> Self {
        self.add(label, Ok(tools.into_iter().collect()), Duration::ZERO, true)
    }

    /// Adds a server that takes this long to list its tools.
    pub fn slow(
        self,
        label: &str,
        time: Duration,
        tools: impl IntoIterator<Item = FakeTool>,
    ) -> Self {
        self.add(label, Ok(tools.into_iter().collect()), time, false)
    }

    /// Adds a server that does not respond.
    pub fn dead(self, label: &str, why: &str) -> Self {
        self.add(label, Err(why.to_owned()), Duration::ZERO, false)
    }

    /// Returns how often the server was asked for its tools.
    pub fn n_asked(&self, label: &str) -> u32 {
        self.servers.get(label).map_or(0, |server| server.n_asked.load(Ordering::SeqCst))
    }

    fn add(
        mut self,
        label: &str,
        answer: Result<Vec<FakeTool>, String>,
        time: Duration,
        is_known: bool,
    ) -> Self {
        let on_server = |prop: FakeTool| {
            prop.with(|spec| {
                spec.kind = ToolKind::Mcp;
                spec.server = Some(label.to_owned());
            })
        };
        let answer = answer.map(|tools| tools.into_iter().map(on_server).collect());
        let (is_known, n_asked) = (Mutex::new(is_known), AtomicU32::new(0));
        let server = FakeServer { answer, time, is_known, n_asked };
        self.servers.insert(label.to_owned(), Arc::new(server));
        self
    }
}

impl FakeServer {
    fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let tools = self.answer.clone().map_err(ToolError::failed)?;
        Ok(tools.into_iter().map(|tool| Arc::new(tool) as Arc<dyn Tool>).collect())
    }

    fn is_known(&self) -> std::sync::MutexGuard<'_, bool> {
        self.is_known.lock().expect("no test panics while it holds this lock")
    }
}

#[async_trait]
impl ToolServers for FakeServers {
    fn labels(&self, _tenant: &TenantId) -> Vec<String> {
        self.servers.keys().cloned().collect()
    }

    fn known_tools(&self, _tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        let server = self.servers.get(server.identity())?;
        let is_known = *server.is_known();
        is_known.then(|| server.tools().ok()).flatten()
    }

    async fn tools(
        &self,
        _tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let Some(server) = self.servers.get(server.identity()) else {
            let label = server.label;
            return Err(ToolError::failed(format!("there is no tool server `{label}`")));
        };
        server.n_asked.fetch_add(1, Ordering::SeqCst);
        sleep(server.time).await;
        let tools = server.tools()?;
        *server.is_known() = true;
        Ok(tools)
    }
}
