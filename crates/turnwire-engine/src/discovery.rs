//! Tool discovery on tool servers.
//!
//! Tools of a known server are cached; then request and result are recorded in one batch. If a
//! server does not respond, the run continues without its tools, and the recorded result says so.

use std::{collections::HashSet, mem, sync::Arc};

use async_trait::async_trait;
use futures::{FutureExt, TryStreamExt, stream::FuturesUnordered};
use tokio::sync::Mutex;
use tracing::{instrument, warn};
use turnwire_contract::{
    DiscoveryOutcome, Event, ItemId, JournalError, RunRequest, ServerUse, Tool, ToolContext,
    ToolError, ToolOutput, ToolRef, ToolRequest, ToolSpec,
};

use crate::{
    depth::is_too_deep, failures, live_run::LiveRun, pinning, run_context::RunContext,
    run_servers::RunServers,
};

/// Discovers the tools of `servers` concurrently. Each result is recorded when it arrives.
pub(crate) async fn discover(
    run: &LiveRun,
    context: &RunContext,
    servers: Vec<ServerUse>,
) -> Result<(), JournalError> {
    // Servers are named one at a time, so that tool names stay unique.
    let naming = Mutex::new(());
    let ask = |server| ask(run, context, server, &naming).boxed();
    let asked: FuturesUnordered<_> = servers.into_iter().map(ask).collect();
    asked.try_collect().await
}

#[instrument(skip_all, fields(server = %server.label))]
async fn ask(
    run: &LiveRun,
    context: &RunContext,
    server: ServerUse,
    naming: &Mutex<()>,
) -> Result<(), JournalError> {
    let label = &server.label;
    // After a takeover, an open discovery is resumed.
    let open = run.state().discovering(label).cloned();
    let item_id = open.clone().unwrap_or_else(|| ItemId::new(run.new_id("mcpl")));
    let started = Event::DiscoveryStarted { item_id: item_id.clone(), server: label.clone() };
    let mut events: Vec<Event> = open.is_none().then_some(started).into_iter().collect();
    let answer = if let Some(tools) = context.servers.known_tools(&server) {
        Ok(tools)
    } else {
        run.record_all(mem::take(&mut events)).await?;
        tokio::select! {
            biased;
            // The loop checks for the stop next and closes the discovery.
            () = run.stopped() => return Ok(()),
            () = run.handover_requested() => return Ok(()),
            answer = context.servers.tools(&server) => answer,
        }
    };
    let _one_at_a_time = naming.lock().await;
    let outcome = match answer {
        Ok(tools) => match listed(run, context, &server, tools).await {
            Some(listed) => listed,
            // As above.
            None => return Ok(()),
        },
        Err(error) => {
            warn!(%error, "tool discovery failed");
            DiscoveryOutcome::Failed { failure: failures::server_unreachable(&error.to_string()) }
        }
    };
    events.push(Event::ToolsDiscovered { item_id, server: server.label, outcome });
    run.record_all(events).await?;
    Ok(())
}

/// Returns the offered tools of a server under unique names, or `None` if the run stops or is
/// handed over meanwhile.
async fn listed(
    run: &LiveRun,
    context: &RunContext,
    server: &ServerUse,
    tools: Vec<Arc<dyn Tool>>,
) -> Option<DiscoveryOutcome> {
    let mut specs: Vec<ToolSpec> = tools
        .iter()
        .map(|tool| tool.spec())
        .filter(|spec| server.allows(&spec.name))
        .filter(|spec| {
            let is_recordable = !is_too_deep(&spec.parameters);
            if !is_recordable {
                warn!(tool = spec.name, "tool not offered, its schema is nested too deeply");
            }
            is_recordable
        })
        .cloned()
        .collect();
    let policy = &context.policy;
    if let Some(pins) = &policy.pins {
        pinning::mark_changed(pins.as_ref(), run, server.server().identity(), &mut specs).await?;
    }
    let state = run.state();
    let mut taken: HashSet<String> = state.offered().map(|spec| spec.name.clone()).collect();
    drop(state);
    let mut offered = Vec::new();
    for mut spec in specs {
        policy.apply(&mut spec);
        spec.needs_approval |= server.ask_before.includes(&spec.name);
        spec.name = offered_name(&spec.name);
        if taken.contains(&spec.name) {
            spec.name = offered_name(&format!("{}__{}", server.label, spec.name));
        }
        if taken.insert(spec.name.clone()) {
            offered.push(Arc::new(spec));
        }
    }
    Some(DiscoveryOutcome::Listed { tools: offered })
}

/// Makes a tool name valid for providers: letters, digits, `_` and `-`, at most 64. Providers
/// reject the whole request otherwise.
pub(crate) fn offered_name(own: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    own.chars().map(plain).take(64).collect()
}

/// A tool of a server, resolved when it is called. The server may have restarted since discovery,
/// and the start of the call is already visible.
pub(crate) struct ServerTool {
    servers: Arc<RunServers>,
    tool: ToolRef,
    used: ServerUse,
    spec: ToolSpec,
}

impl ServerTool {
    /// Creates the tool described by `spec`, of a server in `request`.
    pub(crate) fn new(servers: Arc<RunServers>, request: &RunRequest, spec: &ToolSpec) -> Self {
        let label = spec.server.as_deref().unwrap_or_default();
        let used = request.servers.iter().find(|used| used.label == label);
        let used = used.cloned().unwrap_or_else(|| ServerUse::all_of(label));
        Self { servers, tool: spec.reference(), used, spec: spec.clone() }
    }

    fn server_label(&self) -> &str {
        &self.used.label
    }

    /// Returns the tool as currently listed by its server, if cached.
    pub(crate) fn known(&self) -> Option<Arc<dyn Tool>> {
        let exact = self.servers.known_tool(&self.used, self.tool.own_name());
        exact.or_else(|| self.named(self.servers.known_tools(&self.used)?))
    }

    fn named(&self, tools: Vec<Arc<dyn Tool>>) -> Option<Arc<dyn Tool>> {
        let offered = self.tool.own_name();
        // A sanitized name refers to the original tool.
        let is_it = |tool: &Arc<dyn Tool>| {
            let name = &tool.spec().name;
            offered_name(name) == offered
                || offered_name(&format!("{}__{name}", self.server_label())) == self.tool.name
        };
        let exact = tools.iter().position(|tool| tool.spec().name == offered);
        let index = exact.or_else(|| tools.iter().position(is_it))?;
        tools.into_iter().nth(index)
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let label = self.server_label();
        let tool = match self.known() {
            Some(tool) => tool,
            None => self.named(self.servers.tools(&self.used).await?).ok_or_else(|| {
                let name = self.tool.own_name();
                ToolError::failed(format!("the server `{label}` no longer has a tool `{name}`"))
            })?,
        };
        tool.call(request, context).await
    }

    fn label(&self, arguments: &serde_json::Map<String, serde_json::Value>) -> Option<String> {
        self.known()?.label(arguments)
    }

    fn short_result(&self, output: &ToolOutput) -> Option<String> {
        self.known()?.short_result(output)
    }
}
