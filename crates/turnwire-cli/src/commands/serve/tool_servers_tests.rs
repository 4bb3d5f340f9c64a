//! Unknown tool names in the settings are reported.

use super::*;

/// A7: a typo must not silently disable an approval.
#[test]
fn names_that_the_server_does_not_know_are_told() {
    let mut options = McpServerOptions::http("http://d");
    options.enabled_tools = Some(vec!["search".into(), "serch".into()]);
    options.require_approval = AskBefore::Only(vec!["publsh".into()]);
    options.effects = [("search".to_owned(), turnwire_contract::Effect::Pure)].into();
    assert_eq!(
        unknown_tools("docs", &options, &["search", "publish"]),
        [
            "mcp_servers.docs.enabled_tools: the server has no tool `serch`; did you mean \
             `search`?",
            "mcp_servers.docs.require_approval: the server has no tool `publsh`; did you mean \
             `publish`?",
        ]
    );
}

#[test]
fn one_tool_is_not_several() {
    assert_eq!(counted(1), "1 tool");
    assert_eq!(counted(0), "0 tools");
}
