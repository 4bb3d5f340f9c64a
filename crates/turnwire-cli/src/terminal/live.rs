//! The live block: what the run is doing right now, redrawn in place.
//!
//! ```text
//! • Working (3s · ctrl-c to stop)
//!   ⠹ web_search “turnwire 0.4 regressions”  searching  0.4s
//!   ⠹ ci.deploy_check ref=v0.4  1/5 lint  0.4s
//! ```
//!
//! It is on the screen only while nothing else is being written: what is final goes into the
//! scrollback above it and is never touched again, and while the answer streams, the answer
//! itself is the sign of life.
//!
//! `indicatif` would draw this too, but leaves the cursor at the right edge, where the `^C` of
//! the person who stops the run breaks the line, and a row stays behind. Here the cursor waits
//! on the empty line below the block.

use std::{io, time::Instant};

use console::{Term, truncate_str};
use turnwire_contract::CallId;
use turnwire_surfaces::words::seconds_with_tenths;

use super::{Colour, Paint};

/// How many calls have a row; the others are counted.
const MAX_ROWS: usize = 8;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

#[derive(Debug)]
pub(crate) struct Live {
    paint: Paint,
    started_at: Instant,
    rows: Vec<Row>,
    n_ticks: usize,
    is_stopping: bool,
    /// Gathers what is written until it is flushed, so that nothing flickers.
    terminal: Term,
    /// How many lines of it are on the screen.
    n_drawn: usize,
}

/// One call that is not over.
#[derive(Debug)]
struct Row {
    call_id: CallId,
    title: String,
    label: String,
    note: String,
    since: Instant,
}

impl Live {
    pub(super) fn new(paint: Paint) -> Self {
        let (started_at, rows) = (Instant::now(), Vec::new());
        let terminal = Term::buffered_stderr();
        Self { paint, started_at, rows, n_ticks: 0, is_stopping: false, terminal, n_drawn: 0 }
    }

    /// Puts down what a call is doing now.
    pub(super) fn note(&mut self, call_id: &CallId, title: &str, label: &str, note: &str) {
        let (title, label, note) = (title.to_owned(), label.to_owned(), note.to_owned());
        let row = self.rows.iter_mut().find(|row| row.call_id == *call_id);
        if let Some(row) = row {
            (row.title, row.label, row.note) = (title, label, note);
        } else {
            let (call_id, since) = (call_id.clone(), Instant::now());
            self.rows.push(Row { call_id, title, label, note, since });
        }
    }

    /// The time of a call counts from when its tool begins.
    pub(super) fn begin(&mut self, call_id: &CallId, title: &str, label: &str) {
        self.note(call_id, title, label, "running");
        if let Some(row) = self.rows.iter_mut().find(|row| row.call_id == *call_id) {
            row.since = Instant::now();
        }
    }

    pub(super) fn end(&mut self, call_id: &CallId) {
        self.rows.retain(|row| row.call_id != *call_id);
    }

    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Moves on, if it is on the screen.
    pub(super) fn tick(&mut self) {
        self.n_ticks += 1;
        if self.n_drawn > 0 {
            self.draw();
        }
    }

    /// Puts it on the screen, below everything else. The cursor must be at the beginning of a
    /// line.
    pub(super) fn draw(&mut self) {
        let width = usize::from(self.terminal.size().1);
        let lines = self.lines(width);
        // If nobody sees it, nobody misses it.
        let _ = self.replace(&lines);
    }

    /// Takes it off the screen.
    pub(super) fn erase(&mut self) {
        if self.n_drawn > 0 {
            let _ = self.replace(&[]);
        }
    }

    fn replace(&mut self, lines: &[String]) -> io::Result<()> {
        self.terminal.clear_line()?;
        self.terminal.move_cursor_up(self.n_drawn)?;
        self.terminal.clear_to_end_of_screen()?;
        self.n_drawn = lines.len();
        for line in lines {
            self.terminal.write_line(line)?;
        }
        self.terminal.flush()
    }

    fn lines(&self, width: usize) -> Vec<String> {
        let n_more = self.rows.len().saturating_sub(MAX_ROWS);
        let more = (n_more > 0).then(|| self.paint.dim(&format!("  +{n_more} more")));
        let rows = self.rows.iter().take(MAX_ROWS).map(|row| self.row(row, width));
        std::iter::once(self.headline(width)).chain(rows).chain(more).collect()
    }

    fn headline(&self, width: usize) -> String {
        let (colour, symbol, text) = if self.is_stopping {
            (Colour::Yellow, "■", "Stopping… (ctrl-c again to leave at once)".to_owned())
        } else {
            let elapsed = self.started_at.elapsed().as_secs();
            (Colour::Cyan, "•", format!("Working ({elapsed}s · ctrl-c to stop)"))
        };
        let text = truncate_str(&text, width.saturating_sub(2), "…");
        format!("{} {text}", self.paint.colour(colour, symbol))
    }

    /// The time stays in sight; what does not fit is taken from the words before it.
    fn row(&self, row: &Row, width: usize) -> String {
        let elapsed = u64::try_from(row.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let elapsed = seconds_with_tenths(elapsed);
        let mut words = row.title.clone();
        for (gap, more) in [(" ", &row.label), ("  ", &row.note)] {
            if !more.is_empty() {
                words.extend([gap, more.as_str()]);
            }
        }
        let room = width.saturating_sub("  ⠋ ".chars().count() + "  ".len() + elapsed.len());
        let words = truncate_str(&words, room, "…");
        let words = match words.strip_prefix(row.title.as_str()) {
            Some(rest) => format!("{}{rest}", self.paint.strong(&row.title)),
            None => words.into_owned(),
        };
        let spinner = SPINNER.iter().cycle().nth(self.n_ticks % SPINNER.len()).unwrap_or(&"");
        let spinner = self.paint.colour(Colour::Cyan, spinner);
        format!("  {spinner} {words}  {}", self.paint.dim(&elapsed))
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
