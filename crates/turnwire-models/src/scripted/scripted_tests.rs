use std::{sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt};
use serde_json::json;
use turnwire_contract::{
    CallId, Finish, Item, Model, ModelError, ModelPart, Prompt, ToolChoice, ToolSpec, Usage,
};

use super::{Scripted, Turn};

fn prompt(items: impl IntoIterator<Item = Item>) -> Prompt {
    let mut multiply = ToolSpec::new("multiply", "Multiplies two numbers.");
    multiply.parameters = json!({
        "type": "object",
        "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
    });
    Prompt {
        model: "scripted".to_owned(),
        instructions: None,
        items: items.into_iter().map(Arc::new).collect(),
        tools: vec![Arc::new(multiply)],
        tool_choice: ToolChoice::Auto,
        parallel_tool_calls: true,
        generation: turnwire_contract::Generation::default(),
        trace: None,
    }
}

async fn ask(model: &Scripted, prompt: Prompt) -> Vec<Result<ModelPart, ModelError>> {
    model.stream(prompt).await.unwrap().collect().await
}

fn said(text: &str) -> ModelPart {
    ModelPart::Text(text.to_owned())
}

/// Returns all text, calls and the end on one line.
async fn demo(items: impl IntoIterator<Item = Item>) -> String {
    told(ask(&Scripted::demo(), prompt(items)).await)
}

fn told(parts: Vec<Result<ModelPart, ModelError>>) -> String {
    let words = parts.into_iter().map(|part| match part.unwrap() {
        ModelPart::Text(text) | ModelPart::CallArguments { text, .. } => text,
        ModelPart::CallStarted { name, .. } => format!("[{name}]"),
        ModelPart::Finished(finish) => format!(" ({finish:?})"),
        _ => String::new(),
    });
    words.collect()
}

#[tokio::test]
async fn turns_are_played_in_order_and_then_refused() {
    let model = Scripted::new([
        Turn::new().text("Let me see. ").call("multiply", json!({ "a": 5 })),
        Turn::new().text_in(["It is ", "20."]),
    ]);
    let copy = model.clone();
    let first = ask(&model, prompt([Item::user("5 times 4")])).await;
    assert_eq!(
        first,
        [
            Ok(said("Let me see. ")),
            Ok(ModelPart::CallStarted { key: 0, id: None, name: "multiply".to_owned() }),
            Ok(ModelPart::CallArguments { key: 0, text: r#"{"a":5}"#.to_owned() }),
            Ok(ModelPart::Usage(Usage { input_tokens: 3, output_tokens: 4, ..Usage::default() })),
            Ok(ModelPart::Finished(Finish::CalledTools)),
        ]
    );
    let second = ask(&copy, prompt([])).await;
    assert_eq!(second[..2], [Ok(said("It is ")), Ok(said("20."))]);
    assert_eq!(second.last(), Some(&Ok(ModelPart::Finished(Finish::Answered))));
    let Err(error) = model.stream(prompt([])).await else { panic!("there is a third turn") };
    assert_eq!(error, ModelError::Rejected { message: "the script has no more turns".to_owned() });
    assert_eq!(model.prompts().len(), 3);
    assert_eq!(model.prompts()[0].items[0].as_ref(), &Item::user("5 times 4"));
}

#[tokio::test]
async fn a_script_can_go_on() {
    let turns = || [Turn::new().text("a"), Turn::new().text("b")];
    let mut heard = Vec::new();
    for model in [Scripted::new(turns()).looping(), Scripted::new(turns()).repeat_last()] {
        for _ in 0..4 {
            heard.push(told(ask(&model, prompt([])).await));
        }
    }
    let heard: Vec<_> = heard.iter().map(|told| &told[..1]).collect();
    assert_eq!(heard, ["a", "b", "a", "b", "a", "b", "b", "b"]);
    for model in [Scripted::new([]).looping(), Scripted::new([]).repeat_last()] {
        assert!(model.stream(prompt([])).await.is_err());
    }
}

#[tokio::test]
async fn a_turn_can_end_in_many_ways() {
    let error = ModelError::Unavailable { message: "busy".to_owned(), retry_after: None };
    let model = Scripted::new([
        Turn::new().text("a").breaks("cable"),
        Turn::new().text("a").ends_silently(),
        Turn::new().text("a").length_cut(),
        Turn::new().call_raw("multiply", ["{\"a\"", ":"]).content_filter(),
        Turn::fails(error.clone()),
        Turn::new().part(ModelPart::Finished(Finish::Interrupted)),
    ]);
    let broken = ModelError::Broken { message: "cable".to_owned() };
    assert_eq!(ask(&model, prompt([])).await, [Ok(said("a")), Err(broken)]);
    assert_eq!(ask(&model, prompt([])).await, [Ok(said("a"))]);
    let finished = |finish| Some(Ok(ModelPart::Finished(finish)));
    assert_eq!(ask(&model, prompt([])).await.pop(), finished(Finish::Length));
    assert_eq!(ask(&model, prompt([])).await.pop(), finished(Finish::ContentFilter));
    assert_eq!(model.stream(prompt([])).await.err(), Some(error));
    assert_eq!(ask(&model, prompt([])).await, [Ok(ModelPart::Finished(Finish::Interrupted))]);
}

#[tokio::test]
async fn calls_of_one_turn_have_keys_of_their_own() {
    let usage = Usage { input_tokens: 1, ..Usage::default() };
    let model = Scripted::new([Turn::new()
        .part(ModelPart::CallStarted { key: 4, id: None, name: "add".to_owned() })
        .call_with_id("call_x", "multiply", json!({}))
        .usage(usage)]);
    let parts = ask(&model, prompt([])).await;
    let call = ModelPart::CallStarted {
        key: 5,
        id: Some("call_x".to_owned()),
        name: "multiply".to_owned(),
    };
    assert_eq!(parts[1], Ok(call));
    assert_eq!(
        parts[3..],
        [Ok(ModelPart::Usage(usage)), Ok(ModelPart::Finished(Finish::CalledTools))]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_others_run_and_forever_is_forever() {
    let turn = Turn::new().text("a").pause(Duration::from_secs(5)).text("b").wait_forever();
    let mut stream = Scripted::new([turn]).stream(prompt([])).await.unwrap();
    assert_eq!(stream.next().await, Some(Ok(said("a"))));
    assert_eq!(stream.next().now_or_never(), None);
    let begun = tokio::time::Instant::now();
    assert_eq!(stream.next().await, Some(Ok(said("b"))));
    assert_eq!(begun.elapsed().as_secs(), 5);
    assert!(tokio::time::timeout(Duration::from_hours(1), stream.next()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_pace_comes_before_each_part() {
    let model = Scripted::demo().paced(Duration::from_millis(10));
    let begun = tokio::time::Instant::now();
    let parts = ask(&model, prompt([Item::user("hi")])).await;
    assert_eq!(begun.elapsed().as_millis(), 10 * parts.len() as u128);
}

#[tokio::test]
async fn the_demo_multiplies() {
    for question in ["What is 5 times 4?", "multiply 5 and 4", "5x4", "5 * 4", "product of 5, 4."] {
        let told = demo([Item::user(question)]).await;
        assert_eq!(told, r#"I will multiply 5 and 4. [multiply]{"a":5,"b":4} (CalledTools)"#);
    }
    let told = demo([Item::user("-1.5 times 4")]).await;
    assert_eq!(told, r#"I will multiply -1.5 and 4. [multiply]{"a":-1.5,"b":4} (CalledTools)"#);
}

#[tokio::test]
async fn the_demo_streams_words_and_arguments_in_pieces() {
    let parts = ask(&Scripted::demo(), prompt([Item::user("5 times 4")])).await;
    let n_texts = parts.iter().filter(|part| matches!(part, Ok(ModelPart::Text(_)))).count();
    let is_argument = |part: &&Result<_, _>| matches!(part, Ok(ModelPart::CallArguments { .. }));
    assert_eq!((n_texts, parts.iter().filter(is_argument).count()), (6, 3));
}

#[tokio::test]
async fn the_demo_reads_its_results() {
    let call = |name: &str| Item::call("call_1", name, r#"{"a":5,"b":4}"#);
    let result = |output: &str, failed| Item::CallResult {
        call_id: CallId::new("call_1"),
        output: output.to_owned(),
        images: Vec::new(),
        failed,
        custom: false,
    };
    let answer = demo([call("multiply"), result("20", false)]).await;
    assert_eq!(answer, "5 times 4 is 20. (Answered)");
    let answer = demo([call("search"), result("3 notes", false)]).await;
    assert_eq!(answer, "The tool `search` answered: 3 notes (Answered)");
    let answer = demo([call("multiply"), result("timed out", true)]).await;
    assert_eq!(answer, "The tool `multiply` did not work: timed out (Answered)");
    assert_eq!(demo([result("x", false)]).await, "The tool answered: x (Answered)");
}

#[tokio::test]
async fn the_demo_uses_a_tool_that_is_named() {
    let mut asked = prompt([Item::user(r#"Use get-sum {"a": 5, "b": 4}, please."#)]);
    asked.tools = vec![Arc::new(ToolSpec::new("get-sum", "Adds."))];
    let answer = told(ask(&Scripted::demo(), asked.clone()).await);
    assert_eq!(answer, "I will use get-sum. [get-sum]{\"a\":5,\"b\":4} (CalledTools)");
    asked.items = vec![Arc::new(Item::user("What is get-summary?"))];
    assert!(told(ask(&Scripted::demo(), asked).await).starts_with("You said"));
}

#[tokio::test]
async fn the_demo_says_what_it_is() {
    let answer = demo([Item::user("Who won in 1998, and 2002?")]).await;
    assert!(answer.starts_with("You said: “Who won in 1998, and 2002?”. I am only a scripted"));
    assert!(demo([]).await.starts_with("I am only a scripted"));
    let mut without_tools = prompt([Item::user("5 times 4")]);
    without_tools.tools.clear();
    let answer = told(ask(&Scripted::demo(), without_tools).await);
    assert!(answer.ends_with("(Answered)"), "{answer}");
}

/// The demo plays the story of three tools, and says what came of them.
#[tokio::test]
async fn the_demo_plays_its_story() {
    let question = || Item::user("Check the release and clean the old branch");
    let names = ["web_search", "deploy_check", "delete_branch"];
    let mut asked = prompt([question()]);
    asked.tools.extend(names.map(|name| Arc::new(ToolSpec::new(name, "Plays."))));
    let told_by = async |asked: &Prompt| told(ask(&Scripted::demo(), asked.clone()).await);
    let begin = told_by(&asked).await;
    let calls = "[web_search]{\"query\":\"turnwire 0.4 regressions\"}\
                 [deploy_check]{\"ref\":\"v0.4\"}\
                 [delete_branch]{\"name\":\"old/rel-3\",\"force\":true} (CalledTools)";
    assert!(begin.ends_with(calls), "{begin}");

    let result = |name: &str, output: &str, failed| Item::CallResult {
        call_id: CallId::new(name),
        output: output.to_owned(),
        images: Vec::new(),
        failed,
        custom: false,
    };
    asked.items.extend(names.map(|name| Arc::new(Item::call(name, name, "{}"))));
    let results = [
        result("web_search", "[1] A page", false),
        result("deploy_check", "Error: 2 failed", true),
        result("delete_branch", "Error: a person said no", true),
    ];
    asked.items.extend(results.map(Arc::new));
    let end = told_by(&asked).await;
    for line in [
        "- Two people report that a stream stops after a restart [1] [2].",
        "- **The release is not ready.** 2 failed",
        "- The old branch is still there: a person said no",
    ] {
        assert!(end.contains(line), "{end}");
    }
    // Without its tools there is no story.
    let plain = demo([question()]).await;
    assert!(plain.starts_with("You said"), "{plain}");
}
