use serde_json::{Value, json};
use turnwire_contract::ToolChoice;

use super::*;
use crate::{limits::RequestLimits, responses::request::read_tools};

fn requested_tools() -> Vec<RequestedTool> {
    let tools = json!([
        { "type": "function", "name": "f" },
        { "type": "function", "name": "g" },
        { "type": "mcp", "server_label": "notes", "allowed_tools": ["a", "b", "f"] },
        { "type": "mcp", "server_label": "mail" },
        { "type": "web_search" },
        { "type": "file_search" },
    ]);
    let tools: Vec<_> = crate::fields::placed(tools.as_array().unwrap(), "tools").collect();
    read_tools(&tools, &RequestLimits::default()).unwrap().tools
}

fn read(choice: Value) -> Result<(ToolChoice, Vec<RequestedTool>), ClientError> {
    read_choice(Some(&choice), requested_tools(), &["own"])
}

/// The choice, after checking that all tools stay on offer.
fn choice(requested: Value) -> ToolChoice {
    let (choice, offered) = read(requested).unwrap();
    assert_eq!(offered, requested_tools());
    choice
}

fn named(name: &str) -> ToolChoice {
    ToolChoice::Named { name: name.into() }
}

#[test]
fn words() {
    assert_eq!(
        read_choice(None, requested_tools(), &[]).unwrap(),
        (ToolChoice::Auto, requested_tools())
    );
    assert_eq!(choice(Value::Null), ToolChoice::Auto);
    assert_eq!(choice(json!("auto")), ToolChoice::Auto);
    assert_eq!(choice(json!("none")), ToolChoice::None);
    assert_eq!(choice(json!("required")), ToolChoice::Required);
}

#[test]
fn one_tool() {
    assert_eq!(choice(json!({ "type": "function", "name": "g" })), named("g"));
    assert_eq!(choice(json!({ "type": "function", "name": "own" })), named("own"));
    assert_eq!(choice(json!({ "type": "web_search_preview" })), named("web_search"));
    assert_eq!(choice(json!({ "type": "file_search" })), named("file_search"));
    let of_server = |name: &str| json!({ "type": "mcp", "server_label": "notes", "name": name });
    assert_eq!(choice(of_server("a")), named("a"));
    // Offered under another name, because a function has this one.
    assert_eq!(choice(of_server("f")), named("notes__f"));
}

fn labels(offered: &[RequestedTool]) -> Vec<String> {
    let label = |requested: &RequestedTool| match requested {
        RequestedTool::Function(spec) => spec.name.clone(),
        RequestedTool::Mcp(server) => format!("{} {:?}", server.label, server.allowed),
        RequestedTool::WebSearch { .. } => "web".to_owned(),
        RequestedTool::FileSearch { .. } => "files".to_owned(),
    };
    offered.iter().map(label).collect()
}

#[test]
fn one_server() {
    let (choice, offered) = read(json!({ "type": "mcp", "server_label": "mail" })).unwrap();
    assert_eq!((choice, labels(&offered)), (ToolChoice::Required, vec!["mail None".to_owned()]));
}

/// Tools that `allowed_tools` excludes are not offered at all.
#[test]
fn only_allowed_tools_are_offered() {
    let allowed = |mode: &str, tools: Value| {
        let (choice, offered) =
            read(json!({ "type": "allowed_tools", "mode": mode, "tools": tools })).unwrap();
        (choice, labels(&offered))
    };
    let f = json!({ "type": "function", "name": "f" });
    assert_eq!(allowed("auto", json!([f, f])), (ToolChoice::Auto, vec!["f".to_owned()]));
    assert_eq!(allowed("required", json!([f])).0, ToolChoice::Required);
    assert_eq!(allowed("auto", json!([])), (ToolChoice::Auto, vec![]));
    let own = json!({ "type": "function", "name": "own" });
    assert_eq!(allowed("auto", json!([own])), (ToolChoice::Auto, vec![]));
    let many = json!([
        { "type": "web_search" },
        { "type": "file_search" },
        { "type": "mcp", "server_label": "notes", "name": "a" },
        { "type": "mcp", "server_label": "notes", "name": "b" },
        { "type": "mcp", "server_label": "mail" },
        { "type": "mcp", "server_label": "mail", "name": "send" },
    ]);
    let expected = ["web", "files", "notes Some([\"a\", \"b\"])", "mail None"];
    assert_eq!(allowed("auto", many).1, expected);
    let whole = json!([{ "type": "mcp", "server_label": "notes" }]);
    assert_eq!(allowed("auto", whole).1, ["notes Some([\"a\", \"b\", \"f\"])"]);
}

#[test]
fn a_tool_that_is_not_there_cannot_be_chosen() {
    let absent = [
        (json!({ "type": "function", "name": "h" }), "function `h`"),
        (json!({ "type": "function", "name": "web_search" }), "function `web_search`"),
        (json!({ "type": "mcp", "server_label": "x" }), "server `x`"),
        (
            json!({ "type": "mcp", "server_label": "notes", "name": "c" }),
            "tool `c` on the server `notes`",
        ),
    ];
    for (choice, what) in absent {
        let message = format!("There is no {what} among the tools of this request.");
        for (choice, param) in [
            (choice.clone(), "tool_choice"),
            (
                json!({ "type": "allowed_tools", "mode": "auto", "tools": [choice] }),
                "tool_choice.tools[0]",
            ),
        ] {
            let error = read(choice).unwrap_err();
            assert_eq!(error.message, message);
            assert_eq!((error.param.as_deref(), error.code), (Some(param), "tool_not_found"));
        }
    }
    for (kind, what) in [("web_search", "web search"), ("file_search", "file search")] {
        let error = read_choice(Some(&json!({ "type": kind })), Vec::new(), &[]).unwrap_err();
        assert_eq!(error.message, format!("There is no {what} among the tools of this request."));
        assert_eq!(error.code, "tool_not_found");
    }
}

#[test]
fn choices_that_will_not_do() {
    let cases = [
        (json!("some"), "tool_choice", "invalid_value"),
        (json!(1), "tool_choice", "invalid_type"),
        (json!({}), "tool_choice.type", "missing_required_parameter"),
        (json!({ "type": "shell" }), "tool_choice.type", "unsupported_tool"),
        (json!({ "type": "function" }), "tool_choice.name", "missing_required_parameter"),
        (json!({ "type": "mcp" }), "tool_choice.server_label", "missing_required_parameter"),
        (json!({ "type": "allowed_tools" }), "tool_choice.tools", "missing_required_parameter"),
        (
            json!({ "type": "allowed_tools", "mode": "x", "tools": [] }),
            "tool_choice.mode",
            "invalid_value",
        ),
        (json!({ "type": "allowed_tools", "tools": [1] }), "tool_choice.tools[0]", "invalid_type"),
    ];
    for (choice, param, code) in cases {
        let error = read(choice).unwrap_err();
        assert_eq!((error.param.as_deref(), error.code), (Some(param), code));
    }
}
