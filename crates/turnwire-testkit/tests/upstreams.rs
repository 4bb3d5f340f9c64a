//! What the scripted model says directly is what arrives over the wire, and the search answers
//! as its query says.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use serde_json::{Value, json};
use turnwire_contract::{
    CallId, Generation, Image, Item, Model, ModelError, ModelPart, Prompt, ToolChoice, ToolSpec,
};
use turnwire_models::{ChatCompletions, ChatCompletionsOptions, Scripted};
use turnwire_testkit::upstreams::Upstreams;

fn prompt(items: impl IntoIterator<Item = Item>) -> Prompt {
    Prompt {
        model: "scripted".to_owned(),
        instructions: Some("Be brief.".to_owned()),
        items: items.into_iter().map(Arc::new).collect(),
        tools: vec![
            Arc::new(ToolSpec::new("add", "Adds.")),
            Arc::new(ToolSpec::new("add_all", "Adds more.")),
        ],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        generation: Generation::default(),
        trace: None,
    }
}

fn script(turns: Value) -> Item {
    Item::user(json!({ "turns": turns }).to_string())
}

fn result(call_id: &str, output: &str, images: Vec<Image>) -> Item {
    Item::CallResult {
        call_id: CallId::new(call_id),
        output: output.to_owned(),
        images,
        failed: false,
        custom: false,
    }
}

type StreamResult = Result<Vec<Result<ModelPart, ModelError>>, ModelError>;

async fn ask(model: &impl Model, prompt: Prompt) -> StreamResult {
    Ok(model.stream(prompt).await?.collect().await)
}

fn adapter(upstreams: &Upstreams) -> ChatCompletions {
    ChatCompletions::new(ChatCompletionsOptions::new(upstreams.model_url())).unwrap()
}

async fn both(prompt: Prompt) -> (StreamResult, StreamResult) {
    let upstreams = Upstreams::start(0).await.unwrap();
    let over_the_wire = ask(&adapter(&upstreams), prompt.clone()).await;
    (over_the_wire, ask(&Scripted::by_prompt(), prompt).await)
}

#[tokio::test]
async fn what_is_said_directly_arrives_over_the_wire() {
    let calls = json!([
        { "id": "call_a", "name": "add", "arguments": { "a": 1 } },
        { "id": "call_b", "name": "add_all", "raw": ["{\"of\"", ":[1]}"] },
        { "id": "call_c", "name": "unknown", "raw": "{\"broken" },
    ]);
    let turns = [
        json!({ "text": ["Grüße ", "an ", "🦀\n\n", " alle"] }),
        json!({ "reasoning": ["Hm, ", "so."], "text": "Yes.", "calls": calls }),
        json!({ "refusal": ["I ", "will not."] }),
        json!({ "text": "cut", "finish": "length" }),
        json!({ "text": "withheld", "finish": "content_filter" }),
        json!({ "text": ["a", "b"], "pause_ms": 5, "pace_ms": 2 }),
        json!({ "text": "" , "finish": "stop" }),
    ];
    for turn in turns {
        let (mut heard, mut said) = both(prompt([script(json!([turn]))])).await;
        // An empty text is nothing to say, and what goes back to a server comes from one.
        for side in [&mut heard, &mut said] {
            let parts = side.as_mut().unwrap();
            parts.retain(|part| *part != Ok(ModelPart::Text(String::new())));
            parts.retain(|part| !matches!(part, Ok(ModelPart::EncryptedContent(_))));
        }
        assert_eq!(heard, said, "{turn}");
    }
    let (heard, said) = both(prompt([Item::user("Good day")])).await;
    assert_eq!(heard, said);
}

/// The place in the script survives the way over the wire, with calls side by side and with
/// pictures, which travel as a message of the user.
#[tokio::test]
async fn the_place_in_the_script_survives_the_wire() {
    let turns = json!([{ "text": "0" }, { "text": "1, {results}" }, { "text": "2, {results}" }]);
    let picture = Image { media_type: "image/png".to_owned(), base64: "iVBO".to_owned() };
    let mut items = vec![
        Item::user("before"),
        Item::assistant("You said: before"),
        script(turns),
        Item::assistant("I look."),
        Item::call("a", "add", "{}"),
        Item::call("b", "add", "{}"),
        result("a", "3", Vec::new()),
        result("b", "4", vec![picture]),
    ];
    let first = Some(Ok(ModelPart::Text("1, 3, 4".to_owned())));
    let heard = both(prompt(items.clone())).await.0.unwrap();
    assert_eq!(heard.first().cloned(), first);
    items.extend([Item::call("c", "add", "{}"), result("c", "5", Vec::new())]);
    let (heard, said) = both(prompt(items)).await;
    assert_eq!(heard.unwrap()[0], Ok(ModelPart::Text("2, 5".to_owned())));
    assert_eq!(said.unwrap()[0], Ok(ModelPart::Text("2, 5".to_owned())));
}

/// A server gives every call an id, and no two calls of a conversation the same.
#[tokio::test]
async fn calls_without_an_id_get_one() {
    let turns = json!([{ "calls": [{ "name": "add" }, { "name": "add" }] }]);
    let ids = |heard: StreamResult| -> Vec<String> {
        let ids = heard.unwrap().into_iter().filter_map(|part| match part.unwrap() {
            ModelPart::CallStarted { id, .. } => Some(id.unwrap()),
            _ => None,
        });
        ids.collect()
    };
    let first = ids(both(prompt([script(turns.clone())])).await.0);
    let later = [script(turns.clone()), Item::assistant("Done."), script(turns)];
    let second = ids(both(prompt(later)).await.0);
    let mut all = [first, second].concat();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4, "{all:?}");
}

#[tokio::test]
async fn trouble_before_the_stream_is_a_status() {
    let refused = async |turn: Value| both(prompt([script(json!([turn]))])).await.0.unwrap_err();
    let error = refused(json!({ "error": "rejected" })).await;
    assert!(
        matches!(&error, ModelError::Rejected { message } if message.contains("HTTP 400")),
        "{error}"
    );
    let error = refused(json!({ "error": "unavailable" })).await;
    let ModelError::Unavailable { message, retry_after: None } = error else { panic!("{error}") };
    assert!(message.contains("HTTP 503"), "{message}");
    let error = refused(json!({ "error": "rate_limited", "retry_after_ms": 1500 })).await;
    let ModelError::RateLimited { message, retry_after } = error else { panic!("{error}") };
    assert!(message.contains("HTTP 429"), "{message}");
    assert_eq!(retry_after, Some(Duration::from_millis(1500)));
    // What the server says of it is not passed on.
    let error = refused(json!({ "tyme": 1 })).await;
    assert!(matches!(&error, ModelError::Rejected { .. }), "{error}");
}

#[tokio::test]
async fn trouble_in_the_stream_comes_after_what_was_said() {
    let cut = async |turn: Value| {
        let mut heard = both(prompt([script(json!([turn]))])).await.0.unwrap();
        let error = heard.pop().unwrap().unwrap_err();
        let said: Vec<ModelPart> = heard.into_iter().map(Result::unwrap).collect();
        (said, error)
    };
    let said = ["a", "b"].map(|text| ModelPart::Text(text.to_owned()));
    for _ in 0..20 {
        let turn = json!({ "text": ["a", "b", "c"], "error": "broken", "after": 2 });
        let (heard, error) = cut(turn).await;
        assert_eq!(heard, said);
        assert!(matches!(error, ModelError::Broken { .. }), "{error}");
    }
    let (heard, error) = cut(json!({ "text": "a", "error": "broken" })).await;
    assert!(heard.is_empty() && matches!(error, ModelError::Broken { .. }), "{error}");
    let turn = json!({ "text": ["a", "b", "c"], "error": "unavailable", "after": 2 });
    let (heard, error) = cut(turn).await;
    assert_eq!(heard, said);
    assert!(matches!(error, ModelError::Unavailable { .. }), "{error}");
    let (heard, error) = cut(json!({ "text": ["a", "b"], "finish": "silent" })).await;
    assert_eq!(heard, said);
    assert!(matches!(error, ModelError::Broken { .. }), "{error}");
}

#[tokio::test]
async fn an_answer_can_come_in_one_piece() {
    let upstreams = Upstreams::start(0).await.unwrap();
    let turn = json!({
        "reasoning": "Hm.", "text": ["Let ", "me."],
        "calls": [{ "id": "call_a", "name": "add", "raw": ["{\"a\"", ":1}"] }],
    });
    let question = json!({ "turns": [turn] }).to_string();
    let body = json!({ "model": "m", "messages": [{ "role": "user", "content": question }] });
    let client = reqwest::Client::new();
    let url = format!("{}/chat/completions", upstreams.model_url());
    let response = client.post(&url).json(&body).send().await.unwrap();
    let answer: Value = response.json().await.unwrap();
    assert_eq!(
        answer["choices"],
        json!([{
            "index": 0,
            "message": {
                "reasoning_content": "Hm.",
                "content": "Let me.",
                "role": "assistant",
                "tool_calls": [{
                    "id": "call_a",
                    "type": "function",
                    "function": { "name": "add", "arguments": "{\"a\":1}" },
                }],
            },
            "finish_reason": "tool_calls",
        }])
    );
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    let models: Value = client
        .get(format!("{}/models", upstreams.model_url()))
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(models["data"][0]["id"], "scripted");

    assert_eq!(upstreams.requests()[0], json!({ "path": "/v1/chat/completions", "body": body }));
    let kept = upstreams.addresses()["requests"].as_str().unwrap().to_owned();
    let list = async |query: &str| -> Value {
        client.get(format!("{kept}{query}")).send().await.unwrap().json().await.unwrap()
    };
    assert_eq!(list("").await["requests"].as_array().unwrap().len(), 1);
    assert_eq!(list("?containing=call_a").await["requests"].as_array().unwrap().len(), 1);
    assert_eq!(list("?containing=call_z").await["requests"], json!([]));
}

#[tokio::test]
async fn the_search_answers_as_its_query_says() {
    let upstreams = Upstreams::start(0).await.unwrap();
    let search = async |query: &str| {
        let url = format!("{}/search?{query}", upstreams.search_url());
        reqwest::get(url).await.unwrap()
    };
    let found: Value = search("q=rust+streams&format=json").await.json().await.unwrap();
    assert_eq!(found["query"], "rust streams");
    assert_eq!(found["results"].as_array().unwrap().len(), 3);
    assert_eq!(found["results"][1]["url"], "https://example.com/rust-streams/2");
    assert_eq!(found["results"][1]["title"], "Page 2 about rust streams");
    let found: Value = search("q=nothing+here&format=json").await.json().await.unwrap();
    assert_eq!(found["results"], json!([]));
    for (query, status) in [
        ("q=boom&format=json", 500),
        ("q=forbidden&format=json", 403),
        ("q=rust", 403),
        ("format=json", 400),
    ] {
        assert_eq!(search(query).await.status().as_u16(), status, "{query}");
    }
    let begun = std::time::Instant::now();
    assert!(search("q=slow&format=json").await.status().is_success());
    assert!(begun.elapsed() >= Duration::from_secs(2));
}
