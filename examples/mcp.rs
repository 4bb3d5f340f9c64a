//! Tools of an MCP server, which is started with the agent and ended with it.
//!
//!     cargo run -p turnwire --example mcp
//!
//! Prints: clock.time: looking at the clock
//! Prints: clock.time: half past nine
//! Prints: It is half past nine.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use futures::StreamExt;
use turnwire::{
    Agent, Event, ToolOutcome,
    models::{Scripted, Turn},
    tools::{McpServerOptions, McpServers},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A server at an address: McpServerOptions::http("https://docs.example.com/mcp")
    let clock = McpServerOptions::stdio("python3", ["examples/clock_server.py"]);
    let servers = Arc::new(McpServers::new(BTreeMap::from([("clock".to_owned(), clock)])));

    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::new([
        Turn::new().call("time", serde_json::json!({})),
        Turn::new().text("It is half past nine."),
    ]);
    let agent = Agent::builder().model(model).tool_servers(servers.clone()).build()?;

    let run = agent.stream_chat("What time is it?").start().await?;
    let mut events = run.events().await?;
    while let Some(recorded) = events.next().await {
        match &recorded?.event {
            Event::ToolProgressed { message: Some(message), .. } => {
                println!("clock.time: {message}");
            }
            Event::ToolFinished { outcome: ToolOutcome::Succeeded { output }, .. } => {
                println!("clock.time: {}", output.text);
            }
            Event::ToolFinished { outcome, .. } => println!("clock.time: {outcome:?}"),
            _ => {}
        }
    }
    println!("{}", run.reply().await?.text);
    agent.shut_down().await;
    servers.shut_down().await;
    Ok(())
}
