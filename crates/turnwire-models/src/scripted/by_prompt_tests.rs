use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use turnwire_contract::{
    CallId, Content, Finish, Generation, Item, Model, ModelError, ModelPart, Prompt, Role,
    ToolChoice,
};

use super::super::Scripted;

fn prompt(items: impl IntoIterator<Item = Item>) -> Prompt {
    Prompt {
        model: "scripted".to_owned(),
        instructions: None,
        items: items.into_iter().map(Arc::new).collect(),
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        generation: Generation::default(),
        trace: None,
    }
}

fn script(turns: Value) -> Item {
    Item::user(json!({ "turns": turns }).to_string())
}

fn result(call_id: &str, output: &str) -> Item {
    Item::CallResult {
        call_id: CallId::new(call_id),
        output: output.to_owned(),
        images: Vec::new(),
        failed: false,
        custom: false,
    }
}

async fn ask(items: impl IntoIterator<Item = Item>) -> Vec<Result<ModelPart, ModelError>> {
    Scripted::by_prompt().stream(prompt(items)).await.unwrap().collect().await
}

async fn refused(items: impl IntoIterator<Item = Item>) -> ModelError {
    let Err(error) = Scripted::by_prompt().stream(prompt(items)).await else {
        panic!("it answered")
    };
    error
}

/// Returns the text of the answer.
async fn text(items: impl IntoIterator<Item = Item>) -> String {
    let parts = ask(items).await.into_iter().filter_map(|part| match part.unwrap() {
        ModelPart::Text(text) => Some(text),
        _ => None,
    });
    parts.collect()
}

fn said(text: &str) -> ModelPart {
    ModelPart::Text(text.to_owned())
}

#[tokio::test]
async fn a_turn_says_everything_in_its_order() {
    let turn = json!([{
        "calls": [
            { "name": "add", "arguments": { "a": 5, "b": 4 }, "id": "call_x" },
            { "name": "odd", "raw": ["{\"a\"", ": nonsense"] },
            { "name": "bare" },
        ],
        "refusal": "No.",
        "text": ["Let ", "me see."],
        "reasoning": "Hm.",
    }]);
    let mut parts = ask([script(turn)]).await;
    let finish = parts.pop();
    let usage = parts.pop();
    let call = |key, id: Option<&str>, name: &str| {
        Ok(ModelPart::CallStarted { key, id: id.map(str::to_owned), name: name.to_owned() })
    };
    let arguments = |key, text: &str| Ok(ModelPart::CallArguments { key, text: text.to_owned() });
    assert_eq!(
        parts,
        [
            Ok(ModelPart::Reasoning("Hm.".to_owned())),
            Ok(said("Let ")),
            Ok(said("me see.")),
            Ok(ModelPart::Refusal("No.".to_owned())),
            call(0, Some("call_x"), "add"),
            arguments(0, r#"{"a":5,"b":4}"#),
            call(1, None, "odd"),
            arguments(1, "{\"a\""),
            arguments(1, ": nonsense"),
            call(2, None, "bare"),
            arguments(2, "{}"),
        ]
    );
    assert!(matches!(usage, Some(Ok(ModelPart::Usage(_)))), "{usage:?}");
    assert_eq!(finish, Some(Ok(ModelPart::Finished(Finish::CalledTools))));
}

/// The calls of one answer and their results count as one answer.
#[tokio::test]
async fn the_place_in_the_script_is_the_number_of_answers_since_the_question() {
    let turns =
        json!([{ "text": "0" }, { "text": "1" }, { "text": "2 after {results}" }, { "text": "3" }]);
    let call = |id: &str| Item::call(id, "add", "{}");
    let first =
        [Item::assistant("I look."), call("a"), call("b"), result("a", "1"), result("b", "2")];
    let second = [call("c"), result("c", "3"), result("d", "4")];
    let system = Item::Message { role: Role::System, content: vec![Content::text("Be brief.")] };

    let mut items = vec![script(turns.clone())];
    assert_eq!(text(items.clone()).await, "0");
    items.extend(first.clone());
    assert_eq!(text(items.clone()).await, "1");
    items.extend(second);
    items.push(system);
    assert_eq!(text(items.clone()).await, "2 after 3, 4");
    items.push(Item::Reasoning { text: "Hm.".to_owned(), encrypted_content: None });
    items.push(Item::assistant("2 after 3, 4"));
    assert_eq!(text(items.clone()).await, "3");

    // Answers before the last user message do not count.
    items.push(script(turns));
    assert_eq!(text(items.clone()).await, "0");
    items.extend(first);
    assert_eq!(text(items).await, "1");
}

#[tokio::test]
async fn whatever_is_no_script_is_repeated() {
    let mut parts = ask([Item::user("Good day to you")]).await;
    parts.truncate(3);
    assert_eq!(parts, [Ok(said("You ")), Ok(said("said: ")), Ok(said("Good "))]);
    for plain in [r#"{"turn": []}"#, "[1]", "7", r#"{"turns": [] } and more"#] {
        assert_eq!(text([Item::user(plain)]).await, format!("You said: {plain}"));
    }
    let with_picture = Item::Message {
        role: Role::User,
        content: vec![Content::text("What is this?"), Content::image("data:image/png;base64,")],
    };
    assert_eq!(text([with_picture]).await, "You said: What is this?");
    assert_eq!(text([Item::assistant("Hello")]).await, "You said nothing.");
}

#[tokio::test]
async fn a_turn_ends_as_it_is_told() {
    let end =
        async |finish: &str| ask([script(json!([{ "text": "a", "finish": finish }]))]).await.pop();
    let finished = |finish| Some(Ok(ModelPart::Finished(finish)));
    assert_eq!(end("stop").await, finished(Finish::Answered));
    assert_eq!(end("length").await, finished(Finish::Length));
    assert_eq!(end("content_filter").await, finished(Finish::ContentFilter));
    assert_eq!(end("silent").await, Some(Ok(said("a"))));
}

#[tokio::test]
async fn trouble_comes_before_the_stream_or_after_some_of_it() {
    let message = "the script says so".to_owned();
    let broken = ModelError::Broken { message: message.clone() };
    let unavailable = ModelError::Unavailable { message: message.clone(), retry_after: None };

    let turn = |trouble: Value| {
        let mut turn = json!({ "text": ["a", "b", "c"] });
        turn.as_object_mut().unwrap().extend(trouble.as_object().unwrap().clone());
        script(json!([turn]))
    };
    assert_eq!(refused([turn(json!({ "error": "unavailable" }))]).await, unavailable);
    assert_eq!(
        refused([turn(json!({ "error": "unavailable", "retry_after_ms": 1500 }))]).await,
        ModelError::Unavailable {
            message: message.clone(),
            retry_after: Some(Duration::from_millis(1500))
        }
    );
    assert_eq!(
        refused([turn(json!({ "error": "rejected" }))]).await,
        ModelError::Rejected { message }
    );
    assert_eq!(ask([turn(json!({ "error": "broken" }))]).await, [Err(broken.clone())]);
    assert_eq!(
        ask([turn(json!({ "error": "broken", "after": 2 }))]).await,
        [Ok(said("a")), Ok(said("b")), Err(broken)]
    );
    assert_eq!(
        ask([turn(json!({ "error": "unavailable", "after": 0 }))]).await,
        [Err(unavailable)]
    );
}

#[tokio::test]
async fn a_script_that_makes_no_sense_is_refused() {
    let refusal = async |turns| refused([script(turns)]).await.to_string();
    let unknown = refusal(json!([{ "txt": "a" }])).await;
    assert!(unknown.contains("the script in the prompt is not valid"), "{unknown}");
    assert!(unknown.contains("txt"), "{unknown}");
    assert!(refusal(json!([{ "finish": "sometime" }])).await.contains("sometime"));
    assert!(refusal(json!([])).await.contains("has no turn 1"));
}

#[tokio::test(start_paused = true)]
async fn pauses_are_kept() {
    let begun = tokio::time::Instant::now();
    ask([script(json!([{ "text": ["a", "b"], "pause_ms": 500, "pace_ms": 20 }]))]).await;
    assert_eq!(begun.elapsed().as_millis(), 540);

    let never = prompt([script(json!([{ "text": "a", "finish": "never" }]))]);
    let mut stream = Scripted::by_prompt().stream(never).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said("a"))));
    assert!(tokio::time::timeout(Duration::from_hours(1), stream.next()).await.is_err());
}

/// Concurrent prompts to one model do not affect each other.
#[tokio::test]
async fn a_hundred_questions_at_once_get_a_hundred_answers() {
    let model = Scripted::by_prompt();
    let answers = stream::iter(0..100).map(|n| {
        let turns = json!([{ "calls": [{ "name": "add" }] }, { "text": format!("answer {n}") }]);
        let items = [script(turns), Item::call("a", "add", "{}"), result("a", "1")];
        let model = model.clone();
        async move { model.stream(prompt(items)).await.unwrap().next().await }
    });
    let answers: Vec<_> = answers.buffered(100).collect().await;
    let expected: Vec<_> = (0..100).map(|n| Some(Ok(said(&format!("answer {n}"))))).collect();
    assert_eq!(answers, expected);
    assert!(model.prompts().is_empty());
}
