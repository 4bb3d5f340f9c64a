//! Markdown in the terminal.

use super::*;
use crate::{args::ColorChoice, environment::Environment};

fn paint(choice: ColorChoice) -> Paint {
    Paint::choose(choice, &Environment::default(), false)
}

fn plain(source: &str) -> String {
    formatted(source, 40, paint(ColorChoice::Never))
}

#[test]
fn paragraphs_are_wrapped_and_blocks_are_apart() {
    assert_eq!(
        plain("# Title\nOne two three four five six seven eight nine ten.\n\nSecond\nparagraph."),
        "Title\n\nOne two three four five six seven eight\nnine ten.\n\nSecond paragraph.\n"
    );
}

#[test]
fn lists_have_markers_and_hang() {
    assert_eq!(
        plain(
            "Before\n\n- one with a text that is longer than a line\n- two\n  - inner\n\n3. c\n4. d\n"
        ),
        "Before\n\n• one with a text that is longer than a\n  line\n• two\n  • inner\n\n3. c\n4. d\n"
    );
    assert_eq!(plain("- [x] done\n- [ ] open\n"), "• [x] done\n• [ ] open\n");
    assert_eq!(plain("- a\n\n  more\n- b\n"), "• a\n\n  more\n• b\n");
}

#[test]
fn quotes_have_a_bar_and_rules_a_line() {
    assert_eq!(plain("> said\n> so\n>\n> twice\n\n---\n"), "│ said so\n│\n│ twice\n\n───\n");
}

/// Code keeps its lines and its spaces, however long they are.
#[test]
fn code_is_not_wrapped() {
    let long = "x".repeat(60);
    assert_eq!(
        plain(&format!("```rust\nfn a() {{\n\n    {long}\n}}\n```\n")),
        format!("  rust\n  fn a() {{\n\n      {long}\n  }}\n")
    );
}

#[test]
fn a_table_fits_or_becomes_a_list() {
    let table = "| a | long head |\n|---|---|\n| 1 | two |\n| 三 | x |\n";
    assert_eq!(plain(table), "a  │ long head\n───┼──────────\n1  │ two\n三 │ x\n");
    let wide = format!("| a | b |\n|---|---|\n| 1 | {} |\n", "word ".repeat(10));
    assert_eq!(plain(&wide), format!("• a: 1\n  b: {}\n", "word ".repeat(10).trim()));
}

#[test]
fn links_say_where_they_lead() {
    assert_eq!(plain("[text](https://a.b)"), "text (https://a.b)\n");
    assert_eq!(plain("<https://a.b>"), "https://a.b\n");
    assert_eq!(plain("![alt](https://a.b/c.png)"), "[image: alt] (https://a.b/c.png)\n");
}

#[test]
fn emphasis_is_styled_if_there_are_colours() {
    let styled = formatted("a **b** *c* `d` ***e***", 40, paint(ColorChoice::Always));
    assert!(styled.contains("\u{1b}[1mb\u{1b}[0m"), "{styled:?}");
    assert!(styled.contains("\u{1b}[3mc\u{1b}[0m"), "{styled:?}");
    assert!(styled.contains("\u{1b}[36md\u{1b}[0m"), "{styled:?}");
    assert_eq!(plain("a **b** *c* `d` ~~e~~"), "a b c d e\n");
}

/// The parser makes control characters from entities. None may reach the terminal, from any place.
#[test]
fn no_escape_sequence_survives() {
    let evil = "&#27;]0;title&#7;&#x1b;[2J&#x9b;31m";
    for source in [
        format!("{evil} text"),
        format!("# {evil}"),
        format!("[{evil}](http://a{evil})"),
        format!("![{evil}](http://a/{evil} \"{evil}\")"),
        format!("| {evil} |\n|---|\n| {evil} |"),
        format!("```{evil}\n{evil}\n```"),
        format!("- {evil}\n> {evil}"),
        format!("<b>{evil}</b>\n\n<div>\n\u{1b}[31m{evil}\n</div>"),
        "`\u{1b}]52;c;aGk=\u{7}` \u{1b}]8;;http://evil\u{1b}\\link\u{1b}]8;;\u{1b}\\".to_owned(),
    ] {
        let text = plain(&source);
        let is_bad = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(is_bad), "{source:?} became {text:?}");
    }
}

/// HTML is text here.
#[test]
fn html_is_shown_as_it_is_written() {
    assert_eq!(plain("a <b>c</b>\n"), "a <b>c</b>\n");
    assert!(plain("<script>x</script>\n").contains("<script>x</script>"));
}
