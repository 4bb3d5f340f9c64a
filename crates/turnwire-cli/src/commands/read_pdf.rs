//! `turnwire read-pdf`: extracts the text of a PDF, from standard input to standard output.
//!
//! Internal. The gateway starts this process for every uploaded PDF, because PDFs are untrusted
//! (A15). The process limits its own memory, CPU time and open files before it reads the first
//! byte.

use std::io::{self, Read, Write};

use rlimit::Resource;

use crate::exit::Exit;

/// Maximum size of the PDF.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Maximum size of the address space.
const MEMORY: u64 = 1024 * 1024 * 1024;

/// Maximum CPU time in seconds.
const SECONDS: u64 = 5;

/// Enough for the standard streams only.
const OPEN_FILES: u64 = 4;

/// Runs the command. Errors are reported only by the exit code.
pub(crate) fn read_pdf() -> Exit {
    // Does not start without limits.
    if limit_itself().is_err() {
        return Exit::Failed;
    }
    let mut content = Vec::new();
    let read = io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut content);
    if read.is_err() || content.len() as u64 > MAX_BYTES {
        return Exit::Failed;
    }
    // Errors of the library are not printed. A panic ends only this process.
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
