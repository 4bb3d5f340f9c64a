//! Shows an answer and its tools as they happen, with three callbacks.
//!
//!     cargo run -p turnwire --example callbacks
//!
//! Prints: I will multiply 5 and 4.
//! Prints: [multiply …]
//! Prints: [multiply: 20]
//! Prints: 5 times 4 is 20.
//! Prints: 1 tool was used
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    error::Error,
    io::{Write, stdout},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwire::{Agent, models::Scripted, tools::FunctionTool};

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

    // Callbacks run on a thread of their own, so they share what they keep.
    let n_tools = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&n_tools);
    agent
        .stream_chat("What is 5 times 4?")
        .on_token(|token| {
            print!("{token}");
            stdout().flush()
        })
        .on_tool_start(|name| println!("\n[{name} …]"))
        .on_tool_end(move |name, result| {
            counter.fetch_add(1, Ordering::Relaxed);
            println!("[{name}: {result}]");
        })
        .await?;
    println!("\n{} tool was used", n_tools.load(Ordering::Relaxed));
    Ok(())
}
