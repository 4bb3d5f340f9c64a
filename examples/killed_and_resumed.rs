//! A run whose process is killed while its tool works. Another process goes on with it.
//!
//!     cargo run -p turnwire --example killed_and_resumed
//!
//! Prints: /worker: run_\S+/
//! Prints: worker: multiplying 5 and 4
//! Prints: multiplying 5 and 4
//! Prints: 5 times 4 is 20.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use turnwire::{
    Agent, Effect, RunId,
    models::Scripted,
    serde_json::{Map, Value},
    stores::{Store, StoreOptions},
    tools::FunctionTool,
};

/// The same agent in both processes. In the worker, the tool never comes to an end.
async fn agent(file: &str, is_worker: bool) -> Result<Agent, Box<dyn Error>> {
    let multiply = move |numbers: Map<String, Value>| async move {
        let [a, b] = ["a", "b"].map(|name| numbers.get(name).and_then(Value::as_i64).unwrap_or(0));
        println!("multiplying {a} and {b}");
        if is_worker { std::future::pending().await } else { a * b }
    };
    // Only a tool that does no harm is called again; of others nobody knows what they have done.
    let multiply = FunctionTool::new("multiply", "Multiplies.", multiply).effect(Effect::Pure);
    let store = Store::open(StoreOptions::at(format!("sqlite://{file}"))).await?;
    let agent = Agent::builder().model(Scripted::demo()).tool(multiply).store(store).build()?;
    agent.start_worker().await?;
    Ok(agent)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    if let Some(file) = env::args().nth(1) {
        let run = agent(&file, true).await?.stream_chat("multiply 5 and 4").start().await?;
        println!("{}", run.id());
        return Ok(run.reply().await.map(drop)?);
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("runs.db").display().to_string();
    let mut worker = Command::new(env::current_exe()?).arg(&file).stdout(Stdio::piped()).spawn()?;
    let said = BufReader::new(worker.stdout.take().ok_or("no output")?).lines().take(2);
    let said: Vec<String> = said.collect::<Result<_, _>>()?;
    println!("worker: {}", said.join("\nworker: "));
    worker.kill()?;
    println!("the worker is killed");
    let run_id = said.iter().find(|line| line.starts_with("run_")).ok_or("no run")?;
    let run = agent(&file, false).await?.attach(&RunId::new(run_id.as_str())).await?;
    println!("{}", run.reply().await?.text);
    Ok(())
}
