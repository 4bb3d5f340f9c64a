//! Settings of `turnwire keys`.

use turnwire_stores::StoreOptions;

use super::sections::store_alone;
use crate::{args::KeysArguments, environment::Environment, exit::Problem};

/// Reads the store from environment and file. Keys in memory would be gone at once.
pub(crate) fn store_of_keys(
    arguments: &KeysArguments,
    environment: &Environment,
) -> Result<StoreOptions, Problem> {
    let store = store_alone(arguments.config.as_deref(), environment)?.ok_or_else(|| {
        Problem::usage("keys cannot be kept in memory")
            .hint("name a store: [store] in the settings, or TURNWIRE_STORE_URL")
            .hint("a server that keeps its runs in memory takes keys from TURNWIRE_API_KEYS")
    })?;
    // How long runs are kept is up to the servers, which may have other settings.
    let (retention, conversation_retention) = (None, None);
    Ok(StoreOptions { retention, conversation_retention, fanout: None, ..store })
}
