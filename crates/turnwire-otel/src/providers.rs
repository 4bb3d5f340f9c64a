//! Names of the providers of models, for `gen_ai.provider.name` of spans and metrics.

use std::{collections::BTreeMap, sync::Arc};

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
