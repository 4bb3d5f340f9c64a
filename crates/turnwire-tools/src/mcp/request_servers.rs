//! Servers supplied by requests, by URL.
//!
//! A server is accepted only if the operator allows its URL for the tenant. It is reached through
//! the [egress client](crate::Egress), which checks every address of a name and follows no
//! redirects, and gets the arguments of calls and the headers that the request supplied with it. A
//! connection belongs to one tenant and one URL, and is never shared. One with headers of a request
//! belongs to that run alone, and is closed when the run is over.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex},
};

use reqwest::Url;
use thiserror::Error;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use turnwire_contract::{RunAccess, RunId, ServerSecrets, TenantId, ToolError};

use super::{
    options::McpServerOptions,
    server::{ByRequest, Server},
};
use crate::{Egress, sync::lock};

/// Maximum number of connections. The least recently used one is closed first.
const MAX_SERVERS: usize = 64;

/// URLs of servers that requests may supply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlRule {
    url: Url,
    tenants: Option<Vec<TenantId>>,
}

/// Why a URL cannot be used in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UrlRuleError(&'static str);

impl UrlRule {
    /// Allows servers at `address` and all paths below it, for all tenants.
    pub fn at(address: &str) -> Result<Self, UrlRuleError> {
        let not_plain = "it must be an http or https address without user, query and fragment";
        parse_plain_url(address)
            .map(|url| Self { url, tenants: None })
            .ok_or(UrlRuleError(not_plain))
    }

    /// Restricts the rule to these tenants.
    pub fn only_for(self, tenants: Vec<TenantId>) -> Self {
        Self { tenants: Some(tenants), ..self }
    }

    fn covers(&self, tenant: &TenantId, url: &Url) -> bool {
        let is_theirs = self.tenants.as_ref().is_none_or(|tenants| tenants.contains(tenant));
        is_theirs && self.url.origin() == url.origin() && is_below(self.url.path(), url.path())
    }
}

/// Parses a URL without user, query and fragment. The parsed URL is the one that is requested, so
/// that two parsers cannot disagree.
fn parse_plain_url(address: &str) -> Option<Url> {
    let url = Url::parse(address).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    let has_keys = !url.username().is_empty() || url.password().is_some();
    let is_plain = is_web && !has_keys && url.query().is_none() && url.fragment().is_none();
    is_plain.then_some(url)
}

/// Whether `path` is `top` or below it, by whole segments.
fn is_below(top: &str, path: &str) -> bool {
    let rest = path.strip_prefix(top.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Which servers requests may supply, and how they are reached.
#[derive(Debug, Clone)]
pub(super) struct UrlRules {
    url_rules: Vec<UrlRule>,
    egress: Egress,
}

impl UrlRules {
    /// Returns `None` if nothing is allowed.
    pub(super) fn new(url_rules: Vec<UrlRule>, egress: Egress) -> Option<Self> {
        (!url_rules.is_empty()).then_some(Self { url_rules, egress })
    }

    /// Returns the parsed URL, if this tenant may supply a server there.
    pub(super) fn allowed(&self, tenant: &TenantId, address: &str) -> Option<Url> {
        let url = parse_plain_url(address)?;
        self.url_rules.iter().any(|rule| rule.covers(tenant, &url)).then_some(url)
    }
}

/// The connected servers supplied by requests.
#[derive(Default)]
pub(super) struct RequestServers {
    /// Ordered by last use, most recent last.
    connected: Mutex<VecDeque<RequestServer>>,
    /// Those with secrets, by their run. The number of runs at once limits them.
    of_runs: Mutex<HashMap<RunId, Vec<RequestServer>>>,
}

struct RequestServer {
    tenant: TenantId,
    label: String,
    url: Url,
    server: Arc<Server>,
    close: CancellationToken,
}

impl RequestServers {
    /// Returns the server at `address` with this tenant's `label`.
    pub(super) fn server(
        &self,
        rules: &UrlRules,
        tenant: &TenantId,
        label: &str,
        address: &str,
        access: Option<RunAccess<'_>>,
        background: (&TaskTracker, &CancellationToken),
    ) -> Result<Arc<Server>, ToolError> {
        let url = rules.allowed(tenant, address).ok_or_else(|| {
            ToolError::failed(format!("the server `{label}` may not be supplied by a request"))
        })?;
        let is_it = |known: &RequestServer| {
            (&known.tenant, known.label.as_str(), &known.url) == (tenant, label, &url)
        };
        if let Some(RunAccess { run_id, secrets }) = access {
            let mut of_runs = lock(&self.of_runs);
            let of_run = of_runs.entry(run_id.clone()).or_default();
            if let Some(known) = of_run.iter().find(|known| is_it(known)) {
                return Ok(Arc::clone(&known.server));
            }
            let new = Self::connect(rules, tenant, label, url, Some(secrets.clone()), background);
            let server = Arc::clone(&new.server);
            of_run.push(new);
            return Ok(server);
        }
        let mut connected = lock(&self.connected);
        if let Some(known) =
            connected.iter().position(is_it).and_then(|index| connected.remove(index))
        {
            let server = Arc::clone(&known.server);
            connected.push_back(known);
            return Ok(server);
        }
        if connected.len() == MAX_SERVERS
            && let Some(oldest) = connected.pop_front()
        {
            oldest.close.cancel();
        }
        let new = Self::connect(rules, tenant, label, url, None, background);
        let server = Arc::clone(&new.server);
        connected.push_back(new);
        Ok(server)
    }

    fn connect(
        rules: &UrlRules,
        tenant: &TenantId,
        label: &str,
        url: Url,
        secrets: Option<ServerSecrets>,
        (tasks, closing): (&TaskTracker, &CancellationToken),
    ) -> RequestServer {
        let close = closing.child_token();
        let options = McpServerOptions::http(url.as_str());
        let by_request = ByRequest { egress: Some(rules.egress.clone()), secrets };
        let (tenant, label) = (tenant.clone(), label.to_owned());
        let server = Server::new(label.clone(), options, by_request, tasks.clone(), close.clone());
        RequestServer { tenant, label, url, server, close }
    }

    /// Closes all connections, after their calls at work. Who may use them has changed, or how they
    /// are reached; those of runs at work are closed by the end of the run.
    pub(super) fn close_all(&self) {
        for known in lock(&self.connected).drain(..) {
            known.server.remove();
        }
    }

    /// Closes the connections with secrets of this run.
    pub(super) fn forget_run(&self, run_id: &RunId) {
        for server in lock(&self.of_runs).remove(run_id).into_iter().flatten() {
            server.close.cancel();
        }
    }
}

impl fmt::Debug for RequestServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_connected = lock(&self.connected).len();
        f.debug_struct("RequestServers").field("n_connected", &n_connected).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "request_servers_tests.rs"]
mod tests;
