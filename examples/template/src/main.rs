//! An agent with a tool of its own, kept in a SQLite file: ask it something on the command line.
//!
//!     cargo run -- "multiply 5 and 4"

use std::{env, error::Error};

use schemars::JsonSchema;
use serde::Deserialize;
use turnwire::{
    Agent, Effect,
    models::Scripted,
    stores::{Store, StoreOptions},
    tools::FunctionTool,
};

/// The arguments of the tool. The model reads these sentences.
#[derive(Deserialize, JsonSchema)]
struct Factors {
    /// The first factor.
    a: i64,
    /// The second factor.
    b: i64,
}

async fn multiply(factors: Factors) -> i64 {
    factors.a * factors.b
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let question = env::args().nth(1).unwrap_or_else(|| "multiply 5 and 4".to_owned());
    // It may be called again after a crash, because it changes nothing.
    let multiply =
        FunctionTool::new("multiply", "Multiplies two numbers.", multiply).effect(Effect::Pure);
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::demo();
    let store = Store::open(StoreOptions::at("sqlite://agent.db")).await?;
    let agent = Agent::builder().model(model).tool(multiply).store(store.clone()).build()?;
    // Runs that a killed process has left are continued.
    agent.start_worker().await?;

    let reply = agent
        .stream_chat(question.as_str())
        .on_tool_start(|tool| eprintln!("→ {tool}"))
        .on_tool_end(|tool, result| eprintln!("← {tool}: {result}"))
        .on_token(|token| print!("{token}"))
        .await?;
    println!();
    eprintln!("{} runs are kept", agent.kept_runs(100).await?.len());
    assert!(!reply.text.is_empty(), "the model has answered");
    store.close().await;
    Ok(())
}
