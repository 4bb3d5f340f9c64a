//! S3: the async `on_event(event_type, data)`.

use serde_json::{Value, json};
use turnwire::{Agent, Error, StreamChat};
use turnwire_contract::ModelError;
use turnwire_models::{Scripted, Turn};
use turnwire_tools::{FunctionTool, NoArguments};

use crate::helpers::{Notes, fails, returns, scripted, story, wait_for};

type CallbackCall = Vec<(&'static str, Value)>;

/// Writes down what `on_event` is called with.
fn noting(chat: StreamChat, book: &Notes<(&'static str, Value)>) -> StreamChat {
    let book = book.clone();
    chat.on_event(move |event_type, data| {
        let book = book.clone();
        async move {
            // A real one would send it somewhere, and wait.
            tokio::task::yield_now().await;
            book.write((event_type, data));
        }
    })
}

async fn told(agent: &Agent) -> CallbackCall {
    let book = Notes::new();
    let _ = noting(agent.stream_chat("Go."), &book).await;
    book.take()
}

fn search_and_answer() -> [Turn; 2] {
    [
        Turn::new().text("Let me look.").call("search_vault", json!({ "query": "rust" })),
        Turn::new().text_in(["Three ", "notes."]),
    ]
}

/// S3-1, S3-3, S3-4, S3-5, S3-T1: the whole sequence of a mocked turn.
#[tokio::test]
async fn a_turn_with_a_tool_is_three_events() {
    let agent = scripted(search_and_answer()).tool(returns("search_vault", "3 notes")).build();
    assert_eq!(
        told(&agent.expect("it can be made")).await,
        [
            ("tool_call", json!({ "tool": "search_vault", "args": { "query": "rust" } })),
            ("tool_result", json!({ "tool": "search_vault", "success": true })),
            ("response", json!({ "content": "Three notes." })),
        ]
    );
}

/// S3-1.
#[tokio::test]
async fn each_event_is_awaited_before_the_next() {
    let agent = scripted(search_and_answer()).tool(returns("search_vault", "3 notes")).build();
    let seen = Notes::<String>::new();
    let book = seen.clone();
    let reply = agent
        .expect("it can be made")
        .stream_chat("Go.")
        .on_event(move |event_type, _| {
            let book = book.clone();
            async move {
                book.write(format!("{event_type} begins"));
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                book.write(format!("{event_type} ends"));
                Ok::<(), std::fmt::Error>(())
            }
        })
        .await;
    assert_eq!(reply.expect("it answers").text, "Three notes.");
    let expected = ["tool_call", "tool_result", "response"]
        .map(|name| [format!("{name} begins"), format!("{name} ends")])
        .concat();
    assert_eq!(seen.take(), expected);
}

/// S3-2.
#[tokio::test]
async fn without_the_callback_the_run_is_the_same() {
    let agent = Agent::builder()
        .model(Scripted::new(search_and_answer()).looping())
        .tool(returns("search_vault", "3 notes"))
        .build()
        .expect("it can be made");
    let alone = agent.stream_chat("Go.").start().await.expect("it starts");
    let alone_reply = alone.reply().await.expect("it answers");
    let watched = noting(agent.stream_chat("Go."), &Notes::new()).start().await.expect("it starts");
    let watched_reply = watched.reply().await.expect("it answers");
    assert_eq!(watched_reply.text, alone_reply.text);
    assert_eq!(watched_reply.usage, alone_reply.usage);
    assert_eq!(watched_reply.outcome, alone_reply.outcome);
    assert_eq!(story(&watched).await, story(&alone).await);
}

/// S3-3.
#[tokio::test]
async fn tool_call_comes_before_the_tool_works_and_has_its_arguments_as_an_object() {
    let seen = Notes::<String>::new();
    let (at_work, book) = (seen.clone(), seen.clone());
    let look = FunctionTool::new("look", "Looks.", move |_: NoArguments| {
        at_work.write("works");
        async { "seen" }
    });
    let turns = [Turn::new().call_raw("look", [""; 0]), Turn::new().text("Done.")];
    let agent = scripted(turns).tool(look).build().expect("it can be made");
    let told = move |event_type: &'static str, data: Value| {
        let book = book.clone();
        async move { book.write(format!("{event_type} {data}")) }
    };
    agent.stream_chat("Go.").on_event(told).await.expect("it answers");
    assert_eq!(
        seen.take(),
        [
            r#"tool_call {"tool":"look","args":{}}"#,
            "works",
            r#"tool_result {"tool":"look","success":true}"#,
            r#"response {"content":"Done."}"#,
        ]
    );
}

/// S3-4.
#[tokio::test]
async fn a_tool_that_failed_says_so() {
    let agent = scripted(search_and_answer()).tool(fails("search_vault", "locked")).build();
    let told = told(&agent.expect("it can be made")).await;
    assert_eq!(told[1], ("tool_result", json!({ "tool": "search_vault", "success": false })));
    assert_eq!(told[2].0, "response");
}

/// S3-5.
#[tokio::test]
async fn the_response_comes_once_and_whole() {
    let agent = scripted([Turn::new().text_in(["One. ", "Two. ", "Three."])]).build();
    let told = told(&agent.expect("it can be made")).await;
    assert_eq!(told, [("response", json!({ "content": "One. Two. Three." }))]);
}

/// S3-6.
#[tokio::test]
async fn a_failed_turn_is_one_error_and_no_response() {
    let refused = ModelError::Rejected { message: "the key is not valid".to_owned() };
    let agent = scripted([Turn::fails(refused)]).build().expect("it can be made");
    let book = Notes::new();
    let reply = noting(agent.stream_chat("Go."), &book).await;
    assert!(matches!(reply, Err(Error::Failed { .. })), "{reply:?}");
    let message = "the model's provider rejected the request; see the log";
    assert_eq!(book.take(), [("error", json!({ "error": message }))]);
}

/// S3-6.
#[tokio::test]
async fn a_cancelled_turn_is_an_error_too() {
    let agent = scripted([Turn::new().text("Well…").wait_forever()]).build();
    let agent = agent.expect("it can be made");
    let book = Notes::new();
    let run = noting(agent.stream_chat("Go."), &book).start().await.expect("it starts");
    wait_for(&run, |event| matches!(event, turnwire::Event::TextAdded { .. }).then_some(())).await;
    run.cancel();
    run.reply().await.expect("a cancelled run has a reply");
    assert_eq!(book.take(), [("error", json!({ "error": "cancelled" }))]);
}
