//! `turnwire read`: reads one document, from standard input to standard output.
//!
//! Internal. The gateway starts this process for every file and web page that it reads, because
//! they are untrusted (A15, A20). The process limits its own memory, CPU time and open files before
//! it reads the first byte of the document.

use std::{
    io::{self, BufWriter},
    panic,
};

use rlimit::Resource;
use turnwire_tools::documents::{Limits, serve};

use crate::exit::Exit;

/// Enough for the standard streams only.
const OPEN_FILES: u64 = 4;

/// Runs the command. Errors that have nobody to be told to are reported only by the exit code.
pub(crate) fn read() -> Exit {
    let (input, output) = (io::stdin().lock(), BufWriter::new(io::stdout().lock()));
    match serve(input, output, limit_itself, pdf_text) {
        Ok(()) => Exit::Done,
        Err(_) => Exit::Failed,
    }
}

/// The text of a PDF; none if it is damaged. Errors of the library are not told, and it panics of
/// some.
pub(crate) fn pdf_text(content: &[u8]) -> Option<String> {
    panic::catch_unwind(|| pdf_extract::extract_text_from_mem(content)).ok()?.ok()
}

/// Does not start without limits.
fn limit_itself(limits: Limits) -> io::Result<()> {
    for (resource, most) in [
        (Resource::AS, limits.memory),
        (Resource::CPU, limits.cpu_seconds),
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
