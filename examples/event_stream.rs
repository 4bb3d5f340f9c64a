//! Follows a run event by event: typed, numbered and complete, however late you come.
//!
//!     cargo run -p turnwire --example event_stream
//!
//! Prints: asked: What is 5 times 4?
//! Prints: the model calls multiply
//! Prints: with {"a":5,"b":4}
//! Prints: /it worked for \d+ ms/
//! Prints: answer: 5 times 4 is 20.
//! Prints: /event \d+ was the last/
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use turnwire::{Agent, Event, models::Scripted, tools::FunctionTool};

#[derive(Deserialize, JsonSchema)]
struct Multiply {
    a: f64,
    b: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::demo();
    let multiply = |numbers: Multiply| async move { numbers.a * numbers.b };
    let agent = Agent::builder()
        .model(model)
        .tool(FunctionTool::new("multiply", "Multiplies two numbers.", multiply))
        .build()?;

    let question = "What is 5 times 4?";
    let run = agent.stream_chat(question).start().await?;
    println!("asked: {question}");
    let mut events = run.events().await?;
    let mut last = 0;
    while let Some(recorded) = events.next().await {
        let recorded = recorded?;
        last = recorded.seq.0;
        match &recorded.event {
            Event::CallAnnounced { tool, .. } => println!("the model calls {}", tool.name),
            Event::ArgumentsFinished { arguments, .. } => println!("with {arguments}"),
            Event::ToolFinished { outcome, duration_ms, .. } => match outcome.problem() {
                None => println!("it worked for {duration_ms} ms"),
                Some(problem) => println!("it did not work: {problem}"),
            },
            _ => {}
        }
    }
    println!("answer: {}", run.reply().await?.text);
    println!("event {last} was the last");
    Ok(())
}
