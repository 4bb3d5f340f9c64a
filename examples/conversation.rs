//! A conversation: each question knows the ones before, and it goes on by its id.
//!
//!     cargo run -p turnwire --example conversation
//!
//! Prints: You: My name is Ada.
//! Prints: Agent: Hello, Ada!
//! Prints: You: What is my name?
//! Prints: Agent: Your name is Ada.
//! Prints: The conversation has 4 items
//! Prints: is busy with run
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use turnwire::{
    Agent, Conversation,
    models::{Scripted, Turn},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A real model: ChatCompletions::new(ChatCompletionsOptions::new("http://localhost:11434/v1"))?
    let model = Scripted::new([
        Turn::new().text("Hello, Ada!"),
        Turn::new().text("Your name is Ada."),
        Turn::new().text("Let me think …").wait_forever(),
    ]);
    let agent = Agent::builder().model(model).instructions("Be friendly.").build()?;

    let conversation = agent.conversation();
    ask(&conversation, "My name is Ada.").await?;

    // Later, perhaps for another request: the id is all you need to keep.
    let id = conversation.id().clone();
    let conversation = agent.continue_conversation(id);
    ask(&conversation, "What is my name?").await?;
    println!("The conversation has {} items", conversation.history().await?.len());

    // One question at a time: the second is refused, and says what to do about it.
    let run = conversation.start("What is the meaning of life?").await?;
    if let Err(error) = conversation.stream_chat("Well?").await {
        println!("{error}");
    }
    run.cancel();
    run.reply().await?;
    Ok(())
}

async fn ask(conversation: &Conversation, question: &str) -> Result<(), Box<dyn Error>> {
    println!("You: {question}");
    let reply = conversation.stream_chat(question).await?;
    println!("Agent: {}", reply.text);
    Ok(())
}
