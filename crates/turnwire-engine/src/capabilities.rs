//! Checks whether this worker has the model and the tools that a run needs. Workers that share a
//! store may have different settings, at least during a rollout. After a takeover, a run is never
//! executed with another model or without its tools. A tool that the principal of the run may no
//! longer use is not missing: every worker would decide the same, so the run continues without it.

use turnwire_contract::{RunRequest, ToolKind};

use crate::runs::Runs;

impl Runs {
    /// Returns what this worker lacks to execute the run, or `None` if it lacks nothing.
    pub(crate) fn lacks(&self, request: &RunRequest) -> Option<String> {
        self.lacks_model(request)
            .or_else(|| self.lacks_tool(request))
            .or_else(|| self.lacks_server(request))
    }

    fn lacks_model(&self, request: &RunRequest) -> Option<String> {
        let name = &request.model;
        let Ok(model) = self.model(name) else { return Some(format!("model `{name}`")) };
        let meant = request.upstream_model.as_ref().unwrap_or(name);
        let answers = model.upstream_model(name);
        (answers != *meant).then(|| format!("model `{name}` as `{meant}`"))
    }

    fn lacks_tool(&self, request: &RunRequest) -> Option<String> {
        let is_ours = |kind: ToolKind| !kind.is_run_by_client();
        let mut tools =
            request.tools.iter().filter(|spec| is_ours(spec.kind) && spec.server.is_none());
        let missing = tools.find(|spec| self.tools().get(&spec.name).is_none())?;
        Some(format!("tool `{}`", missing.name))
    }

    fn lacks_server(&self, request: &RunRequest) -> Option<String> {
        let (servers, tenant) = (self.servers(), &request.tenant);
        let labels = servers.labels(tenant);
        let is_there = |label: &String, url: Option<&String>| match url {
            Some(url) => servers.allows_url(tenant, url),
            None => labels.contains(label),
        };
        let mut used = request.servers.iter();
        let missing = used.find(|used| !is_there(&used.label, used.url.as_ref()))?;
        Some(format!("tool server `{}`", missing.label))
    }
}
