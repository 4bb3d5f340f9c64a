use turnwire_contract::{CallId, Image, Role, ToolKind};

use super::*;

fn long(what: &str) -> String {
    what.repeat(MIN_BYTES)
}

fn history() -> Vec<Entry> {
    let image = Content::image(format!("data:image/png;base64,{}", long("p")));
    let call_id = CallId::from("call_1");
    let items = [
        Item::Message { role: Role::User, content: vec![Content::text(long("q")), image] },
        Item::assistant(long("a")),
        Item::Call {
            call_id: call_id.clone(),
            name: "look".to_owned(),
            arguments: long("x"),
            kind: ToolKind::Mcp,
            server: None,
        },
        Item::CallResult {
            call_id,
            output: long("o"),
            images: vec![Image { media_type: "image/png".to_owned(), base64: long("i") }],
            failed: false,
            custom: false,
        },
        Item::user("short"),
    ];
    items.into_iter().enumerate().map(|(n, item)| Entry::new(format!("msg_{n}"), item)).collect()
}

fn messages() -> Vec<Value> {
    let source = json!({ "type": "data", "mimeType": "image/png", "value": long("p") });
    let call = json!({ "id": "call_1", "function": { "name": "look", "arguments": long("x") } });
    vec![
        json!({ "id": "u1", "role": "user", "content": [
            { "type": "text", "text": long("q") },
            { "type": "image", "source": source },
        ] }),
        json!({ "id": "msg_1", "role": "assistant", "content": long("a"), "toolCalls": [call] }),
        json!({ "id": "t1", "role": "tool", "toolCallId": "call_1", "content": long("o") }),
        json!({ "id": "u2", "role": "user", "content": "short" }),
        json!({ "id": "u3", "role": "user", "content": long("new") }),
    ]
}

/// Only what is new is kept; with the entries, the messages are what the client sent.
#[test]
fn what_the_conversation_has_is_kept_as_a_reference() {
    let mut kept = with_references(messages(), &history());
    let wire = json!(kept).to_string();
    for known in ["q", "p", "a", "x", "o"] {
        assert!(!wire.contains(&long(known)), "{known} is kept twice: {wire}");
    }
    assert_eq!(kept[3..], messages()[3..], "what is short or new is kept as it is");
    let ids = referenced(&kept);
    assert_eq!(
        ids.iter().map(ItemId::as_str).collect::<Vec<_>>(),
        ["msg_0", "msg_0", "msg_1", "msg_2", "msg_3"]
    );
    resolve(&mut kept, &history());
    assert_eq!(kept, messages());
}

/// A reference to something that is gone becomes an empty text, which every client reads.
#[test]
fn a_text_that_is_gone_is_empty() {
    let mut kept = with_references(messages(), &history());
    resolve(&mut kept, &[]);
    assert_eq!(kept[1]["content"], "");
    assert_eq!(kept[4], messages()[4]);
}

/// What only looks like a reference is left alone.
#[test]
fn other_objects_stay() {
    let strange = vec![json!({ "$entry": 1, "content": { "$entry": "msg_1" }, "$text": 0 })];
    let mut kept = with_references(strange.clone(), &history());
    resolve(&mut kept, &history());
    assert_eq!(kept, strange);
}
