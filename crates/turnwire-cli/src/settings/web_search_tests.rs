//! Who searches the web, and what is said when nobody can.

use super::*;
use crate::settings::testing::{check_keys, check_mistakes, demo_settings};

fn check(lines: &str, expected: &[&str]) {
    let expected: Vec<String> =
        expected.iter().map(|mistake| format!("web_search.{mistake}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_mistakes(&format!("[web_search]\n{lines}"), &[], &expected);
}

#[test]
fn the_keys_of_the_section_are_known() {
    check_keys::<RawWebSearch>();
}

#[test]
fn a_searxng_is_asked() {
    let text = "[web_search]\nprovider = \"searxng\"\nbase_url = \"http://s\"\nmax_results = 3\n";
    let expected = WebSearchOptions { max_results: 3, ..WebSearchOptions::new("http://s") };
    assert_eq!(demo_settings(text, &[]).unwrap().web_search, Some(expected));
    assert_eq!(demo_settings("", &[]).unwrap().web_search, None);
}

#[test]
fn other_providers_are_not_there_yet() {
    let url = "base_url = \"http://s\"\n";
    for provider in ["brave", "tavily"] {
        let expected = format!("provider: `{provider}` is not there yet; there are `searxng`");
        check(&format!("{url}provider = \"{provider}\"\n"), &[&expected]);
    }
    check(
        &format!("{url}provider = \"searxgn\"\n"),
        &["provider: there is no provider `searxgn`; did you mean `searxng`?"],
    );
}

#[test]
fn what_is_missing_or_wrong_is_told() {
    check(
        "",
        &[
            "provider: missing; there are `searxng`",
            "base_url: missing; it should look like http://localhost:8888",
        ],
    );
    check(
        "provider = 1\nbase_url = 2",
        &[
            "base_url: invalid type: integer `2`, expected a string",
            "provider: invalid type: integer `1`, expected a string",
        ],
    );
    let searxng = "provider = \"searxng\"\n";
    check(
        &format!("{searxng}base_url = \"s\"\n"),
        &["base_url: `s` is not an address; it should look like http://localhost:8888"],
    );
    for wrong in [0, 51, -1] {
        let lines = format!("{searxng}base_url = \"http://s\"\nmax_results = {wrong}\n");
        check(&lines, &["max_results: give a number from 1 to 50"]);
    }
}
