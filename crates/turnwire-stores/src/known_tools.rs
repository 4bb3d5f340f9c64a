//! Lists of tools that are in memory, so that all who read the same one share it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use turnwire_contract::{TenantId, ToolSpec};

use crate::sync::lock;

/// How many lists are known, some of which may not be in memory any more.
const MAX_KNOWN: usize = 1024;

/// The lists that are in memory, by tenant and ID.
#[derive(Debug, Default)]
pub(crate) struct KnownTools(Mutex<HashMap<(TenantId, String), KnownList>>);

#[derive(Debug)]
struct KnownList {
    tools: Vec<Weak<ToolSpec>>,
    n_bytes: usize,
}

impl KnownList {
    fn tools(&self) -> Option<Vec<Arc<ToolSpec>>> {
        self.tools.iter().map(Weak::upgrade).collect()
    }
}

impl KnownTools {
    /// Adds a list of `n_bytes` bytes, unless it is there.
    pub(crate) fn add(&self, tenant: &TenantId, id: &str, tools: &[Arc<ToolSpec>], n_bytes: usize) {
        let mut known = lock(&self.0);
        let key = (tenant.clone(), id.to_owned());
        if known.get(&key).is_some_and(|known| known.tools().is_some()) {
            return;
        }
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| known.tools().is_some());
        }
        if known.len() < MAX_KNOWN {
            let tools = tools.iter().map(Arc::downgrade).collect();
            known.insert(key, KnownList { tools, n_bytes });
        }
    }

    /// Returns a list and the number of its bytes, if it is in memory.
    pub(crate) fn find(&self, tenant: &TenantId, id: &str) -> Option<(Vec<Arc<ToolSpec>>, usize)> {
        let known = lock(&self.0);
        let known = known.get(&(tenant.clone(), id.to_owned()))?;
        Some((known.tools()?, known.n_bytes))
    }
}
