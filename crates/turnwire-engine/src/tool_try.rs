//! The tools of servers outside of a run: what they are like, and a run of one call.

use std::time::Duration;

use serde_json::{Map, Value};
use tracing::warn;
use turnwire_contract::{
    CallId, FirstCall, Item, LeftOut, PinnedTool, RunRequest, ServerUse, TenantId, Timestamp,
    ToolKind, ToolRef, ToolSpec,
};

use crate::{
    access::Principal,
    call_statistics::ServerCalls,
    discovery::{name_alone, offered_name},
    pinning::pinned,
    runs::Runs,
    schemas::with_usable_schemas,
};

const DAY: Duration = Duration::from_hours(24);

/// A tool of a server, as a run would offer it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedTool {
    /// Its spec, with the operator's approval policy applied.
    pub spec: ToolSpec,
    /// Whether its definition differs from the trusted one. Its calls need approval then.
    pub is_changed: bool,
}

impl ListedTool {
    /// The name under which models are offered the tool.
    pub fn offered_name(&self) -> String {
        offered_name(&self.spec.name)
    }
}

impl Runs {
    /// Returns the tools of a server that the principal may use, as far as they are known, and
    /// those that no run offers. Nothing is pinned by looking.
    pub async fn known_tools(&self, who: Principal<'_>, label: &str) -> (Vec<ListedTool>, LeftOut) {
        let policy = &self.settings().policy;
        let Some(tools) = self.known_server_tools(who, label) else { return Default::default() };
        let mut left_out = self.servers().left_out(who.tenant, label.into());
        self.access().hide_left_out(who, label, &mut left_out);
        let tools = with_usable_schemas(tools, &mut left_out);
        let trusted = self.trusted(who.tenant, label).await;
        let listed = |spec: &ToolSpec| {
            let met = pinned(spec);
            let is_changed = trusted.iter().any(|known| known.tool == met.tool && *known != met);
            let mut spec = spec.clone();
            spec.needs_approval |= is_changed || policy.wants(&spec);
            ListedTool { spec, is_changed }
        };
        (tools.iter().map(|tool| listed(tool.spec())).collect(), left_out.shortened())
    }

    /// Returns the calls of a server in this process, within the last 24 hours, and since when they
    /// are counted.
    pub fn server_calls(&self, tenant: &TenantId, label: &str) -> (ServerCalls, Timestamp) {
        let now = self.now();
        let day = i64::try_from(DAY.as_micros()).unwrap_or(i64::MAX);
        let since = Timestamp::from_micros(now.as_micros().saturating_sub(day));
        let calls = self.0.statistics.calls(tenant, label, now);
        (calls, since.max(self.0.started_at))
    }

    async fn trusted(&self, tenant: &TenantId, label: &str) -> Vec<PinnedTool> {
        let Some(pins) = &self.settings().policy.pins else { return Vec::new() };
        pins.trusted(tenant, label).await.unwrap_or_else(|error| {
            warn!(%error, server = label, "pinned tool definitions unavailable");
            Vec::new()
        })
    }
}

/// Turns `request` into one for a single call of a server's tool. The model is not asked. The
/// server is, as in any run, so the call has the approvals that the tool has.
pub fn one_call(
    mut request: RunRequest,
    call_id: CallId,
    server: &str,
    tool: &str,
    arguments: Map<String, Value>,
) -> RunRequest {
    request.input = vec![Item::user(format!("Try {tool} of {server}"))];
    request.tools = Vec::new();
    request.servers =
        vec![ServerUse { allowed: Some(vec![tool.to_owned()]), ..ServerUse::all_of(server) }];
    request.first_calls = vec![FirstCall {
        call_id,
        tool: ToolRef {
            name: name_alone(server, tool),
            kind: ToolKind::Mcp,
            server: Some(server.to_owned()),
        },
        arguments: Value::Object(arguments).to_string(),
        decision: None,
        budget: None,
    }];
    request.calls_only = true;
    // A worker of an earlier version does not know `calls_only`. It stops here.
    request.limits.max_turns = 0;
    request
}
