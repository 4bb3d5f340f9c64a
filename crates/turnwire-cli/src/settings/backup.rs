//! Settings of `turnwire backup`.

use super::{
    file::{SettingsFile, all_of},
    sections::Sections,
    store::MEMORY,
};
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
        let file = SettingsFile::find(arguments.config.as_deref())?;
        let (mut in_file, mut in_environment) = (Vec::new(), Vec::new());
        let sections = Sections::read(file.as_ref(), &mut in_file)?;
        let store = sections.store.options(false, environment, &mut in_file, &mut in_environment);
        if !(in_file.is_empty() && in_environment.is_empty()) {
            return Err(all_of(in_file, in_environment, file.as_ref()));
        }
        Ok(Self { url: store.map_or_else(|| MEMORY.to_owned(), |store| store.url) })
    }
}
