//! `turnwire read-pdf`: the text of a PDF, from standard input to standard output.
//!
//! Not for people: the gateway starts this for every PDF that somebody hands in, because a PDF
//! can do anything to whoever reads it (A15). Before it looks at the first byte it takes from
//! itself whatever could do harm: memory, time, files.

use std::io::{self, Read, Write};

use rlimit::Resource;

use crate::exit::Exit;

/// The biggest file that is read.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// How much memory it may take, with everything.
const MEMORY: u64 = 1024 * 1024 * 1024;

/// How many seconds it may think.
const SECONDS: u64 = 5;

/// It has standard input and output, and opens nothing.
const OPEN_FILES: u64 = 4;

/// Runs the command. Whatever goes wrong is told by the exit code alone: nobody reads more.
pub(crate) fn read_pdf() -> Exit {
    // Without its limits it does not begin.
    if limit_itself().is_err() {
        return Exit::Failed;
    }
    let mut content = Vec::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut content);
    if read.is_err() || content.len() as u64 > MAX_BYTES {
        return Exit::Failed;
    }
    // What the library has to say about a broken file goes nowhere; a panic ends the process,
    // and that is what it is for.
    match pdf_extract::extract_text_from_mem(&content) {
        Ok(text) if io::stdout().lock().write_all(text.as_bytes()).is_ok() => Exit::Done,
        Ok(_) | Err(_) => Exit::Failed,
    }
}

fn limit_itself() -> io::Result<()> {
    for (resource, most) in [
        (Resource::AS, MEMORY),
        (Resource::CPU, SECONDS),
        (Resource::NOFILE, OPEN_FILES),
        (Resource::FSIZE, 0),
        (Resource::CORE, 0),
    ] {
        if resource.is_supported() {
            resource.set(most, most)?;
        }
    }
    Ok(())
}
