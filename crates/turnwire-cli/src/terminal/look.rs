//! Selects how a run is displayed.

use std::io::{self, IsTerminal};

use super::Paint;
use crate::{args::RunArguments, environment::Environment, telemetry};

/// How a run is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) view: View,
    pub(crate) paint: Paint,
    pub(crate) stderr_is_terminal: bool,
    /// Whether answer and status go to the same place.
    pub(crate) shared: bool,
}

/// Content of the display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The events as JSON.
    Json,
    /// Only the answer.
    Quiet,
    /// The answer, and one line per change.
    Plain,
    /// The answer, and a live block.
    Live,
}

/// Targets of the two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Streams {
    pub(crate) stderr_is_terminal: bool,
    pub(crate) shared: bool,
}

impl Streams {
    pub(crate) fn of_this_process() -> Self {
        Self { stderr_is_terminal: io::stderr().is_terminal(), shared: go_to_the_same_place() }
    }
}

impl Look {
    pub(crate) fn choose(
        arguments: &RunArguments,
        environment: &Environment,
        streams: Streams,
    ) -> Self {
        let Streams { stderr_is_terminal, shared } = streams;
        let can_redraw = stderr_is_terminal
            && !Paint::is_dumb(environment)
            && !environment.is_set("NO_COLOR")
            && environment.get("TURNWIRE_A11Y") != Some("1")
            // A log and a live block would overwrite each other.
            && !telemetry::is_wanted(environment);
        let view = match arguments {
            RunArguments { json: true, .. } => View::Json,
            RunArguments { quiet: true, .. } => View::Quiet,
            RunArguments { plain: true, .. } => View::Plain,
            _ if can_redraw => View::Live,
            _ => View::Plain,
        };
        let paint = Paint::choose(arguments.color, environment, stderr_is_terminal);
        Self { view, paint, stderr_is_terminal, shared }
    }
}

/// Whether both streams go to one terminal, or with `2>&1` to one file or pipe.
#[cfg(unix)]
fn go_to_the_same_place() -> bool {
    use std::{
        fs::File,
        os::{fd::AsFd, unix::fs::MetadataExt},
    };

    let place = |stream: io::Result<std::os::fd::OwnedFd>| {
        let facts = File::from(stream.ok()?).metadata().ok()?;
        Some((facts.dev(), facts.ino()))
    };
    let answer = place(io::stdout().as_fd().try_clone_to_owned());
    answer.is_some() && answer == place(io::stderr().as_fd().try_clone_to_owned())
}

#[cfg(not(unix))]
fn go_to_the_same_place() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal()
}

#[cfg(test)]
#[path = "look_tests.rs"]
mod tests;
