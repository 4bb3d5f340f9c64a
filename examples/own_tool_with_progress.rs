//! A tool of your own that tells how far it is, and stops when it is told to.
//!
//!     cargo run -p turnwire --example own_tool_with_progress
//!
//! Prints: count_words "poems": running
//! Prints: 1/3 reading spring.txt
//! Prints: 3/3 reading autumn.txt
//! Prints: end: 42 words in 3 files
//! Prints: There are 42 words in your poems.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{error::Error, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwire::{Agent, MessageCallbacks, ToolContext, ToolError};
use turnwire_models::{Scripted, Turn};
use turnwire_tools::FunctionTool;

#[derive(Deserialize, JsonSchema)]
struct CountWords {
    /// The folder to look in. The model reads this sentence.
    folder: String,
}

async fn count_words(_wanted: CountWords, context: ToolContext) -> Result<String, ToolError> {
    let files = ["spring.txt", "summer.txt", "autumn.txt"];
    for (n_before, file) in (1_u8..).zip(files) {
        if context.is_cancelled() {
            return Err(ToolError::failed("stopped half-way"));
        }
        context.progress_with(n_before.into(), 3.0, format!("reading {file}")).await;
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
    let tool = FunctionTool::with_context("count_words", "Counts words.", count_words)
        .label(|wanted| format!("{:?}", wanted.folder));
    let agent = Agent::builder().model(model).tool(tool).build()?;

    let messages = MessageCallbacks::new().on_messages_change(|messages| {
        for block in messages.iter().flat_map(|message| &message.tool_blocks) {
            let (name, params) = (&block.tool.name, &block.compact_params);
            let news = block.short_result.as_ref().unwrap_or(&block.note);
            println!("{name} {params}: {}: {news}", block.stage.as_str());
        }
    });
    let reply = agent.stream_chat("How much did I write?").messages(messages).await?;
    println!("{}", reply.text);
    Ok(())
}
