//! The demo: a model that needs no key, and the one thing it can do.
//!
//! The gateway offers it as a tool server with the label `demo`, because that is how a request
//! to `/v1/responses` names tools of the server.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use turnwire::{Effect, ToolContext};
use turnwire_contract::{
    ServerRef, TenantId, Tool, ToolError, ToolKind, ToolOutput, ToolRequest, ToolServers, ToolSpec,
};
use turnwire_models::Scripted;
use turnwire_tools::FunctionTool;

use crate::settings::Demo;

/// The model of the demo, for every command.
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

/// Multiplies, and takes its time where somebody watches.
pub(crate) fn multiply(tool_time: Duration) -> FunctionTool<Factors> {
    let work = move |factors: Factors, context: ToolContext| async move {
        tokio::select! {
            // Whoever stops the run need not wait for the demo.
            () = context.cancelled() => Err(STOPPED),
            () = tokio::time::sleep(tool_time) => product(&factors),
        }
    };
    FunctionTool::with_context("multiply", "Multiplies two numbers.", work)
        .effect(Effect::Pure)
        .parallel()
        // Its slowness is set by hand, and must not look like a hang.
        .timeout(tool_time + Duration::from_mins(1))
        .label(|factors| format!("{} × {}", factors.a, factors.b))
}

/// What a request calls the demo's tool server.
pub(crate) const LABEL: &str = "demo";

/// Some tool servers, and the demo's own.
pub(crate) struct WithDemo<S> {
    multiply: Arc<dyn Tool>,
    others: Arc<S>,
}

impl<S> WithDemo<S> {
    /// `others`, and the demo.
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

    fn allows_url(&self, tenant: &TenantId, url: &str) -> bool {
        self.others.allows_url(tenant, url)
    }

    fn known_tools(&self, tenant: &TenantId, server: ServerRef<'_>) -> Option<Vec<Arc<dyn Tool>>> {
        match server {
            ServerRef { label: LABEL, url: None } => Some(vec![Arc::clone(&self.multiply)]),
            server => self.others.known_tools(tenant, server),
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

/// A tool of this process that is offered as one of a server.
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

/// Exact for whole numbers, as good as a float can be for others.
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
