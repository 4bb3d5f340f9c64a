//! Tables on wide and narrow terminals, and in pipes.

use super::*;
use crate::{args::ColorChoice, environment::Environment};

fn formatted(width: Option<usize>) -> String {
    let row = |id: &str, state: &str, text: &str| Row {
        cells: vec![id.to_owned(), state.to_owned(), text.to_owned()],
        colour: Some(Colour::Green),
    };
    let rows = vec![
        row("run_0123456789", "done", "What is the product of five and four, and why?"),
        row("run_1", "needs input", "掛け算"),
    ];
    let paint = Paint::choose(ColorChoice::Never, &Environment::default(), false);
    Table { header: vec!["RUN", "STATUS", "QUESTION"], rows }.format(width, paint)
}

#[test]
fn the_last_column_takes_what_is_left() {
    assert_eq!(
        formatted(Some(50)),
        "RUN             STATUS       QUESTION\n\
         run_0123456789  done         What is the product …\n\
         run_1           needs input  掛け算"
    );
    let widest = formatted(Some(50)).lines().map(measure_text_width).max();
    assert_eq!(widest, Some(50));
}

#[test]
fn a_narrow_terminal_gets_two_lines_per_row() {
    assert_eq!(
        formatted(Some(40)),
        "run_0123456789\n  done  What is the product of five and…\nrun_1\n  needs input  掛け算"
    );
}

#[test]
fn a_pipe_gets_everything() {
    let text = formatted(None);
    assert!(text.contains("What is the product of five and four, and why?"), "{text}");
}
