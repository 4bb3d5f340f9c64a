//! Valid and invalid settings of the web search.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

fn check(lines: &str, expected: &[&str]) {
    let expected: Vec<String> =
        expected.iter().map(|mistake| format!("web_search.{mistake}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_mistakes(&format!("[web_search]\n{lines}"), &[], &expected);
}

fn options(lines: &str, variables: &[(&str, &str)]) -> WebSearchOptions {
    demo_settings(&format!("[web_search]\n{lines}"), variables).unwrap().web_search.unwrap()
}

#[test]
fn a_searxng_is_asked() {
    let lines = "provider = \"searxng\"\nbase_url = \"http://s\"\nmax_results = 3\n";
    let expected = WebSearchOptions { max_results: 3, ..WebSearchOptions::new("http://s") };
    assert_eq!(options(lines, &[]), expected);
    let lines =
        "provider = \"searxng\"\nbase_url = \"http://s\"\ntimeout_sec = 4\nopen_pages = false";
    let expected = WebSearchOptions {
        timeout: Duration::from_secs(4),
        open_pages: false,
        ..WebSearchOptions::new("http://s")
    };
    assert_eq!(options(lines, &[]), expected);
    assert_eq!(demo_settings("", &[]).unwrap().web_search, None);
}

#[test]
fn brave_and_tavily_are_asked_with_a_key_of_the_environment() {
    let brave = options("provider = \"brave\"", &[("BRAVE_API_KEY", "k")]);
    assert_eq!(brave, WebSearchOptions::brave(Secret::from("k")));
    let tavily = options(
        "provider = \"tavily\"\napi_key_env = \"SEARCH_KEY\"\nbase_url = \"http://t\"",
        &[("SEARCH_KEY", "k"), ("TAVILY_API_KEY", "other")],
    );
    let expected = WebSearchOptions::tavily(Secret::from("k"));
    assert_eq!(tavily, WebSearchOptions { base_url: "http://t".to_owned(), ..expected });
    check(
        "provider = \"tavily\"",
        &["api_key_env: the environment variable `TAVILY_API_KEY` is not set"],
    );
    check(
        "provider = \"brave\"\napi_key_env = \"MINE\"",
        &["api_key_env: the environment variable `MINE` is not set"],
    );
    // The well-known variable is not used for another URL.
    check(
        "provider = \"brave\"\nbase_url = \"http://b\"",
        &["api_key_env: missing; name the variable that has the key for this address"],
    );
}

#[test]
fn other_providers_are_not_known() {
    let url = "base_url = \"http://s\"\n";
    check(
        &format!("{url}provider = \"searxgn\"\n"),
        &["provider: there is no provider `searxgn`; did you mean `searxng`?"],
    );
    check(
        &format!("{url}provider = \"bing\"\n"),
        &["provider: there is no provider `bing`; there are `searxng`, `brave`, `tavily`"],
    );
}

#[test]
fn what_is_missing_or_wrong_is_told() {
    check("", &["provider: missing; there are `searxng`, `brave`, `tavily`"]);
    check(
        "provider = 1\nbase_url = 2",
        &["base_url: not a text; put it in quotes", "provider: not a text; put it in quotes"],
    );
    let searxng = "provider = \"searxng\"\n";
    check(
        &format!("{searxng}base_url = \"s\"\n"),
        &["base_url: `s` is not an address; it should look like http://localhost:8888"],
    );
    for wrong in [0, 51, -1] {
        let lines = format!("{searxng}base_url = \"http://s\"\nmax_results = {wrong}\n");
        let told = format!("max_results: {wrong} is not a whole number from 1 to 50");
        check(&lines, &[&told]);
    }
    let lines = format!("{searxng}base_url = \"http://s\"\ntimeout_sec = 0\n");
    check(&lines, &["timeout_sec: 0 is not a whole number from 1 to 120"]);
}
