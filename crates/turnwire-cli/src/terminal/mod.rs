//! Displays a run: the answer on standard output, everything else on standard error.
//!
//! A [`Look`] is selected once, from the flags, the environment and the two streams. A [`Screen`]
//! displays the run, one [`DisplayUpdate`] at a time. It is the only writer, so that the live block
//! is erased before the answer continues.

mod answer;
mod call_details;
mod connection;
mod formatter;
mod live;
mod look;
mod markdown;
mod paint;
mod plain;
mod screen;
mod secret;

use std::io::{self, Write};

use turnwire_surfaces::clean;

pub(crate) use self::{
    connection::Connection,
    look::{Look, Streams, View},
    paint::{Colour, Paint},
    screen::{DisplayUpdate, Screen},
    secret::read_secret,
};

/// Redraw interval of the live block.
pub(crate) const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes a line to standard error. Write errors are ignored.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Formats Markdown for a terminal of this width.
pub(crate) fn formatted(markdown: &str, width: usize, paint: Paint) -> String {
    markdown::formatted(&clean(markdown), width, paint)
}

pub(crate) fn warn(paint: Paint, warning: &str) {
    tell(&format!("{} {}", paint.bold(Colour::Yellow, "warning:"), clean(warning)));
}
