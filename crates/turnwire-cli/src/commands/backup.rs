//! `turnwire backup FILE`: copies the store, also while a server uses it.

use std::io::{self, IsTerminal};

use turnwire_stores::BackupError;

use super::watched::runtime;
use crate::{
    args::BackupArguments,
    environment::Environment,
    exit::{Exit, Problem, Result},
    settings::url_of_store,
    terminal::{Paint, tell},
};

pub(crate) fn backup(arguments: &BackupArguments, environment: &Environment) -> Exit {
    match copied(arguments, environment) {
        Ok(()) => Exit::Done,
        Err(problem) => {
            let on_terminal = io::stderr().is_terminal();
            problem.shown(Paint::choose(arguments.color, environment, on_terminal))
        }
    }
}

fn copied(arguments: &BackupArguments, environment: &Environment) -> Result<()> {
    let url = url_of_store(arguments.config.as_deref(), environment)?;
    let made = runtime()?.block_on(turnwire_stores::backup(&url, &arguments.file));
    made.map_err(|error| worded(&error))?;
    tell(&format!("The store is in {}.", arguments.file.display()));
    Ok(())
}

fn worded(error: &BackupError) -> Problem {
    let message = error.to_string();
    match error {
        BackupError::NotSqlite => Problem::usage(message).hint(
            "for PostgreSQL: pg_dump --format=custom --file=turnwire.dump DATABASE_URL, and \
             pg_restore to bring it back; runs in memory are not kept",
        ),
        BackupError::NoStore(_) => {
            Problem::usage(message).hint("TURNWIRE_STORE_URL or [store] names another")
        }
        BackupError::TargetExists(_) => {
            Problem::usage(message).hint("name a file that is not there yet")
        }
        BackupError::Failed(_) => Problem::failure(format!("the store was not copied: {message}")),
    }
}
