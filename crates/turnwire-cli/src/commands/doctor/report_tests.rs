use super::*;
use crate::{args::ColorChoice, environment::Environment};

fn report() -> Report {
    Report(vec![
        Finding::ok("settings", "turnwire.toml"),
        Finding::warning("proxies", "HTTP_PROXY is set"),
        Finding::broken("web search", "it refuses\nto answer").hint("allow json"),
    ])
}

#[test]
fn people_read_lines() {
    let paint = Paint::choose(ColorChoice::Never, &Environment::default(), false);
    let expected = "\
ok       settings    turnwire.toml
warning  proxies     HTTP_PROXY is set
broken   web search  it refuses
                     to answer
                     hint: allow json
1 thing is broken";
    assert_eq!(report().as_text(paint), expected);
    assert!(!report().is_well());
}

#[test]
fn scripts_read_json() {
    let json: serde_json::Value = serde_json::from_str(&report().as_json()).unwrap();
    let expected = serde_json::json!({ "ok": false, "checks": [
        { "subject": "settings", "status": "ok", "message": "turnwire.toml" },
        { "subject": "proxies", "status": "warning", "message": "HTTP_PROXY is set" },
        { "subject": "web search", "status": "broken", "message": "it refuses\nto answer",
          "hints": ["allow json"] },
    ] });
    assert_eq!(json, expected);
}

/// A name from a file must not send escape sequences to the terminal.
#[test]
fn nothing_draws_on_the_terminal() {
    let paint = Paint::choose(ColorChoice::Never, &Environment::default(), false);
    let report =
        Report(vec![Finding::broken("a\u{1b}[2J", "b\u{1b}]0;x\u{7}").hint("c\u{1b}[31m")]);
    assert!(!report.as_text(paint).contains('\u{1b}'));
}
