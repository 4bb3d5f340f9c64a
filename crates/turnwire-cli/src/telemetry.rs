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
    terminal::{Look, View},
};

/// Where the wish comes from: ours first, then what all Rust programs read.
const FILTERS: [&str; 2] = ["TURNWIRE_LOG", "RUST_LOG"];

/// Whether somebody asked for a log.
pub(crate) fn is_wanted(environment: &Environment) -> bool {
    FILTERS.iter().any(|name| environment.is_set(name))
}

/// Begins to log. Says whether there is a log.
pub(crate) fn start(environment: &Environment, look: Look) -> Result<bool, Problem> {
    let wish = FILTERS.iter().find_map(|name| Some((*name, environment.get(name)?)));
    let filter = match wish {
        Some((name, wish)) => EnvFilter::try_new(wish).map_err(|error| {
            Problem::usage(format!("{name}: {error}"))
                .hint(format!("try {name}=warn or {name}=turnwire_engine=debug"))
        })?,
        None if look.stderr_is_terminal || look.view != View::Plain => return Ok(false),
        None => EnvFilter::new("warn"),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(look.paint.is_on())
        .try_init();
    log.map_err(|error| Problem::failure(format!("there is no log: {error}")))?;
    Ok(true)
}
