//! Exit codes and error messages.

use std::{fmt, process::ExitCode};

use serde::Serialize;
use turnwire_surfaces::clean;

use crate::terminal::{Colour, Paint, tell};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The run completed, or the server was shut down.
    Done,
    /// The run failed or reached a limit, or the server could not start.
    Failed,
    /// The command line or the settings are invalid.
    Usage,
    /// The run waits for a person, and there is no terminal to ask one.
    NeedsPerson,
    /// The server cannot be reached.
    Unreachable,
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
            Exit::NeedsPerson => 3,
            Exit::Unreachable => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        })
    }
}

/// A mistake in the settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Mistake {
    /// The file; none for a variable, or for what is nowhere.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<usize>,
    /// Path of the setting, or the name of a variable.
    pub(crate) path: Option<String>,
    pub(crate) message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(file), Some(line)) = (&self.file, self.line) {
            write!(f, "{file}:{line}: ")?;
        }
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// The result of what fails with a message for the user.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// An error for the user, with hints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) message: String,
    /// Details of the message, one per line.
    pub(crate) details: Vec<String>,
    /// The details, if they are mistakes in the settings.
    pub(crate) mistakes: Vec<Mistake>,
    /// What to do, one hint per line.
    pub(crate) hints: Vec<String>,
    pub(crate) exit: Exit,
}

impl Problem {
    /// Creates an error in the command line or settings.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        let (details, mistakes, hints) = (Vec::new(), Vec::new(), Vec::new());
        Self { message: message.into(), details, mistakes, hints, exit: Exit::Usage }
    }

    /// Creates a runtime error.
    pub(crate) fn failure(message: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, ..Self::usage(message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Prints the error to standard error.
    pub(crate) fn show(&self, paint: Paint) {
        // A message may quote a provider or a file, which may contain escape sequences.
        tell(&format!("{} {}", paint.bold(Colour::Red, "error:"), clean(&self.message)));
        for detail in &self.details {
            tell(&format!("  {}", clean(detail)));
        }
        for hint in &self.hints {
            tell(&format!("{} {}", paint.bold(Colour::Cyan, "hint:"), clean(hint)));
        }
    }

    /// Prints the error to standard error, and returns its exit code.
    pub(crate) fn shown(&self, paint: Paint) -> Exit {
        self.show(paint);
        self.exit
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.details.iter().try_for_each(|detail| write!(f, "\n  {detail}"))?;
        self.hints.iter().try_for_each(|hint| write!(f, "\nhint: {hint}"))
    }
}
