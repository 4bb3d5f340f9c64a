//! The tools and tool servers that a principal may use.

use std::sync::Arc;

use turnwire_contract::{RunRequest, ServerStatus, Tool, ToolError, ToolSpec};

use crate::{
    access::{AccessRules, Principal},
    runs::Runs,
};

impl Runs {
    /// Returns who may use what.
    pub fn access(&self) -> Arc<AccessRules> {
        Arc::clone(&self.settings().access)
    }

    /// Returns the tools of this process that the principal may use, sorted by name.
    pub fn tools_for(&self, who: Principal<'_>) -> Vec<Arc<ToolSpec>> {
        let mut specs = self.tools().specs();
        specs.retain(|spec| self.access().admits_tool(who, &spec.name));
        specs
    }

    /// Returns the labels of the tool servers of the settings that the principal may use.
    pub fn server_labels(&self, who: Principal<'_>) -> Vec<String> {
        let mut labels = self.servers().labels(who.tenant);
        labels.retain(|label| self.access().admits_server(who, label));
        labels
    }

    /// Returns the state of these servers, in the order of their labels. Starts to connect to those
    /// that are not connected, and does not wait for it.
    pub fn server_statuses(&self, who: Principal<'_>) -> Vec<ServerStatus> {
        let mut statuses = self.servers().statuses(who.tenant);
        statuses.retain(|status| self.access().admits_server(who, &status.label));
        statuses
    }

    /// Returns the tools of a server of the settings that the principal may use, if they are
    /// cached.
    pub fn known_server_tools(
        &self,
        who: Principal<'_>,
        label: &str,
    ) -> Option<Vec<Arc<dyn Tool>>> {
        let tools = self.servers().known_tools(who.tenant, label.into())?;
        Some(self.access().admitted(who, label, tools))
    }

    /// Returns the tools of a server of the settings that the principal may use, and asks the
    /// server if they are not cached.
    pub async fn server_tools(
        &self,
        who: Principal<'_>,
        label: &str,
    ) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        if !self.access().admits_server(who, label) {
            return Err(ToolError::failed(format!("there is no tool server `{label}`")));
        }
        let tools = self.servers().tools(who.tenant, label.into()).await?;
        Ok(self.access().admitted(who, label, tools))
    }

    /// Takes the tools of this process that a run may not use out of its request.
    pub(crate) fn leave_out_tools(&self, request: &mut RunRequest) {
        let (access, who) = (self.access(), Principal::of(request));
        let is_ours = |spec: &ToolSpec| !spec.kind.is_run_by_client() && spec.server.is_none();
        let is_hidden = |spec: &ToolSpec| is_ours(spec) && !access.admits_tool(who, &spec.name);
        if request.tools.iter().any(|spec| is_hidden(spec)) {
            let tools = request.tools.iter().filter(|spec| !is_hidden(spec)).cloned().collect();
            request.tools = tools;
        }
    }
}
