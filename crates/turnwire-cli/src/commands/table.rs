//! A table fitted to the width of the terminal.
//!
//! One column takes what the others leave. Where that is too little, each row becomes two lines.
//! In a pipe nothing is cut.

use console::{measure_text_width, pad_str, truncate_str};

use crate::terminal::{Colour, Paint};

/// Width that the last column must have, or else rows become two lines.
const MIN_LAST: usize = 16;
const GAP: &str = "  ";

/// Rows of cells. The last cell is the one that is cut.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) header: Vec<&'static str>,
    pub(super) rows: Vec<Row>,
}

#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<String>,
    /// Colour of the second cell, which is the state.
    pub(super) colour: Option<Colour>,
}

impl Table {
    /// Formats the table for a terminal of this width, or for a pipe.
    pub(super) fn format(&self, width: Option<usize>, paint: Paint) -> String {
        let n_columns = self.header.len();
        let columns: Vec<usize> = (0..n_columns).map(|column| self.width_of(column)).collect();
        let (_, fixed) = columns.split_last().unwrap_or((&0, &[]));
        let taken: usize = fixed.iter().map(|column| column + GAP.len()).sum();
        match width {
            Some(width) if width < taken + MIN_LAST => self.stacked(width, paint),
            width => {
                let room = width.map_or(usize::MAX, |width| width - taken);
                self.aligned(&columns, room, paint)
            }
        }
    }

    fn aligned(&self, columns: &[usize], room: usize, paint: Paint) -> String {
        let header: Vec<String> = self.header.iter().map(ToString::to_string).collect();
        let header = paint.dim(&line(&header, columns, room, None, paint));
        let rows = self.rows.iter().map(|row| line(&row.cells, columns, room, row.colour, paint));
        std::iter::once(header).chain(rows).collect::<Vec<_>>().join("\n")
    }

    /// The first cell on a line of its own, the others below it.
    fn stacked(&self, width: usize, paint: Paint) -> String {
        let rows = self.rows.iter().map(|row| {
            let (first, others) = row
                .cells
                .split_first()
                .map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
            let others: Vec<&str> =
                others.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            let others = format!("{GAP}{}", others.join(GAP));
            let others = truncate_str(&others, width, "…").into_owned();
            let others = match (row.colour, row.cells.get(1)) {
                (Some(colour), Some(state)) => {
                    others.replacen(state.as_str(), &paint.colour(colour, state), 1)
                }
                _ => others,
            };
            format!("{}\n{others}", truncate_str(first, width, "…"))
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    fn width_of(&self, column: usize) -> usize {
        let header = self.header.get(column).map_or(0, |name| measure_text_width(name));
        let cells = self.rows.iter().filter_map(|row| row.cells.get(column));
        cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0).max(header)
    }
}

fn line(
    cells: &[String],
    columns: &[usize],
    room: usize,
    colour: Option<Colour>,
    paint: Paint,
) -> String {
    let last = cells.len().saturating_sub(1);
    let padded = cells.iter().zip(columns).enumerate().map(|(column, (cell, width))| {
        if column == last {
            return truncate_str(cell, room, "…").into_owned();
        }
        let padded = pad_str(cell, *width, console::Alignment::Left, None);
        match colour {
            Some(colour) if column == 1 => {
                padded.replacen(cell.as_str(), &paint.colour(colour, cell), 1)
            }
            _ => padded.into_owned(),
        }
    });
    padded.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
