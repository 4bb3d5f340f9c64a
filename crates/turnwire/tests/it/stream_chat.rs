//! S0: `on_token`, `on_tool_start`, `on_tool_end`, and the bracketed text where one is missing.

use std::time::Instant;

use serde_json::json;
use turnwire::{Agent, RunOutcome};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeTool};
use turnwire_tools::{FunctionTool, NoArguments};

use crate::helpers::{Notes, fails, returns, scripted};

/// Says something, calls each of `tools`, says something else.
fn calls(tools: &[&str]) -> [Turn; 2] {
    let first = Turn::new().text_in(["Let me ", "see."]);
    [
        tools.iter().fold(first, |turn, name| turn.call(*name, json!({}))),
        Turn::new().text_in(["All ", "done."]),
    ]
}

/// Every token of a run, with neither of the other callbacks.
async fn tokens_alone(agent: Agent) -> Vec<String> {
    let tokens = Notes::new();
    let book = tokens.clone();
    agent.stream_chat("Go.").on_token(move |token| book.write(token)).await.expect("it answers");
    tokens.take()
}

/// Every call of every callback, as a program that gives all three sees it.
async fn all_three(agent: Agent) -> Vec<String> {
    let seen = Notes::new();
    let (token, start, end) = (seen.clone(), seen.clone(), seen.clone());
    let reply = agent
        .stream_chat("Go.")
        .on_token(move |text| token.write(format!("token {text:?}")))
        .on_tool_start(move |name| start.write(format!("start {name}")))
        .on_tool_end(move |name, result| end.write(format!("end {name}: {result}")))
        .await
        .expect("it answers");
    assert_eq!(reply.outcome, RunOutcome::Completed);
    assert_eq!(reply.text, "All done.");
    seen.take()
}

/// S0-1.
#[tokio::test]
async fn the_start_is_told_before_the_tool_does_anything() {
    let (told, worked) = (Notes::<(String, Instant)>::new(), Notes::<Instant>::new());
    let at_work = worked.clone();
    let look = FunctionTool::new("look", "Looks.", move |_: NoArguments| {
        at_work.write(Instant::now());
        async { "seen" }
    });
    let agent = scripted([
        Turn::new().call("look", json!({})).call("look", json!({})),
        Turn::new().call("look", json!({})),
        Turn::new().text("Done."),
    ]);
    let agent = agent.tool(look).build().expect("it can be made");
    let book = told.clone();
    let told_start = move |name: &str| book.write((name.to_owned(), Instant::now()));
    agent.stream_chat("Go.").on_tool_start(told_start).await.expect("it answers");

    let (told, worked) = (told.take(), worked.take());
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["look", "look", "look"]);
    assert_eq!(worked.len(), 3);
    for ((_, told), worked) in told.iter().zip(&worked) {
        assert!(told < worked, "told {:?} too late", told.duration_since(*worked));
    }
}

/// S0-2.
#[tokio::test]
async fn the_end_is_told_once_after_the_tool_with_a_summary() {
    let whole = "x".repeat(5_000);
    let summary = format!("{}...", "x".repeat(100));
    let seen = Notes::<String>::new();
    let (at_work, start, end) = (seen.clone(), seen.clone(), seen.clone());
    let long = FunctionTool::new("long", "Says a lot.", move |_: NoArguments| {
        let (at_work, whole) = (at_work.clone(), whole.clone());
        async move {
            at_work.write("works");
            whole
        }
    });
    let agent = scripted(calls(&["long"])).tool(long).build().expect("it can be made");
    agent
        .stream_chat("Go.")
        .on_tool_start(move |name| start.write(format!("start {name}")))
        .on_tool_end(move |name, result| end.write(format!("end {name} {result}")))
        .await
        .expect("it answers");
    assert_eq!(
        seen.take(),
        ["start long".to_owned(), "works".to_owned(), format!("end long {summary}")]
    );
}

/// S0-2.
#[tokio::test]
async fn a_tool_that_says_nothing_has_a_summary_too() {
    let agent = scripted(calls(&["silent"])).tool(returns("silent", "")).build();
    let seen = all_three(agent.expect("it can be made")).await;
    assert_eq!(seen[3], "end silent: (no output)");
}

/// S0-3.
#[tokio::test]
async fn without_callbacks_tools_are_bracketed_text() {
    let agent = scripted(calls(&["look"])).tool(returns("look", "three notes")).build();
    let text = tokens_alone(agent.expect("it can be made")).await.concat();
    assert!(text.contains("[Executing tool: look]"), "{text}");
    assert!(text.contains("[Tool result: three notes]"), "{text}");
}

/// S0-4, S0-10.
#[tokio::test]
async fn with_both_callbacks_tokens_are_the_models_words_and_nothing_else() {
    let agent = scripted(calls(&["look", "broken", "missing"]))
        .tool(returns("look", "three notes"))
        .tool(fails("broken", "no luck"))
        .parallel_tool_calls(false)
        .build();
    let seen = all_three(agent.expect("it can be made")).await;
    assert_eq!(
        seen,
        [
            r#"token "Let me ""#,
            r#"token "see.""#,
            "start look",
            "end look: three notes",
            "start broken",
            "end broken: Error: no luck",
            "start missing",
            "end missing: Error: Tool not found: missing. There are: broken, look.",
            r#"token "All ""#,
            r#"token "done.""#,
        ]
    );
}

/// S0-4.
#[tokio::test]
async fn a_model_that_says_nothing_before_its_tools_leaves_no_trace_in_the_tokens() {
    let silent_call = Turn::new().call("look", json!({}));
    let agent = scripted([silent_call, Turn::new().text_in(["All ", "done."])])
        .tool(returns("look", "three notes"))
        .build();
    let seen = all_three(agent.expect("it can be made")).await;
    let expected = ["start look", "end look: three notes", r#"token "All ""#, r#"token "done.""#];
    assert_eq!(seen, expected);
}

/// S0-5a.
#[tokio::test]
async fn only_the_start_is_given() {
    let agent = scripted(calls(&["look"])).tool(returns("look", "three notes")).build();
    let seen = Notes::<String>::new();
    let (token, start) = (seen.clone(), seen.clone());
    agent
        .expect("it can be made")
        .stream_chat("Go.")
        .on_token(move |text| token.write(text))
        .on_tool_start(move |name| start.write(format!("start {name}")))
        .await
        .expect("it answers");
    assert_eq!(
        seen.take(),
        [
            "Let me ",
            "see.",
            "\n",
            "start look",
            "[Tool result: three notes]\n",
            "\n",
            "All ",
            "done."
        ]
    );
}

/// S0-5b.
#[tokio::test]
async fn only_the_end_is_given() {
    let agent = scripted(calls(&["look"])).tool(returns("look", "three notes")).build();
    let seen = Notes::<String>::new();
    let (token, end) = (seen.clone(), seen.clone());
    agent
        .expect("it can be made")
        .stream_chat("Go.")
        .on_token(move |text| token.write(text))
        .on_tool_end(move |name, result| end.write(format!("end {name} {result}")))
        .await
        .expect("it answers");
    assert_eq!(
        seen.take(),
        [
            "Let me ",
            "see.",
            "\n",
            "[Executing tool: look]\n",
            "end look three notes",
            "\n",
            "All ",
            "done."
        ]
    );
}

/// S0-6, S0-7: each callback is optional, and may return nothing or a `Result`.
#[tokio::test]
async fn every_combination_of_callbacks_gives_the_same_answer() {
    for given in 0..8_u8 {
        let agent = scripted(calls(&["look"])).tool(returns("look", "three notes")).build();
        let agent = agent.expect("it can be made");
        let (tokens, ends) = (Notes::<String>::new(), Notes::<(String, String)>::new());
        let (token_book, end_book) = (tokens.clone(), ends.clone());
        let starts = Notes::<String>::new();
        let start_book = starts.clone();
        let mut chat = agent.stream_chat("Go.");
        if given & 1 != 0 {
            chat = chat.on_token(move |token: &str| token_book.write(token));
        }
        if given & 2 != 0 {
            chat = chat.on_tool_start(move |name: &str| -> Result<(), std::fmt::Error> {
                start_book.write(name);
                Ok(())
            });
        }
        if given & 4 != 0 {
            chat = chat.on_tool_end(move |name: &str, result: &str| {
                end_book.write((name.to_owned(), result.to_owned()));
            });
        }
        let reply = chat.await.expect("it answers");
        assert_eq!(reply.text, "All done.", "with callbacks {given:03b}");
        assert_eq!(tokens.len() > 0, given & 1 != 0);
        assert_eq!(starts.take(), ["look"][..usize::from(given & 2 != 0)]);
        let end = [("look".to_owned(), "three notes".to_owned())];
        assert_eq!(ends.take(), end[..usize::from(given & 4 != 0)]);
    }
}

/// S0-9.
#[tokio::test]
async fn text_alone_is_exact_to_the_byte() {
    let agent = scripted([Turn::new().text_in(["Hello, ", "wor", "ld."])]).build();
    let tokens = tokens_alone(agent.expect("it can be made")).await;
    assert_eq!(tokens, ["Hello, ", "wor", "ld."]);
}

/// S0-9.
#[tokio::test]
async fn one_tool_is_exact_to_the_byte() {
    let agent = scripted(calls(&["look"])).tool(returns("look", "three\nnotes")).build();
    assert_eq!(
        tokens_alone(agent.expect("it can be made")).await,
        [
            "Let me ",
            "see.",
            "\n",
            "[Executing tool: look]\n",
            "[Tool result: three\nnotes]\n",
            "\n",
            "All ",
            "done.",
        ]
    );
}

/// S0-9.
#[tokio::test]
async fn two_tools_are_exact_to_the_byte() {
    let agent = scripted(calls(&["look", "read"]))
        .tool(returns("look", "three notes"))
        .tool(returns("read", "milk"))
        .parallel_tool_calls(false)
        .build();
    assert_eq!(
        tokens_alone(agent.expect("it can be made")).await,
        [
            "Let me ",
            "see.",
            "\n",
            "[Executing tool: look]\n",
            "[Tool result: three notes]\n",
            "[Executing tool: read]\n",
            "[Tool result: milk]\n",
            "\n",
            "All ",
            "done.",
        ]
    );
}

/// S0-9: Characters, not bytes: these have two bytes each.
#[tokio::test]
async fn a_result_is_cut_after_100_characters() {
    let cases = [("ä".repeat(100), "ä".repeat(100)), ("ä".repeat(101), "ä".repeat(100) + "...")];
    for (result, shown) in cases {
        let agent = scripted(calls(&["long"])).tool(returns("long", &result)).build();
        let tokens = tokens_alone(agent.expect("it can be made")).await;
        let shown = format!("[Tool result: {shown}]\n");
        let expected =
            ["Let me ", "see.", "\n", "[Executing tool: long]\n", &shown, "\n", "All ", "done."];
        assert_eq!(tokens, expected);
    }
}

/// S0-9.
#[tokio::test]
async fn a_failing_tool_is_exact_to_the_byte() {
    let agent = scripted(calls(&["broken"])).tool(fails("broken", "no luck")).build();
    assert_eq!(
        tokens_alone(agent.expect("it can be made")).await,
        [
            "Let me ",
            "see.",
            "\n",
            "[Executing tool: broken]\n",
            "[Tool result: Error: no luck]\n",
            "\n",
            "All ",
            "done.",
        ]
    );
}

/// S0-10.
#[tokio::test]
async fn tokens_are_every_piece_of_every_answer_in_order() {
    let pieces = [["I ", "look. "], ["I read", " it. "], ["It says ", "“grüß dich”."]];
    let [first, second, third] = pieces.map(|pieces| Turn::new().text_in(pieces));
    let agent = scripted([first.call("look", json!({})), second.call("read", json!({})), third])
        .tool(returns("look", "three notes"))
        .tool(returns("read", "grüß dich"))
        .build()
        .expect("it can be made");
    let tokens = Notes::<String>::new();
    let book = tokens.clone();
    agent
        .stream_chat("Go.")
        .on_token(move |token| book.write(token))
        .on_tool_start(|_| ())
        .on_tool_end(|_, _| ())
        .await
        .expect("it answers");
    assert_eq!(tokens.take(), pieces.concat());
}

/// S0-11.
#[tokio::test]
async fn tools_one_after_the_other_start_and_end_in_call_order() {
    let agent = scripted(calls(&["first", "second", "third"]))
        .tool(returns("third", "3"))
        .tool(FakeTool::new(
            "first",
            Behaviour::Takes(std::time::Duration::from_millis(20), "1".to_owned()),
        ))
        .tool(returns("second", "2"))
        .parallel_tool_calls(false)
        .build();
    let seen = all_three(agent.expect("it can be made")).await;
    assert_eq!(
        seen[2..8],
        [
            "start first",
            "end first: 1",
            "start second",
            "end second: 2",
            "start third",
            "end third: 3"
        ]
    );
}

/// S0-12.
#[tokio::test]
async fn failing_unknown_and_crashing_tools_end_once_and_the_answer_still_comes() {
    let tools = ["broken", "missing", "crashing", "picky"];
    let picky = FakeTool::new("picky", Behaviour::Multiplies);
    let agent = scripted(calls(&tools))
        .tool(fails("broken", "no luck"))
        .tool(FakeTool::new("crashing", Behaviour::Panics))
        .tool(picky.clone())
        .parallel_tool_calls(false)
        .build();
    let seen = all_three(agent.expect("it can be made")).await;
    assert_eq!(
        seen[2..seen.len() - 2],
        [
            "start broken",
            "end broken: Error: no luck",
            "start missing",
            "end missing: Error: Tool not found: missing. There are: broken, crashing, picky.",
            "start crashing",
            "end crashing: Error: the tool `crashing` crashed",
            "start picky",
            "end picky: Error: invalid arguments: \"a\" is a required property; \"b\" is a required property",
        ]
    );
    assert_eq!(picky.n_calls(), 0);
}
