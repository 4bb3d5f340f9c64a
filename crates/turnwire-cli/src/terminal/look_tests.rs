//! Selection of the display.

use super::*;
use crate::args::ColorChoice;

const ON_A_TERMINAL: Streams = Streams { stderr_is_terminal: true, shared: true };
const PIPED: Streams = Streams { stderr_is_terminal: false, shared: false };

fn look(arguments: DisplayArguments, variables: &[(&str, &str)], streams: Streams) -> (View, bool) {
    let terminal = [("TERM", "xterm-256color")];
    let variables: Environment = terminal.iter().chain(variables).copied().collect();
    let look = Look::choose(&arguments, &variables, streams);
    (look.view, look.paint.is_on())
}

#[test]
fn a_terminal_gets_the_live_block_in_colours() {
    assert_eq!(look(DisplayArguments::default(), &[], ON_A_TERMINAL), (View::Live, true));
}

#[test]
fn a_pipe_gets_plain_lines_without_colours() {
    assert_eq!(look(DisplayArguments::default(), &[], PIPED), (View::Plain, false));
}

/// S0-13: with `NO_COLOR` the display is plain and has no animation.
#[test]
fn no_color_is_plain_on_a_terminal_too() {
    let look = |value| look(DisplayArguments::default(), &[("NO_COLOR", value)], ON_A_TERMINAL);
    assert_eq!(look("1"), (View::Plain, false));
    assert_eq!(look(""), (View::Live, true), "an empty NO_COLOR does not count");
}

#[test]
fn a_dumb_terminal_and_a_screen_reader_get_plain_lines() {
    let look = |name, value| look(DisplayArguments::default(), &[(name, value)], ON_A_TERMINAL);
    assert_eq!(look("TERM", "dumb"), (View::Plain, false));
    assert_eq!(look("TURNWIRE_A11Y", "1"), (View::Plain, true));
    assert_eq!(look("TURNWIRE_A11Y", "0"), (View::Live, true));
}

#[test]
fn a_log_and_a_live_block_do_not_go_together() {
    let look = |name| look(DisplayArguments::default(), &[(name, "debug")], ON_A_TERMINAL);
    assert_eq!(look("TURNWIRE_LOG"), (View::Plain, true));
    assert_eq!(look("RUST_LOG"), (View::Plain, true));
}

#[test]
fn flags_win_over_the_environment() {
    let always = || DisplayArguments { color: ColorChoice::Always, ..DisplayArguments::default() };
    assert_eq!(look(always(), &[("NO_COLOR", "1")], PIPED), (View::Plain, true));
    let never = DisplayArguments { color: ColorChoice::Never, ..DisplayArguments::default() };
    assert_eq!(look(never, &[("CLICOLOR_FORCE", "1")], ON_A_TERMINAL), (View::Live, false));
    let plain = DisplayArguments { plain: true, ..DisplayArguments::default() };
    assert_eq!(look(plain, &[], ON_A_TERMINAL), (View::Plain, true));
}

#[test]
fn colours_can_be_forced_upon_a_pipe() {
    let look = |value| look(DisplayArguments::default(), &[("CLICOLOR_FORCE", value)], PIPED);
    assert_eq!(look("1"), (View::Plain, true));
    assert_eq!(look("0"), (View::Plain, false));
}

#[test]
fn json_wins_over_quiet_and_quiet_over_plain() {
    let quiet = DisplayArguments { quiet: true, plain: true, ..DisplayArguments::default() };
    assert_eq!(look(quiet, &[], ON_A_TERMINAL).0, View::Quiet);
    let json = DisplayArguments { json: true, quiet: true, ..DisplayArguments::default() };
    assert_eq!(look(json, &[], ON_A_TERMINAL).0, View::Json);
}
