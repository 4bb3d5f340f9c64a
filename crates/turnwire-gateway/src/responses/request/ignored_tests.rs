use std::sync::Arc;

use serde_json::json;
use turnwire_contract::Role;

use super::*;

fn run() -> RunRequest {
    RunRequest::new("m", vec![Item::user("x")])
}

fn nothing() -> Capabilities {
    Capabilities { parameters: Vec::new(), custom_tools: CustomTools::AsFunctions }
}

fn custom(format: Option<InputFormat>) -> Arc<ToolSpec> {
    let kind = ToolKind::Custom;
    Arc::new(ToolSpec { kind, format, ..ToolSpec::new("patch", "") })
}

/// C30.
#[test]
fn what_a_model_cannot_be_told_is_named() {
    let mut run = run();
    assert_eq!(not_taken(&nothing(), &run), Vec::<String>::new(), "nothing is asked");
    run.generation.seed = Some(1);
    run.generation.truncation = Some("disabled".to_owned());
    run.generation.answer_schema = Some(json!({}));
    let detail = |detail: &str| Item::Message {
        role: Role::User,
        content: vec![Content::Image { url: "data:".into(), detail: Some(detail.to_owned()) }],
    };
    run.input.push(detail("auto"));
    assert_eq!(not_taken(&nothing(), &run), ["text.format.schema", "seed"]);
    run.input.push(detail("low"));
    let strict = ToolSpec { strict: Some(true), ..ToolSpec::new("f", "") };
    let described = ToolSpec { namespace_description: "d".into(), ..ToolSpec::new("g", "") };
    let grammar = InputFormat::Grammar { syntax: "lark".into(), definition: "start:".into() };
    run.tools = vec![Arc::new(strict), Arc::new(described), custom(Some(grammar))];
    let all = [
        "text.format.schema",
        "seed",
        "input[].content[].detail",
        "tools[].strict",
        "tools[].description",
        "tools[].format",
    ];
    assert_eq!(not_taken(&nothing(), &run), all);
    assert_eq!(not_taken(&Capabilities::default(), &run), Vec::<String>::new());
}

#[test]
fn a_custom_tool_is_refused_where_there_are_none() {
    let refusing = Capabilities { custom_tools: CustomTools::Refused, ..Capabilities::default() };
    let mut run = run();
    assert_eq!(check_custom_tools(&refusing, &run), Ok(()));
    run.tools = vec![custom(None)];
    let refused = check_custom_tools(&refusing, &run).unwrap_err();
    assert_eq!((refused.code, refused.param.as_deref()), ("unsupported_tool", Some("tools")));
    assert_eq!(
        refused.message,
        "The model `m` does not support custom tools such as `patch`; use a function."
    );
    assert_eq!(check_custom_tools(&nothing(), &run), Ok(()));
    assert_eq!(check_custom_tools(&Capabilities::default(), &run), Ok(()));
}
