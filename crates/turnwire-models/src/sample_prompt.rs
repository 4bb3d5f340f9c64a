//! A prompt with all kinds of items, for the request tests.

use std::sync::Arc;

use serde_json::json;
use turnwire_contract::{
    CallId, Content, Generation, Image, Item, Prompt, Role, ToolChoice, ToolSpec,
};

/// A conversation with images, reasoning, two parallel calls and their results.
pub(crate) fn sample_prompt(encrypted_content: &str) -> Prompt {
    let call = |id: &str, name: &str, arguments: &str| Item::call(id, name, arguments);
    let result = |id: &str, output: &str, images: Vec<Image>, failed| Item::CallResult {
        call_id: CallId::new(id),
        output: output.to_owned(),
        images,
        failed,
        custom: false,
    };
    let picture = Image { media_type: "image/png".to_owned(), base64: "iVBO".to_owned() };
    let items = [
        Item::Message {
            role: Role::User,
            content: vec![
                Content::text("What is this?"),
                Content::image("https://example.com/a.png"),
                Content::image("data:image/gif;base64,R0lG"),
                Content::File {
                    name: "a.pdf".to_owned(),
                    url: "data:application/pdf;base64,JVBE".to_owned(),
                },
            ],
        },
        Item::Reasoning {
            text: "Hm.".to_owned(),
            encrypted_content: Some(encrypted_content.to_owned()),
        },
        Item::Reasoning { text: "Unsealed.".to_owned(), encrypted_content: None },
        Item::assistant("I will look."),
        call("call_1", "multiply", r#"{"a":5,"b":4}"#),
        call("call_2", "draw", "{}"),
        result("call_1", "20", Vec::new(), false),
        result("call_2", "no ink", vec![picture], true),
        Item::assistant("Twenty."),
        Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] },
        Item::user("Thanks."),
    ];
    let mut multiply = ToolSpec::new("multiply", "Multiplies.");
    multiply.parameters = json!({ "type": "object", "properties": { "a": {}, "b": {} } });
    Prompt {
        model: "prompt-model".to_owned(),
        instructions: Some("Be kind.".to_owned()),
        items: items.into_iter().map(Arc::new).collect(),
        tools: vec![Arc::new(multiply)],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: false,
        generation: Generation {
            temperature: Some(0.5),
            top_p: Some(0.9),
            max_output_tokens: Some(100),
            reasoning_effort: Some("low".to_owned()),
            answer_schema: Some(json!({ "type": "object" })),
            ..Generation::default()
        },
        trace: None,
    }
}

/// A prompt with a single user message.
pub(crate) fn plain_prompt() -> Prompt {
    Prompt {
        instructions: None,
        items: vec![Arc::new(Item::user("Hi."))],
        tools: Vec::new(),
        tool_choice: ToolChoice::Required,
        parallel_tool_calls: true,
        generation: Generation::default(),
        ..sample_prompt("")
    }
}
