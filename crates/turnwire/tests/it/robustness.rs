//! I9: whatever a callback does, the run is the run that nobody watched.
//!
//! Every story is told on a runtime with one thread and on one with several: a callback must
//! not hold up either.

use std::{
    future::{Future, pending},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, Runtime};
use turnwire::{Agent, CallOptions, MessageCallbacks, Run, RunOutcome, StreamChat};
use turnwire_models::{Scripted, Turn};

use crate::helpers::{Notes, fails, in_time, returns, scripted, story};

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("there is a runtime")
}

fn several_threads() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("there is a runtime")
}

/// Tells a story on both kinds of runtime.
fn on_each_runtime<F: Future>(story: impl Fn() -> F) {
    for runtime in [one_thread(), several_threads()] {
        runtime.block_on(in_time(story()));
        // A callback that never returns must not keep the program from going on.
        let begun = Instant::now();
        drop(runtime);
        assert!(begun.elapsed() < Duration::from_secs(2), "the runtime could not be ended");
    }
}

/// Says something, uses a tool that works and one that does not, and answers; every time.
fn agent() -> Agent {
    let turns = [
        Turn::new()
            .text_in(["Let ", "me ", "see. "])
            .call_raw("look", [r#"{"query""#, r#":"rust"}"#])
            .call("broken", json!({})),
        Turn::new().text_in(["All ", "done."]),
    ];
    Agent::builder()
        .model(Scripted::new(turns).looping())
        .tool(returns("look", "3 notes"))
        .tool(fails("broken", "no luck"))
        .parallel_tool_calls(false)
        .build()
        .expect("it can be made")
}

/// Plays the run with what `watch` attaches to it, and compares it with the one nobody watched.
async fn check(watch: impl FnOnce(StreamChat) -> StreamChat) -> Run {
    let agent = agent();
    // One after the other: the script is the agent's, not the run's.
    let alone = agent.stream_chat("Go.").start().await.expect("it starts");
    let alone = story(&alone).await;
    let run = watch(agent.stream_chat("Go.")).start().await.expect("it starts");
    let reply = run.reply().await.expect("it answers");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Completed, "All done."));
    assert_eq!(story(&run).await, alone);
    run
}

/// Attaches `act` to every callback there is. It is told which one was called.
fn everywhere(chat: StreamChat, act: impl Fn(&str) + Clone + Send + 'static) -> StreamChat {
    let act = move || act.clone();
    let (a, b, c, d) = (act(), act(), act(), act());
    let messages = MessageCallbacks::new()
        .on_assistant_message_added(move || a("on_assistant_message_added"))
        .on_assistant_content_updated(move |_, _| b("on_assistant_content_updated"))
        .on_tool_block_updated(move |_| c("on_tool_block_updated"))
        .on_messages_change(move |_| d("on_messages_change"));
    let (a, b) = (act(), act());
    let options = CallOptions::new()
        .on_content_update(move |_| a("on_content_update"))
        .on_tool_update(move |_| b("on_tool_update"));
    let (a, b, c, d) = (act(), act(), act(), act());
    chat.on_token(move |_| a("on_token"))
        .on_tool_start(move |_| b("on_tool_start"))
        .on_tool_end(move |_, _| c("on_tool_end"))
        .on_event(move |_, _| {
            let act = d.clone();
            async move { act("on_event") }
        })
        .messages(messages)
        .options(options)
}

#[test]
fn callbacks_that_panic_every_time_are_all_called_and_change_nothing() {
    on_each_runtime(|| async {
        let called = Notes::<String>::new();
        let book = called.clone();
        check(|chat| {
            everywhere(chat, move |name| {
                book.write(name);
                panic!("{name} does not feel well");
            })
        })
        .await;
        let mut called = called.take();
        called.sort_unstable();
        called.dedup();
        let all = [
            "on_assistant_content_updated",
            "on_assistant_message_added",
            "on_content_update",
            "on_event",
            "on_messages_change",
            "on_token",
            "on_tool_block_updated",
            "on_tool_end",
            "on_tool_start",
            "on_tool_update",
        ];
        assert_eq!(called, all);
    });
}

/// The part of an `on_event` that is not async may panic just as well.
#[test]
fn an_on_event_that_panics_before_its_future_changes_nothing() {
    on_each_runtime(|| async {
        check(|chat| {
            chat.on_event(|event_type, _| {
                assert!(event_type.is_empty(), "no future for {event_type}");
                async {}
            })
        })
        .await;
    });
}

#[test]
fn callbacks_that_err_every_time_change_nothing() {
    on_each_runtime(|| async {
        let no = |_: &str| Err("no");
        let messages = MessageCallbacks::new()
            .on_assistant_message_added(|| Err("no"))
            .on_assistant_content_updated(|_, _| Err("no"))
            .on_tool_block_updated(|_| Err("no"))
            .on_messages_change(|_| Err("no"));
        let options = CallOptions::new().on_content_update(no).on_tool_update(|_| Err("no"));
        check(|chat| {
            chat.on_token(no)
                .on_tool_start(no)
                .on_tool_end(|_, _| Err("no"))
                .on_event(|_, _| async { Err("no") })
                .messages(messages)
                .options(options)
        })
        .await;
    });
}

#[test]
fn slow_callbacks_are_waited_for_and_hear_everything() {
    on_each_runtime(|| async {
        let called = Notes::<String>::new();
        let book = called.clone();
        let run = check(|chat| {
            chat.on_token(move |token| {
                thread::sleep(Duration::from_millis(20));
                book.write(token);
            })
            .on_tool_start(|_| ())
            .on_tool_end(|_, _| ())
        })
        .await;
        assert_eq!(called.take().concat(), "Let me see. All done.");
        drop(run);
    });
}

/// The run is over long before a callback that takes its time, and does not wait for it.
#[test]
fn a_slow_callback_does_not_slow_the_run() {
    on_each_runtime(|| async {
        let (go_on, wait) = mpsc::channel::<()>();
        let agent = agent();
        let chat = agent.stream_chat("Go.").on_token(move |_| wait.recv());
        let run = chat.start().await.expect("it starts");
        // Nothing was let through yet: whoever follows the journal sees the end all the same.
        assert_eq!(story(&run).await.len(), story_of_nobody(&agent).await);
        for _ in 0..20 {
            let _ = go_on.send(());
        }
        run.reply().await.expect("it answers");
    });
}

async fn story_of_nobody(agent: &Agent) -> usize {
    let run = agent.stream_chat("Go.").start().await.expect("it starts");
    story(&run).await.len()
}

fn never_returns() {
    loop {
        thread::park();
    }
}

/// With paused time, what would take the reply's whole patience takes none.
#[tokio::test(start_paused = true)]
async fn the_reply_does_not_wait_for_ever_for_a_callback_that_never_returns() {
    check(|chat| chat.on_tool_start(|_| never_returns())).await;
    check(|chat| chat.on_token(|_| never_returns())).await;
    check(|chat| chat.on_event(|_, _| pending::<()>())).await;
    let messages = MessageCallbacks::new().on_messages_change(|_| never_returns());
    check(|chat| chat.messages(messages)).await;
}

/// The same in real time, once: the run itself loses a quarter of a second, the reply five.
#[test]
fn a_callback_that_never_returns_costs_a_bounded_time_and_the_program_can_end() {
    let runtime = several_threads();
    runtime.block_on(in_time(async {
        let agent = agent();
        let chat = agent.stream_chat("Go.").on_tool_start(|_| never_returns());
        let run = chat.start().await.expect("it starts");
        let begun = Instant::now();
        story(&run).await;
        assert!(begun.elapsed() < Duration::from_secs(4), "the run took {:?}", begun.elapsed());
        let reply = run.reply().await.expect("it answers");
        assert_eq!(reply.text, "All done.");
        assert!(begun.elapsed() < Duration::from_secs(15), "the reply took {:?}", begun.elapsed());
    }));
    let begun = Instant::now();
    drop(runtime);
    assert!(begun.elapsed() < Duration::from_secs(2), "the runtime could not be ended");
}

/// One callback that never returns does not keep the next run from having its own.
#[tokio::test(start_paused = true)]
async fn a_stuck_callback_leaves_other_runs_alone() {
    let (other, agent) = (agent(), agent());
    let stuck = other.stream_chat("Go.").on_token(|_| never_returns()).start().await;
    let stuck = stuck.expect("it starts");
    let (sender, mut tokens) = tokio::sync::mpsc::unbounded_channel();
    let chat = agent.stream_chat("Go.").on_token(move |token| sender.send(token.to_owned()));
    let run = chat.start().await.expect("it starts");
    let mut heard = String::new();
    while let Some(token) = tokens.recv().await {
        heard.push_str(&token);
        if heard.ends_with("All done.") {
            break;
        }
    }
    run.reply().await.expect("it answers");
    stuck.reply().await.expect("it answers");
}

/// A callback may ask an agent something itself, and wait for the answer.
#[test]
fn a_callback_may_start_a_run_of_its_own() {
    on_each_runtime(|| async {
        let (runtime, other) = (Handle::current(), agent());
        let answers = Notes::<String>::new();
        let book = answers.clone();
        check(|chat| {
            chat.on_tool_end(move |_, _| -> Result<(), turnwire::Error> {
                let tokens = Notes::<String>::new();
                let inner = tokens.clone();
                let chat = other.stream_chat("Me too.").on_token(move |token| inner.write(token));
                let reply = runtime.block_on(async { chat.await })?;
                assert!(tokens.take().concat().ends_with(&reply.text));
                book.write(reply.text);
                Ok(())
            })
        })
        .await;
        assert_eq!(answers.take(), ["All done.", "All done."]);
    });
}

#[test]
fn an_async_callback_may_start_a_run_of_its_own() {
    on_each_runtime(|| async {
        let other = agent();
        let answers = Notes::<String>::new();
        let book = answers.clone();
        check(|chat| {
            chat.on_event(move |event_type, _| {
                let (other, book) = (other.clone(), book.clone());
                async move {
                    let reply = other.stream_chat("Me too.").on_token(|_| ()).await?;
                    book.write(format!("{event_type}: {}", reply.text));
                    Ok::<(), turnwire::Error>(())
                }
            })
        })
        .await;
        assert_eq!(answers.take().len(), 5);
    });
}

/// A plain callback has a runtime around it, so that it can hand work on.
#[test]
fn a_callback_may_spawn_a_task() {
    on_each_runtime(|| async {
        let (sender, mut spawned) = tokio::sync::mpsc::unbounded_channel();
        check(|chat| {
            chat.on_tool_start(move |name| {
                let (sender, name) = (sender.clone(), name.to_owned());
                Handle::current().spawn(async move { sender.send(name) });
            })
        })
        .await;
        // Tasks of several threads come in any order.
        let mut names = [spawned.recv().await, spawned.recv().await];
        names.sort();
        assert_eq!(names.each_ref().map(Option::as_deref), [Some("broken"), Some("look")]);
    });
}

#[test]
fn a_callback_may_cancel_its_own_run() {
    on_each_runtime(|| async {
        let (sender, runs) = mpsc::channel::<Run>();
        let agent = scripted([Turn::new().text("Well, ").wait_forever()]).build();
        let chat = agent.expect("it can be made").stream_chat("Go.").on_token(move |_| {
            let run = runs.recv().map_err(|error| error.to_string())?;
            run.cancel();
            Ok::<(), String>(())
        });
        let run = chat.start().await.expect("it starts");
        sender.send(run.clone()).expect("the callback waits for it");
        let reply = run.reply().await.expect("a cancelled run has a reply");
        assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Cancelled, "Well, "));
    });
}

/// Many runs at once, each with callbacks of its own: nobody hears what another one says.
#[test]
fn runs_side_by_side_do_not_mix_their_callbacks() {
    on_each_runtime(|| async {
        let runs = (0..20).map(|n| async move {
            let (tokens, events) = (Notes::<String>::new(), Notes::<(&'static str, Value)>::new());
            let (token_book, event_book) = (tokens.clone(), events.clone());
            let words = ["I am ".to_owned(), format!("number {n}.")];
            let agent = scripted([Turn::new().text_in(words.clone())]).build();
            let chat = agent.expect("it can be made").stream_chat("Go.");
            let chat = chat.on_token(move |token| token_book.write(token));
            let chat = chat.on_event(move |name, data| {
                event_book.write((name, data));
                async {}
            });
            chat.await.expect("it answers");
            assert_eq!(tokens.take(), words);
            assert_eq!(events.take(), [("response", json!({ "content": words.concat() }))]);
        });
        futures::future::join_all(runs).await;
    });
}
