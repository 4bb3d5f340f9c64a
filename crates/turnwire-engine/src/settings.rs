//! What can be replaced while runs are at work: models, tools, who may use them, approval policy
//! and quotas.
//!
//! A reload replaces all of it at once, so that nobody sees half of it. What a run has read at its
//! start stays the same until it ends. Only its model and its access follow: each turn asks what
//! the settings have now under its name, because an address or a key that was replaced may stop
//! working.

use std::{collections::BTreeMap, fmt, sync::Arc};

use arc_swap::ArcSwap;
use turnwire_contract::Model;

use crate::{
    access::{AccessRules, Principal},
    policy::ApprovalPolicy,
    quotas::QuotaOptions,
    toolbox::Toolbox,
};

/// The parts of an engine that [`Runs::reload`](crate::Runs::reload) replaces.
#[derive(Clone, Default)]
pub struct EngineSettings {
    /// Models by name.
    pub models: BTreeMap<String, Arc<dyn Model>>,
    /// The model for all other names. `None` rejects other names.
    pub any_model: Option<Arc<dyn Model>>,
    /// Who may use which models, tool servers and tools.
    pub access: Arc<AccessRules>,
    /// Tools of this process.
    pub tools: Toolbox,
    /// Approval policy, in addition to what tools and requests specify.
    pub policy: ApprovalPolicy,
    /// What tenants and holders of keys may use.
    pub quotas: QuotaOptions,
}

impl EngineSettings {
    pub(crate) fn model(&self, name: &str) -> Option<&Arc<dyn Model>> {
        self.models.get(name).or(self.any_model.as_ref())
    }

    /// Returns whether the principal may use the model with this name, if there is one.
    pub(crate) fn may_use_model(&self, who: Principal<'_>, name: &str) -> bool {
        let is_configured = self.models.contains_key(name);
        if !is_configured && self.is_forbidden_elsewhere(who, name) {
            return false;
        }
        self.access.admits_model(who, name, is_configured)
    }

    /// Whether a provider has `name` for a model that the principal may not use: names that are
    /// passed on must not be a way around it.
    fn is_forbidden_elsewhere(&self, who: Principal<'_>, name: &str) -> bool {
        let means_it = |(named, model): &(&String, &Arc<dyn Model>)| {
            model.upstream_model(named) == name && !self.may_use_model(who, named)
        };
        self.models.iter().any(|entry| means_it(&entry))
    }
}

impl fmt::Debug for EngineSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineSettings")
            .field("models", &self.models.keys())
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// The settings in force. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct CurrentSettings(Arc<ArcSwap<EngineSettings>>);

impl CurrentSettings {
    pub(crate) fn new(settings: EngineSettings) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(settings)))
    }

    pub(crate) fn get(&self) -> Arc<EngineSettings> {
        self.0.load_full()
    }

    pub(crate) fn replace(&self, settings: EngineSettings) {
        self.0.store(Arc::new(settings));
    }
}

/// The model of a run.
pub(crate) struct RunModel {
    /// What the run began with on this worker.
    first: Arc<dyn Model>,
    settings: CurrentSettings,
}

impl RunModel {
    pub(crate) fn new(first: Arc<dyn Model>, settings: CurrentSettings) -> Self {
        Self { first, settings }
    }

    /// Returns the model for the next turn of a run that names it so. A name that is gone, or
    /// stands for another model of its provider, does not change a run: it goes on with what it
    /// began with.
    pub(crate) fn for_turn(&self, name: &str) -> Arc<dyn Model> {
        let settings = self.settings.get();
        let meant = self.first.upstream_model(name);
        let found = settings.model(name);
        let found = found.filter(|model| model.upstream_model(name) == meant);
        Arc::clone(found.unwrap_or(&self.first))
    }
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
