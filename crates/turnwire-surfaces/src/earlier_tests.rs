//! S4-2: earlier messages are in the list, and no frames are sent about them.

use turnwire_contract::{Content, Image, Item, Role};

use super::messages_of;
use crate::message::{Message, Stage};

fn call(id: &str, name: &str, arguments: &str) -> Item {
    Item::call(id, name, arguments)
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

/// A message in short form: role, text, reasoning, and each call with its end.
fn glance(message: &Message) -> String {
    let blocks: Vec<String> = message
        .tool_blocks
        .iter()
        .map(|block| {
            assert_eq!(block.stage == Stage::End, block.success.is_some());
            format!(
                " [{}({}) {} {:?} {:?} {:?}]",
                block.tool.name,
                block.parameters,
                block.compact_params,
                block.result,
                block.error,
                block.images
            )
        })
        .collect();
    let Message { id, role, content, reasoning, .. } = message;
    format!("{id} {role:?} {content:?} {reasoning:?}{}", blocks.concat())
}

#[test]
fn a_history_becomes_messages_with_their_calls() {
    let picture = Image { media_type: "image/png".into(), base64: "aGk=".into() };
    let history = [
        Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] },
        Item::user("Find it."),
        Item::Reasoning { text: "Hm.".into(), encrypted_content: None },
        Item::assistant("Searching. "),
        call("call_1", "search", "{\"query\":\"rust\"}"),
        call("call_2", "draw", "{}"),
        result("call_1", "3 found", false),
        Item::CallResult {
            call_id: "call_2".into(),
            output: String::new(),
            images: vec![picture],
            failed: false,
            custom: false,
        },
        call("call_3", "read", "{\"path\":\"a\"}"),
        result("call_3", "Error: not there", true),
        result("call_9", "whose?", true),
        Item::assistant("\u{1b}[31mDone."),
        Item::user("Thanks."),
        Item::Message {
            role: Role::Assistant,
            content: vec![Content::image("data:"), Content::Refusal { text: "No.".into() }],
        },
    ];
    let glances: Vec<String> = messages_of(&history).iter().map(glance).collect();
    assert_eq!(
        glances,
        [
            "earlier_1 System \"Be brief.\" \"\"",
            "earlier_2 User \"Find it.\" \"\"",
            "earlier_3 Assistant \"Searching. \" \"Hm.\" [search({\"query\":\"rust\"}) rust Some(\"3 found\") None []] \
             [draw({})  Some(\"\") None [\"data:image/png;base64,aGk=\"]]",
            "earlier_4 Assistant \"\" \"\" [read({\"path\":\"a\"}) a None Some(\"not there\") []]",
            "earlier_5 Assistant \"Done.\" \"\"",
            "earlier_6 User \"Thanks.\" \"\"",
            "earlier_7 Assistant \"No.\" \"\"",
        ]
    );
}
