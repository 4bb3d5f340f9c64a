//! Stops one slow tool, then a whole run; both end properly and keep what they have.
//!
//!     cargo run -p turnwire --example cancel
//!
//! Prints: search: Error: cancelled
//! Prints: the run went on: I could not search, sorry.
//! Prints: the run was cancelled after: Once upon a time
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, future::pending};

use futures::StreamExt;
use serde_json::json;
use turnwire::models::{Scripted, Turn};
use turnwire::tools::{FunctionTool, NoArguments};
use turnwire::{Agent, Event, Run, RunOutcome, ToolContext};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::new([
        Turn::new().call("search", json!({})),
        Turn::new().text("I could not search, sorry."),
        Turn::new().text("Once upon a time").wait_forever(),
    ]);
    let search = |_: NoArguments, context: ToolContext| async move {
        context.phase("searching").await;
        pending::<String>().await
    };
    let search = FunctionTool::with_context("search", "Searches for ever.", search);
    let agent = Agent::builder().model(model).tool(search).build()?;

    let chat = agent.stream_chat("Search!").on_tool_end(|name, end| println!("{name}: {end}"));
    let run = chat.start().await?;
    follow(&run, |event| match event {
        Event::ToolPhase { call_id, .. } => run.cancel_call(call_id),
        _ => false,
    })
    .await?;
    println!("the run went on: {}", run.reply().await?.text);

    let run = agent.stream_chat("Tell me a story.").start().await?;
    follow(&run, |event| matches!(event, Event::TextAdded { .. })).await?;
    run.cancel();
    let reply = run.reply().await?;
    assert_eq!(reply.outcome, RunOutcome::Cancelled);
    println!("the run was cancelled after: {}", reply.text);
    Ok(())
}

/// Follows the run until `seen` has seen what it was looking for.
async fn follow(run: &Run, mut seen: impl FnMut(&Event) -> bool) -> Result<(), Box<dyn Error>> {
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        if seen(&recorded?.event) {
            break;
        }
    }
    Ok(())
}
