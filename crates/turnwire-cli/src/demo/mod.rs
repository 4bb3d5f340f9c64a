//! The demo: a model without a key, and its tools.
//!
//! The gateway offers most tools as tool servers (`demo`, `ci`, `git`), because requests to
//! `/v1/responses` name server-side tools in this way.

mod multiply;
mod story;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Map, Value};
use turnwire::ToolContext;
use turnwire_contract::{
    LeftOut, RunId, ServerRef, ServerState, ServerStatus, ServerTransport, TenantId, Tool,
    ToolError, ToolKind, ToolOutput, ToolRequest, ToolServers, ToolSpec,
};
use turnwire_models::Scripted;

pub(crate) use self::{
    multiply::multiply,
    story::{delete_branch, deploy_check, web_search},
};
use crate::settings::Demo;

pub(crate) fn model(demo: Demo) -> Scripted {
    Scripted::demo().paced(demo.pace)
}

/// A question that shows what is special, for people who do not know what to ask.
pub(crate) const QUESTION: &str = "Check the release and clean the old branch";

/// The tool servers of the demo and their tools, for the greeting.
pub(crate) const SERVERS: [(&str, &str); 3] =
    [("demo", "multiply"), ("ci", "deploy_check"), ("git", "delete_branch")];

/// Tool servers with those of the demo added. Every server of the demo has one tool.
pub(crate) struct WithDemo<S> {
    tools: Vec<Arc<dyn Tool>>,
    others: Arc<S>,
}

impl<S: ToolServers> WithDemo<S> {
    /// Adds the demo's servers to `others`, except those whose label is taken.
    pub(crate) fn new(others: Arc<S>, tool_time: Duration) -> Self {
        let [demo, ci, git] = SERVERS.map(|(label, _)| label);
        let mut tools = vec![
            Offered::on_server(demo, multiply(tool_time)),
            Offered::on_server(ci, deploy_check(tool_time)),
            Offered::with(delete_branch(tool_time), |spec| {
                be_of_server(spec, git);
                spec.claims = Some(story::destructive());
            }),
        ];
        let taken = others.labels(&TenantId::default());
        tools.retain(|tool| !taken.iter().any(|label| label == label_of(tool)));
        Self { tools, others }
    }

    /// Returns the tool of a server of the demo, or `None` if it is another server.
    fn tool_of(&self, server: ServerRef<'_>) -> Option<Arc<dyn Tool>> {
        let is_its = |tool: &&Arc<dyn Tool>| server.url.is_none() && label_of(tool) == server.label;
        self.tools.iter().find(is_its).cloned()
    }
}

fn label_of(tool: &Arc<dyn Tool>) -> &str {
    tool.spec().server.as_deref().unwrap_or_default()
}

#[async_trait]
impl<S: ToolServers> ToolServers for WithDemo<S> {
    fn labels(&self, tenant: &TenantId) -> Vec<String> {
        let ours = self.tools.iter().map(|tool| label_of(tool).to_owned());
        ours.chain(self.others.labels(tenant)).collect()
    }

    fn statuses(&self, tenant: &TenantId) -> Vec<ServerStatus> {
        let ours = self.tools.iter().map(|tool| ServerStatus {
            label: label_of(tool).to_owned(),
            transport: ServerTransport::Stdio,
            address: "built in".to_owned(),
            state: ServerState::Connected,
            latency: None,
            last_error: None,
        });
        ours.chain(self.others.statuses(tenant)).collect()
    }

    fn allows_url(&self, tenant: &TenantId, url: &str) -> bool {
        self.others.allows_url(tenant, url)
    }

    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        let ours = self.tool_of(server).map(|tool| vec![tool]);
        ours.or_else(|| self.others.known_tools(tenant, server))
    }

    fn known_tool(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
        name: &str,
    ) -> Option<Arc<dyn Tool>> {
        match self.tool_of(server) {
            Some(tool) => Some(tool).filter(|tool| tool.spec().name == name),
            None => self.others.known_tool(tenant, server, name),
        }
    }

    async fn tools(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        match self.tool_of(server) {
            Some(tool) => Ok(vec![tool]),
            None => self.others.tools(tenant, server).await,
        }
    }

    fn left_out(&self, tenant: &TenantId, server: ServerRef<'_>) -> LeftOut {
        self.others.left_out(tenant, server)
    }

    fn forget_run(&self, run_id: &RunId) {
        self.others.forget_run(run_id);
    }
}

/// A local tool that is offered under another specification.
struct Offered<T> {
    spec: ToolSpec,
    tool: T,
}

impl<T: Tool + 'static> Offered<T> {
    fn with(tool: T, change: impl FnOnce(&mut ToolSpec)) -> Arc<dyn Tool> {
        let mut spec = tool.spec().clone();
        change(&mut spec);
        Arc::new(Self { spec, tool })
    }

    /// Offers the tool as one of the server `label`.
    fn on_server(label: &str, tool: T) -> Arc<dyn Tool> {
        Self::with(tool, |spec| be_of_server(spec, label))
    }
}

fn be_of_server(spec: &mut ToolSpec, label: &str) {
    spec.kind = ToolKind::Mcp;
    spec.server = Some(label.to_owned());
}

#[async_trait]
impl<T: Tool> Tool for Offered<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.tool.call(request, context).await
    }

    fn label(&self, arguments: &Map<String, Value>) -> Option<String> {
        self.tool.label(arguments)
    }
}

/// Waits as long as a tool would work.
async fn wait(context: &ToolContext, time: Duration) -> Result<(), &'static str> {
    tokio::select! {
        // Cancellation does not wait for the delay.
        () = context.cancelled() => Err("the call was cancelled"),
        () = tokio::time::sleep(time) => Ok(()),
    }
}
