//! The live block: the current state of the run, redrawn in place.
//!
//! ```text
//! • Working (3s · ctrl-c to stop)
//!   ⠹ web_search “turnwire 0.4 regressions”  searching  0.4s
//!   ⠹ ci.deploy_check ref=v0.4  1/5 lint  0.4s
//! ```
//!
//! The block is visible only while nothing else is written. Final lines go into the scrollback
//! above it and are not changed. While the answer streams, the block is hidden.
//!
//! `indicatif` is not used, because it leaves the cursor at the right edge, where the `^C` echo
//! breaks the line and leaves a row behind. Here the cursor is on the empty line below the block.

use std::{io, time::Instant};

use console::{Term, truncate_str};
use turnwire_contract::CallId;
use turnwire_surfaces::words::seconds_with_tenths;

use super::{Colour, Paint};

/// Maximum number of calls with a row of their own. Others are counted.
const MAX_ROWS: usize = 8;
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

#[derive(Debug)]
pub(crate) struct Live {
    paint: Paint,
    /// How to stop the run.
    keys: &'static str,
    /// Shown instead of the working line while the connection is lost.
    problem: Option<String>,
    /// The text that is not formatted yet.
    preview: Vec<String>,
    started_at: Instant,
    rows: Vec<Row>,
    n_ticks: usize,
    is_stopping: bool,
    /// Buffers output until it is flushed, to avoid flicker.
    terminal: Term,
    /// Number of lines on the screen.
    n_drawn: usize,
}

/// A call in progress.
#[derive(Debug)]
struct Row {
    call_id: CallId,
    title: String,
    label: String,
    note: String,
    since: Instant,
}

impl Live {
    pub(super) fn new(paint: Paint, keys: &'static str) -> Self {
        Self {
            paint,
            keys,
            problem: None,
            preview: Vec::new(),
            started_at: Instant::now(),
            rows: Vec::new(),
            n_ticks: 0,
            is_stopping: false,
            terminal: Term::buffered_stderr(),
            n_drawn: 0,
        }
    }

    /// Says in the headline what is wrong, or that nothing is.
    pub(super) fn set_problem(&mut self, problem: Option<String>) {
        self.problem = problem;
    }

    /// Shows text above the headline that will be replaced.
    pub(super) fn set_preview(&mut self, lines: Vec<String>) {
        self.preview = lines;
    }

    pub(super) fn width(&self) -> usize {
        usize::from(self.terminal.size().1)
    }

    /// Sets the state of a call.
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

    /// Starts the timer of a call, when its tool starts.
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

    /// Advances the animation, if the block is visible.
    pub(super) fn tick(&mut self) {
        self.n_ticks += 1;
        if self.n_drawn > 0 {
            self.draw();
        }
    }

    /// Draws the block below everything else. The cursor must be at the start of a line.
    pub(super) fn draw(&mut self) {
        let width = self.width();
        let lines = self.lines(width);
        // Write errors are ignored.
        let _ = self.replace(&lines);
    }

    /// Removes the block from the screen.
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
        let preview = self.preview.iter().map(|line| truncate_str(line, width, "…").into_owned());
        preview.chain([self.headline(width)]).chain(rows).chain(more).collect()
    }

    fn headline(&self, width: usize) -> String {
        let (colour, symbol, text) = if self.is_stopping {
            (Colour::Yellow, "■", "Stopping… (ctrl-c again to leave at once)".to_owned())
        } else if let Some(problem) = &self.problem {
            (Colour::Yellow, "◌", format!("{problem} ({})", self.keys))
        } else {
            let elapsed = self.started_at.elapsed().as_secs();
            (Colour::Cyan, "•", format!("Working ({elapsed}s · {})", self.keys))
        };
        let text = truncate_str(&text, width.saturating_sub(2), "…");
        format!("{} {text}", self.paint.colour(colour, symbol))
    }

    /// Formats a row. The text is truncated so that the time stays visible.
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
