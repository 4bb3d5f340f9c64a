//! Settings of `turnwire keys`, `turnwire audit`, `turnwire encryption` and `turnwire backup`.

use std::path::Path;

use turnwire_stores::StoreOptions;

use super::{sections::store_alone, store::MEMORY};
use crate::{
    args::StoreArguments,
    environment::Environment,
    exit::{Problem, Result},
};

/// Reads the store from environment and file, and the keys of `[encryption]` if `reads_keys`. What
/// is in memory belongs to one process.
pub(crate) fn store_of_command(
    arguments: &StoreArguments,
    environment: &Environment,
    reads_keys: bool,
) -> Result<StoreOptions> {
    let store = store_alone(arguments.config.as_deref(), environment, reads_keys)?;
    let store = store.ok_or_else(|| {
        Problem::usage("keys cannot be kept in memory, nor is there an audit log")
            .hint("name a store: [store] in the settings, or TURNWIRE_STORE_URL")
            .hint("a server that keeps its runs in memory takes keys from TURNWIRE_API_KEYS")
    })?;
    Ok(store.beside_servers())
}

/// Reads the URL of the store from environment and file. It may contain a password.
pub(crate) fn url_of_store(config: Option<&Path>, environment: &Environment) -> Result<String> {
    let store = store_alone(config, environment, false)?;
    Ok(store.map_or_else(|| MEMORY.to_owned(), |store| store.url))
}
