//! A conversation that outlives its program: kept in an SQLite file, and read again.
//!
//!     cargo run -p turnwire --example kept_in_sqlite
//!
//! Prints: Hello, Ada!
//! Prints: (the program ends, and is started again)
//! Prints: Your name is Ada.
//! Prints: 4 items are kept, of 2 runs
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use turnwire::{
    Agent, ConversationId,
    models::{Scripted, Turn},
    stores::{Store, StoreOptions},
};

/// What a program does when it starts: it opens the file, and makes its agent.
async fn start(file: &str, answer: &str) -> Result<(Store, Agent), Box<dyn Error>> {
    let store = Store::open(StoreOptions::at(format!("sqlite://{file}"))).await?;
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::new([Turn::new().text(answer)]);
    let agent = Agent::builder().model(model).store(store.clone()).build()?;
    agent.start_worker().await?;
    Ok((store, agent))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("chats.db").display().to_string();

    let (store, agent) = start(&file, "Hello, Ada!").await?;
    let conversation = agent.conversation();
    println!("{}", conversation.stream_chat("My name is Ada.").await?.text);
    let id = conversation.id().to_string();
    agent.shut_down().await;
    store.close().await;

    println!("(the program ends, and is started again)");
    let (store, agent) = start(&file, "Your name is Ada.").await?;
    let conversation = agent.continue_conversation(ConversationId::new(id));
    println!("{}", conversation.stream_chat("What is my name?").await?.text);
    let (items, runs) = (conversation.history().await?, agent.kept_runs(10).await?);
    println!("{} items are kept, of {} runs", items.len(), runs.len());
    agent.shut_down().await;
    store.close().await;
    Ok(())
}
