//! Who may use which model, tool server and tool.
//!
//! What the principal may not use does not exist for them: it is not listed, not offered to their
//! models, and cannot be called. Runs are checked when they start and again whenever they list or
//! call a tool. The scopes for that are recorded with the run, so a worker that takes it over
//! decides the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use turnwire_contract::{LeftOut, RunRequest, Scope, TenantId, Tool};

/// Who starts a run or asks for a list: a tenant, and the scopes that it was granted.
#[derive(Debug, Clone, Copy)]
pub struct Principal<'a> {
    /// Their tenant.
    pub tenant: &'a TenantId,
    /// Their scopes.
    pub scopes: &'a BTreeSet<Scope>,
}

impl<'a> Principal<'a> {
    /// Returns the principal that started a run.
    pub fn of(request: &'a RunRequest) -> Self {
        Self { tenant: &request.tenant, scopes: &request.granted_scopes }
    }
}

/// Whether one of the scopes that somebody holds is `wanted`, or stands for it.
fn includes(held: &BTreeSet<Scope>, wanted: &Scope) -> bool {
    held.contains(wanted) || (wanted.is_for_use() && held.contains(&Scope::UseAll))
}

/// Who may use something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// These tenants; all if not set.
    pub tenants: Option<BTreeSet<TenantId>>,
    /// Whoever has one of these scopes; everybody if not set.
    pub scopes: Option<BTreeSet<Scope>>,
}

impl Access {
    /// Whether everybody may use it.
    pub fn is_open(&self) -> bool {
        self.tenants.is_none() && self.scopes.is_none()
    }

    fn admits(&self, who: Principal<'_>) -> bool {
        let is_theirs = self.tenants.as_ref().is_none_or(|tenants| tenants.contains(who.tenant));
        let has_scope =
            |scopes: &BTreeSet<Scope>| scopes.iter().any(|scope| includes(who.scopes, scope));
        is_theirs && self.scopes.as_ref().is_none_or(has_scope)
    }
}

/// What not everybody may use, in addition to what tool servers decide themselves. Everybody may
/// use what is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// Models by name.
    pub models: BTreeMap<String, Access>,
    /// The model for all other names.
    pub any_model: Access,
    /// Tools of this process by name.
    pub tools: BTreeMap<String, Access>,
    /// Tool servers of the settings by label.
    pub servers: BTreeMap<String, ServerAccess>,
}

/// Who may use a tool server and its tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerAccess {
    /// The server with all its tools.
    pub server: Access,
    /// Single tools, by their names on the server.
    pub tools: BTreeMap<String, Access>,
}

impl AccessRules {
    /// Returns what a run records of the scopes of whoever asks for it: those that the rules name.
    pub fn granted(&self, scopes: &BTreeSet<Scope>) -> BTreeSet<Scope> {
        let servers = self.servers.values();
        let of_servers = servers.flat_map(|server| server.tools.values().chain([&server.server]));
        let all = self.models.values().chain([&self.any_model]).chain(self.tools.values());
        let named = all.chain(of_servers).filter_map(|access| access.scopes.as_ref()).flatten();
        named.filter(|scope| includes(scopes, scope)).copied().collect()
    }

    pub(crate) fn admits_model(&self, who: Principal<'_>, name: &str, is_configured: bool) -> bool {
        if is_configured {
            self.models.get(name).is_none_or(|access| access.admits(who))
        } else {
            self.any_model.admits(who)
        }
    }

    /// Whether the principal may use a tool of this process.
    pub(crate) fn admits_tool(&self, who: Principal<'_>, name: &str) -> bool {
        self.tools.get(name).is_none_or(|access| access.admits(who))
    }

    /// Whether the principal may use a tool server of the settings.
    pub(crate) fn admits_server(&self, who: Principal<'_>, label: &str) -> bool {
        self.servers.get(label).is_none_or(|access| access.server.admits(who))
    }

    /// Whether the principal may use a tool of a server of the settings.
    pub(crate) fn admits_server_tool(&self, who: Principal<'_>, label: &str, name: &str) -> bool {
        let Some(access) = self.servers.get(label) else { return true };
        access.server.admits(who) && access.tools.get(name).is_none_or(|tool| tool.admits(who))
    }

    /// Leaves out the tools of a server that the principal may not use.
    pub(crate) fn admitted(
        &self,
        who: Principal<'_>,
        label: &str,
        mut tools: Vec<Arc<dyn Tool>>,
    ) -> Vec<Arc<dyn Tool>> {
        if self.servers.contains_key(label) {
            tools.retain(|tool| self.admits_server_tool(who, label, &tool.spec().name));
        }
        tools
    }

    /// Does the same with the tools of a server that no model is offered.
    pub(crate) fn hide_left_out(&self, who: Principal<'_>, label: &str, left_out: &mut LeftOut) {
        left_out.tools.retain(|tool| self.admits_server_tool(who, label, &tool.name));
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
