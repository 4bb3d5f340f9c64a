//! Tool discovery on tool servers.
//!
//! Tools of a known server are cached; then request and result are recorded in one batch. If a
//! server does not respond, the run continues without its tools, and the recorded result says so.
//!
//! All servers are asked at once. Their answers are recorded in the order of the request, because
//! an earlier server takes names and room before a later one: which tool a name means must not
//! depend on who answers first.

use std::{collections::HashSet, mem, sync::Arc};

use async_trait::async_trait;
use futures::{FutureExt, TryStreamExt, stream::FuturesUnordered};
use tokio::sync::oneshot;
use tracing::{instrument, warn};
use turnwire_contract::{
    DiscoveryOutcome, Event, ItemId, JournalError, LeftOut, RunRequest, ServerUse, Tool,
    ToolContext, ToolError, ToolKind, ToolOutput, ToolRef, ToolRequest, ToolSpec, WhyLeftOut,
};

use crate::{
    failures, live_run::LiveRun, pinning, run_context::RunContext, run_servers::RunServers,
    schemas::with_usable_schemas,
};

/// Maximum size of the tools of all servers of a run: they are sent with every turn.
const MAX_CATALOGUES: usize = 2 * 1024 * 1024;

/// Discovers the tools of `servers`.
pub(crate) async fn discover(
    run: &LiveRun,
    context: &RunContext,
    servers: Vec<ServerUse>,
) -> Result<(), JournalError> {
    let (first, mut turn) = oneshot::channel();
    let _ = first.send(());
    let ask_in_turn = |server| {
        let (recorded, next) = oneshot::channel();
        let before = mem::replace(&mut turn, next);
        async move {
            let answer = ask(run, context, server).await?;
            // Without an answer, or if one before has not been recorded, the run stops or is handed
            // over: the loop checks for it next.
            if let (Some(answer), Ok(())) = (answer, before.await)
                && answer.record(run, context).await?
            {
                let _ = recorded.send(());
            }
            Ok::<(), JournalError>(())
        }
        .boxed()
    };
    let asked: FuturesUnordered<_> = servers.into_iter().map(ask_in_turn).collect();
    asked.try_collect().await
}

/// What a server has answered.
struct Answer {
    server: ServerUse,
    item_id: ItemId,
    /// The start of the discovery, if it is not recorded yet.
    unrecorded: Vec<Event>,
    tools: Result<Vec<Arc<dyn Tool>>, ToolError>,
    /// What the server listed beside these tools.
    left_out: LeftOut,
}

/// Asks a server. Returns `None` if the run stops or is handed over meanwhile.
#[instrument(skip_all, fields(server = %server.label))]
async fn ask(
    run: &LiveRun,
    context: &RunContext,
    server: ServerUse,
) -> Result<Option<Answer>, JournalError> {
    let label = &server.label;
    // After a takeover, an open discovery is resumed.
    let open = run.state().discovering(label).cloned();
    let item_id = open.clone().unwrap_or_else(|| ItemId::new(run.new_id("mcpl")));
    let started = Event::DiscoveryStarted { item_id: item_id.clone(), server: label.clone() };
    let mut unrecorded: Vec<Event> = open.is_none().then_some(started).into_iter().collect();
    let tools = if let Some(tools) = context.servers.known_tools(&server) {
        Ok(tools)
    } else {
        run.record_all(mem::take(&mut unrecorded)).await?;
        tokio::select! {
            biased;
            () = run.stopped() => return Ok(None),
            () = run.handover_requested() => return Ok(None),
            tools = context.servers.tools(&server) => tools,
        }
    };
    let left_out = context.servers.left_out(&server);
    Ok(Some(Answer { server, item_id, unrecorded, tools, left_out }))
}

impl Answer {
    /// Returns `false` if the run stops or is handed over meanwhile.
    #[instrument(skip_all, fields(server = %self.server.label))]
    async fn record(self, run: &LiveRun, context: &RunContext) -> Result<bool, JournalError> {
        let Self { server, item_id, unrecorded: mut events, tools, mut left_out } = self;
        let outcome = match tools {
            Ok(tools) => match listed(run, context, &server, tools, &mut left_out).await {
                Some(tools) => DiscoveryOutcome::Listed { tools },
                None => return Ok(false),
            },
            Err(error) => {
                warn!(%error, "tool discovery failed");
                left_out = LeftOut::default();
                let failure = failures::server_unreachable(&error.to_string());
                DiscoveryOutcome::Failed { failure }
            }
        };
        let left_out = left_out.shortened();
        events.push(Event::ToolsDiscovered { item_id, server: server.label, outcome, left_out });
        run.record_all(events).await?;
        Ok(true)
    }
}

/// Returns the offered tools of a server under unique names, or `None` if the run stops or is
/// handed over meanwhile. The others that the run asks for are in `left_out`.
async fn listed(
    run: &LiveRun,
    context: &RunContext,
    server: &ServerUse,
    mut tools: Vec<Arc<dyn Tool>>,
    left_out: &mut LeftOut,
) -> Option<Vec<Arc<ToolSpec>>> {
    tools.retain(|tool| server.allows(&tool.spec().name));
    left_out.tools.retain(|tool| server.allows(&tool.name));
    let n_logged = left_out.tools.len();
    let tools = with_usable_schemas(tools, left_out);
    let mut specs: Vec<Arc<ToolSpec>> = tools.iter().map(|tool| tool.shared_spec()).collect();
    let policy = &context.policy;
    if let Some(pins) = &policy.pins {
        pinning::mark_changed(pins.as_ref(), run, server.server().identity(), &mut specs).await?;
    }
    for spec in &mut specs {
        // All runs share the specs of a server; one that is changed is this run's own.
        if !spec.needs_approval && (policy.wants(spec) || server.ask_before.includes(&spec.name)) {
            Arc::make_mut(spec).needs_approval = true;
        }
    }
    let offered = offered(&server.label, specs, run.state().offered(), left_out);
    if left_out.tools.len() > n_logged {
        warn!(tools = %left_out, "tools not offered");
    }
    Some(offered)
}

/// Returns those of the tools of a server that there is room for beside the tools `before` them,
/// under names that none of these has. The others are added to `left_out`.
fn offered<'a>(
    server: &str,
    tools: Vec<Arc<ToolSpec>>,
    before: impl Iterator<Item = &'a Arc<ToolSpec>>,
    left_out: &mut LeftOut,
) -> Vec<Arc<ToolSpec>> {
    let (mut taken, mut n_bytes) = (HashSet::new(), 0);
    for spec in before {
        taken.insert(spec.name.clone());
        if spec.kind == ToolKind::Mcp {
            n_bytes += spec.catalogue_bytes();
        }
    }
    let mut offered = Vec::with_capacity(tools.len());
    for mut spec in tools {
        // Once there is no room, there is none for the tools that follow.
        n_bytes = n_bytes.saturating_add(spec.catalogue_bytes());
        if n_bytes > MAX_CATALOGUES {
            left_out.add(&spec.name, &WhyLeftOut::RunFull);
            continue;
        }
        let Some(name) = free_name(server, &spec.name, &taken) else {
            left_out.add(&spec.name, &WhyLeftOut::NameTaken);
            continue;
        };
        taken.insert(name.clone());
        if name != spec.name {
            let spec = Arc::make_mut(&mut spec);
            let own = mem::replace(&mut spec.name, name);
            spec.own_name = (ToolRef::own_name_of(&spec.name, server) != own).then_some(own);
        }
        offered.push(spec);
    }
    offered
}

/// Returns the name under which a tool of a server is offered if there are no other tools.
pub(crate) fn name_alone(server: &str, own: &str) -> String {
    free_name(server, own, &HashSet::new()).unwrap_or_default()
}

/// Returns the name under which the model is offered the tool `own` of a server. The name of its
/// server is in front if the name is taken, and if it would be taken for such a name.
fn free_name(server: &str, own: &str, taken: &HashSet<String>) -> Option<String> {
    let plain = offered_name(own);
    if !taken.contains(&plain) && ToolRef::own_name_of(&plain, server) == plain {
        return Some(plain);
    }
    let qualified = offered_name(&format!("{server}__{own}"));
    (!taken.contains(&qualified)).then_some(qualified)
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
    used: ServerUse,
    spec: Arc<ToolSpec>,
}

impl ServerTool {
    /// Creates the tool described by `spec`, of a server in `request`.
    pub(crate) fn new(
        servers: Arc<RunServers>,
        request: &RunRequest,
        spec: &Arc<ToolSpec>,
    ) -> Self {
        let label = spec.server.as_deref().unwrap_or_default();
        let used = request.servers.iter().find(|used| used.label == label);
        let used = used.cloned().unwrap_or_else(|| ServerUse::all_of(label));
        Self { servers, used, spec: Arc::clone(spec) }
    }

    fn server_label(&self) -> &str {
        &self.used.label
    }

    /// Returns the tool as currently listed by its server, if cached.
    pub(crate) fn known(&self) -> Option<Arc<dyn Tool>> {
        let exact = self.servers.known_tool(&self.used, self.spec.own_name());
        exact.or_else(|| self.named(self.servers.known_tools(&self.used)?))
    }

    fn named(&self, tools: Vec<Arc<dyn Tool>>) -> Option<Arc<dyn Tool>> {
        let own = self.spec.own_name();
        // A version before did not record the name on the server beside a sanitized one.
        let is_it = |tool: &Arc<dyn Tool>| {
            let name = &tool.spec().name;
            self.spec.own_name.is_none()
                && (offered_name(name) == own
                    || offered_name(&format!("{}__{name}", self.server_label())) == self.spec.name)
        };
        let exact = tools.iter().position(|tool| tool.spec().name == own);
        let index = exact.or_else(|| tools.iter().position(is_it))?;
        tools.into_iter().nth(index)
    }
}

#[async_trait]
impl Tool for ServerTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn shared_spec(&self) -> Arc<ToolSpec> {
        Arc::clone(&self.spec)
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
                let name = self.spec.own_name();
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
