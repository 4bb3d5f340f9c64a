//! How the program ends, and what it says when that is not well.

use std::{fmt, process::ExitCode};

use turnwire_surfaces::clean;

use crate::terminal::{Colour, Paint, tell};

/// The outcome, as a script reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The model has answered; a server was told to close, and has.
    Done,
    /// The run failed or ran into a limit; a server cannot listen.
    Failed,
    /// The command line or the settings are wrong.
    Usage,
    /// Ctrl-C; for a server, the second one.
    Interrupted,
    /// `SIGTERM`; for a server, the second one.
    Terminated,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        })
    }
}

/// Something the person has to know and can do something about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// What belongs to the message, a line each.
    pub(crate) details: Vec<String>,
    /// How to go on, a line each.
    pub(crate) hints: Vec<String>,
    pub(crate) exit: Exit,
}

impl Problem {
    /// Something is wrong with what was typed or set.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), details: Vec::new(), hints: Vec::new(), exit: Exit::Usage }
    }

    /// Something went wrong on the way.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, ..Self::usage(message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Says it on standard error.
    pub(crate) fn show(&self, paint: Paint) {
        // A message may quote a provider or a file, and those may hold anything.
        tell(&format!("{} {}", paint.bold(Colour::Red, "error:"), clean(&self.message)));
        for detail in &self.details {
            tell(&format!("  {}", clean(detail)));
        }
        for hint in &self.hints {
            tell(&format!("{} {}", paint.bold(Colour::Cyan, "hint:"), clean(hint)));
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.details.iter().try_for_each(|detail| write!(f, "\n  {detail}"))?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
