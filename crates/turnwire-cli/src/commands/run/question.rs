//! What is asked: the argument, what is piped in, or both.
//!
//! A pipe or a file on standard input is put before the question, as other programs for models
//! do it: `cat report.md | turnwire run "Sum this up."`. Anything else that may be there without
//! being meant (a terminal, `/dev/null`, the socket of the process that started us) is read only if
//! nothing else was asked, or if `-` says so.

use std::{
    io::{self, IsTerminal, Read},
    sync::mpsc,
    thread,
    time::Duration,
};

use crate::{exit::Problem, terminal::tell};

/// How long standard input may stay open before the person is told that it is waited for.
const SILENCE: Duration = Duration::from_secs(2);

/// The question, from `argument` and standard input.
pub(super) fn question(argument: Option<&str>) -> Result<String, Problem> {
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

/// All of standard input. It may be a pipe that nobody ever closes: then the person learns what is
/// waited for.
fn piped() -> Result<String, Problem> {
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
