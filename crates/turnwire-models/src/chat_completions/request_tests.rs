use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{
    CallId, Content, InputFormat, Item, Prompt, Role, ToolChoice, ToolKind, ToolSpec,
};

use super::{RequestBody, Target};
use crate::{
    sample_prompt::{plain_prompt, sample_prompt},
    seal::Origin,
    vendors::Vendor,
};

#[test]
fn everything_has_its_place() {
    let prompt = sample_prompt("anthropic.signature:x");
    let named = Target { model: Some("their-model"), ..Target::default() };
    let body = serde_json::to_value(RequestBody::new(&prompt, named)).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "their-model",
            "messages": [
                { "role": "system", "content": "Be kind." },
                { "role": "user", "content": [
                    { "type": "text", "text": "What is this?" },
                    { "type": "image_url", "image_url": { "url": "https://example.com/a.png" } },
                    { "type": "image_url", "image_url": { "url": "data:image/gif;base64,R0lG" } },
                    { "type": "file", "file": {
                      "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE" } },
                ] },
                { "role": "assistant", "content": "I will look.", "tool_calls": [
                    { "id": "call_1", "type": "function",
                      "function": { "name": "multiply", "arguments": "{\"a\":5,\"b\":4}" } },
                    { "id": "call_2", "type": "function",
                      "function": { "name": "draw", "arguments": "{}" } },
                ] },
                { "role": "tool", "tool_call_id": "call_1", "content": "20" },
                { "role": "tool", "tool_call_id": "call_2", "content": "no ink" },
                { "role": "user", "content": [
                    { "type": "text", "text": "Pictures returned by the tool:" },
                    { "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBO" } },
                ] },
                { "role": "assistant", "content": "Twenty." },
                { "role": "system", "content": "Be brief." },
                { "role": "user", "content": "Thanks." },
            ],
            "stream": true,
            "stream_options": { "include_usage": true },
            "tools": [{ "type": "function", "function": {
                "name": "multiply",
                "description": "Multiplies.",
                "parameters": { "type": "object", "properties": { "a": {}, "b": {} } },
            } }],
            "tool_choice": "auto",
            "parallel_tool_calls": false,
            "temperature": 0.5,
            "top_p": 0.9,
            "max_tokens": 100,
            "reasoning_effort": "low",
            "response_format": { "type": "json_schema", "json_schema": {
                "name": "answer", "strict": true, "schema": { "type": "object" },
            } },
        })
    );
}

#[test]
fn what_is_not_set_is_not_sent() {
    let prompt = plain_prompt();
    let body = serde_json::to_value(RequestBody::new(&prompt, Target::default())).unwrap();
    assert_eq!(
        body,
        json!({
            "model": "prompt-model",
            "messages": [{ "role": "user", "content": "Hi." }],
            "stream": true,
            "stream_options": { "include_usage": true },
        })
    );
}

#[test]
fn a_choice_of_tool_is_written_out() {
    let mut prompt = sample_prompt("");
    let mut choice_of = |choice| -> Value {
        prompt.tool_choice = choice;
        serde_json::to_value(RequestBody::new(&prompt, Target::default())).unwrap()["tool_choice"]
            .take()
    };
    assert_eq!(choice_of(ToolChoice::None), json!("none"));
    assert_eq!(choice_of(ToolChoice::Required), json!("required"));
    assert_eq!(
        choice_of(ToolChoice::Named { name: "multiply".to_owned() }),
        json!({ "type": "function", "function": { "name": "multiply" } })
    );
}

#[test]
fn custom_tools_go_as_they_are() {
    let custom = |name: &str, format| ToolSpec {
        kind: ToolKind::Custom,
        format,
        ..ToolSpec::new(name, "Edits.")
    };
    let grammar = InputFormat::Grammar { syntax: "regex".into(), definition: "a+".into() };
    let call = Item::Call {
        call_id: CallId::new("call_1"),
        name: "patch".to_owned(),
        arguments: "a \"b\"".to_owned(),
        kind: ToolKind::Custom,
        server: None,
    };
    let tools = [
        custom("patch", Some(grammar)),
        custom("say", Some(InputFormat::Text)),
        custom("note", None),
    ];
    let prompt = Prompt {
        items: vec![Arc::new(call)],
        tools: tools.map(Arc::new).to_vec(),
        tool_choice: ToolChoice::Named { name: "patch".to_owned() },
        ..plain_prompt()
    };
    let body = serde_json::to_value(RequestBody::new(&prompt, Target::default())).unwrap();
    let format = json!({ "type": "grammar", "grammar": { "syntax": "regex", "definition": "a+" } });
    assert_eq!(
        body["tools"],
        json!([
            { "type": "custom",
              "custom": { "name": "patch", "description": "Edits.", "format": format } },
            { "type": "custom",
              "custom": { "name": "say", "description": "Edits.", "format": { "type": "text" } } },
            { "type": "custom", "custom": { "name": "note", "description": "Edits." } },
        ])
    );
    assert_eq!(body["tool_choice"], json!({ "type": "custom", "custom": { "name": "patch" } }));
    assert_eq!(
        body["messages"][0]["tool_calls"],
        json!([{ "type": "custom", "id": "call_1",
                 "custom": { "name": "patch", "input": "a \"b\"" } }])
    );
}

/// A turn with reasoning and two calls, as `origin` gave it, and what followed.
fn loop_of(origin: &Origin, details: &str) -> Prompt {
    let reasoning = |text: &str, kind, content| Item::Reasoning {
        text: text.to_owned(),
        encrypted_content: Some(origin.seal(kind, content)),
    };
    let result = |id: &str| Item::CallResult {
        call_id: CallId::new(id),
        output: "20".to_owned(),
        images: Vec::new(),
        failed: false,
        custom: false,
    };
    let items = [
        Item::user("5 * 4?"),
        reasoning("Hm.", super::REASONING_CONTENT, ""),
        Item::call("call_1", "multiply", "{}"),
        Item::call("call_2", "multiply", "{}"),
        reasoning("", super::DETAILS, details),
        reasoning("", super::EXTRA_CONTENT, r#"{"1":{"google":{"thought_signature":"c2ln"}}}"#),
        result("call_1"),
        result("call_2"),
        Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] },
        Item::user("And?"),
    ];
    Prompt { items: items.into_iter().map(Arc::new).collect(), ..plain_prompt() }
}

fn messages_for(prompt: &Prompt, vendor: &str, origin: &Origin, with_reasoning: bool) -> Value {
    let rules = &Vendor::named(vendor).unwrap().chat;
    let target = Target { model: None, rules, origin, with_reasoning };
    serde_json::to_value(RequestBody::new(prompt, target)).unwrap()["messages"].take()
}

/// What a provider gave with its calls goes back with them, unchanged; and to nobody else.
#[test]
fn what_was_given_with_calls_goes_back_with_them() {
    let ours = Origin::new("https://ours.example", None, "m");
    let other = Origin::new("https://other.example", None, "m");
    let details = r#"[{"type":"reasoning.encrypted","data":"ZW5j","index":0}]"#;
    let prompt = loop_of(&ours, details);
    let answer = messages_for(&prompt, "openrouter", &ours, true)[1].take();
    assert_eq!(answer["reasoning_content"], "Hm.");
    assert_eq!(answer["reasoning_details"], serde_json::from_str::<Value>(details).unwrap());
    assert_eq!(answer["tool_calls"][0].get("extra_content"), None);
    assert_eq!(
        answer["tool_calls"][1]["extra_content"],
        json!({ "google": { "thought_signature": "c2ln" } })
    );
    for (origin, with_reasoning) in [(&other, true), (&ours, false)] {
        let answer = messages_for(&prompt, "openrouter", origin, with_reasoning)[1].take();
        let fields: Vec<&String> = answer.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["role", "content", "tool_calls"], "{origin:?}");
        assert_eq!(answer["tool_calls"][1].get("extra_content"), None);
    }
}

/// Each server gets the conversation as it takes it.
#[test]
fn a_conversation_is_written_by_the_rules_of_its_reader() {
    let nobody = &Origin::UNKNOWN;
    let prompt = loop_of(&Origin::new("https://ours.example", None, "m"), "[]");
    let deepseek = messages_for(&prompt, "deepseek", nobody, true);
    assert_eq!(deepseek[1]["reasoning_content"], "", "it is wanted even if there was none");
    let gemini = messages_for(&prompt, "gemini", nobody, true);
    assert_eq!(
        gemini[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"],
        "skip_thought_signature_validator"
    );
    assert_eq!(gemini[2]["name"], "multiply");
    let mistral = messages_for(&prompt, "mistral", nobody, true);
    let roles: Vec<&Value> = mistral.as_array().unwrap().iter().map(|it| &it["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant", "system", "user"]);
    let id = mistral[2]["tool_call_id"].as_str().unwrap();
    assert_eq!((id.len(), &mistral[1]["tool_calls"][0]["id"]), (9, &json!(id)));
    let local = messages_for(&prompt, "llama_cpp", nobody, true);
    let system = |message: &&Value| message["role"] == "system";
    assert_eq!(local.as_array().unwrap().iter().filter(system).count(), 0);
    assert_eq!(local[4], json!({ "role": "user", "content": "Be brief." }));
}

/// The length of an answer, the choice of a tool and the effort have other names and forms.
#[test]
fn options_are_written_by_the_rules_of_their_reader() {
    let mut prompt = sample_prompt("");
    prompt.tool_choice = ToolChoice::Named { name: "multiply".to_owned() };
    prompt.generation.seed = Some(7);
    let body = |vendor: &str, model| {
        let rules = &Vendor::named(vendor).unwrap().chat;
        let target = Target { model: Some(model), rules, ..Target::default() };
        serde_json::to_value(RequestBody::new(&prompt, target)).unwrap()
    };
    let openai = body("openai", "gpt-5.6");
    assert_eq!(openai["max_completion_tokens"], 100);
    assert_eq!(openai.get("max_tokens"), None);
    assert_eq!(openai["reasoning_effort"], "none");
    assert_eq!(body("openai", "o3")["reasoning_effort"], "low");
    assert_eq!(body("openai", "gpt-6").get("reasoning_effort"), None);
    let mistral = body("mistral", "m");
    assert_eq!((&mistral["random_seed"], mistral.get("stream_options")), (&json!(7), None));
    assert_eq!(body("deepseek", "m")["thinking"], json!({ "type": "disabled" }));
    let local = body("lm_studio", "m");
    assert_eq!(local["tool_choice"], "required");
    assert_eq!(local["tools"].as_array().unwrap().len(), 1);
}
