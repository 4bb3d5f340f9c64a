//! S4: the message list that keeps itself up to date, and the low-level callbacks.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing_subscriber::{Layer, layer::Context, prelude::*};
use turnwire::{
    Agent, CallOptions, Conversation, Event, Item, Message, MessageCallbacks, MessageState, Role,
    Run, RunOutcome, Stage, ToolBlockUpdate,
};
use turnwire_engine::{MemoryJournal, MemoryRunStore};
use turnwire_models::{Scripted, Turn};
use turnwire_surfaces::{MessageFrame, Messages, Projection};
use turnwire_testkit::{Behaviour, FakeTool, surfaces};

use crate::helpers::{Gate, Notes, fails, in_time, journal, returns, scripted, story, wait_for};

/// One call of one callback.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum CallbackCall {
    Added,
    Content { chunk: String, accumulated: String },
    Tool(Update),
    Changed(Vec<Message>),
}

/// A [`ToolBlockUpdate`] to keep. It is taken apart by name: a new field must be looked at here.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Update {
    id: String,
    pub(crate) name: String,
    parameters: String,
    pub(crate) parameters_chunk: Option<String>,
    compact_params: Option<String>,
    result: Option<String>,
    success: Option<bool>,
    error: Option<String>,
    pub(crate) stage: Stage,
    short_result: Option<String>,
    images: Vec<String>,
}

impl From<&ToolBlockUpdate<'_>> for Update {
    fn from(update: &ToolBlockUpdate<'_>) -> Self {
        let ToolBlockUpdate {
            id,
            name,
            parameters,
            parameters_chunk,
            compact_params,
            result,
            success,
            error,
            stage,
            short_result,
            images,
            ..
        } = *update;
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            parameters: parameters.to_owned(),
            parameters_chunk: parameters_chunk.map(ToOwned::to_owned),
            compact_params: compact_params.map(ToOwned::to_owned),
            result: result.map(ToOwned::to_owned),
            success,
            error: error.map(ToOwned::to_owned),
            stage,
            short_result: short_result.map(ToOwned::to_owned),
            images: images.to_vec(),
        }
    }
}

/// All four callbacks, writing down what they are told.
fn noting(book: &Notes<CallbackCall>) -> MessageCallbacks {
    let (added, content, tool, changed) = (book.clone(), book.clone(), book.clone(), book.clone());
    MessageCallbacks::new()
        .on_assistant_message_added(move || added.write(CallbackCall::Added))
        .on_assistant_content_updated(move |chunk, accumulated| {
            let (chunk, accumulated) = (chunk.to_owned(), accumulated.to_owned());
            content.write(CallbackCall::Content { chunk, accumulated });
        })
        .on_tool_block_updated(move |update| tool.write(CallbackCall::Tool(update.into())))
        .on_messages_change(move |messages| changed.write(CallbackCall::Changed(messages.to_vec())))
}

/// Everything that was told of a run, with the run.
pub(crate) async fn watched(agent: &Agent) -> (Run, Vec<CallbackCall>) {
    let book = Notes::new();
    let run = agent.stream_chat("Go.").messages(noting(&book)).start().await.expect("it starts");
    let _ = in_time(run.reply()).await;
    (run, book.take())
}

pub(crate) fn contents(told: &[CallbackCall]) -> Vec<(&str, &str)> {
    let found = told.iter().filter_map(|told| match told {
        CallbackCall::Content { chunk, accumulated } => {
            Some((chunk.as_str(), accumulated.as_str()))
        }
        CallbackCall::Added | CallbackCall::Tool(_) | CallbackCall::Changed(_) => None,
    });
    found.collect()
}

pub(crate) fn updates(told: &[CallbackCall]) -> Vec<&Update> {
    let found = told.iter().filter_map(|told| match told {
        CallbackCall::Tool(update) => Some(update),
        CallbackCall::Added | CallbackCall::Content { .. } | CallbackCall::Changed(_) => None,
    });
    found.collect()
}

pub(crate) fn lists(told: &[CallbackCall]) -> Vec<&[Message]> {
    let found = told.iter().filter_map(|told| match told {
        CallbackCall::Changed(list) => Some(list.as_slice()),
        CallbackCall::Added | CallbackCall::Content { .. } | CallbackCall::Tool(_) => None,
    });
    found.collect()
}

/// The stages of the call `name`, in the order they were told.
pub(crate) fn stages(told: &[CallbackCall], name: &str) -> Vec<Stage> {
    updates(told).iter().filter(|update| update.name == name).map(|update| update.stage).collect()
}

/// S4-1.
#[tokio::test]
async fn each_chunk_comes_with_all_the_text_so_far() {
    let chunks = ["It ", "is ", "grüß", " dich.", "\n", "Ok."];
    let agent = scripted([Turn::new().text_in(chunks)]).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let so_far = (1..=chunks.len()).map(|n| chunks[..n].concat()).collect::<Vec<_>>();
    let expected: Vec<_> = chunks.into_iter().zip(so_far.iter().map(String::as_str)).collect();
    assert_eq!(contents(&told), expected);
}

/// S4-1: Each message starts from nothing: what is accumulated is one message, not the run.
#[tokio::test]
async fn every_message_accumulates_its_own_text() {
    let agent = scripted([
        Turn::new().text_in(["I ", "look. "]).call("look", json!({})),
        Turn::new().text_in(["I ", "saw."]),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    assert_eq!(
        contents(&told),
        [("I ", "I "), ("look. ", "I look. "), ("I ", "I "), ("saw.", "I saw.")]
    );
}

async fn restored(agent: &Agent, items: Vec<Item>) -> Conversation {
    let conversation = agent.conversation();
    conversation.restore(items).await.expect("it can be restored");
    conversation
}

/// S4-2.
#[tokio::test]
async fn loaded_messages_are_not_told() {
    let model = Scripted::new([Turn::new().text("Still blue.")]);
    let agent = Agent::builder().model(model.clone()).build().expect("it can be made");
    let loaded = vec![Item::user("What colour is the sky?"), Item::assistant("Blue.")];
    let conversation = restored(&agent, loaded.clone()).await;
    assert_eq!(conversation.history().await.expect("it has a history"), loaded);

    let book = Notes::new();
    let run = conversation.stream_chat("And now?").messages(noting(&book)).start().await;
    run.expect("it starts").reply().await.expect("it answers");
    let told = book.take();
    // The model was shown what was loaded; the callbacks were only told what it said now.
    assert_eq!(model.prompts()[0].items.len(), 3);
    assert_eq!(contents(&told), [("Still blue.", "Still blue.")]);
    assert_eq!(told.iter().filter(|told| **told == CallbackCall::Added).count(), 1);
    // Loaded messages are in every list, and complete.
    for list in lists(&told) {
        let loaded = list[..2].iter().map(|message| (message.content.as_str(), message.state));
        let complete = MessageState::Complete;
        let expected = [("What colour is the sky?", complete), ("Blue.", complete)];
        assert_eq!(loaded.collect::<Vec<_>>(), expected);
    }
    let last = lists(&told).last().map(|list| list.len());
    assert_eq!(last, Some(4));
}

/// S4-2: Nor is a tool that was used before: its block is in the list, and over.
#[tokio::test]
async fn loaded_calls_are_not_told() {
    let agent = scripted([
        Turn::new().call("look", json!({ "query": "rust" })),
        Turn::new().text("Three notes."),
        Turn::new().text("You are welcome."),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let conversation = agent.conversation();
    conversation.stream_chat("Go.").await.expect("it answers");
    let book = Notes::new();
    let chat = conversation.stream_chat("Thanks.").messages(noting(&book));
    chat.await.expect("it answers");
    let told = book.take();
    assert_eq!(updates(&told), Vec::<&Update>::new());
    let list = *lists(&told).last().expect("there is a list");
    let blocks: Vec<_> = list.iter().flat_map(|message| &message.tool_blocks).collect();
    assert_eq!(blocks.len(), 1);
    assert_eq!((blocks[0].stage, blocks[0].result.as_deref()), (Stage::End, Some("3 notes")));
}

/// S4-3: The text is borrowed from the list (R14), so whoever is told of a chunk finds it there.
#[tokio::test]
async fn the_list_has_the_text_before_its_chunk_is_told() {
    #[derive(Debug, PartialEq)]
    enum Seen {
        Content(usize, String),
        List(usize, String),
    }
    let book = Notes::<Seen>::new();
    let (content, list) = (book.clone(), book.clone());
    let callbacks = MessageCallbacks::new()
        .on_assistant_content_updated(move |_, accumulated| {
            content.write(Seen::Content(accumulated.as_ptr().addr(), accumulated.to_owned()));
        })
        .on_messages_change(move |messages| {
            if let Some(message) = messages.iter().find(|one| one.role == Role::Assistant) {
                list.write(Seen::List(message.content.as_ptr().addr(), message.content.clone()));
            }
        });
    let pause = Duration::from_millis(40);
    let turn = Turn::new().text("One ").pause(pause).text("two ").pause(pause).text("three.");
    let agent = scripted([turn]).build().expect("it can be made");
    agent.stream_chat("Go.").messages(callbacks).await.expect("it answers");

    let seen = book.take();
    let (mut latest, mut n_lists) = (None, 0);
    for seen in &seen {
        match seen {
            Seen::Content(place, text) => latest = Some((place, text)),
            Seen::List(place, text) => {
                if let Some(latest) = latest {
                    assert_eq!((place, text), latest, "the list is not what was told");
                    n_lists += 1;
                }
            }
        }
    }
    // At least those for the end of the message and of the run.
    assert!(n_lists >= 2, "{seen:?}");
}

/// Everything that anybody logs in this process, as `callback: problem`.
fn log() -> &'static Notes<String> {
    static LOG: OnceLock<Notes<String>> = OnceLock::new();
    LOG.get_or_init(|| {
        let book = Notes::new();
        let layer = CallbackLog(book.clone());
        tracing_subscriber::registry().with(layer).try_init().expect("nobody else has a log");
        book
    })
}

struct CallbackLog(Notes<String>);

impl<S: tracing::Subscriber> Layer<S> for CallbackLog {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        #[derive(Default)]
        struct Fields {
            callback: Option<String>,
            problem: String,
        }
        impl Visit for Fields {
            fn record_str(&mut self, field: &Field, value: &str) {
                match field.name() {
                    "callback" => self.callback = Some(value.to_owned()),
                    "problem" => value.clone_into(&mut self.problem),
                    _ => {}
                }
            }
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                if field.name() == "problem" {
                    self.problem = format!("{value:?}");
                }
            }
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some(callback) = fields.callback {
            self.0.write(format!("{callback}: {}", fields.problem));
        }
    }
}

/// What the log has about `problem`. Other tests write into the same log.
fn logged(problem: &str) -> Vec<String> {
    log().all().into_iter().filter(|line| line.contains(problem)).collect()
}

/// S4-4.
#[tokio::test]
async fn a_callback_that_panics_is_logged_once_and_told_on() {
    log();
    let chunks = Notes::<String>::new();
    let book = chunks.clone();
    let callbacks = MessageCallbacks::new().on_assistant_content_updated(move |chunk, _| {
        book.write(chunk);
        assert_ne!(chunk, "two ", "the second chunk is too much for me");
    });
    let agent = scripted([Turn::new().text_in(["one ", "two ", "three ", "four"])]).build();
    let chat = agent.expect("it can be made").stream_chat("Go.").messages(callbacks);
    let reply = chat.await.expect("it answers");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Completed, "one two three four"));
    assert_eq!(chunks.take(), ["one ", "two ", "three ", "four"]);
    let logged = logged("the second chunk is too much for me");
    assert_eq!(logged.len(), 1, "{logged:#?}");
    assert!(logged[0].starts_with("on_assistant_content_updated: "), "{logged:?}");
}

/// S4-4.
#[tokio::test]
async fn a_callback_that_errs_is_logged_once_per_error_and_told_on() {
    log();
    let chunks = Notes::<String>::new();
    let book = chunks.clone();
    let callbacks = MessageCallbacks::new().on_assistant_content_updated(move |chunk, _| {
        book.write(chunk);
        match chunk {
            "two " | "four" => Err(format!("no room for {}", chunk.trim())),
            _ => Ok(()),
        }
    });
    let agent = scripted([Turn::new().text_in(["one ", "two ", "three ", "four"])]).build();
    let chat = agent.expect("it can be made").stream_chat("Go.").messages(callbacks);
    let reply = chat.await.expect("it answers");
    assert_eq!((reply.outcome, reply.text.as_str()), (RunOutcome::Completed, "one two three four"));
    assert_eq!(chunks.take(), ["one ", "two ", "three ", "four"]);
    let expected =
        ["two", "four"].map(|n| format!("on_assistant_content_updated: no room for {n}"));
    assert_eq!(logged("no room for"), expected);
}

/// S4-5: What a provider's bytes become is in `upstream`; this is what any model may say.
#[tokio::test]
async fn text_is_cleaned_before_any_callback_sees_it() {
    let turn = Turn::new().text_in([
        "a\0b",
        "\u{1b}[31mred\u{1b}",
        "[0m ",
        "\u{1b}]0;title\u{7}",
        "tab\tgrüß\n",
    ]);
    let agent = scripted([turn]).build().expect("it can be made");
    let (tokens, book, options) = (Notes::<String>::new(), Notes::new(), Notes::<String>::new());
    let (token_book, option_book) = (tokens.clone(), options.clone());
    let reply = agent
        .stream_chat("Go.")
        .on_token(move |token| token_book.write(token))
        .messages(noting(&book))
        .options(CallOptions::new().on_content_update(move |content| option_book.write(content)))
        .await
        .expect("it answers");
    let clean = "abred tab\tgrüß\n";
    let told = book.take();
    let chunks: String = contents(&told).into_iter().map(|(chunk, _)| chunk).collect();
    assert_eq!((chunks.as_str(), tokens.take().concat().as_str()), (clean, clean));
    assert_eq!(contents(&told).last().map(|(_, all)| *all), Some(clean));
    assert_eq!(options.take().pop().as_deref(), Some(clean));
    assert_eq!(reply.text, clean);
}

/// S4-6.
#[tokio::test]
async fn an_update_has_all_the_facts_of_its_call() {
    let turns = [
        Turn::new()
            .call_with_id("call_1", "look", json!({ "query": "rust" }))
            .call_with_id("call_2", "broken", json!({ "path": "/tmp" }))
            .call_with_id("call_3", "draw", json!({})),
        Turn::new().text("Done."),
    ];
    let agent = scripted(turns)
        .tool(returns("look", "3 notes"))
        .tool(fails("broken", "no luck"))
        .tool(FakeTool::new("draw", Behaviour::Draws))
        .build()
        .expect("it can be made");
    let (_, told) = watched(&agent).await;
    let mut ends: Vec<_> =
        updates(&told).into_iter().filter(|update| update.stage == Stage::End).cloned().collect();
    ends.sort_by(|a, b| a.id.cmp(&b.id));
    let look = Update {
        id: "call_1".to_owned(),
        name: "look".to_owned(),
        parameters: r#"{"query":"rust"}"#.to_owned(),
        parameters_chunk: None,
        compact_params: Some("rust".to_owned()),
        result: Some("3 notes".to_owned()),
        success: Some(true),
        error: None,
        stage: Stage::End,
        short_result: Some("3 notes".to_owned()),
        images: Vec::new(),
    };
    let broken = Update {
        id: "call_2".to_owned(),
        name: "broken".to_owned(),
        parameters: r#"{"path":"/tmp"}"#.to_owned(),
        compact_params: Some("/tmp".to_owned()),
        result: None,
        success: Some(false),
        error: Some("no luck".to_owned()),
        short_result: Some("Error: no luck".to_owned()),
        ..look.clone()
    };
    let draw = Update {
        id: "call_3".to_owned(),
        name: "draw".to_owned(),
        parameters: "{}".to_owned(),
        compact_params: None,
        result: Some(String::new()),
        short_result: Some("(1 image)".to_owned()),
        images: vec!["data:image/png;base64,iVBO".to_owned()],
        ..look.clone()
    };
    assert_eq!(ends, [look, broken, draw]);
}

/// S4-7.
#[tokio::test]
async fn start_comes_first_and_once_with_id_and_name() {
    let turns = [
        Turn::new().call_with_id("call_a", "look", json!({ "query": "one" })).call_with_id(
            "call_b",
            "look",
            json!({ "query": "two" }),
        ),
        Turn::new().text("Done."),
    ];
    let agent = scripted(turns).tool(returns("look", "3 notes")).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    for id in ["call_a", "call_b"] {
        let updates: Vec<_> = updates(&told).into_iter().filter(|update| update.id == id).collect();
        let first = updates[0];
        assert_eq!(
            (first.stage, first.name.as_str(), first.parameters.as_str()),
            (Stage::Start, "look", "")
        );
        let n_starts = updates.iter().filter(|update| update.stage == Stage::Start).count();
        assert_eq!(n_starts, 1);
    }
}

/// S4-8.
#[tokio::test]
async fn streaming_has_each_chunk_and_all_so_far() {
    let chunks = [r#"{"qu"#, r#"ery": "r"#, "ust", r#"", "limit"#, r#"": 3}"#];
    let turns = [Turn::new().call_raw("look", chunks), Turn::new().text("Done.")];
    let look = returns("look", "3 notes");
    let agent = scripted(turns).tool(look.clone()).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let mut so_far = String::new();
    let streaming = updates(&told).into_iter().filter(|update| update.stage == Stage::Streaming);
    let mut n_chunks = 0;
    for (update, chunk) in streaming.zip(chunks) {
        so_far.push_str(chunk);
        assert_eq!(update.parameters_chunk.as_deref(), Some(chunk));
        assert_eq!(update.parameters, so_far);
        n_chunks += 1;
    }
    assert_eq!(n_chunks, chunks.len());
    assert_eq!(updates(&told).last().map(|last| &last.parameters), Some(&so_far));
    let (_, request) = &look.calls()[0];
    assert_eq!(json!(request.arguments), json!({ "query": "rust", "limit": 3 }));
}

/// S4-9: The tool waits until its silence was reported twice, however long that takes.
#[tokio::test]
async fn a_silent_tool_is_still_running() {
    let gate = Gate::shut();
    let agent = scripted([Turn::new().call("slow", json!({})), Turn::new().text("Done.")])
        .tool(gate.tool("slow"))
        .tool_silent_interval(Duration::from_millis(20))
        .build()
        .expect("it can be made");
    let (notes, running) = (Notes::<String>::new(), Arc::new(AtomicUsize::new(0)));
    let book = notes.clone();
    let callbacks = MessageCallbacks::new()
        .on_tool_block_updated(move |update| {
            // The first one says that the tool has begun; the others, that it is still at it.
            if update.stage == Stage::Running && running.fetch_add(1, Ordering::SeqCst) == 2 {
                gate.open();
            }
        })
        .on_messages_change(move |messages| {
            let blocks = messages.iter().flat_map(|message| &message.tool_blocks);
            blocks.for_each(|block| book.write(block.note.as_str()));
        });
    let chat = agent.stream_chat("Go.").messages(callbacks);
    let reply = in_time(async { chat.await }).await.expect("it answers");
    assert_eq!(reply.text, "Done.");
    assert!(notes.take().iter().any(|note| note.starts_with("no update for ")));
}

/// Plays one turn that calls `slow`, and cancels the run at the first event that `when` likes.
pub(crate) async fn cancelled(turn: Turn, when: impl Fn(&Event) -> bool) -> Vec<CallbackCall> {
    let agent = scripted([turn]).tool(FakeTool::new("slow", Behaviour::WaitsToBeStopped)).build();
    let book = Notes::new();
    let chat = agent.expect("it can be made").stream_chat("Go.").messages(noting(&book));
    let run = chat.start().await.expect("it starts");
    wait_for(&run, |event| when(event).then_some(())).await;
    run.cancel();
    let reply = in_time(run.reply()).await.expect("a cancelled run has a reply");
    assert_eq!(reply.outcome, RunOutcome::Cancelled);
    book.take()
}

fn the_one_end(told: &[CallbackCall]) -> Update {
    let updates = updates(told);
    let ends: Vec<_> = updates.iter().filter(|update| update.stage == Stage::End).collect();
    assert_eq!(ends.len(), 1, "{updates:#?}");
    assert_eq!(updates.last(), ends.last().copied(), "something came after the end");
    Update::clone(ends[0])
}

/// S4-10.
#[tokio::test]
async fn success_and_failure_have_one_end() {
    let call = || [Turn::new().call("look", json!({})), Turn::new().text("Done.")];
    let agent = scripted(call()).tool(returns("look", "3 notes")).build().expect("it can be made");
    let end = the_one_end(&watched(&agent).await.1);
    assert_eq!(
        (end.success, end.result.as_deref(), end.error),
        (Some(true), Some("3 notes"), None)
    );

    let agent = scripted(call()).tool(fails("look", "no luck")).build().expect("it can be made");
    let end = the_one_end(&watched(&agent).await.1);
    assert_eq!(
        (end.success, end.result, end.error.as_deref()),
        (Some(false), None, Some("no luck"))
    );
}

/// S4-10.
#[tokio::test]
async fn a_timeout_has_one_end() {
    let hangs = FakeTool::new("look", Behaviour::Hangs)
        .with(|spec| spec.timeout = Some(Duration::from_millis(20)));
    let turns = [Turn::new().call("look", json!({})), Turn::new().text("Done.")];
    let agent = scripted(turns).tool(hangs).build().expect("it can be made");
    let end = the_one_end(&watched(&agent).await.1);
    assert_eq!((end.success, end.result), (Some(false), None));
    assert!(end.error.is_some_and(|error| error.starts_with("timed out after ")));
}

/// S4-10.
#[tokio::test]
async fn a_cancel_has_one_end() {
    let turn = Turn::new().call("slow", json!({}));
    let told = cancelled(turn, |event| matches!(event, Event::ToolStarted { .. })).await;
    let end = the_one_end(&told);
    assert_eq!((end.success, end.error.as_deref()), (Some(false), Some("cancelled")));
}

/// S4-10.
#[tokio::test]
async fn an_abort_in_the_middle_of_the_arguments_has_one_end() {
    let turn = Turn::new().call_raw("slow", [r#"{"query": "ru"#]).wait_forever();
    let told = cancelled(turn, |event| matches!(event, Event::ArgumentsAdded { .. })).await;
    let end = the_one_end(&told);
    assert_eq!((end.success, end.parameters.as_str()), (Some(false), r#"{"query": "ru"#));
    assert_eq!(end.error.as_deref(), Some("not carried out: the run was cancelled"));
    assert_eq!(stages(&told, "slow"), [Stage::Start, Stage::Streaming, Stage::End]);
}

/// S4-10: The first worker dies with its runtime while the tool works; a second one takes over.
#[test]
fn a_restart_has_one_end() {
    let (log, store) = (Arc::new(MemoryJournal::default()), Arc::new(MemoryRunStore::default()));
    let agent = |turns: Vec<Turn>, behaviour| {
        let tool =
            FakeTool::new("look", behaviour).with(|spec| spec.effect = turnwire::Effect::Once);
        scripted(turns).tool(tool).event_log(log.clone()).run_store(store.clone()).build()
    };
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();

    let first_life = runtime().expect("there is a runtime");
    let run_id = first_life.block_on(async {
        let turns = vec![Turn::new().call("look", json!({}))];
        let agent = agent(turns, Behaviour::Hangs).expect("it can be made");
        let run = agent.stream_chat("Go.").start().await.expect("it starts");
        wait_for(&run, |event| matches!(event, Event::ToolStarted { .. }).then_some(())).await;
        run.id().clone()
    });
    drop(first_life);

    runtime().expect("there is a runtime").block_on(async {
        let turns = vec![Turn::new().text("I do not know.")];
        let agent = agent(turns, Behaviour::Panics).expect("it can be made");
        let taken = agent.runs().take_over(&turnwire::TenantId::default(), &run_id).await;
        let journal = in_time(taken.expect("it is abandoned").journal()).await.expect("it has one");
        let mut messages = Messages::new();
        let mut ends = Vec::new();
        for recorded in &journal {
            for frame in messages.project(recorded) {
                if let MessageFrame::ToolBlockUpdated { stage: Stage::End, .. } = &frame {
                    ends.push(messages.update(&frame).map(|update| Update::from(&update)));
                }
            }
        }
        let [Some(end)] = ends.as_slice() else { panic!("{ends:#?}") };
        assert_eq!((end.success, end.error.is_some()), (Some(false), true));
        assert_eq!(
            messages.messages().last().map(|last| last.content.as_str()),
            Some("I do not know.")
        );
    });
}

/// S4-11.
#[tokio::test]
async fn compact_params_follow_the_parameters_in_real_time() {
    let chunks = [r#"{"query": "ru"#, r"st\", r#"nbook", "#, r#""limit": 3}"#];
    let turns = [Turn::new().call_raw("search", chunks), Turn::new().text("Done.")];
    let agent = scripted(turns).tool(returns("search", "3 notes")).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let compact: Vec<_> = updates(&told)
        .into_iter()
        .map(|update| (update.stage, update.compact_params.as_deref()))
        .collect();
    assert_eq!(
        compact,
        [
            (Stage::Start, None),
            (Stage::Streaming, Some("ru")),
            // The escape is not whole yet, and is held back.
            (Stage::Streaming, Some("rust")),
            (Stage::Streaming, Some("rust book")),
            (Stage::Streaming, Some("rust book")),
            (Stage::Running, Some("rust book")),
            (Stage::End, Some("rust book")),
        ]
    );
}

/// S4-12: Whoever only looks at the latest call of each callback knows everything.
#[tokio::test]
async fn a_consumer_keeps_no_state() {
    let agent = scripted([
        Turn::new().text_in(["I ", "look."]).call_raw("look", [r#"{"query""#, r#":"rust"}"#]),
        Turn::new().text_in(["I ", "saw."]),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let (run, told) = watched(&agent).await;
    let mut messages = Messages::new();
    for recorded in journal(&run).await {
        messages.project(&recorded);
    }
    assert_eq!(lists(&told).last().copied(), Some(messages.messages()));
    let last = updates(&told).last().copied().cloned().expect("there was a tool");
    assert_eq!((last.name.as_str(), last.parameters.as_str()), ("look", r#"{"query":"rust"}"#));
    assert_eq!(last.result.as_deref(), Some("3 notes"));
    assert_eq!(contents(&told).last(), Some(&("saw.", "I saw.")));
}

/// S4-13.
#[tokio::test]
async fn a_message_is_added_once_per_model_call_before_anything_in_it() {
    let agent = scripted([
        Turn::new().text("I look.").call("look", json!({})),
        Turn::new().call("look", json!({})),
        Turn::new().text_in(["I ", "saw."]),
    ]);
    let agent = agent.tool(returns("look", "3 notes")).build().expect("it can be made");
    let (_, told) = watched(&agent).await;
    let outline: Vec<_> = told
        .iter()
        .filter_map(|told| match told {
            CallbackCall::Added => Some("added".to_owned()),
            CallbackCall::Content { chunk, .. } => Some(chunk.clone()),
            CallbackCall::Tool(update) if matches!(update.stage, Stage::Start | Stage::End) => {
                Some(format!("tool {}", update.stage.as_str()))
            }
            CallbackCall::Tool(_) | CallbackCall::Changed(_) => None,
        })
        .collect();
    assert_eq!(
        outline,
        [
            "added",
            "I look.",
            "tool start",
            "tool end", //
            "added",
            "tool start",
            "tool end", //
            "added",
            "I ",
            "saw.",
        ]
    );
    // The slot is there: right after the signal the list has one more message.
    let mut n_messages = 1;
    for pair in told.windows(2) {
        if pair[0] == CallbackCall::Added {
            n_messages += 1;
            let CallbackCall::Changed(list) = &pair[1] else {
                panic!("{:?} came instead", pair[1])
            };
            assert_eq!(list.len(), n_messages);
            let slot = list.last().expect("it is not empty");
            assert_eq!((slot.role, slot.state), (Role::Assistant, MessageState::Streaming));
        }
    }
    assert_eq!(n_messages, 4);
}

/// S4-15.
#[tokio::test]
async fn low_level_callbacks_have_all_so_far() {
    let turns = [
        Turn::new().text_in(["I ", "look."]).call_raw("look", [r#"{"query""#, r#":"rust"}"#]),
        Turn::new().text_in(["I ", "saw."]),
    ];
    let agent = scripted(turns).tool(returns("look", "3 notes")).build().expect("it can be made");
    let seen = Notes::<String>::new();
    let (content, tool) = (seen.clone(), seen.clone());
    let options = CallOptions::new()
        .on_content_update(move |text| content.write(text))
        .on_tool_update(move |call| {
            assert!(call.id.starts_with("call_"));
            tool.write(format!("{} {}", call.name, call.parameters));
        });
    agent.stream_chat("Go.").options(options).await.expect("it answers");
    assert_eq!(
        seen.take(),
        ["I ", "I look.", "look ", r#"look {"query""#, r#"look {"query":"rust"}"#, "I ", "I saw."]
    );
}

/// S4-16.
#[tokio::test]
async fn without_callbacks_the_run_is_the_same() {
    let turns = [
        Turn::new().text("I look.").call("look", json!({ "query": "rust" })),
        Turn::new().text("I saw."),
    ];
    let agent = Agent::builder()
        .model(Scripted::new(turns).looping())
        .tool(returns("look", "3 notes"))
        .build()
        .expect("it can be made");
    let alone = agent.stream_chat("Go.").start().await.expect("it starts");
    let alone_reply = alone.reply().await.expect("it answers");
    let options = CallOptions::new().on_content_update(|_| ()).on_tool_update(|_| ());
    let chat = agent.stream_chat("Go.").messages(noting(&Notes::new())).options(options);
    let watched = chat.start().await.expect("it starts");
    let watched_reply = watched.reply().await.expect("it answers");
    assert_eq!(watched_reply.text, alone_reply.text);
    assert_eq!(watched_reply.usage, alone_reply.usage);
    assert_eq!(story(&watched).await, story(&alone).await);
}

/// S4-19: One run, every surface of the SDK at once: each is the projection of the same journal.
#[tokio::test]
async fn all_surfaces_agree_on_the_same_run() {
    let turns = [
        Turn::new()
            .text_in(["I ", "look."])
            .call_raw("look", [r#"{"query""#, r#":"rust"}"#])
            .call("broken", json!({}))
            .call("missing", json!({})),
        Turn::new().text_in(["I ", "saw."]),
    ];
    let agent = scripted(turns)
        .tool(returns("look", "3 notes"))
        .tool(fails("broken", "no luck"))
        .parallel_tool_calls(false)
        .build()
        .expect("it can be made");
    let (callbacks, events, book) = (Notes::<String>::new(), Notes::<String>::new(), Notes::new());
    let (token, start, end) = (callbacks.clone(), callbacks.clone(), callbacks.clone());
    let on_event = events.clone();
    let run = agent
        .stream_chat("Go.")
        .on_token(move |text| token.write(format!("on_token({text:?})\n")))
        .on_tool_start(move |name| start.write(format!("on_tool_start({name:?})\n")))
        .on_tool_end(move |name, result| end.write(format!("on_tool_end({name:?}, {result:?})\n")))
        .on_event(move |event_type, data| {
            on_event.write(format!("{event_type} {data}\n"));
            async {}
        })
        .messages(noting(&book))
        .start()
        .await
        .expect("it starts");
    let reply = run.reply().await.expect("it answers");
    let journal = journal(&run).await;

    assert_eq!(callbacks.take().concat(), surfaces::callbacks(&journal));
    // A function simply returns; `done` is for wires.
    let on_event = surfaces::on_event(&journal);
    let on_event: String =
        on_event.split_inclusive('\n').filter(|line| !line.starts_with("done ")).collect();
    assert_eq!(events.take().concat(), on_event);

    let told = book.take();
    let mut messages = Messages::new();
    let mut expected = Vec::new();
    for recorded in &journal {
        for frame in messages.project(recorded) {
            match &frame {
                MessageFrame::AssistantMessageAdded { .. } => expected.push(CallbackCall::Added),
                MessageFrame::ContentUpdated { message, chunk } => {
                    let accumulated = messages.accumulated(*message).to_owned();
                    expected.push(CallbackCall::Content { chunk: chunk.clone(), accumulated });
                }
                MessageFrame::ToolBlockUpdated { .. } => {
                    let update = messages.update(&frame).expect("there is such a block");
                    expected.push(CallbackCall::Tool(Update::from(&update)));
                }
                MessageFrame::MessagesChanged { .. } => {}
            }
        }
    }
    let without_lists: Vec<_> =
        told.iter().filter(|told| !matches!(told, CallbackCall::Changed(_))).cloned().collect();
    assert_eq!(without_lists, expected);
    assert_eq!(lists(&told).last().copied(), Some(messages.messages()));
    let last_message = messages.messages().last().expect("there is an answer");
    assert_eq!(last_message.content, reply.text);
}

/// S4-N1.
#[tokio::test]
async fn however_fast_the_model_is_the_list_is_told_thirty_times_a_second() {
    const N: usize = 10_000;
    let n_chunks = Arc::new(AtomicUsize::new(0));
    let lists = Arc::new(Mutex::new(Vec::new()));
    let (chunks, list_book) = (n_chunks.clone(), lists.clone());
    let callbacks = MessageCallbacks::new()
        .on_assistant_content_updated(move |_, _| {
            chunks.fetch_add(1, Ordering::Relaxed);
        })
        .on_messages_change(move |messages| {
            let length = messages.last().map_or(0, |message| message.content.len());
            list_book.lock().expect("nobody panics here").push(length);
        });
    let agent = scripted([Turn::new().text_in(std::iter::repeat_n("x", N))]).build();
    let begun = Instant::now();
    let chat = agent.expect("it can be made").stream_chat("Go.").messages(callbacks);
    chat.await.expect("it answers");
    let ticks = usize::try_from(begun.elapsed().as_millis() / 33).expect("it was not that long");

    assert_eq!(n_chunks.load(Ordering::Relaxed), N);
    let lists = lists.lock().expect("nobody panics here");
    // The question, the slot, the end of the message and the end of the run.
    let structural = 4;
    assert!(lists.len() <= ticks + 1 + structural, "{} lists in {ticks} ticks", lists.len());
    assert_eq!(lists.last(), Some(&N));
}

/// S4-N1: What was held back is told soon, also when nothing else happens.
#[tokio::test]
async fn a_pause_in_the_text_does_not_hold_it_back() {
    let gate = Gate::shut();
    let opener = gate.clone();
    let callbacks = MessageCallbacks::new().on_messages_change(move |messages| {
        if messages.last().is_some_and(|message| message.content == "Well, ") {
            opener.open();
        }
    });
    let agent = scripted([Turn::new().text_in(["We", "ll, "]).wait_forever()]).build();
    let chat = agent.expect("it can be made").stream_chat("Go.").messages(callbacks);
    let run = chat.start().await.expect("it starts");
    in_time(gate.pass()).await;
    run.cancel();
    run.reply().await.expect("a cancelled run has a reply");
}
