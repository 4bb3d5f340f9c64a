//! The tool servers of a run, with the secrets that its request supplied for them.
//!
//! Secrets are encrypted when the run is created. They are read and decrypted when a server is used
//! for the first time, by whichever worker executes the run, and forgotten when that worker stops
//! executing it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use tracing::warn;
use turnwire_contract::{
    LeftOut, RunAccess, RunId, RunRequest, RunStore, SealedSecret, SecretBox, SecretOwner,
    ServerRef, ServerSecrets, ServerUse, StoreError, Tool, ToolError, ToolServers,
};

use crate::{
    access::{AccessRules, Principal},
    live_run::retry_while_unavailable,
    runs::{Runs, StartError},
    settings::CurrentSettings,
    sync::lock,
};

/// The tool servers of one run.
pub(crate) struct RunServers {
    servers: Arc<dyn ToolServers>,
    store: Arc<dyn RunStore>,
    secret_box: Option<Arc<dyn SecretBox>>,
    request: Arc<RunRequest>,
    /// The rules are those in force, not those at the start of the run.
    settings: CurrentSettings,
    run_id: RunId,
    /// Decrypted secrets by the label of their server.
    opened: Mutex<BTreeMap<String, Arc<ServerSecrets>>>,
}

/// Secrets of a server that are not decrypted yet.
struct StillSealed;

impl RunServers {
    /// Returns the cached tools of a server, if any.
    pub(crate) fn known_tools(&self, used: &ServerUse) -> Option<Vec<Arc<dyn Tool>>> {
        let secrets = self.known_secrets(used).ok()?;
        let server = self.server(used, secrets.as_deref());
        Some(self.admitted(used, self.servers.known_tools(&self.request.tenant, server)?))
    }

    /// Returns the cached tool of a server with this name, if any.
    pub(crate) fn known_tool(&self, used: &ServerUse, name: &str) -> Option<Arc<dyn Tool>> {
        if used.url.is_none() && !self.access().admits_server_tool(self.who(), &used.label, name) {
            return None;
        }
        let secrets = self.known_secrets(used).ok()?;
        self.servers.known_tool(&self.request.tenant, self.server(used, secrets.as_deref()), name)
    }

    /// Returns the tools of a server, and asks the server if they are not cached.
    pub(crate) async fn tools(&self, used: &ServerUse) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let secrets = match self.known_secrets(used) {
            Ok(secrets) => secrets,
            Err(StillSealed) => Some(self.open(used).await?),
        };
        if used.url.is_none() && !self.access().admits_server(self.who(), &used.label) {
            let label = &used.label;
            return Err(ToolError::failed(format!("there is no tool server `{label}`")));
        }
        let server = self.server(used, secrets.as_deref());
        Ok(self.admitted(used, self.servers.tools(&self.request.tenant, server).await?))
    }

    /// Returns what a server listed beside its tools, as far as the run may know of it.
    pub(crate) fn left_out(&self, used: &ServerUse) -> LeftOut {
        let Ok(secrets) = self.known_secrets(used) else { return LeftOut::default() };
        let server = self.server(used, secrets.as_deref());
        let mut left_out = self.servers.left_out(&self.request.tenant, server);
        if used.url.is_none() {
            self.access().hide_left_out(self.who(), &used.label, &mut left_out);
        }
        left_out
    }

    /// Whether the run may use a tool of this process.
    pub(crate) fn may_use_tool(&self, name: &str) -> bool {
        self.access().admits_tool(self.who(), name)
    }

    fn access(&self) -> Arc<AccessRules> {
        Arc::clone(&self.settings.get().access)
    }

    fn who(&self) -> Principal<'_> {
        Principal::of(&self.request)
    }

    /// Leaves out tools that the run may not use. Servers that requests supply have no such tools.
    fn admitted(&self, used: &ServerUse, tools: Vec<Arc<dyn Tool>>) -> Vec<Arc<dyn Tool>> {
        if used.url.is_some() {
            return tools;
        }
        self.access().admitted(self.who(), &used.label, tools)
    }

    fn server<'a>(
        &'a self,
        used: &'a ServerUse,
        secrets: Option<&'a ServerSecrets>,
    ) -> ServerRef<'a> {
        let access = secrets.map(|secrets| RunAccess { run_id: &self.run_id, secrets });
        ServerRef { access, ..used.server() }
    }

    /// Returns the secrets for a server, if it has any.
    fn known_secrets(&self, used: &ServerUse) -> Result<Option<Arc<ServerSecrets>>, StillSealed> {
        if !used.has_secrets {
            return Ok(None);
        }
        lock(&self.opened).get(&used.label).cloned().map(Some).ok_or(StillSealed)
    }

    async fn open(&self, used: &ServerUse) -> Result<Arc<ServerSecrets>, ToolError> {
        let (label, store) = (&used.label, &self.store);
        // The caller ends the wait when the run stops.
        let asked = || store.secrets(&self.request.tenant, &self.run_id);
        let sealed = retry_while_unavailable(asked).await.map_err(|error| {
            warn!(%error, server = %label, "secrets of a run not read");
            ToolError::failed(format!("the secrets for the server `{label}` cannot be read"))
        })?;
        let opened = self.decrypt(used, &sealed).map_err(|why| {
            ToolError::failed(format!("the secrets for the server `{label}` are lost: {why}"))
        })?;
        let opened = Arc::new(opened);
        lock(&self.opened).insert(label.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    fn decrypt(&self, used: &ServerUse, sealed: &[SealedSecret]) -> Result<ServerSecrets, String> {
        let secret_box = self.secret_box.as_ref();
        let secret_box =
            secret_box.ok_or("there is no [secrets] in the settings of this server")?;
        let sealed = sealed.iter().find(|sealed| sealed.server == used.label);
        let sealed = sealed.ok_or("they are not stored")?;
        let owner = SecretOwner {
            tenant: &self.request.tenant,
            run_id: &self.run_id,
            server: &used.label,
            url: used.url.as_deref().unwrap_or_default(),
        };
        secret_box.open(owner, sealed).map_err(|error| error.to_string())
    }
}

impl Drop for RunServers {
    fn drop(&mut self) {
        if !lock(&self.opened).is_empty() {
            self.servers.forget_run(&self.run_id);
        }
    }
}

impl Runs {
    /// Whether requests may supply secrets for their tool servers.
    pub fn keeps_secrets(&self) -> bool {
        self.0.parts.secret_box.is_some()
    }

    pub(crate) fn servers_of(&self, request: &Arc<RunRequest>, run_id: &RunId) -> RunServers {
        let parts = &self.0.parts;
        RunServers {
            servers: Arc::clone(&parts.servers),
            store: Arc::clone(&parts.store),
            secret_box: parts.secret_box.clone(),
            request: Arc::clone(request),
            settings: self.0.settings.clone(),
            run_id: run_id.clone(),
            opened: Mutex::default(),
        }
    }

    /// Takes the secrets out of a request and encrypts them. From then on nothing else has them.
    pub(crate) fn seal_secrets(
        &self,
        request: &mut RunRequest,
        run_id: &RunId,
    ) -> Result<Vec<SealedSecret>, StartError> {
        let mut sealed = Vec::new();
        for used in &mut request.servers {
            let supplied = used.secrets.take().filter(|secrets| !secrets.is_empty());
            used.has_secrets = supplied.is_some();
            let Some(secrets) = supplied else { continue };
            let refused = |why: &str| StartError::Secrets(used.label.clone(), why.to_owned());
            let url = used.url.as_deref();
            let url = url.ok_or_else(|| refused("only its operator sets them"))?;
            let secret_box = self.0.parts.secret_box.as_ref();
            let secret_box = secret_box.ok_or_else(|| refused("there are no keys for them"))?;
            let owner = SecretOwner { tenant: &request.tenant, run_id, server: &used.label, url };
            let secret = secret_box.seal(owner, &secrets);
            sealed.push(secret.map_err(|error| refused(&error.to_string()))?);
        }
        Ok(sealed)
    }

    /// Returns the key that this worker lacks for the secrets of a run, if it lacks one.
    pub(crate) async fn lacks_secret_key(
        &self,
        request: &RunRequest,
        run_id: &RunId,
    ) -> Result<Option<String>, StoreError> {
        if !request.servers.iter().any(|used| used.has_secrets) {
            return Ok(None);
        }
        let Some(secret_box) = &self.0.parts.secret_box else {
            return Ok(Some("[secrets] in the settings".to_owned()));
        };
        let sealed = self.0.parts.store.secrets(&request.tenant, run_id).await?;
        let missing = sealed.into_iter().find(|sealed| !secret_box.knows_key(&sealed.key_id));
        Ok(missing.map(|sealed| format!("key `{}` in [secrets]", sealed.key_id)))
    }
}
