use serde_json::{Value, json};
use turnwire_contract::{Content, Decision, Image, Item, Role, ToolKind};

use super::{
    super::{FoundFile, wrap_summary},
    *,
};
use crate::limits::RequestLimits;

const PNG: &str = "data:image/png;base64,AAAA";

fn references_found() -> ResolvedReferences {
    let file = FoundFile {
        name: "notes.txt".into(),
        url: "turnwire-file:file_1;text/plain".into(),
        text: Some("hi".into()),
    };
    ResolvedReferences {
        items: [("msg_1".to_owned(), vec![Item::user("earlier")])].into(),
        files: [("file_1".to_owned(), file)].into(),
        limits: RequestLimits { items: 100, argument_bytes: 2_048, ..RequestLimits::default() },
    }
}

fn read(items: Value) -> Result<Input, ClientError> {
    let Value::Array(items) = items else { panic!("not a list") };
    read_input(&InputBody::Items(items), &references_found())
}

fn items(list: Value) -> Vec<Item> {
    let input = read(list).unwrap();
    assert_eq!(input.answers, []);
    input.items
}

fn refused(item: Value) -> (String, &'static str) {
    let error = read(json!([item])).unwrap_err();
    assert_eq!(error.status, 400, "{error}");
    (error.param.unwrap(), error.code)
}

fn message(role: Role, content: Vec<Content>) -> Item {
    Item::Message { role, content }
}

fn system(text: &str) -> Item {
    message(Role::System, vec![Content::text(text)])
}

fn call(id: &str, name: &str, arguments: &str, kind: ToolKind, server: Option<&str>) -> Item {
    Item::Call {
        call_id: id.into(),
        name: name.into(),
        arguments: arguments.into(),
        kind,
        server: server.map(str::to_owned),
    }
}

fn result(id: &str, output: &str, failed: bool) -> Item {
    Item::CallResult {
        call_id: id.into(),
        output: output.into(),
        images: Vec::new(),
        failed,
        custom: false,
    }
}

#[test]
fn words_are_a_message_of_the_user() {
    let input = read_input(&InputBody::Text("hi".into()), &ResolvedReferences::default()).unwrap();
    assert_eq!(
        input,
        Input { items: vec![Item::user("hi")], answers: Vec::new(), ..Input::default() }
    );
}

#[test]
fn messages_may_be_short() {
    let list = json!([
        { "role": "user", "content": "a" },
        { "role": "assistant", "content": "b", "phase": "commentary" },
        { "role": "system", "content": "c" },
        { "role": "developer", "content": "d" },
        { "type": "message", "role": "user", "content": "e", "id": "msg_9", "status": "completed" },
        { "type": null, "role": "user", "content": [] },
    ]);
    let expected = [
        Item::user("a"),
        Item::assistant("b"),
        system("c"),
        system("d"),
        Item::user("e"),
        message(Role::User, vec![]),
    ];
    assert_eq!(items(list), expected);
}

#[test]
fn messages_have_parts() {
    let list = json!([
        { "type": "message", "role": "user", "content": [
            { "type": "input_text", "text": "see" },
            { "type": "input_image", "image_url": PNG, "detail": "low" },
            { "type": "input_image", "image_url": "https://h/a.png" },
            { "type": "input_image", "file_id": "file_1" },
            { "type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA" },
            { "type": "input_file", "filename": "a.PDF", "file_data": "AAAA" },
            { "type": "input_file", "file_data": "AAAA" },
            { "type": "input_file", "file_url": "https://h/b/c.pdf?x#y" },
            { "type": "input_file", "file_url": "HTTP://h" },
            { "type": "input_file", "file_id": "file_1" },
            { "type": "input_file", "file_id": "file_1", "filename": "mine" },
        ] },
        { "type": "message", "role": "assistant", "phase": "final_answer", "content": [
            { "type": "output_text", "text": "I see", "annotations": [], "logprobs": [] },
            { "type": "refusal", "refusal": "no" },
        ] },
    ]);
    let image = |url: &str| Content::image(url);
    let file = |name: &str, url: &str| Content::File { name: name.into(), url: url.into() };
    let hi = "turnwire-file:file_1;text/plain";
    let expected = [
        message(
            Role::User,
            vec![
                Content::text("see"),
                Content::Image { url: PNG.into(), detail: Some("low".into()) },
                image("https://h/a.png"),
                image(hi),
                file("a.pdf", "data:application/pdf;base64,AAAA"),
                file("a.PDF", "data:application/pdf;base64,AAAA"),
                file("file", "data:application/octet-stream;base64,AAAA"),
                file("c.pdf", "https://h/b/c.pdf?x#y"),
                file("file", "HTTP://h"),
                file("notes.txt", hi),
                file("mine", hi),
            ],
        ),
        message(
            Role::Assistant,
            vec![Content::text("I see"), Content::Refusal { text: "no".into() }],
        ),
    ];
    assert_eq!(items(list), expected);
}

#[test]
fn a_part_that_will_not_do_is_named() {
    let in_message = |part: Value| {
        let good = json!({ "type": "input_text", "text": "a" });
        let list = json!([{ "role": "user", "content": "a" }, { "role": "user", "content": [good, part] }]);
        let error = read(list).unwrap_err();
        (error.param.unwrap(), error.code, error.status)
    };
    let at = |field: &str| format!("input[1].content[1]{field}");
    let missing = "missing_required_parameter";
    let cases = [
        (json!(1), "", "invalid_type", 400),
        (json!({ "text": "a" }), ".type", missing, 400),
        (json!({ "type": "input_audio" }), ".type", "unsupported_content", 400),
        (json!({ "type": "input_text" }), ".text", missing, 400),
        (json!({ "type": "refusal" }), ".refusal", missing, 400),
        (json!({ "type": "input_image" }), ".image_url", missing, 400),
        (
            json!({ "type": "input_image", "image_url": "file:///etc/passwd" }),
            ".image_url",
            "invalid_value",
            400,
        ),
        (
            json!({ "type": "input_image", "image_url": "data:image/png;base64,*" }),
            ".image_url",
            "invalid_value",
            400,
        ),
        (
            json!({ "type": "input_image", "image_url": "data:text/html;base64,AAAA" }),
            ".image_url",
            "invalid_value",
            400,
        ),
        (
            json!({ "type": "input_image", "image_url": { "url": PNG } }),
            ".image_url",
            "invalid_type",
            400,
        ),
        (json!({ "type": "input_image", "file_id": "file_9" }), ".file_id", "file_not_found", 404),
        (json!({ "type": "input_file" }), ".file_data", missing, 400),
        (
            json!({ "type": "input_file", "file_data": "not base64" }),
            ".file_data",
            "invalid_value",
            400,
        ),
        (
            json!({ "type": "input_file", "file_data": "data:x,y" }),
            ".file_data",
            "invalid_value",
            400,
        ),
        (
            json!({ "type": "input_file", "file_url": "ftp://h/a" }),
            ".file_url",
            "invalid_value",
            400,
        ),
        (json!({ "type": "input_file", "file_id": "file_9" }), ".file_id", "file_not_found", 404),
    ];
    for (part, field, code, status) in cases {
        assert_eq!(in_message(part.clone()), (at(field), code, status), "{part}");
    }
}

#[test]
fn messages_that_will_not_do() {
    let missing = "missing_required_parameter";
    assert_eq!(refused(json!({ "type": "message" })), ("input[0].role".into(), missing));
    let strange = json!({ "role": "tool", "content": "x" });
    assert_eq!(refused(strange), ("input[0].role".into(), "invalid_value"));
    assert_eq!(refused(json!({ "role": "user" })), ("input[0].content".into(), missing));
    let number = json!({ "role": "user", "content": 1 });
    assert_eq!(refused(number), ("input[0].content".into(), "invalid_type"));
    assert_eq!(refused(json!({})), ("input[0].type".into(), missing));
    assert_eq!(refused(json!("hi")), ("input[0]".into(), "invalid_type"));
    assert_eq!(refused(json!({ "type": 1 })), ("input[0].type".into(), "invalid_type"));
}

#[test]
fn items_we_do_not_know_are_named() {
    let error = read(json!([{ "type": "computer_call" }])).unwrap_err();
    assert_eq!(error.message, "Items of the type `computer_call` are not supported.");
    assert_eq!(error.code, "unsupported_item");
    assert_eq!(error.param.as_deref(), Some("input[0].type"));
}

#[test]
fn functions_and_their_outputs() {
    let list = json!([
        { "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}",
          "status": "completed" },
        { "type": "function_call_output", "call_id": "c1", "output": "20" },
        { "type": "function_call", "call_id": "c2", "name": "f", "arguments": "" },
        { "type": "function_call_output", "call_id": "c2", "output": [
            { "type": "input_text", "text": "one" },
            { "type": "input_image", "image_url": PNG },
            { "type": "input_file", "file_id": "file_1" },
            { "type": "input_text", "text": "two" },
        ] },
    ]);
    let image = Image { media_type: "image/png".into(), base64: "AAAA".into() };
    let expected = [
        call("c1", "f", "{\"a\":1}", ToolKind::Client, None),
        result("c1", "20", false),
        call("c2", "f", "{}", ToolKind::Client, None),
        Item::CallResult {
            call_id: "c2".into(),
            output: "one\nnotes.txt:\nhi\ntwo".into(),
            images: vec![image],
            failed: false,
            custom: false,
        },
    ];
    assert_eq!(items(list), expected);
}

/// Invalid arguments that a model once generated do not block its conversation for ever.
#[test]
fn broken_arguments_in_a_history_are_made_legal() {
    for broken in ["{\"a\":", "[1]", "null"] {
        let list =
            json!([{ "type": "function_call", "call_id": "c", "name": "f", "arguments": broken }]);
        let legal = json!({ "invalid_arguments": broken }).to_string();
        assert_eq!(items(list), [call("c", "f", &legal, ToolKind::Client, None)]);
    }
}

#[test]
fn calls_that_will_not_do() {
    let missing = "missing_required_parameter";
    let call = |fields: Value| {
        let mut item =
            json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": "{}" });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        refused(item)
    };
    assert_eq!(call(json!({ "call_id": null })), ("input[0].call_id".into(), missing));
    assert_eq!(call(json!({ "call_id": "" })), ("input[0].call_id".into(), "invalid_value"));
    assert_eq!(call(json!({ "name": null })), ("input[0].name".into(), missing));
    assert_eq!(call(json!({ "arguments": null })), ("input[0].arguments".into(), missing));
    assert_eq!(call(json!({ "arguments": {} })), ("input[0].arguments".into(), "invalid_type"));

    let output = |output: Value| {
        refused(json!({ "type": "function_call_output", "call_id": "c", "output": output }))
    };
    assert_eq!(output(Value::Null), ("input[0].output".into(), missing));
    assert_eq!(output(json!({})), ("input[0].output".into(), "invalid_type"));
    let elsewhere = json!([{ "type": "input_image", "image_url": "https://h/a.png" }]);
    assert_eq!(output(elsewhere), ("input[0].output[0].image_url".into(), "invalid_value"));
    let not_text =
        json!([{ "type": "input_file", "file_data": "data:application/pdf;base64,AAAA" }]);
    assert_eq!(output(not_text), ("input[0].output[0]".into(), "invalid_value"));
    let no_id = json!({ "type": "function_call_output", "output": "x" });
    assert_eq!(refused(no_id), ("input[0].call_id".into(), missing));
}

/// A13: arguments at the limit, and one byte more.
#[test]
fn arguments_have_a_limit() {
    let of_length = |n: usize| {
        let arguments = format!("{{\"a\":\"{}\"}}", "x".repeat(n - 8));
        assert_eq!(arguments.len(), n);
        json!({ "type": "function_call", "call_id": "c", "name": "f", "arguments": arguments })
    };
    assert_eq!(items(json!([of_length(2_048)])).len(), 1);
    let too_long = ("input[0].arguments".to_owned(), "arguments_too_large");
    assert_eq!(refused(of_length(2_049)), too_long);
}

/// A13: items at the limit, and one more.
#[test]
fn items_have_a_limit() {
    let many = |n: usize| Value::from(vec![json!({ "role": "user", "content": "x" }); n]);
    assert_eq!(items(many(100)).len(), 100);
    let error = read(many(101)).unwrap_err();
    assert_eq!(error.message, "`input` may have at most 100 items, not 101.");
    assert_eq!((error.param.as_deref(), error.code), (Some("input"), "too_many_items"));
}

#[test]
fn thoughts_come_back() {
    let list = json!([
        { "type": "reasoning", "id": "rs_1", "encrypted_content": "seal", "summary": [
            { "type": "summary_text", "text": "a" }, { "type": "summary_text", "text": "b" } ] },
        { "type": "reasoning", "summary": [], "content": [
            { "type": "reasoning_text", "text": "c" } ] },
        { "type": "reasoning", "summary": [], "encrypted_content": "only" },
        { "type": "reasoning", "summary": [], "encrypted_content": null },
    ]);
    let thought = |text: &str, encrypted_content: Option<&str>| Item::Reasoning {
        text: text.into(),
        encrypted_content: encrypted_content.map(str::to_owned),
    };
    let expected = [thought("a\n\nb", Some("seal")), thought("c", None), thought("", Some("only"))];
    assert_eq!(items(list), expected);
    let broken = json!({ "type": "reasoning", "summary": ["a"] });
    assert_eq!(refused(broken), ("input[0].summary[0]".into(), "invalid_type"));
}

#[test]
fn items_may_only_be_named() {
    let list = json!([{ "type": "item_reference", "id": "msg_1" }, { "id": "msg_1" }]);
    assert_eq!(items(list), [Item::user("earlier"), Item::user("earlier")]);
    let error = read(json!([{ "type": "item_reference", "id": "msg_9" }])).unwrap_err();
    assert_eq!(error.message, "Item with id `msg_9` not found.");
    assert_eq!((error.code, error.status), ("item_not_found", 404));
    assert_eq!(error.param.as_deref(), Some("input[0].id"));
}

#[test]
fn what_is_only_named_can_be_looked_up_before() {
    let list = json!([
        { "type": "item_reference", "id": "msg_1" },
        { "id": "msg_2" },
        { "role": "user", "id": "msg_3", "content": [{ "type": "input_image", "file_id": "file_1" }] },
        { "type": "function_call_output", "output": [{ "type": "input_file", "file_id": "file_2" }] },
        { "role": "user", "content": "file_id" },
        1,
    ]);
    let expected = References {
        items: vec!["msg_1".into(), "msg_2".into()],
        files: vec!["file_1".into(), "file_2".into()],
        files_in_outputs: ["file_2".into()].into(),
    };
    let Value::Array(list) = list else { panic!() };
    assert_eq!(references(&InputBody::Items(list)), expected);
    assert_eq!(references(&InputBody::Text("hi".into())), References::default());
}

#[test]
fn a_conversation_made_short_comes_back() {
    let list = json!([{ "type": "compaction", "id": "cmp_1", "encrypted_content": wrap_summary("They met.") }]);
    assert_eq!(items(list), [system("They met.")]);
    let error = read(json!([{ "type": "compaction", "encrypted_content": "gAAAA" }])).unwrap_err();
    assert_eq!(
        error.message,
        "`input[0].encrypted_content` was not created by this server; create a new one \
         with `/v1/responses/compact`."
    );
    assert_eq!(error.code, "invalid_encrypted_content");
    let nothing = json!({ "type": "compaction" });
    assert_eq!(
        refused(nothing),
        ("input[0].encrypted_content".into(), "missing_required_parameter")
    );
}

#[test]
fn calls_of_servers_are_history() {
    let mcp = |fields: Value| {
        let mut item = json!({
            "type": "mcp_call", "id": "mcp_1", "name": "add", "server_label": "notes",
            "arguments": "{}",
        });
        item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let [call_item, result] = items(json!([item])).try_into().unwrap();
        assert_eq!(call_item, call("mcp_1", "add", "{}", ToolKind::Mcp, Some("notes")));
        result
    };
    assert_eq!(mcp(json!({ "output": "done", "error": null })), result("mcp_1", "done", false));
    assert_eq!(mcp(json!({})), result("mcp_1", "(no output)", false));
    assert_eq!(mcp(json!({ "status": "failed" })), result("mcp_1", "(no output)", true));
    let errors = [
        (json!("broken"), "Error: broken"),
        (json!({ "type": "http_error", "code": 500, "message": "down" }), "Error: down"),
        (
            json!({ "type": "mcp_tool_execution_error", "content": [{ "type": "text", "text": "no disk" }] }),
            "Error: no disk",
        ),
        (json!({ "type": "x" }), "Error: {\"type\":\"x\"}"),
    ];
    for (error, told) in errors {
        assert_eq!(mcp(json!({ "error": error, "output": "x" })), result("mcp_1", told, true));
    }
    let nameless = json!({ "type": "mcp_call", "server_label": "notes", "arguments": "{}" });
    assert_eq!(refused(nameless), ("input[0].name".into(), "missing_required_parameter"));
    let homeless = json!({ "type": "mcp_call", "name": "add", "arguments": "{}" });
    assert_eq!(refused(homeless), ("input[0].server_label".into(), "missing_required_parameter"));
}

#[test]
fn searches_are_history() {
    let list = json!([
        { "type": "web_search_call", "id": "ws_1", "status": "completed", "action": {
            "type": "search", "query": "rust", "sources": [{ "type": "url", "url": "https://a" }] } },
        { "type": "web_search_call", "id": "ws_2", "status": "failed" },
        { "type": "web_search_call", "call_id": "call_3", "id": "ws_3", "status": "completed",
          "action": { "type": "open_page", "url": "https://b" },
          "results": [{ "title": "B", "url": "https://b", "text": "bees" }] },
        { "type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"],
          "results": [{ "filename": "a.md", "text": "x", "score": 0.5 }, { "filename": "b.md", "text": "y" }] },
        { "type": "file_search_call", "queries": ["p", "q"], "results": null },
        { "type": "mcp_list_tools", "id": "mcpl_1", "server_label": "notes", "tools": [] },
    ]);
    let web =
        |id: &str, arguments: &str| call(id, "web_search", arguments, ToolKind::WebSearch, None);
    let file =
        |id: &str, arguments: &str| call(id, "file_search", arguments, ToolKind::FileSearch, None);
    let expected = [
        web("ws_1", "{\"query\":\"rust\"}"),
        result("ws_1", "https://a", false),
        web("ws_2", "{}"),
        result("ws_2", "(no output)", true),
        web("call_3", "{\"url\":\"https://b\"}"),
        result("call_3", "B: https://b: bees", false),
        file("fs_1", "{\"query\":\"q\"}"),
        result("fs_1", "a.md: x\nb.md: y", false),
        file("call_of_item_4", "{\"queries\":[\"p\",\"q\"]}"),
        result("call_of_item_4", "(no output)", false),
    ];
    assert_eq!(items(list), expected);
}

fn request(id: &str) -> Value {
    json!({ "type": "mcp_approval_request", "id": id, "name": "add", "server_label": "notes",
            "arguments": "{\"a\":1}" })
}

fn response(id: &str, approve: bool) -> Value {
    json!({ "type": "mcp_approval_response", "approval_request_id": id, "approve": approve,
            "reason": "why" })
}

fn waiting(id: &str) -> Item {
    call(id, "add", "{\"a\":1}", ToolKind::Mcp, Some("notes"))
}

#[test]
fn a_person_answers() {
    let input =
        read(json!([request("r1"), request("r2"), response("r1", true), response("r2", false)]));
    let answer = |n: usize, id: &str, decision: Decision| ApprovalAnswer {
        approval_request_id: id.into(),
        decision,
        param: format!("input[{n}]"),
    };
    let expected = Input {
        items: vec![waiting("r1"), waiting("r2")],
        answers: vec![
            answer(2, "r1", Decision::Approved),
            answer(3, "r2", Decision::Denied { reason: "why".into() }),
        ],
        ..Input::default()
    };
    assert_eq!(input.unwrap(), expected);
    let silent = json!({ "type": "mcp_approval_response", "approval_request_id": "r1" });
    assert_eq!(refused(silent), ("input[0].approve".into(), "missing_required_parameter"));
    let nameless = json!({ "type": "mcp_approval_response", "approve": true });
    assert_eq!(
        refused(nameless),
        ("input[0].approval_request_id".into(), "missing_required_parameter")
    );
}

/// C5: a call that was approved and executed is not executed again when it comes back as history,
/// in any order.
#[test]
fn what_was_carried_out_is_not_asked_again() {
    let done = json!({
        "type": "mcp_call", "id": "mcp_1", "approval_request_id": "r1", "name": "add",
        "server_label": "notes", "arguments": "{\"a\":1}", "output": "ok",
    });
    let (asked, answered) = (request("r1"), response("r1", true));
    for list in [json!([asked, answered, done]), json!([asked, done, answered])] {
        assert_eq!(items(list), [waiting("mcp_1"), result("mcp_1", "ok", false)]);
    }
}

/// C5: neither is one whose result is not in the history.
#[test]
fn an_old_answer_is_history() {
    let said = json!({ "role": "assistant", "content": "Well." });
    let list = json!([request("r1"), response("r1", false), said, response("r0", false), said]);
    let expected = [
        waiting("r1"),
        result("r1", "Error: denied by the user: why", true),
        Item::assistant("Well."),
        Item::assistant("Well."),
    ];
    assert_eq!(items(list), expected);
    let list = json!([request("r1"), response("r1", true), said]);
    let unknown = "Error: the outcome of this call is not known";
    let expected = [waiting("r1"), result("r1", unknown, true), Item::assistant("Well.")];
    assert_eq!(items(list), expected);
}

#[test]
fn a_list_elsewhere_names_its_own_place() {
    let error = read_items(&[json!({})], "items", &ResolvedReferences::default()).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("items[0].type"));
}
