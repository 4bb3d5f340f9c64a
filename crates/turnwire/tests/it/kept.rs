//! Agents whose runs outlive their process.

use std::{collections::BTreeSet, future::pending, thread};

use tempfile::TempDir;
use tokio::sync::mpsc;
use turnwire::{Agent, Effect, Event, RunId, RunOutcome, RunStatus, StartError};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::{Store, StoreOptions};
use turnwire_tools::{FunctionTool, NoArguments};

use crate::helpers::{in_time, journal};

async fn store_in(folder: &TempDir) -> Store {
    let file = folder.path().join("runs.db");
    Store::open(StoreOptions::at(format!("sqlite://{}", file.display()))).await.expect("a store")
}

/// A tool that says that it was called, and then either returns or never does.
fn tool(called: mpsc::UnboundedSender<()>, ends: bool) -> FunctionTool<NoArguments> {
    let work = move |_: NoArguments| {
        let _ = called.send(());
        async move { if ends { "done" } else { pending().await } }
    };
    FunctionTool::new("work", "Works.", work).effect(Effect::Pure)
}

/// C17, C2, R21: a run whose process dies in the middle of a tool goes on with an agent on the same
/// store, and whoever has its id gets the whole of it.
#[tokio::test]
async fn a_run_goes_on_with_another_agent() {
    let folder = tempfile::tempdir().expect("a folder");
    let (called, mut calls) = mpsc::unbounded_channel();
    let run_id = thread::scope(|scope| {
        // A process of its own, as far as tasks can be one: they all die with their runtime.
        let first = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            let run_id = runtime.block_on(async {
                let model =
                    Scripted::new([Turn::new().text("Hm. ").call("work", serde_json::json!({}))]);
                let agent = Agent::builder().model(model).tool(tool(called.clone(), false));
                let agent = agent.store(store_in(&folder).await).build().expect("an agent");
                agent.start_worker().await.expect("a store");
                let run = agent.stream_chat("Work.").start().await.expect("a run");
                in_time(calls.recv()).await.expect("the tool is at work");
                run.id().clone()
            });
            runtime.shutdown_background();
            run_id
        });
        first.join().expect("it was begun")
    });
    let model = Scripted::new([Turn::new().text("All done.")]);
    let agent = Agent::builder().model(model).tool(tool(called, true));
    let agent = agent.store(store_in(&folder).await).build().expect("an agent");
    agent.start_worker().await.expect("a store");
    let run = agent.attach(&run_id).await.expect("it is kept");
    let reply = in_time(run.reply()).await.expect("it goes on");
    assert_eq!((reply.text.as_str(), &reply.outcome), ("All done.", &RunOutcome::Completed));
    assert_eq!(calls.try_recv(), Ok(()), "the tool was called again");
    let events = journal(&run).await;
    let numbers: Vec<u64> = events.iter().map(|recorded| recorded.seq.0).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "no gaps");
    // It says who took over, and when the worker before was last heard of.
    let is_takeover = |event: &Event| {
        matches!(event, Event::RunTakenOver { worker: Some(_), last_heard: Some(_), .. })
    };
    assert_eq!(events.iter().filter(|recorded| is_takeover(&recorded.event)).count(), 1);
    let kept = agent.kept_runs(10).await.expect("they can be listed");
    let kept: BTreeSet<_> = kept
        .iter()
        .map(|run| (&run.run_id, &run.status))
        .map(|(id, status)| {
            (
                id.to_string(),
                matches!(status, RunStatus::Finished { outcome: RunOutcome::Completed }),
            )
        })
        .collect();
    assert_eq!(kept, BTreeSet::from([(run_id.to_string(), true)]));
    agent.shut_down().await;
}

/// C14: a run is stopped by its id from an agent that does not work on it, and what is not there
/// cannot be attached to.
#[tokio::test]
async fn a_run_is_stopped_from_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store_in(&folder).await;
    let agent = async |turns: Vec<Turn>| {
        let agent = Agent::builder().model(Scripted::new(turns)).store(store.clone());
        let agent = agent.build().expect("an agent");
        agent.start_worker().await.expect("a store");
        agent
    };
    let one = agent(vec![Turn::new().text("Hm …").wait_forever()]).await;
    let run = one.stream_chat("Think.").start().await.expect("a run");
    let other = agent(Vec::new()).await;
    let attached = other.attach(run.id()).await.expect("it is kept");
    assert!(!other.cancel(run.id()), "it is not worked on there");
    assert!(attached.cancel_anywhere().await.expect("the store answers"));
    let outcome = in_time(attached.reply()).await.expect("it ends").outcome;
    assert_eq!(outcome, RunOutcome::Cancelled);
    assert_eq!(in_time(run.reply()).await.expect("it ends").outcome, RunOutcome::Cancelled);
    let nowhere = other.attach(&RunId::new("run_nowhere")).await.expect_err("there is none");
    assert!(matches!(nowhere, turnwire::Error::Start(StartError::Journal(_))), "{nowhere:?}");
    one.shut_down().await;
    other.shut_down().await;
}
