//! Settings of `run` from the file, the environment and the flags.

use std::num::{NonZeroU32, NonZeroU64};

use super::*;
use crate::settings::testing::{file, run_settings};

#[test]
fn limits_and_instructions_come_from_the_flags() {
    let arguments = RunArguments {
        model: Some("scripted".into()),
        instructions: Some("Be brief.".into()),
        max_turns: NonZeroU32::new(3),
        timeout: NonZeroU64::new(5),
        ..RunArguments::default()
    };
    let settings = RunSettings::of(&arguments, &Environment::default(), None, true).unwrap();
    assert_eq!(settings.instructions.as_deref(), Some("Be brief."));
    let expected = Limits { max_turns: 3, wall_clock: Duration::from_secs(5), ..Limits::default() };
    assert_eq!(settings.limits, expected);
    assert_eq!(settings.model, ModelSettings::Scripted(WATCHED_DEMO), "somebody watches");
}

#[test]
fn flags_win_over_the_limits_of_the_file() {
    let arguments = RunArguments {
        model: Some("scripted".into()),
        max_turns: NonZeroU32::new(3),
        ..RunArguments::default()
    };
    let file = file("[limits]\nmax_turns = 7\nmax_tool_calls = 9\n");
    let settings = RunSettings::of(&arguments, &Environment::default(), Some(&file), false);
    let expected = Limits { max_turns: 3, max_tool_calls: 9, ..Limits::default() };
    assert_eq!(settings.unwrap().limits, expected);
}

#[test]
fn the_web_search_of_the_file_is_used() {
    let text = "[web_search]\nprovider = \"searxng\"\nbase_url = \"http://s:8888\"\n";
    let settings = run_settings(text, &[], Some("scripted")).unwrap();
    assert_eq!(settings.web_search, Some(WebSearchOptions::new("http://s:8888")));
}

#[test]
fn tool_servers_of_the_file_are_used() {
    let text = "[mcp_servers.docs]\nurl = \"http://d/mcp\"\n";
    let settings = run_settings(text, &[], Some("scripted")).unwrap();
    let docs = McpServerOptions::http("http://d/mcp");
    assert_eq!(settings.tool_servers, BTreeMap::from([("docs".to_owned(), docs)]));
}

/// The `[server]` section is validated, but its missing environment variables do not stop a run.
#[test]
fn variables_of_the_gateway_are_not_needed() {
    let text = "[server]\napi_keys_env = \"NOT_SET\"\n";
    assert!(run_settings(text, &[], Some("scripted")).is_ok());
}
