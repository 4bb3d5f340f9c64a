//! Selects how a run is displayed.

use std::io::{self, IsTerminal};

use super::Paint;
use crate::{
    args::{DisplayArguments, ToolsShown},
    environment::Environment,
};

/// How a run is displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) view: View,
    pub(crate) paint: Paint,
    pub(crate) stderr_is_terminal: bool,
    /// Whether answer and status go to the same place.
    pub(crate) shared: bool,
    /// How to stop the run or leave it, for the live block.
    pub(crate) keys: &'static str,
    /// Whether the answer is formatted.
    pub(crate) is_formatted: bool,
    /// How much is shown of calls.
    pub(crate) tools: ToolsShown,
}

/// How to stop a run of this process.
pub(crate) const STOP_KEYS: &str = "ctrl-c to stop";
/// How to stop a run on a server, or leave it.
pub(crate) const DETACH_KEYS: &str = "esc to stop · ctrl-b to detach";

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
        arguments: &DisplayArguments,
        environment: &Environment,
        streams: Streams,
    ) -> Self {
        let Streams { stderr_is_terminal, shared } = streams;
        let can_redraw = stderr_is_terminal
            && !Paint::is_dumb(environment)
            && !environment.is_set("NO_COLOR")
            && environment.get("TURNWIRE_A11Y") != Some("1")
            // A log and a live block would overwrite each other.
            && environment.log_filter().is_none();
        let view = match arguments {
            DisplayArguments { json: true, .. } => View::Json,
            DisplayArguments { quiet: true, .. } => View::Quiet,
            DisplayArguments { plain: true, .. } => View::Plain,
            _ if can_redraw => View::Live,
            _ => View::Plain,
        };
        let paint = Paint::choose(arguments.color, environment, stderr_is_terminal);
        Self {
            view,
            paint,
            stderr_is_terminal,
            shared,
            keys: STOP_KEYS,
            is_formatted: false,
            tools: arguments.tools,
        }
    }

    /// For a run that goes on without this process.
    pub(crate) fn detachable(self) -> Self {
        let reads_keys = self.stderr_is_terminal && self.shared;
        Self { keys: if reads_keys { DETACH_KEYS } else { STOP_KEYS }, ..self }
    }

    /// Formats the answer, if it goes to the same terminal as a live block.
    pub(crate) fn formatted(self) -> Self {
        Self { is_formatted: self.view == View::Live && self.shared, ..self }
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
