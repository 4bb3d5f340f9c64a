//! The log, on standard error.
//!
//! By default nothing is logged on a terminal, where it would disturb the display, nor if only the
//! answer or the events are printed. Otherwise warnings are logged.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::{
    environment::Environment,
    exit::{Problem, Result},
    terminal::{Look, Paint, View},
};

/// Libraries that log the contents of messages and of errors, which may have prompts and secrets.
/// They are logged only if the filter names them.
const INDISCREET: [&str; 1] = ["rmcp"];

/// Turns off what logs contents, unless `choice` asks for it by name.
fn discreet(filter: EnvFilter, choice: &str) -> EnvFilter {
    let unnamed = INDISCREET.iter().filter(|target| !choice.contains(**target));
    let off = unnamed.filter_map(|target| format!("{target}=off").parse().ok());
    off.fold(filter, EnvFilter::add_directive)
}

/// Starts the log with the requested filter, or with `usual`. Returns whether there is a log.
fn begin(environment: &Environment, usual: Option<&str>, paint: Paint) -> Result<bool> {
    let filter = match (environment.log_filter(), usual) {
        (Some((name, choice)), _) => {
            EnvFilter::try_new(choice).map(|filter| discreet(filter, choice)).map_err(|error| {
                Problem::usage(format!("{name}: {error}"))
                    .hint(format!("try {name}=warn or {name}=turnwire_engine=debug"))
            })?
        }
        (None, Some(usual)) => discreet(EnvFilter::new(usual), usual),
        (None, None) => return Ok(false),
    };
    let is_json = environment.logs_json().map_err(Problem::usage)?;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // Write errors, for example on a full disk, must not panic.
        .log_internal_errors(false)
        .with_ansi(paint.is_on() && !is_json);
    let log = if is_json { log.json().flatten_event(true).try_init() } else { log.try_init() };
    log.map_err(|error| Problem::failure(format!("cannot set up the log: {error}")))?;
    Ok(true)
}

/// Starts the log for a command that displays a run. Returns whether there is a log.
pub(crate) fn start(environment: &Environment, look: Look) -> Result<bool> {
    let is_silent = look.stderr_is_terminal || look.view != View::Plain;
    begin(environment, (!is_silent).then_some("warn"), look.paint)
}

/// Starts the log for a long-running command, which has no live display.
pub(crate) fn start_to_stay(environment: &Environment, paint: Paint) -> Result<()> {
    begin(environment, Some("warn"), paint).map(drop)
}

/// Starts the log for a command that prints its own messages, if a log is requested.
pub(crate) fn start_if_wanted(environment: &Environment, paint: Paint) -> Result<()> {
    begin(environment, None, paint).map(drop)
}
