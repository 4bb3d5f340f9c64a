//! The demo: a model without a key, and its tool.
//!
//! The gateway offers the tool as a tool server with the label `demo`, because requests to
//! `/v1/responses` name server-side tools in this way.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use turnwire::{Effect, ToolContext};
use turnwire_contract::{
    ServerRef, ServerState, ServerStatus, ServerTransport, TenantId, Tool, ToolError, ToolKind,
    ToolOutput, ToolRequest, ToolServers, ToolSpec,
};
use turnwire_models::Scripted;
use turnwire_tools::FunctionTool;

use crate::settings::Demo;

pub(crate) fn model(demo: Demo) -> Scripted {
    Scripted::demo().paced(demo.pace)
}

/// The arguments of `multiply`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Factors {
    /// The first factor.
    a: Number,
    /// The second factor.
    b: Number,
}

/// Creates the tool that multiplies after a delay of `tool_time`.
pub(crate) fn multiply(tool_time: Duration) -> FunctionTool<Factors> {
    let work = move |factors: Factors, context: ToolContext| async move {
        tokio::select! {
            // Cancellation does not wait for the delay.
            () = context.cancelled() => Err(STOPPED),
            () = tokio::time::sleep(tool_time) => product(&factors),
        }
    };
    FunctionTool::with_context("multiply", "Multiplies two numbers.", work)
        .effect(Effect::Pure)
        .parallel()
        // The delay is configured, so it must not time out.
        .timeout(tool_time + Duration::from_mins(1))
        .label(|factors| format!("{} × {}", factors.a, factors.b))
}

/// Label of the demo's tool server.
pub(crate) const LABEL: &str = "demo";

/// Tool servers with the demo's server added.
pub(crate) struct WithDemo<S> {
    multiply: Arc<dyn Tool>,
    others: Arc<S>,
}

impl<S> WithDemo<S> {
    /// Adds the demo's server to `others`.
    pub(crate) fn new(others: Arc<S>, tool_time: Duration) -> Self {
        let multiply = multiply(tool_time);
        let spec = ToolSpec {
            kind: ToolKind::Mcp,
            server: Some(LABEL.to_owned()),
            ..multiply.spec().clone()
        };
        Self { multiply: Arc::new(OnServer { spec, tool: multiply }), others }
    }
}

#[async_trait]
impl<S: ToolServers> ToolServers for WithDemo<S> {
    fn labels(&self, tenant: &TenantId) -> Vec<String> {
        let others = self.others.labels(tenant).into_iter().filter(|label| label != LABEL);
        [LABEL.to_owned()].into_iter().chain(others).collect()
    }

    fn statuses(&self, tenant: &TenantId) -> Vec<ServerStatus> {
        let demo = ServerStatus {
            label: LABEL.to_owned(),
            transport: ServerTransport::Stdio,
            address: "built in".to_owned(),
            state: ServerState::Connected,
            latency: None,
            last_error: None,
        };
        let others = self.others.statuses(tenant).into_iter();
        [demo].into_iter().chain(others.filter(|server| server.label != LABEL)).collect()
    }

    fn allows_url(&self, tenant: &TenantId, url: &str) -> bool {
        self.others.allows_url(tenant, url)
    }

    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        match server {
            ServerRef { label: LABEL, url: None } => Some(vec![Arc::clone(&self.multiply)]),
            server => self.others.known_tools(tenant, server),
        }
    }

    fn known_tool(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
        name: &str,
    ) -> Option<Arc<dyn Tool>> {
        match server {
            ServerRef { label: LABEL, url: None } => {
                Some(Arc::clone(&self.multiply)).filter(|tool| tool.spec().name == name)
            }
            server => self.others.known_tool(tenant, server, name),
        }
    }

    async fn tools(
        &self,
        tenant: &TenantId,
        server: ServerRef<'_>,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        match server {
            ServerRef { label: LABEL, url: None } => Ok(vec![Arc::clone(&self.multiply)]),
            server => self.others.tools(tenant, server).await,
        }
    }
}

/// A local tool that is offered as a tool of a server.
struct OnServer<T> {
    spec: ToolSpec,
    tool: T,
}

#[async_trait]
impl<T: Tool> Tool for OnServer<T> {
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

/// Exact for integers, with float precision otherwise.
fn product(Factors { a, b }: &Factors) -> Result<String, &'static str> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Ok((i128::from(a) * i128::from(b)).to_string());
    }
    let (Some(a), Some(b)) = (a.as_f64(), b.as_f64()) else { return Err(TOO_BIG) };
    let product = a * b;
    if product.is_finite() { Ok(product.to_string()) } else { Err(TOO_BIG) }
}

const STOPPED: &str = "stopped before the product was known";
const TOO_BIG: &str = "the product is too big; use smaller numbers";

#[cfg(test)]
#[path = "demo_tests.rs"]
mod tests;
