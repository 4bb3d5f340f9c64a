use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{CallId, Content, Image, Item, Prompt, Role, ToolChoice, ToolSpec};

use super::RequestBody;
use crate::{
    sample_prompt::{plain_prompt, sample_prompt},
    seal::Origin,
};

#[test]
fn everything_has_its_place() {
    let prompt = sample_prompt("anthropic.signature:c2ln");
    let body = serde_json::to_value(RequestBody::new(
        &prompt,
        Some("their-model"),
        Some(&Origin::UNKNOWN),
    ))
    .unwrap();
    assert_eq!(
        body,
        json!({
            "model": "their-model",
            "max_tokens": 100,
            "stream": true,
            "system": "Be kind.\n\nBe brief.",
            "messages": [
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image",
                      "source": { "type": "url", "url": "https://example.com/a.png" } },
                    { "type": "image",
                      "source": { "type": "base64", "media_type": "image/gif", "data": "R0lG" } },
                    { "type": "document", "title": "a.pdf", "source": {
                      "type": "base64", "media_type": "application/pdf", "data": "JVBE" } },
                ] },
                { "role": "assistant", "content": [
                    { "type": "thinking", "thinking": "Hm.", "signature": "c2ln" },
                    { "type": "text", "text": "I will look." },
                    { "type": "tool_use", "id": "call_1", "name": "multiply",
                      "input": { "a": 5, "b": 4 } },
                    { "type": "tool_use", "id": "call_2", "name": "draw", "input": {} },
                ] },
                { "role": "user", "content": [
                    { "type": "tool_result", "tool_use_id": "call_1", "is_error": false,
                      "content": [{ "type": "text", "text": "20" }] },
                    { "type": "tool_result", "tool_use_id": "call_2", "is_error": true,
                      "content": [{ "type": "text", "text": "no ink" }] },
                    { "type": "image", "source":
                      { "type": "base64", "media_type": "image/png", "data": "iVBO" } },
                ] },
                { "role": "assistant", "content": [{ "type": "text", "text": "Twenty." }] },
                { "role": "user", "content": [{ "type": "text", "text": "Thanks." }] },
            ],
            "tools": [{
                "name": "multiply",
                "description": "Multiplies.",
                "input_schema": { "type": "object", "properties": { "a": {}, "b": {} } },
            }],
            "tool_choice": { "type": "auto", "disable_parallel_tool_use": true },
            "temperature": 0.5,
            "top_p": 0.9,
            "thinking": { "type": "adaptive" },
            "output_config": {
                "effort": "low",
                "format": { "type": "json_schema", "schema":
                    { "type": "object", "additionalProperties": false } },
            },
        })
    );
}

#[test]
fn what_is_not_set_is_not_sent() {
    let prompt = plain_prompt();
    let body =
        serde_json::to_value(RequestBody::new(&prompt, None, Some(&Origin::UNKNOWN))).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "prompt-model",
            "max_tokens": 8192,
            "stream": true,
            "messages": [{ "role": "user", "content": [{ "type": "text", "text": "Hi." }] }],
        })
    );
}

#[test]
fn only_seals_of_this_provider_go_back() {
    let thoughts_with = |encrypted_content: &str| -> Value {
        let prompt = sample_prompt(encrypted_content);
        let mut body =
            serde_json::to_value(RequestBody::new(&prompt, None, Some(&Origin::UNKNOWN))).unwrap();
        body["messages"][1]["content"][0].take()
    };
    assert_eq!(
        thoughts_with("anthropic.redacted:ZGF0YQ"),
        json!({ "type": "redacted_thinking", "data": "ZGF0YQ" })
    );
    assert_eq!(thoughts_with("openai.encrypted:x")["type"], "text");
}

#[test]
fn a_budget_of_thoughts_comes_on_top() {
    let mut prompt = plain_prompt();
    prompt.generation.reasoning_effort = Some("2000".to_owned());
    let body =
        serde_json::to_value(RequestBody::new(&prompt, None, Some(&Origin::UNKNOWN))).unwrap();
    assert_eq!(body["thinking"], json!({ "type": "enabled", "budget_tokens": 2000 }));
    assert_eq!(body["max_tokens"], 10192);
}

#[test]
fn a_choice_of_tool_is_written_out() {
    let mut prompt = sample_prompt("");
    prompt.parallel_tool_calls = true;
    let mut choice_of = |choice| -> Value {
        prompt.tool_choice = choice;
        serde_json::to_value(RequestBody::new(&prompt, None, Some(&Origin::UNKNOWN))).unwrap()["tool_choice"].take()
    };
    assert_eq!(choice_of(ToolChoice::None), json!({ "type": "none" }));
    assert_eq!(
        choice_of(ToolChoice::Required),
        json!({ "type": "any", "disable_parallel_tool_use": false })
    );
    assert_eq!(
        choice_of(ToolChoice::Named { name: "multiply".to_owned() }),
        json!({ "type": "tool", "name": "multiply", "disable_parallel_tool_use": false })
    );
}

/// Three turns whose reasoning was made over what stood before it.
fn signed_turns(origin: &Origin) -> Prompt {
    let mut prompt = plain_prompt();
    for n in 1..=3 {
        let body = RequestBody::new(&prompt, None, Some(origin));
        let seal = origin.seal_over(body.prefix(), super::SIGNATURE, &format!("sig{n}"));
        prompt.items.extend([
            Arc::new(Item::Reasoning { text: "Hm.".into(), encrypted_content: Some(seal) }),
            Arc::new(Item::assistant("Well.")),
            Arc::new(Item::user("And?")),
        ]);
    }
    prompt
}

fn signatures_in(prompt: &Prompt, origin: Option<&Origin>) -> Vec<String> {
    let body = serde_json::to_value(RequestBody::new(prompt, None, origin)).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let blocks = messages.flat_map(|message| message["content"].as_array().unwrap());
    blocks.filter_map(|block| Some(block.get("signature")?.as_str()?.to_owned())).collect()
}

/// Reasoning goes back only over the prompt that it was made over; and if some does not,
/// nothing of what is before it does.
#[test]
fn reasoning_goes_back_over_an_unchanged_prompt() {
    let origin = Origin::new("https://api.anthropic.com", Some("key"), "m");
    let prompt = signed_turns(&origin);
    assert_eq!(signatures_in(&prompt, Some(&origin)), ["sig1", "sig2", "sig3"]);
    let other = Origin::new("https://api.anthropic.com", Some("other"), "m");
    assert!(signatures_in(&prompt, Some(&other)).is_empty());
    assert!(signatures_in(&prompt, None).is_empty());

    let mut changed = prompt.clone();
    changed.instructions = Some("Be brief.".to_owned());
    assert!(signatures_in(&changed, Some(&origin)).is_empty(), "other instructions");
    let mut changed = prompt.clone();
    changed.tools.push(Arc::new(ToolSpec::new("now", "The time.")));
    assert!(signatures_in(&changed, Some(&origin)).is_empty(), "other tools");
    let mut changed = prompt.clone();
    changed.items[0] = Arc::new(Item::user("Ho."));
    assert!(signatures_in(&changed, Some(&origin)).is_empty(), "another message");
    let mut changed = prompt.clone();
    changed.items.remove(1);
    assert!(signatures_in(&changed, Some(&origin)).is_empty(), "reasoning is missing");

    // What is said after the change is signed over the prompt as it was sent.
    let mut changed = prompt;
    changed.instructions = Some("Be brief.".to_owned());
    for n in 4..=5 {
        let body = RequestBody::new(&changed, None, Some(&origin));
        let seal = origin.seal_over(body.prefix(), super::SIGNATURE, &format!("sig{n}"));
        changed.items.extend([
            Arc::new(Item::Reasoning { text: "Hm.".into(), encrypted_content: Some(seal) }),
            Arc::new(Item::user("And?")),
        ]);
    }
    assert_eq!(signatures_in(&changed, Some(&origin)), ["sig4", "sig5"]);
    let body = serde_json::to_value(RequestBody::new(&changed, None, None)).unwrap();
    let mut messages = body["messages"].as_array().unwrap().iter();
    assert!(messages.all(|message| message["content"] != json!([])), "{body}");
}

/// What Claude rejects is not sent: blank text, foreign IDs, files of text as bytes, and pictures
/// in a failed result.
#[test]
fn a_conversation_is_written_as_claude_takes_it() {
    let file = Content::File { name: "a.txt".into(), url: "data:text/plain;base64,SGk=".into() };
    let picture = Image { media_type: "image/png".to_owned(), base64: "iVBO".to_owned() };
    let items = [
        Item::Message { role: Role::User, content: vec![Content::text(" \n"), file] },
        Item::call("call:1", "t", "{}"),
        Item::assistant("I called."),
        Item::CallResult {
            call_id: CallId::new("call:1"),
            output: String::new(),
            images: vec![picture],
            failed: true,
            custom: false,
        },
    ];
    let prompt = Prompt { items: items.into_iter().map(Arc::new).collect(), ..plain_prompt() };
    let body = serde_json::to_value(RequestBody::new(&prompt, None, None)).unwrap();
    let source = json!({ "type": "text", "media_type": "text/plain", "data": "Hi" });
    assert_eq!(
        body["messages"][0]["content"],
        json!([{ "type": "document", "title": "a.txt", "source": source }])
    );
    let kinds = |n: usize| -> Vec<&str> {
        let content = body["messages"][n]["content"].as_array().unwrap().iter();
        content.map(|block| block["type"].as_str().unwrap()).collect()
    };
    assert_eq!(kinds(1), ["text", "tool_use"]);
    assert_eq!(kinds(2), ["tool_result", "image"]);
    let result = &body["messages"][2]["content"][0];
    assert_eq!(result["content"], json!([{ "type": "text", "text": "failed" }]));
    assert_eq!(result["tool_use_id"], body["messages"][1]["content"][1]["id"]);
    assert!(!result["tool_use_id"].as_str().unwrap().contains(':'));
}
