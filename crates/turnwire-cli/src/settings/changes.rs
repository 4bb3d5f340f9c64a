//! What differs between two settings of a server, by the names that the file has for it, and
//! whether a reload is enough to put it in force.

use std::collections::{BTreeMap, BTreeSet};

use super::{limits::ServerLimits, models::ServedModels, serve::ServeSettings};

impl ServeSettings {
    /// Names what a reload from these settings to `new` changes.
    pub(crate) fn reloadable_changes(&self, new: &Self) -> Vec<String> {
        // Each field is named, so that a new one is not forgotten.
        let Self {
            auth,
            oidc,
            audit,
            instructions,
            models,
            access,
            tool_servers,
            on_request,
            functions,
            web_search,
            egress,
            limits,
            server_limits,
            quotas,
            approvals,
            // These need a restart.
            listen: _,
            health_listen: _,
            secret_keys: _,
            webhooks: _,
            embeddings: _,
            store: _,
            traces: _,
            metrics: _,
            // These are about the file.
            digest: _,
            warnings: _,
        } = self;
        let (taken, new_taken) = (reloadable(server_limits), reloadable(&new.server_limits));
        let whole = [
            ("server.api_keys", auth.api_keys != new.auth.api_keys),
            ("server.metrics_token_env", auth.metrics_token != new.auth.metrics_token),
            ("server.hosts", auth.hosts != new.auth.hosts),
            ("server.origins", auth.origins != new.auth.origins),
            ("server.instructions", *instructions != new.instructions),
            (
                "other model names",
                models.others != new.models.others || access.any_model != new.access.any_model,
            ),
            ("oidc", *oidc != new.oidc),
            ("audit.record", *audit != new.audit),
            ("mcp.on_request", *on_request != new.on_request),
            ("functions", *functions != new.functions),
            ("web_search", *web_search != new.web_search),
            ("egress", *egress != new.egress),
            ("limits", *limits != new.limits || taken != new_taken),
            ("quotas", *quotas != new.quotas),
            ("approvals", *approvals != new.approvals),
        ];
        let whole = whole.into_iter().filter(|(_, is_changed)| *is_changed);
        let mut changes: Vec<String> = whole.map(|(name, _)| name.to_owned()).collect();
        changes.extend(changed_models(models, &new.models));
        changes.extend(changed_entries("mcp_servers", tool_servers, &new.tool_servers));
        changes.extend(changed_entries("models", &access.models, &new.access.models));
        changes.extend(changed_entries("functions", &access.tools, &new.access.tools));
        changes.extend(changed_entries("mcp_servers", &access.servers, &new.access.servers));
        changes.sort();
        changes.dedup();
        changes
    }

    /// Names what differs in `new` from the settings that the server was started with, and needs a
    /// restart.
    pub(crate) fn fixed_changes(&self, new: &Self) -> Vec<String> {
        let sends_webhooks = !self.webhooks.receivers.is_empty();
        let key_ids = |settings: &Self| {
            let keys = settings.secret_keys.as_ref();
            keys.map(|keys| keys.ids().map(str::to_owned).collect::<Vec<_>>())
        };
        let (store, new_store) = (self.plain_store(), new.plain_store());
        let encryption =
            |settings: &Self| settings.store.as_ref().and_then(|store| store.encryption.clone());
        let retention =
            |settings: &Self| settings.store.as_ref().and_then(|store| store.audit_retention);
        let fixed = [
            ("server.listen", self.listen != new.listen),
            ("server.health_listen", self.health_listen != new.health_listen),
            ("store", store != new_store),
            ("audit.retention_days", retention(self) != retention(new)),
            ("secrets", key_ids(self) != key_ids(new)),
            ("encryption", encryption(self) != encryption(new)),
            ("webhooks", self.webhooks != new.webhooks),
            ("egress of webhooks", sends_webhooks && self.egress != new.egress),
            ("embeddings", self.embeddings != new.embeddings),
            ("limits of connections and memory", fixed(self) != fixed(new)),
        ];
        let fixed = fixed.into_iter().filter(|(_, is_changed)| *is_changed);
        fixed.map(|(name, _)| name.to_owned()).collect()
    }

    /// The store and the fan-out, without what other sections say about it.
    fn plain_store(&self) -> Option<turnwire_stores::StoreOptions> {
        let store = self.store.clone()?;
        let (audit_retention, webhooks, encryption) = (None, Vec::new(), None);
        Some(turnwire_stores::StoreOptions { audit_retention, webhooks, encryption, ..store })
    }
}

/// The limits that a reload puts in force.
fn reloadable(limits: &ServerLimits) -> ServerLimits {
    let ServerLimits { http, prompt_file_bytes, gathering, .. } = ServerLimits::default();
    ServerLimits { http, prompt_file_bytes, gathering, ..limits.clone() }
}

/// The limits that need a restart.
fn fixed(settings: &ServeSettings) -> ServerLimits {
    let ServerLimits { http, prompt_file_bytes, gathering, .. } = settings.server_limits.clone();
    ServerLimits { http, prompt_file_bytes, gathering, ..ServerLimits::default() }
}

fn changed_models(old: &ServedModels, new: &ServedModels) -> Vec<String> {
    let mut changes = changed_entries("models", &old.named, &new.named);
    let has_tools = |models: &ServedModels, name: &str| models.with_tools.contains(name);
    let named = old.named.keys().filter(|name| new.named.contains_key(*name));
    let named = named.filter(|name| has_tools(old, name) != has_tools(new, name));
    changes.extend(named.map(|name| format!("models.{name}")));
    let is_default_changed = old.default_name != new.default_name;
    changes.extend(is_default_changed.then(|| "the default model".to_owned()));
    changes.into_iter().collect()
}

/// The entries of a section that were added, removed or changed.
fn changed_entries<T: PartialEq>(
    section: &str,
    old: &BTreeMap<String, T>,
    new: &BTreeMap<String, T>,
) -> BTreeSet<String> {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    changed.map(|name| format!("{section}.{name}")).collect()
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
