//! Tables of Markdown. One that is wider than the terminal is written as a list of its rows.

use console::{Alignment, measure_text_width, pad_str};

use crate::terminal::Paint;

const GAP: &str = " │ ";

/// The cells of a table. The first row is its head.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn begin_row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn add_cell(&mut self, cell: String) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell.trim().to_owned());
        }
    }

    pub(super) fn lines(&self, width: usize, paint: Paint) -> Vec<String> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..n_columns).map(|column| self.width_of(column)).collect();
        let gaps = measure_text_width(GAP) * n_columns.saturating_sub(1);
        if widths.iter().sum::<usize>() + gaps > width {
            return self.as_list(paint);
        }
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
        let head = paint.strong(&aligned(head, &widths));
        let rule = paint.dim(&rule.join("─┼─"));
        let rows = rows.iter().map(|row| aligned(row, &widths));
        [head, rule].into_iter().chain(rows).collect()
    }

    /// Each row as lines of `head: cell`.
    fn as_list(&self, paint: Paint) -> Vec<String> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for row in rows {
            let cells = head.iter().zip(row).enumerate().map(|(index, (name, cell))| {
                let marker = if index == 0 { "• " } else { "  " };
                format!("{marker}{} {cell}", paint.strong(&format!("{name}:")))
            });
            lines.extend(cells);
        }
        lines
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| measure_text_width(cell)).max().unwrap_or(0)
    }
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let empty = String::new();
    let cells = widths.iter().enumerate().map(|(column, width)| {
        pad_str(row.get(column).unwrap_or(&empty), *width, Alignment::Left, None)
    });
    cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}
