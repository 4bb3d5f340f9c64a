//! The prompt: the argument, piped input, or both.
//!
//! A pipe or file on standard input is put before the argument: `cat report.md | turnwire run "Sum
//! this up."`. Any other standard input (a terminal, `/dev/null`, a socket of the parent process)
//! is read only without an argument, or with `-`.

use std::{
    io::{self, IsTerminal, Read},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{
    exit::{Problem, Result},
    terminal::tell,
};

/// Time after which the person is told that standard input is being read.
const SILENCE: Duration = Duration::from_secs(2);

/// Returns the prompt from `argument` and standard input.
pub(super) fn question(argument: Option<&str>) -> Result<String> {
    let empty = || {
        Problem::usage("the question is empty")
            .hint("for example: turnwire run \"Why is the sky blue?\"")
    };
    let question = match argument {
        None if io::stdin().is_terminal() => return Err(empty()),
        None | Some("-") => piped()?,
        Some(question) if question.trim().is_empty() => return Err(empty()),
        Some(question) if is_pipe_or_file() => before(&piped()?, question),
        Some(question) => question.to_owned(),
    };
    if question.trim().is_empty() { Err(empty()) } else { Ok(question) }
}

fn before(text: &str, question: &str) -> String {
    match text.trim_end() {
        "" => question.to_owned(),
        text => format!("{text}\n\n{question}"),
    }
}

/// Reads all of standard input. Prints a notice if it stays open.
fn piped() -> Result<String> {
    let (sender, read) = mpsc::channel();
    let work = move || {
        let mut text = String::new();
        let _ = sender.send(io::stdin().lock().read_to_string(&mut text).map(|_| text));
    };
    let unread = |error: io::Error| {
        Problem::usage(format!("the question cannot be read from standard input: {error}"))
    };
    thread::Builder::new().name("stdin".to_owned()).spawn(work).map_err(unread)?;
    let text = read.recv_timeout(SILENCE).or_else(|_| {
        tell("reading standard input until it ends; `</dev/null` leaves it out");
        read.recv()
    });
    text.unwrap_or_else(|_| Err(io::Error::other("the reader crashed"))).map_err(unread)
}

#[cfg(unix)]
fn is_pipe_or_file() -> bool {
    use std::{
        fs::File,
        os::{fd::AsFd, unix::fs::FileTypeExt},
    };

    let stdin = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let kind = stdin.and_then(|stdin| stdin.metadata()).map(|facts| facts.file_type());
    kind.is_ok_and(|kind| kind.is_fifo() || kind.is_file())
}

#[cfg(not(unix))]
fn is_pipe_or_file() -> bool {
    !io::stdin().is_terminal()
}
