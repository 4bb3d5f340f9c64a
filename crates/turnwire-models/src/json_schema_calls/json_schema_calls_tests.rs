//! Prompts to and answers of a model without tool support.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};
use turnwire_contract::{
    CallId, Content, Finish, Generation, Image, Item, Model, ModelError, ModelPart, Prompt, Role,
    ToolChoice, ToolSpec,
};
use turnwire_testkit::{Reply, StubServer};

use super::{JsonSchemaCalls, stream::AnswerReader};
use crate::{ChatCompletions, ChatCompletionsOptions, Scripted, Turn};

fn prompt() -> Prompt {
    let mut weather = ToolSpec::new("weather", "Tells the weather.");
    weather.parameters =
        json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    Prompt {
        model: "tiny".to_owned(),
        instructions: Some("Be kind.".to_owned()),
        items: vec![Arc::new(Item::user("How is the weather in Paris?"))],
        tools: vec![Arc::new(weather)],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        generation: Generation::default(),
        trace: None,
    }
}

/// Returns the prompt that the inner model receives.
async fn asked(prompt: Prompt) -> Prompt {
    let inner = Scripted::new([Turn::new().text("{}")]);
    let model = JsonSchemaCalls::new(Arc::new(inner.clone()));
    model.stream(prompt).await.unwrap().collect::<Vec<_>>().await;
    inner.prompts().remove(0)
}

/// Returns the parts for an answer in these pieces.
fn read(pieces: &[&str], finish: Finish) -> Vec<ModelPart> {
    let mut reader = AnswerReader::default();
    let texts = pieces.iter().map(|piece| ModelPart::Text((*piece).to_owned()));
    let parts = texts.chain([ModelPart::Finished(finish)]);
    parts.flat_map(|part| reader.take(Ok(part))).map(Result::unwrap).collect()
}

fn text(text: &str) -> ModelPart {
    ModelPart::Text(text.to_owned())
}

fn started(name: &str) -> ModelPart {
    ModelPart::CallStarted { key: u32::MAX, id: None, name: name.to_owned() }
}

fn arguments(text: &str) -> ModelPart {
    ModelPart::CallArguments { key: u32::MAX, text: text.to_owned() }
}

#[tokio::test]
async fn the_tools_are_described_and_the_answer_is_held_to_a_schema() {
    let asked = asked(prompt()).await;
    assert_eq!(asked.tools, []);
    let instructions = asked.instructions.unwrap();
    assert!(instructions.starts_with("Be kind.\n\nYou can use tools."), "{instructions}");
    assert!(instructions.contains("\n- weather: Tells the weather.\n"), "{instructions}");
    assert!(instructions.contains("\"city\""), "{instructions}");
    let object = |properties: Value, required: Value| {
        json!({
            "type": "object", "properties": properties, "required": required,
            "additionalProperties": false,
        })
    };
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let call =
        json!({ "tool": { "type": "string", "enum": ["weather"] }, "arguments": parameters });
    assert_eq!(
        asked.generation.answer_schema,
        Some(json!({ "anyOf": [
            object(json!({ "answer": { "type": "string" } }), json!(["answer"])),
            object(call, json!(["tool", "arguments"])),
        ] }))
    );
}

#[tokio::test]
async fn a_choice_is_kept_by_the_schema() {
    let ways = async |choice: ToolChoice| {
        let mut prompt = prompt();
        prompt.tools.push(Arc::new(ToolSpec::new("other", "")));
        prompt.tool_choice = choice;
        let schema = asked(prompt).await.generation.answer_schema;
        schema.map(|schema| schema["anyOf"].as_array().unwrap().len())
    };
    assert_eq!(ways(ToolChoice::Auto).await, Some(3));
    assert_eq!(ways(ToolChoice::Required).await, Some(2));
    assert_eq!(ways(ToolChoice::Named { name: "other".to_owned() }).await, Some(1));
    assert_eq!(ways(ToolChoice::None).await, None);
}

/// Without tools the prompt is unchanged, except for calls in the history.
#[tokio::test]
async fn without_tools_nothing_is_asked_for() {
    let plain = Prompt { tools: Vec::new(), ..prompt() };
    assert_eq!(asked(plain.clone()).await, plain);
}

/// I7: calls and their results stay in the conversation, as messages.
#[tokio::test]
async fn what_came_of_a_call_is_told_as_a_message() {
    let result = |id: &str, output: &str, failed| Item::CallResult {
        call_id: CallId::from(id),
        output: output.to_owned(),
        images: Vec::new(),
        failed,
        custom: false,
    };
    let image = Image { media_type: "image/png".to_owned(), base64: "iVBO".to_owned() };
    let mut with_picture = result("b", "see", false);
    if let Item::CallResult { images, .. } = &mut with_picture {
        images.push(image);
    }
    let items = [
        Item::user("Look."),
        Item::assistant("I will \"look\"."),
        Item::call("a", "weather", r#"{"city":"Paris"}"#),
        result("a", "no network", true),
        Item::call("b", "draw", "{}"),
        with_picture,
    ];
    let prompt = Prompt { items: items.into_iter().map(Arc::new).collect(), ..prompt() };
    let message = |role, text: &str| Item::Message { role, content: vec![Content::text(text)] };
    let items = asked(prompt).await.items;
    let items: Vec<Item> = items.iter().map(|item| item.as_ref().clone()).collect();
    assert_eq!(items[0], message(Role::User, "Look."));
    assert_eq!(items[1], message(Role::Assistant, r#"{"answer":"I will \"look\"."}"#));
    let call = r#"{"tool":"weather","arguments":{"city":"Paris"}}"#;
    assert_eq!(items[2], message(Role::Assistant, call));
    assert_eq!(items[3], message(Role::User, "The tool `weather` failed:\nno network"));
    let picture = Content::image("data:image/png;base64,iVBO");
    let now =
        "The tool `draw` returned:\nsee\n\nNow answer with {\"answer\": …}, or use another tool.";
    let content = vec![Content::text(now), picture];
    assert_eq!(items[5], Item::Message { role: Role::User, content });
    assert_eq!(items.len(), 6);
}

/// References in a schema are adjusted when its definitions move, and do not conflict with those of
/// other tools.
#[tokio::test]
async fn definitions_move_to_the_top() {
    let tool = |name: &str, kind: &str| {
        let mut tool = ToolSpec::new(name, "");
        tool.parameters = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": { "a": { "$ref": "#/$defs/Thing" } },
            "$defs": { "Thing": { "type": kind, "items": { "$ref": "#/$defs/Thing" } } },
        });
        Arc::new(tool)
    };
    let prompt = Prompt { tools: vec![tool("x", "string"), tool("y", "array")], ..prompt() };
    let schema = asked(prompt).await.generation.answer_schema.unwrap();
    let thing = |way: usize| &schema["anyOf"][way]["properties"]["arguments"];
    assert_eq!(thing(1)["properties"]["a"]["$ref"], "#/$defs/x.Thing");
    assert_eq!(thing(2)["properties"]["a"]["$ref"], "#/$defs/y.Thing");
    assert_eq!(thing(1).get("$defs"), None);
    assert_eq!(thing(1).get("$schema"), None);
    assert_eq!(schema["$defs"]["x.Thing"]["type"], "string");
    assert_eq!(schema["$defs"]["y.Thing"]["items"]["$ref"], "#/$defs/y.Thing");
}

/// The text of an answer is streamed.
#[test]
fn an_answer_streams() {
    let pieces = ["{\"ans", "wer\": \"It i", "s \\", "\"sunny\\\"", " \\ud83c", "\\udf1e.\"", "}"];
    let parts = read(&pieces, Finish::Answered);
    let expected = [text("It i"), text("s "), text("\"sunny\""), text(" "), text("🌞.")];
    let (last, words) = parts.split_last().unwrap();
    assert_eq!(words, expected);
    assert_eq!(*last, ModelPart::Finished(Finish::Answered));
}

/// C29: each byte of an answer is examined once, however small the pieces are.
#[test]
fn a_long_answer_in_small_pieces_is_read_in_linear_time() {
    let begin = Instant::now();
    let mut reader = AnswerReader::default();
    reader.take(Ok(text("{\"answer\":\"")));
    for _ in 0..250_000 {
        assert_eq!(reader.take(Ok(text("four"))), [Ok(text("four"))]);
    }
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn a_call_is_a_call() {
    let pieces = ["{\"tool\":\"wea", "ther\",", "\"arguments\":{\"ci", "ty\":\"Paris\"}}"];
    let expected = [
        started("weather"),
        arguments("{\"city\":\"Paris\"}"),
        ModelPart::Finished(Finish::CalledTools),
    ];
    assert_eq!(read(&pieces, Finish::Answered), expected);
    let bare = read(&["{\"tool\":\"now\"}"], Finish::Answered);
    assert_eq!(bare[..2], [started("now"), arguments("{}")]);
}

/// R18: incomplete arguments are shown, and the turn is reported as cut off.
#[test]
fn a_call_that_is_cut_stays_cut() {
    let pieces = ["{\"tool\":\"write\",\"arguments\": {\"text\":\"half a"];
    let expected =
        [started("write"), arguments("{\"text\":\"half a"), ModelPart::Finished(Finish::Length)];
    assert_eq!(read(&pieces, Finish::Length), expected);
}

/// A server may ignore the schema, and a model may wrap its JSON.
#[test]
fn what_does_not_fit_the_schema_is_shown_as_it_is() {
    let finished = ModelPart::Finished(Finish::Answered);
    assert_eq!(
        read(&["Hel", "lo."], Finish::Answered),
        [text("Hel"), text("lo."), finished.clone()]
    );
    let odd = "{\"city\":\"Paris\"}";
    assert_eq!(read(&[odd], Finish::Answered), [text(odd), finished.clone()]);
    let wrapped = ["``", "`json\n{\"answer\":", "\"Hi\"}\n```"];
    assert_eq!(read(&wrapped, Finish::Answered), [text("Hi"), finished.clone()]);
    assert_eq!(read(&[], Finish::Answered), std::slice::from_ref(&finished));
    let schema = "{\"answer\":{\"a\":1}}";
    assert_eq!(read(&[schema], Finish::Answered), [text("{\"a\":1}"), finished]);
}

#[test]
fn everything_else_passes_through() {
    let mut reader = AnswerReader::default();
    let error = ModelError::Broken { message: "gone".to_owned() };
    assert_eq!(reader.take(Err(error.clone())), [Err(error)]);
    let thought = ModelPart::Reasoning("Hm.".to_owned());
    assert_eq!(reader.take(Ok(thought.clone())), [Ok(thought)]);
}

proptest! {
    /// I11: the concatenated parts are the answer, however it is split.
    #[test]
    fn any_answer_comes_out_whole(answer in ".{0,40}", cuts in prop::collection::vec(1_usize..7, 1..30)) {
        let json = json!({ "answer": answer }).to_string();
        let mut pieces = Vec::new();
        let mut chars = json.chars().peekable();
        let mut cuts = cuts.into_iter().cycle();
        while chars.peek().is_some() {
            let n = cuts.next().unwrap_or(1);
            pieces.push(chars.by_ref().take(n).collect::<String>());
        }
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let mut said = String::new();
        for part in read(&pieces, Finish::Answered) {
            match part {
                ModelPart::Text(text) => said.push_str(&text),
                ModelPart::Finished(finish) => prop_assert_eq!(finish, Finish::Answered),
                other => prop_assert!(false, "{:?}", other),
            }
        }
        prop_assert_eq!(said, answer);
    }

    /// Any answer gives an end and no panic.
    #[test]
    fn any_text_has_an_end(pieces in prop::collection::vec("[{}\":,a`\\\\\u{e9} jsontl]{0,5}", 0..12)) {
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        let parts = read(&pieces, Finish::Answered);
        prop_assert!(matches!(parts.last(), Some(ModelPart::Finished(_))));
    }
}

/// On the wire to an OpenAI-compatible server, the schema is sent as `response_format`, and no
/// tools are sent.
#[tokio::test]
async fn over_the_wire_it_is_a_response_format() {
    let chunk = |text: &str| {
        let delta = json!({ "choices": [{ "index": 0, "delta": { "content": text } }] });
        format!("data: {delta}\n\n")
    };
    let end = json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] });
    let body = [
        chunk("{\"tool\":\"weather\","),
        chunk("\"arguments\":{\"city\":\"Paris\"}}"),
        format!("data: {end}\n\ndata: [DONE]\n\n"),
    ];
    let reply = Reply::new(200).body(body.concat(), "text/event-stream");
    let server = StubServer::answering(reply).await;
    let options = ChatCompletionsOptions::new(format!("{}/v1", server.uri()));
    let model = JsonSchemaCalls::new(Arc::new(ChatCompletions::new(options).unwrap()));
    let parts = model.stream(prompt()).await.unwrap();
    let parts =
        tokio::time::timeout(Duration::from_secs(30), parts.collect::<Vec<_>>()).await.unwrap();
    let parts: Vec<ModelPart> = parts.into_iter().map(Result::unwrap).collect();
    let expected = [
        started("weather"),
        arguments("{\"city\":\"Paris\"}"),
        ModelPart::Finished(Finish::CalledTools),
    ];
    assert_eq!(parts, expected);
    let asked = server.only_request();
    assert!(asked.is("POST", "/v1/chat/completions"), "{asked:?}");
    let asked = asked.json();
    assert_eq!(asked.get("tools"), None);
    assert_eq!(asked["response_format"]["type"], "json_schema");
    let ways = asked["response_format"]["json_schema"]["schema"]["anyOf"].as_array().unwrap();
    assert_eq!(ways.len(), 2);
    let system = asked["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("- weather: Tells the weather."), "{system}");
}
