//! Content of the rows. Drawing is tested in a real terminal, in `tests/it`.

use super::*;
use crate::{args::ColorChoice, environment::Environment};

fn live() -> Live {
    Live::new(Paint::choose(ColorChoice::Never, &Environment::default(), false), "ctrl-c to stop")
}

fn note(live: &mut Live, id: &str, title: &str, label: &str, note: &str) {
    live.note(&CallId::from(id), title, label, note);
}

#[test]
fn a_row_says_who_does_what_and_for_how_long() {
    let mut live = live();
    note(&mut live, "c1", "ci.deploy", "", "preparing");
    live.begin(&CallId::from("c1"), "ci.deploy", "ref=v0.4");
    note(&mut live, "c1", "ci.deploy", "ref=v0.4", "3/5 unit tests");
    assert_eq!(
        live.lines(80),
        ["• Working (0s · ctrl-c to stop)", "  ⠋ ci.deploy ref=v0.4  3/5 unit tests  0.0s"]
    );
    live.end(&CallId::from("c1"));
    live.stop();
    assert_eq!(live.lines(80), ["■ Stopping… (ctrl-c again to leave at once)"]);
}

#[test]
fn a_narrow_terminal_takes_from_the_words_and_leaves_the_time() {
    let mut live = live();
    note(&mut live, "c1", "web_search", "turnwire regressions", "searching");
    assert_eq!(live.lines(28), ["• Working (0s · ctrl-c to s…", "  ⠋ web_search turnwi…  0.0s"]);
    for width in 0..80 {
        for line in live.lines(width).iter().skip(1) {
            assert!(console::measure_text_width(line) <= width.max(11), "{width}: {line}");
        }
    }
}

#[test]
fn more_than_eight_calls_are_counted() {
    let mut live = live();
    for n in 0..11 {
        note(&mut live, &format!("c{n}"), &format!("tool_{n}"), "", "running");
    }
    let lines = live.lines(80);
    assert_eq!(lines.len(), 1 + MAX_ROWS + 1);
    assert_eq!(lines.last().unwrap(), "  +3 more");
}

#[test]
fn a_lost_connection_is_in_the_headline_with_the_keys() {
    let mut live = live();
    live.set_problem(Some("connection lost; retry in 2s".to_owned()));
    assert_eq!(live.lines(80), ["◌ connection lost; retry in 2s (ctrl-c to stop)"]);
    assert_eq!(live.lines(20), ["◌ connection lost; …"]);
    live.set_problem(None);
    assert_eq!(live.lines(80), ["• Working (0s · ctrl-c to stop)"]);
}
