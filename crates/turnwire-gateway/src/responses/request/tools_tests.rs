use serde_json::{Value, json};
use turnwire_contract::{AskBefore, Effect, ToolKind, ToolSpec};

use super::*;
use crate::fields::placed;

/// Limits other than the defaults.
fn limits() -> RequestLimits {
    RequestLimits { tools: 20, schema_bytes: 4_096, ..RequestLimits::default() }
}

fn read(tools: Value) -> Result<Vec<RequestedTool>, ClientError> {
    let Value::Array(tools) = tools else { panic!("not a list") };
    Ok(read_tools(&placed(&tools, "tools").collect::<Vec<_>>(), &limits())?.tools)
}

fn refused(tool: Value) -> (String, &'static str) {
    let error = read(json!([tool])).unwrap_err();
    assert_eq!(error.status, 400);
    (error.param.unwrap(), error.code)
}

fn function(name: &str) -> ToolSpec {
    ToolSpec { kind: ToolKind::Client, ..ToolSpec::new(name, "") }
}

#[test]
fn functions_are_for_the_client() {
    let parameters = json!({ "type": "object", "properties": { "a": { "type": "number" } } });
    let requested_tools = read(json!([
        { "type": "function", "name": "add-2_B", "description": "Adds.", "parameters": parameters,
          "strict": true },
        { "type": "function", "name": "f", "parameters": null, "description": null },
    ]));
    let (kind, strict) = (ToolKind::Client, Some(true));
    let add = ToolSpec { kind, strict, parameters, ..ToolSpec::new("add-2_B", "Adds.") };
    let expected = [RequestedTool::Function(add), RequestedTool::Function(function("f"))];
    assert_eq!(requested_tools.unwrap(), expected);
    assert_eq!(function("f").parameters, json!({ "type": "object", "properties": {} }));
    assert_eq!(function("f").effect, Effect::Once);
}

#[test]
fn a_function_is_only_named_if_nothing_but_its_name_is_said() {
    let tools = json!([
        { "type": "function", "name": "a" },
        { "type": "function", "name": "b", "description": null, "parameters": null, "strict": true },
        { "type": "function", "name": "c", "description": "" },
        { "type": "function", "name": "d", "parameters": {} },
        { "type": "mcp", "name": "e" },
        { "type": "function" },
        3,
    ]);
    let bare = functions_by_name(tools.as_array().unwrap());
    assert_eq!(bare, HashSet::from(["a", "b"]));
}

/// S1-A1: the type of a tool decides what it is, not its name.
#[test]
fn a_function_named_web_search_stays_a_function() {
    for name in ["web_search", "file_search", "mcp"] {
        let requested_tools = read(json!([{ "type": "function", "name": name }])).unwrap();
        assert_eq!(requested_tools, [RequestedTool::Function(function(name))]);
    }
}

#[test]
fn functions_that_will_not_do() {
    let missing = "missing_required_parameter";
    assert_eq!(refused(json!(1)), ("tools[0]".into(), "invalid_type"));
    assert_eq!(refused(json!({ "name": "f" })), ("tools[0].type".into(), missing));
    assert_eq!(refused(json!({ "type": "function" })), ("tools[0].name".into(), missing));
    for name in ["", "a b", "a.b", "é", &"x".repeat(65)] {
        let tool = json!({ "type": "function", "name": name });
        assert_eq!(refused(tool), ("tools[0].name".into(), "invalid_value"), "{name}");
    }
    assert!(read(json!([{ "type": "function", "name": "x".repeat(64) }])).is_ok());
    let list = json!({ "type": "function", "name": "f", "parameters": [] });
    assert_eq!(refused(list), ("tools[0].parameters".into(), "invalid_type"));
    let strict = json!({ "type": "function", "name": "f", "strict": "yes" });
    assert_eq!(refused(strict), ("tools[0].strict".into(), "invalid_type"));
}

/// A13: a schema at the limit, and one byte more.
#[test]
fn schemas_have_a_limit() {
    let of_length = |n: usize| {
        let schema = json!({ "a": "x".repeat(n - 8) });
        assert_eq!(schema.to_string().len(), n);
        json!({ "type": "function", "name": "f", "parameters": schema })
    };
    assert!(read(json!([of_length(4_096)])).is_ok());
    let too_long = ("tools[0].parameters".to_owned(), "schema_too_large");
    assert_eq!(refused(of_length(4_097)), too_long);
}

/// A19: a schema that explodes is refused, whoever would have to read it.
#[test]
fn a_schema_that_explodes_is_refused() {
    let reference = |n: usize| json!({ "$ref": format!("#/$defs/d{n}") });
    let mut defs = json!({ "d0": { "type": "string" } });
    for n in 1..44 {
        defs[format!("d{n}")] = json!({ "allOf": [reference(n - 1), reference(n - 1)] });
    }
    let schema = json!({ "type": "object", "properties": { "x": reference(43) }, "$defs": defs });
    let tool = json!({ "type": "function", "name": "f", "parameters": schema });
    assert_eq!(refused(tool), ("tools[0].parameters".to_owned(), "schema_too_complex"));
    let tree = json!({
        "type": "object",
        "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } },
    });
    assert!(read(json!([{ "type": "function", "name": "f", "parameters": tree }])).is_ok());
}

/// A13: tools at the limit, and one more, in a namespace or not.
#[test]
fn tools_have_a_limit() {
    let many = |n: usize| -> Vec<Value> {
        (0..n).map(|n| json!({ "type": "function", "name": format!("f{n}") })).collect()
    };
    assert_eq!(read(json!(many(20))).unwrap().len(), 20);
    let space = json!([{ "type": "namespace", "name": "n", "tools": many(21) }]);
    for tools in [json!(many(21)), space] {
        let error = read(tools).unwrap_err();
        assert_eq!(error.message, "There may be at most 20 tools.");
        assert_eq!((error.param.as_deref(), error.code), (Some("tools"), "too_many_tools"));
    }
}

#[test]
fn names_are_given_once() {
    let f = json!({ "type": "function", "name": "f" });
    let error = read(json!([f, f])).unwrap_err();
    assert_eq!(error.message, "There are two tools with the name `f`.");
    assert_eq!((error.param.as_deref(), error.code), (Some("tools[1]"), "duplicate_tool"));
    let server = json!({ "type": "mcp", "server_label": "f" });
    assert_eq!(read(json!([f, server])).unwrap().len(), 2, "a label is not a name");
    for twice in [
        json!([server, server]),
        json!([{ "type": "web_search" }, { "type": "web_search_preview" }]),
        json!([{ "type": "web_search" }, { "type": "function", "name": "web_search" }]),
        json!([{ "type": "file_search" }, { "type": "file_search" }]),
    ] {
        assert_eq!(read(twice).unwrap_err().code, "duplicate_tool");
    }
}

#[test]
fn searches_keep_their_settings() {
    let kinds = [
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    ];
    for kind in kinds {
        let requested_tools =
            read(json!([{ "type": kind, "search_context_size": "low" }])).unwrap();
        let settings = json!({ "search_context_size": "low" });
        let param = "tools[0]".to_owned();
        assert_eq!(requested_tools, [RequestedTool::WebSearch { settings, param }]);
    }
    let tool = json!({ "type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 5 });
    let settings = json!({ "vector_store_ids": ["vs_1"], "max_num_results": 5 });
    let param = "tools[0]".to_owned();
    assert_eq!(read(json!([tool])).unwrap(), [RequestedTool::FileSearch { settings, param }]);
    let ids = json!({ "type": "file_search", "vector_store_ids": [1] });
    assert_eq!(refused(ids), ("tools[0].vector_store_ids[0]".into(), "invalid_type"));
    let many = json!({ "type": "file_search", "max_num_results": 51 });
    assert_eq!(refused(many), ("tools[0].max_num_results".into(), "invalid_value"));
}

/// S1-O3: there is no code interpreter, so it has no events; a request for one is refused.
#[test]
fn other_types_are_refused_by_name() {
    for kind in [
        "computer",
        "computer_use_preview",
        "code_interpreter",
        "image_generation",
        "local_shell",
        "shell",
        "apply_patch",
        "programmatic_tool_calling",
        "web_searching",
    ] {
        let error = read(json!([{ "type": kind, "name": "x" }])).unwrap_err();
        assert_eq!(error.message, format!("Tools of the type `{kind}` are not supported."));
        assert_eq!(
            (error.param.as_deref(), error.code),
            (Some("tools[0].type"), "unsupported_tool")
        );
    }
    let shell =
        json!({ "type": "namespace", "name": "n", "tools": [{ "type": "shell", "name": "x" }] });
    assert_eq!(refused(shell), ("tools[0].tools[0].type".into(), "unsupported_tool"));
}

#[test]
fn custom_tools_are_read() {
    let custom = |format: Option<InputFormat>| {
        let mut spec = ToolSpec::new("c", "d");
        (spec.kind, spec.format) = (ToolKind::Custom, format);
        [RequestedTool::Function(spec)]
    };
    let tool = |format: Value| json!([{ "type": "custom", "name": "c", "description": "d", "format": format }]);
    assert_eq!(read(tool(Value::Null)).unwrap(), custom(None));
    assert_eq!(read(tool(json!({ "type": "text" }))).unwrap(), custom(Some(InputFormat::Text)));
    let grammar = |syntax: &str, definition: &str| json!({ "type": "grammar", "syntax": syntax, "definition": definition });
    let expected = InputFormat::Grammar { syntax: "regex".into(), definition: "a+".into() };
    assert_eq!(read(tool(grammar("regex", "a+"))).unwrap(), custom(Some(expected)));
    for (format, param, code) in [
        (json!({}), "tools[0].format.type", "missing_required_parameter"),
        (json!({ "type": "json" }), "tools[0].format.type", "invalid_value"),
        (grammar("ebnf", "a"), "tools[0].format.syntax", "invalid_value"),
        (grammar("lark", ""), "tools[0].format.definition", "invalid_value"),
        (grammar("lark", &"x".repeat(4_097)), "tools[0].format.definition", "schema_too_large"),
    ] {
        let error = read(tool(format)).unwrap_err();
        assert_eq!((error.param.as_deref(), error.code), (Some(param), code));
    }
}

/// C30: ignored fields of tools are reported.
#[test]
fn what_is_said_about_tools_and_not_heeded_is_told() {
    let tools = json!([
        { "type": "function", "name": "f", "strict": true, "defer_loading": true },
        { "type": "web_search", "user_location": { "type": "approximate", "city": "Rome" } },
        { "type": "tool_search", "execution": "client", "parameters": { "type": "object" } },
        { "type": "mcp", "server_label": "notes", "server_description": "Notes." },
        { "type": "namespace", "name": "n", "tools": [
            { "type": "custom", "name": "c", "async": true },
        ] },
    ]);
    let tools: Vec<_> = placed(tools.as_array().unwrap(), "tools").collect();
    assert_eq!(
        read_tools(&tools, &limits()).unwrap().ignored,
        [
            "tools[0].defer_loading",
            "tools[1].user_location.city",
            "tools[2]",
            "tools[3].server_description",
            "tools[4].tools[0].async",
        ]
    );
}

#[test]
fn namespaces_are_laid_out() {
    let f = json!({ "type": "function", "name": "f" });
    let g = json!({ "type": "function", "name": "g" });
    let requested_tools = read(json!([
        { "type": "namespace", "name": "one", "description": "d", "tools": [f, g] },
        { "type": "namespace", "name": "two", "tools": [g] },
        f,
    ]));
    let from = |space: &str, description: &str, name: &str| {
        let (server, namespace_description) = (Some(space.to_owned()), description.to_owned());
        RequestedTool::Function(ToolSpec { server, namespace_description, ..function(name) })
    };
    let expected = [
        RequestedTool::Function(function("f")),
        from("one", "d", "one__f"),
        from("one", "d", "g"),
        from("two", "", "two__g"),
    ];
    assert_eq!(requested_tools.unwrap(), expected);
    let nameless = json!({ "type": "namespace", "tools": [] });
    assert_eq!(refused(nameless), ("tools[0].name".into(), "missing_required_parameter"));
    let twice = json!([{ "type": "namespace", "name": "x".repeat(64), "tools": [f] }, f]);
    assert_eq!(read(twice).unwrap_err().code, "duplicate_tool", "no longer name would fit");
}

fn server(fields: Value) -> RequestedServer {
    let mut tool = json!({ "type": "mcp", "server_label": "notes" });
    tool.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    match read(json!([tool])).unwrap().as_slice() {
        [RequestedTool::Mcp(server)] => server.clone(),
        other => panic!("{other:?}"),
    }
}

fn secrets(headers: &[(&str, &str)]) -> ServerSecrets {
    let mut secrets = ServerSecrets::default();
    for (name, value) in headers {
        secrets.add(name, SecretText::new(*value));
    }
    secrets
}

/// A12: a header that is refused is named, and its value is not repeated.
#[test]
fn headers_that_will_not_do() {
    let long = format!("canary{}", "x".repeat(16 * 1024));
    for (fields, code, param) in [
        (json!({ "headers": { "a": 4711 } }), "invalid_type", "tools[0].headers.a"),
        (json!({ "headers": ["canary"] }), "invalid_type", "tools[0].headers"),
        (json!({ "headers": { "a": "canary\r\nb: c" } }), "invalid_value", "tools[0].headers.a"),
        (json!({ "headers": { "a b": "canary" } }), "invalid_value", "tools[0].headers.a b"),
        (json!({ "headers": { "Host": "canary" } }), "invalid_value", "tools[0].headers.Host"),
        (json!({ "headers": { "a": long } }), "invalid_value", "tools[0].headers.a"),
        (
            json!({ "headers": { "a": "canary", "A": "canary" } }),
            "invalid_value",
            "tools[0].headers.A",
        ),
        (
            json!({ "authorization": "canary\n" , "headers": { "Authorization": "canary" } }),
            "invalid_value",
            "tools[0].authorization",
        ),
        (json!({ "authorization": { "canary": 1 } }), "invalid_type", "tools[0].authorization"),
    ] {
        let mut tool = json!({ "type": "mcp", "server_label": "notes" });
        tool.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let error = read(json!([tool])).unwrap_err();
        assert_eq!((error.code, error.param.as_deref()), (code, Some(param)), "{error:?}");
        let shown = format!("{error:?}");
        assert!(!shown.contains("canary") && !shown.contains("4711"), "{shown}");
    }
}

#[test]
fn servers_are_read() {
    let bare = RequestedServer {
        label: "notes".into(),
        url: None,
        allowed: None,
        ask_before: None,
        secrets: ServerSecrets::default(),
        param: "tools[0]".into(),
    };
    assert_eq!(server(json!({})), bare);
    let whole = json!({
        "server_url": "https://h:1/mcp?k=1", "server_description": "Notes.",
        "allowed_tools": ["a"], "require_approval": "never", "headers": { "a": "b" },
    });
    let expected = RequestedServer {
        url: Some("https://h:1/mcp?k=1".into()),
        allowed: Some(vec!["a".into()]),
        ask_before: Some(AskBefore::Nothing),
        secrets: secrets(&[("a", "b")]),
        ..bare
    };
    assert_eq!(server(whole), expected);
    for token in ["t", "Bearer t", " t "] {
        let read = server(json!({ "authorization": token })).secrets;
        assert_eq!(read, secrets(&[("authorization", "Bearer t")]), "{token}");
    }
    let read = server(json!({ "headers": { "X-A": "1", "b": null }, "authorization": "t" }));
    assert_eq!(read.secrets, secrets(&[("x-a", "1"), ("authorization", "Bearer t")]));
    assert!(!format!("{read:?}").contains("Bearer"), "{read:?}");
    assert!(server(json!({ "headers": {}, "authorization": null })).secrets.is_empty());
    let by_object = server(json!({ "allowed_tools": { "tool_names": ["a"], "read_only": false } }));
    assert_eq!(by_object.allowed, Some(vec!["a".into()]));
    assert_eq!(server(json!({ "allowed_tools": {} })).allowed, None);
}

#[test]
fn servers_that_will_not_do() {
    let refused = |fields: Value| {
        let mut tool = json!({ "type": "mcp", "server_label": "notes" });
        tool.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        refused(tool)
    };
    let missing = "missing_required_parameter";
    assert_eq!(refused(json!({ "server_label": null })), ("tools[0].server_label".into(), missing));
    for label in ["", "a\nb", &"x".repeat(65)] {
        let told = refused(json!({ "server_label": label }));
        assert_eq!(told, ("tools[0].server_label".into(), "invalid_value"));
    }
    for url in ["", "notes", "file:///x", "stdio://x", "https://", "https:///x", "https://u:p@h/"] {
        let told = refused(json!({ "server_url": url }));
        assert_eq!(told, ("tools[0].server_url".into(), "invalid_value"), "{url}");
    }
    for name in ["connector_id", "tunnel_id"] {
        let told = refused(json!({ name: "x" }));
        assert_eq!(told, (format!("tools[0].{name}"), "unsupported_tool"));
    }
    let cases = [
        (json!({ "allowed_tools": "a" }), "allowed_tools", "invalid_type"),
        (json!({ "allowed_tools": [1] }), "allowed_tools[0]", "invalid_type"),
        (
            json!({ "allowed_tools": { "read_only": true } }),
            "allowed_tools.read_only",
            "unsupported_value",
        ),
        (json!({ "require_approval": "sometimes" }), "require_approval", "invalid_value"),
        (json!({ "require_approval": 1 }), "require_approval", "invalid_type"),
        (json!({ "require_approval": { "never": 1 } }), "require_approval.never", "invalid_type"),
        (json!({ "headers": "x" }), "headers", "invalid_type"),
        (json!({ "authorization": {} }), "authorization", "invalid_type"),
    ];
    for (fields, field, code) in cases {
        assert_eq!(refused(fields), (format!("tools[0].{field}"), code));
    }
}

/// A7: a tool that the client does not mention needs an approval.
#[test]
fn who_is_asked_before_a_call() {
    let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let cases = [
        (json!("always"), AskBefore::Everything),
        (json!("never"), AskBefore::Nothing),
        (json!({}), AskBefore::Everything),
        (json!({ "always": { "tool_names": ["a"] } }), AskBefore::Only(names(&["a"]))),
        (json!({ "never": { "tool_names": ["a"] } }), AskBefore::AllBut(names(&["a"]))),
        (
            json!({ "always": { "tool_names": ["a"] }, "never": { "tool_names": ["a", "b"] } }),
            AskBefore::AllBut(names(&["b"])),
        ),
        (json!({ "always": {} }), AskBefore::Everything),
        (json!({ "never": {} }), AskBefore::Nothing),
        (json!({ "always": { "tool_names": ["a"] }, "never": {} }), AskBefore::Only(names(&["a"]))),
        (json!({ "always": { "read_only": false } }), AskBefore::Everything),
        (
            json!({ "never": { "read_only": true, "tool_names": ["a"] } }),
            AskBefore::AllBut(names(&[])),
        ),
    ];
    for (requested, expected) in cases {
        let server = server(json!({ "require_approval": requested }));
        assert_eq!(server.ask_before, Some(expected), "{requested}");
    }
}
