use serde_json::json;

use super::*;

fn read(messages: Value) -> Result<Vec<ClientMessage>, ClientError> {
    read_messages(messages.as_array().unwrap(), &RequestLimits::default())
}

fn new(history: &[Entry], messages: Value) -> Result<Vec<Item>, ClientError> {
    let locate = ToolSpec::new("locate", "");
    new_items(history, &read(messages).unwrap(), &[locate])
}

fn asked(n: usize, text: &str) -> Entry {
    Entry::new(format!("msg_run_{n}"), Item::user(text))
}

fn answered(id: &str, text: &str) -> Entry {
    Entry::new(id, Item::assistant(text))
}

fn result(call: &str, output: &str) -> Item {
    let (call_id, output) = (CallId::from(call), output.to_owned());
    Item::CallResult { call_id, output, images: Vec::new(), failed: false, custom: false }
}

fn user(text: &str) -> Value {
    json!({ "id": "u", "role": "user", "content": text })
}

/// AG-UI 2.2: messages of every role.
#[test]
fn every_role_is_read() {
    let messages = read(json!([
        { "id": "1", "role": "system", "content": "Be brief." },
        { "id": "2", "role": "developer", "content": "In German." },
        { "id": "3", "role": "user", "content": [
            { "type": "text", "text": "What is it?" },
            { "type": "image", "source": { "type": "data", "value": "aGk=", "mimeType": "image/png" } },
            { "type": "image", "source": { "type": "url", "value": "https://example.com/a.png" } },
            { "type": "document", "source": { "type": "data", "value": "aGk=", "mimeType": "text/plain" } },
            { "type": "binary", "mimeType": "image/jpeg", "data": "aGk=" },
        ] },
        { "id": "4", "role": "assistant", "toolCalls": [
            { "id": "c", "type": "function", "function": { "name": "locate", "arguments": "" } },
        ] },
        { "id": "5", "role": "tool", "toolCallId": "c", "content": "", "error": "no signal" },
        { "id": "6", "role": "activity", "activityType": "x", "content": {} },
        { "id": "7", "role": "reasoning", "content": "Hm." },
    ]))
    .unwrap();
    let image = |url: &str| Content::image(url);
    let file = Content::File { name: "file".into(), url: "data:text/plain;base64,aGk=".into() };
    let content = vec![
        Content::text("What is it?"),
        image("data:image/png;base64,aGk="),
        image("https://example.com/a.png"),
        file,
        image("data:image/jpeg;base64,aGk="),
    ];
    let call = ClientCall { id: "c".into(), name: "locate".into(), arguments: "{}".into() };
    let (output, images) = ("no signal".to_owned(), Vec::new());
    let expected = [
        said(Role::System, vec![Content::text("Be brief.")]),
        said(Role::System, vec![Content::text("In German.")]),
        said(Role::User, content),
        ClientMessage::Answered { id: "4".into(), text: String::new(), calls: vec![call] },
        ClientMessage::Result { call_id: "c".into(), output, images, failed: true },
        ClientMessage::Shown,
        ClientMessage::Shown,
    ];
    assert_eq!(messages, expected);
}

/// AG-UI 2.2: what cannot be used is refused, by name.
#[test]
fn what_is_wrong_is_named() {
    for (message, param) in [
        (json!({ "role": "robot", "content": "x" }), "messages[0].role"),
        (json!({ "content": "x" }), "messages[0].role"),
        (json!({ "role": "user" }), "messages[0].content"),
        (json!({ "role": "user", "content": 5 }), "messages[0].content"),
        (json!({ "role": 5 }), "messages[0].role"),
        (json!("x"), "messages[0]"),
        (json!({ "role": "tool", "content": "x" }), "messages[0].toolCallId"),
        (json!({ "role": "assistant", "toolCalls": [{ "id": 1 }] }), "messages[0].toolCalls[0].id"),
        (
            json!({ "role": "user", "content": [{ "type": "audio" }] }),
            "messages[0].content[0].type",
        ),
        (
            json!({ "role": "user", "content": [
                { "type": "image", "source": { "type": "url", "value": "file:///etc/passwd" } },
            ] }),
            "messages[0].content[0].source.value",
        ),
        (
            json!({ "role": "user", "content": [
                { "type": "image", "source": { "type": "data", "value": "no!" } },
            ] }),
            "messages[0].content[0].source.value",
        ),
    ] {
        let error = read(json!([message])).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(param), "{message} {error}");
    }
}

/// AG-UI 2.2: a client that sends the whole thread adds only what follows the last answer, and one
/// that sends only what is new adds that.
#[test]
fn what_follows_the_last_answer_is_new() {
    let history = [asked(0, "A"), answered("msg_1", "a")];
    let whole =
        json!([user("A"), { "id": "msg_1", "role": "assistant", "content": "a" }, user("B")]);
    assert_eq!(new(&history, whole).unwrap(), [Item::user("B")]);
    assert_eq!(new(&history, json!([user("A")])).unwrap(), [Item::user("A")], "said once more");
    assert_eq!(new(&[], json!([user("A")])).unwrap(), [Item::user("A")]);
    let nothing = json!([user("A"), { "id": "msg_1", "role": "assistant", "content": "a" }]);
    assert_eq!(new(&history, nothing).unwrap_err().param.as_deref(), Some("messages"));
}

/// AG-UI 2.2: after a run that failed, its input is not added twice, and may be tried again.
#[test]
fn what_was_not_answered_is_not_asked_twice() {
    let history = [asked(0, "A"), answered("msg_1", "a"), asked(1, "B")];
    let whole = |last: &str| {
        let answer = json!({ "id": "msg_1", "role": "assistant", "content": "a" });
        json!([user("A"), answer, user("B"), user(last)])
    };
    assert_eq!(new(&history, whole("C")).unwrap(), [Item::user("C")]);
    assert_eq!(new(&history[2..], json!([user("B")])).unwrap(), []);
    assert_eq!(new(&history[2..], json!([user("C")])).unwrap(), [Item::user("C")]);
}

/// AG-UI 2.4: results of the client's calls are new, whatever comes between; those of the server's
/// calls are known.
#[test]
fn results_of_the_client_are_new() {
    let called = |call: &str| Entry::new(format!("fc_{call}"), Item::call(call, "locate", "{}"));
    let known = Entry::new("fco_2", result("call_2", "x"));
    let history = [asked(0, "A"), called("call_1"), called("call_2"), known];
    let call = |id: &str| json!({ "id": id, "type": "function", "function": { "name": "locate", "arguments": "{}" } });
    let whole = json!([
        user("A"),
        { "id": "msg_9", "role": "assistant", "toolCalls": [call("call_1"), call("call_2")] },
        { "id": "t1", "role": "tool", "toolCallId": "call_1", "content": "here" },
        { "id": "t2", "role": "tool", "toolCallId": "call_2", "content": "x" },
    ]);
    assert_eq!(new(&history, whole.clone()).unwrap(), [result("call_1", "here")]);
    let all = new(&[], whole).unwrap();
    assert_eq!(all.len(), 5, "a thread that this server does not have is taken as it is");
    assert!(matches!(&all[1], Item::Call { kind: ToolKind::Client, .. }), "{all:?}");
    let stray = json!([{ "id": "t", "role": "tool", "toolCallId": "call_9", "content": "x" }]);
    assert_eq!(new(&history, stray).unwrap_err().code, "no_tool_call_found");
}
