//! Formatting in pieces.

use super::*;
use crate::{args::ColorChoice, environment::Environment, terminal::markdown};

const WIDTH: usize = 40;

fn paint() -> Paint {
    Paint::choose(ColorChoice::Never, &Environment::default(), false)
}

fn pieces(text: &str, length: usize) -> String {
    let mut formatter = Formatter::new(paint());
    let mut written = String::new();
    let characters: Vec<char> = text.chars().collect();
    for piece in characters.chunks(length) {
        let piece: String = piece.iter().collect();
        written.extend(formatter.push(&piece, WIDTH));
    }
    written.extend(formatter.finish(WIDTH));
    written
}

const ANSWER: &str = "# Title\n\nText with **bold**\nand more.\n\n1. one\n\n   still one\n\n2. two\n\n\
                      ```sh\necho a\n\n~~~\necho b\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nThe end";

/// However an answer arrives, the result is the same as if it had been there at once.
#[test]
fn pieces_make_no_difference() {
    let whole = markdown::formatted(ANSWER, WIDTH, paint());
    // A list that is formatted by its items has empty lines between them.
    let whole = whole.replace("still one\n2.", "still one\n\n2.");
    for length in 1..ANSWER.len() {
        assert_eq!(pieces(ANSWER, length), whole, "in pieces of {length}");
    }
}

#[test]
fn a_block_is_written_when_the_next_one_begins() {
    let mut formatter = Formatter::new(paint());
    assert_eq!(formatter.push("One\n\n", WIDTH), None);
    assert_eq!(formatter.preview(WIDTH), ["One"]);
    assert_eq!(formatter.push("T", WIDTH).as_deref(), Some("One\n"));
    assert_eq!(formatter.push("wo\n\n```\na\n\nb", WIDTH).as_deref(), Some("\nTwo\n"));
    assert_eq!(formatter.preview(WIDTH), ["", "```", "a", "", "b"]);
    assert_eq!(formatter.finish(WIDTH).as_deref(), Some("\n  a\n\n  b\n"));
    assert_eq!(formatter.finish(WIDTH), None);
}

#[test]
fn the_preview_is_a_few_rows_of_the_end() {
    let mut formatter = Formatter::new(paint());
    let _ = formatter.push(&"0123456789".repeat(30), WIDTH);
    let preview = formatter.preview(21);
    assert_eq!(preview.len(), MAX_PREVIEW);
    assert!(preview.iter().all(|row| row == "01234567890123456789"), "{preview:?}");
}
