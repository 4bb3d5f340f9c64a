//! What `turnwire backup` needs to know: which store there is.

use super::{
    file::{Sections, SettingsFile, all_of},
    store::MEMORY,
};
use crate::{args::BackupArguments, environment::Environment, exit::Problem};

/// The settings of the command.
pub(crate) struct BackupSettings {
    /// The address of the store; it may hold a password.
    pub(crate) url: String,
}

impl BackupSettings {
    /// Reads everything that has a say.
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
