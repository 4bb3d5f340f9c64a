//! Names of the providers of models, for `gen_ai.provider.name` of spans and metrics. A reload of
//! the settings replaces them.

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;

/// The providers of models.
#[derive(Debug, Clone, Default)]
pub struct Providers {
    /// By the name of the model.
    pub named: BTreeMap<String, Arc<str>>,
    /// The provider of all other names.
    pub others: Arc<str>,
}

impl Providers {
    /// The provider of a model.
    pub(crate) fn of(&self, model: &str) -> &Arc<str> {
        self.named.get(model).unwrap_or(&self.others)
    }
}

/// The providers in force. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct SharedProviders(Arc<ArcSwap<Providers>>);

impl SharedProviders {
    /// Replaces the providers. A run that is observed already keeps its own.
    pub fn replace(&self, providers: Providers) {
        self.0.store(Arc::new(providers));
    }

    pub(crate) fn load(&self) -> Arc<Providers> {
        self.0.load_full()
    }
}
