//! A tool of your own that tells how far it is, and stops when it is told to.
//!
//!     cargo run -p turnwire --example own_tool_with_progress
//!
//! Prints: 1 of 3: reading poems/spring.txt
//! Prints: 3 of 3: reading poems/autumn.txt
//! Prints: There are 42 words in your poems.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use turnwire::models::{Scripted, Turn};
use turnwire::tools::FunctionTool;
use turnwire::{Agent, Event, ToolContext, ToolError};

#[derive(Deserialize, JsonSchema)]
struct CountWords {
    /// The folder to look in. The model reads this sentence.
    folder: String,
}

async fn count_words(wanted: CountWords, context: ToolContext) -> Result<String, ToolError> {
    for (n_read, file) in (1..).zip(["spring.txt", "summer.txt", "autumn.txt"]) {
        if context.is_cancelled() {
            return Err(ToolError::failed("stopped half-way"));
        }
        let note = format!("reading {}/{file}", wanted.folder);
        context.progress_with(f64::from(n_read), 3.0, note).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok("42 words in 3 files".to_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::new([
        Turn::new().call("count_words", serde_json::json!({ "folder": "poems" })),
        Turn::new().text("There are 42 words in your poems."),
    ]);
    let tool = FunctionTool::with_context("count_words", "Counts words.", count_words);
    let agent = Agent::builder().model(model).tool(tool).build()?;

    let run = agent.stream_chat("How much did I write?").start().await?;
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        match &recorded?.event {
            Event::ToolStarted { .. } => println!("counting …"),
            Event::ToolProgressed { progress, message, .. } => {
                println!("{progress} of 3: {}", message.as_deref().unwrap_or("…"));
            }
            _ => {}
        }
    }
    println!("{}", run.reply().await?.text);
    Ok(())
}
