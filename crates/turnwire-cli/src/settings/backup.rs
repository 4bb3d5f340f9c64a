//! Settings of `turnwire backup`.

use super::{sections::store_alone, store::MEMORY};
use crate::{args::BackupArguments, environment::Environment, exit::Problem};

pub(crate) struct BackupSettings {
    /// URL of the store. May contain a password.
    pub(crate) url: String,
}

impl BackupSettings {
    /// Reads the settings from flags, environment and file.
    pub(crate) fn read(
        arguments: &BackupArguments,
        environment: &Environment,
    ) -> Result<Self, Problem> {
        let store = store_alone(arguments.config.as_deref(), environment)?;
        Ok(Self { url: store.map_or_else(|| MEMORY.to_owned(), |store| store.url) })
    }
}
