//! How a run looks: the answer on standard output, everything else on standard error.
//!
//! A [`Look`] is chosen once, from the flags, the environment and the two streams. A [`Screen`]
//! then shows the run in that look, one piece of [`News`] at a time, and is the only one who
//! writes; so that what is redrawn is always gone before the answer goes on.

mod answer;
mod live;
mod look;
mod paint;
mod plain;
mod screen;

use std::io::{self, Write};

use turnwire_surfaces::clean;

pub(crate) use self::{
    look::{Look, Streams, View},
    paint::{Colour, Paint},
    screen::{News, Screen},
};

/// How often what is redrawn is redrawn.
pub(crate) const TICK: std::time::Duration = std::time::Duration::from_millis(100);

/// Writes a line to standard error. If nobody reads it, nobody misses it.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a warning to standard error.
pub(crate) fn warn(paint: Paint, warning: &str) {
    tell(&format!("{} {}", paint.bold(Colour::Yellow, "warning:"), clean(warning)));
}
