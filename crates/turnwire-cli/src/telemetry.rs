//! The operator's log, on standard error.
//!
//! On a terminal it is silent unless asked for, because it would break into what is drawn
//! there, and so it is when only the answer or the events are wanted; elsewhere warnings are
//! shown, because that is where one looks afterwards.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::{
    environment::Environment,
    exit::Problem,
    terminal::{Look, Paint, View},
};

/// Where the wish comes from: ours first, then what all Rust programs read.
const FILTERS: [&str; 2] = ["TURNWIRE_LOG", "RUST_LOG"];

/// Whether somebody asked for a log.
pub(crate) fn is_wanted(environment: &Environment) -> bool {
    FILTERS.iter().any(|name| environment.is_set(name))
}

/// Begins to log what is wanted, or else what is `usual`. Says whether there is a log.
fn begin(environment: &Environment, usual: Option<&str>, paint: Paint) -> Result<bool, Problem> {
    let choice = FILTERS.iter().find_map(|name| Some((*name, environment.get(name)?)));
    let filter = match (choice, usual) {
        (Some((name, choice)), _) => EnvFilter::try_new(choice).map_err(|error| {
            Problem::usage(format!("{name}: {error}"))
                .hint(format!("try {name}=warn or {name}=turnwire_engine=debug"))
        })?,
        (None, Some(usual)) => EnvFilter::new(usual),
        (None, None) => return Ok(false),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It may be a file on a full disk: what is not logged is not worth a panic.
        .log_internal_errors(false)
        .with_ansi(paint.is_on())
        .try_init();
    log.map_err(|error| Problem::failure(format!("there is no log: {error}")))?;
    Ok(true)
}

/// Begins to log for a command that shows a run. Says whether there is a log.
pub(crate) fn start(environment: &Environment, look: Look) -> Result<bool, Problem> {
    let is_silent = look.stderr_is_terminal || look.view != View::Plain;
    begin(environment, (!is_silent).then_some("warn"), look.paint)
}

/// Begins to log for a command that stays: nothing is drawn that a warning could break into.
pub(crate) fn start_to_stay(environment: &Environment, paint: Paint) -> Result<(), Problem> {
    begin(environment, Some("warn"), paint).map(drop)
}

/// Begins to log for a command that tells everything itself, if a log is asked for.
pub(crate) fn start_if_wanted(environment: &Environment, paint: Paint) -> Result<(), Problem> {
    begin(environment, None, paint).map(drop)
}
