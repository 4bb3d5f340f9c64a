//! The one door to the journal: durable before visible, batches, one writer, conversations.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt, future::join_all, stream};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, sleep_until},
};
use turnwire_contract::{
    ConversationId, Event, Finish, Item, Journal, JournalError, Model, ModelError, ModelPart,
    ModelStream, Prompt, RecordedEvent, RunId, RunOutcome, RunRequest, Seq, StoreError, TenantId,
    Usage,
};
use turnwire_engine::{
    ClockAndIds, EngineParts, LiveRun, MemoryJournal, MemoryRunStore, RunState, Runs, StartError,
    Toolbox,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, Broken, FakeTool, Forwarding, StoreCall, TestBench, Watcher};

use crate::{calls, kinds, returns};

/// Holds up appends, fails them when told to, and counts them.
#[derive(Default)]
struct Pace {
    n_appends: AtomicUsize,
    /// How many pieces of text each append had.
    texts: std::sync::Mutex<Vec<usize>>,
    held_up: Option<Arc<Semaphore>>,
    takes: Duration,
    fails_after: Option<usize>,
}

type SlowLog = Forwarding<MemoryJournal, Pace>;

#[async_trait]
impl Watcher for Pace {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        if !call.name.starts_with("append") {
            return Ok(());
        }
        let n_before = self.n_appends.fetch_add(1, Ordering::SeqCst);
        if self.fails_after.is_some_and(|n| n_before >= n) {
            return Err(Broken("gone".to_owned()));
        }
        if let Some(gate) = &self.held_up {
            gate.acquire().await.unwrap().forget();
        }
        sleep(self.takes).await;
        let is_text =
            |recorded: &&Arc<RecordedEvent>| matches!(recorded.event, Event::TextAdded { .. });
        self.texts.lock().unwrap().push(call.batch.iter().filter(is_text).count());
        Ok(())
    }
}

fn live_run(log: Arc<dyn Journal>) -> LiveRun {
    let request = Arc::new(RunRequest::new("m", vec![Item::user("hi")]));
    let run_id = RunId::from("run_1");
    let state = RunState::new(&run_id, request, Vec::new());
    let clock_and_ids = Arc::new(ClockAndIds::simulated());
    LiveRun::new(run_id, log, clock_and_ids, state, Seq::START)
}

fn turn(turn: u32) -> Event {
    Event::TurnStarted { turn }
}

/// C1: nobody sees an event, and the state does not know it, before it is durable.
#[tokio::test(start_paused = true)]
async fn an_event_is_durable_before_it_is_visible() {
    let gate = Arc::new(Semaphore::new(1));
    let log =
        Arc::new(SlowLog::watched_by(Pace { held_up: Some(Arc::clone(&gate)), ..Pace::default() }));
    let run = live_run(log.clone());
    run.record(turn(1)).await.unwrap();
    let mut reader = log.read(run.tenant(), run.id(), Seq(1)).await.unwrap();

    let mut second = Box::pin(run.record(turn(2)));
    assert!((&mut second).now_or_never().is_none(), "recorded before it is durable");
    assert!(reader.next().now_or_never().is_none(), "seen before it is durable");
    assert_eq!(run.state().turn(), 1, "the state is ahead of the journal");
    gate.add_permits(1);
    assert_eq!(second.await.unwrap(), Seq(2));
    assert_eq!(reader.next().await.unwrap().unwrap().seq, Seq(2));
    assert_eq!(run.state().turn(), 2);
}

/// Group commit: what arrives while an append is under way is the next batch.
#[tokio::test(start_paused = true)]
async fn what_arrives_during_an_append_is_written_together() {
    let log =
        Arc::new(SlowLog::watched_by(Pace { takes: Duration::from_millis(5), ..Pace::default() }));
    let run = live_run(log.clone());
    let permits = join_all((1..=100).map(|n| run.record(turn(n)))).await;
    let permits: Vec<u64> = permits.into_iter().map(|seq| seq.unwrap().0).collect();
    assert_eq!(permits, (1..=100).collect::<Vec<_>>());
    assert_eq!(log.n_appends.load(Ordering::SeqCst), 2, "one for the first, one for the rest");
    assert_eq!(run.state().turn(), 100);
}

/// I5, C16: a worker that lost its run finds out at its next step.
#[tokio::test(start_paused = true)]
async fn of_two_workers_one_is_refused() {
    let log = Arc::new(MemoryJournal::default());
    let (one, other) = (live_run(log.clone()), live_run(log));
    one.record(turn(1)).await.unwrap();
    let refused = other.record_all(vec![turn(1), turn(2)]).await;
    assert!(matches!(refused, Err(JournalError::Conflict { .. })), "{refused:?}");
    assert_eq!(other.state().turn(), 0, "what was refused is not part of the state");
}

/// Those who waited behind a failed append are told, not left in the belief that all is well.
#[tokio::test(start_paused = true)]
async fn a_failed_append_fails_for_everyone_in_it() {
    let log = SlowLog::watched_by(Pace { fails_after: Some(0), ..Pace::default() });
    let run = live_run(Arc::new(log));
    let results = join_all((1..=3).map(|n| run.record(turn(n)))).await;
    assert!(results.iter().all(Result::is_err), "{results:?}");
}

/// A run that cannot be recorded any further is given up, and says so.
#[tokio::test(start_paused = true)]
async fn a_lost_journal_ends_the_run() {
    let log = SlowLog::watched_by(Pace { fails_after: Some(2), ..Pace::default() });
    let runs = Runs::new(EngineParts {
        journal: Arc::new(log),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text("a")]))),
        ..EngineParts::default()
    });
    let run = runs.start(RunRequest::new("m", vec![Item::user("hi")])).await.unwrap();
    let RunOutcome::Failed { failure } = run.outcome().await else { panic!() };
    assert_eq!(failure.code, "journal_lost");
    let journal = run.journal().await;
    assert!(matches!(journal, Err(JournalError::Unavailable(_))), "it has no end to wait for");
}

/// A run whose first events cannot be recorded is refused, and its conversation is free again.
#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_begin_leaves_its_conversation_free() {
    let log = SlowLog::watched_by(Pace { fails_after: Some(0), ..Pace::default() });
    let runs = Runs::new(EngineParts {
        journal: Arc::new(log),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text("a")]))),
        ..EngineParts::default()
    });
    let mut request = RunRequest::new("m", vec![Item::user("hi")]);
    request.conversation_id = Some(ConversationId::from("conv_1"));
    for _ in 0..2 {
        let refused = runs.start(request.clone()).await;
        assert!(matches!(refused, Err(StartError::Journal(_))), "{refused:?}");
    }
}

/// C16, I13: a worker that lost its run does not free the conversation under the new owner.
#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_run_stores_nothing() {
    let log = Arc::new(MemoryJournal::default());
    let model = Scripted::new([Turn::new().text("a").pause(Duration::from_secs(1))]);
    let runs = Runs::new(EngineParts {
        journal: log.clone(),
        any_model: Some(Arc::new(model)),
        ..EngineParts::default()
    });
    let mut request = RunRequest::new("m", vec![Item::user("hi")]);
    request.conversation_id = Some(ConversationId::from("conv_1"));
    let run = runs.start(request.clone()).await.unwrap();
    let mut events = run.events().await.unwrap();
    let mut last = events.next().await.unwrap().unwrap();
    while !matches!(last.event, Event::TextAdded { .. }) {
        last = events.next().await.unwrap().unwrap();
    }
    let event = Event::taken_over(2);
    log.append(
        &TenantId::default(),
        vec![Arc::new(RecordedEvent {
            seq: last.seq.next(),
            event,
            ..RecordedEvent::clone(&last)
        })],
    )
    .await
    .unwrap();
    let RunOutcome::Failed { failure } = run.outcome().await else { panic!() };
    assert_eq!(failure.code, "journal_lost");
    let refused = runs.start(request).await;
    assert!(matches!(refused, Err(StartError::Store(StoreError::Busy { .. }))), "{refused:?}");
}

/// No event gets a seq after the one that ends the run, not even in the same batch.
#[tokio::test(start_paused = true)]
async fn nothing_is_recorded_after_the_end() {
    let run = live_run(Arc::new(MemoryJournal::default()));
    let end = || Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() };
    run.record_all(vec![turn(1), end()]).await.unwrap();
    assert!(matches!(run.record(turn(2)).await, Err(JournalError::Conflict { .. })));
    assert!(matches!(run.record(end()).await, Err(JournalError::Conflict { .. })));
}

/// What the model says last, the end of its turn and the end of the run are one append, if nothing
/// follows; so a client that waits for the end waits for one commit.
#[tokio::test(start_paused = true)]
async fn the_last_words_and_the_end_of_a_run_share_an_append() {
    let log = Arc::new(SlowLog::watched_by(Pace::default()));
    let runs = Runs::new(EngineParts {
        journal: log.clone(),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text("ok")]))),
        clock_and_ids: Arc::new(ClockAndIds::simulated()),
        ..EngineParts::default()
    });
    let run = runs.start(RunRequest::new("m", vec![Item::user("hi")])).await.unwrap();
    let journal = run.journal().await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    assert!(journal.last().unwrap().event.ends_the_run(), "{journal:?}");
    let n_appends = log.n_appends.load(Ordering::SeqCst);
    assert_eq!(n_appends, 3, "the run, the start of its turn, and the rest: {journal:?}");
}

/// S1-E1 under group commit: many tools at once keep the seqs contiguous.
#[tokio::test(start_paused = true)]
async fn parallel_tools_share_appends() {
    let log =
        Arc::new(SlowLog::watched_by(Pace { takes: Duration::from_millis(1), ..Pace::default() }));
    let mut tools = Toolbox::default();
    tools
        .add(Arc::new(FakeTool::new("t", Behaviour::Reports(5, Duration::ZERO, "x".into()))))
        .unwrap();
    let mut request = RunRequest::new("m", vec![Item::user("hi")]);
    request.tools = tools.specs();
    let runs = Runs::new(EngineParts {
        journal: log.clone(),
        any_model: Some(Arc::new(Scripted::new([calls(&["t"; 8]), Turn::new().text("ok")]))),
        tools,
        clock_and_ids: Arc::new(ClockAndIds::simulated()),
        ..EngineParts::default()
    });
    let journal = runs.start(request).await.unwrap().journal().await.unwrap();
    let n_events = journal.len();
    let n_appends = log.n_appends.load(Ordering::SeqCst);
    assert!(n_appends * 3 < n_events, "{n_appends} appends for {n_events} events");
}

/// I13, C8: one run per conversation; the next is refused, then welcome.
#[tokio::test(start_paused = true)]
async fn a_conversation_has_one_run_at_a_time() {
    let model = Scripted::new([
        Turn::new().text("first").pause(Duration::from_secs(1)),
        Turn::new().text("second"),
    ]);
    let (runs, mut request) = TestBench::with_model(Arc::new(model.clone())).set_up();
    request.conversation_id = Some(ConversationId::from("conv_1"));
    let first = runs.start(request.clone()).await.unwrap();
    let refused = runs.start(request.clone()).await;
    assert!(matches!(refused, Err(StartError::Store(StoreError::Busy { .. }))));
    first.outcome().await;
    let second = runs.start(request).await.unwrap();
    second.outcome().await;
    let items: Vec<Item> = model.prompts()[1].items.iter().map(|item| Item::clone(item)).collect();
    assert_eq!(items, [Item::user("Go."), Item::assistant("first"), Item::user("Go.")]);
    let conversation = ConversationId::from("conv_1");
    let history = runs.store().history(&TenantId::default(), &conversation).await.unwrap();
    assert_eq!(history.len(), 4);
    assert_eq!(*history[3].item, Item::assistant("second"));
}

/// Whoever sees the end of a run can go on in its conversation at once.
#[tokio::test(start_paused = true)]
async fn the_conversation_is_free_when_the_end_is_seen() {
    let (runs, mut request) =
        TestBench::with_model(Arc::new(Scripted::new([Turn::new().text("a")]).repeat_last()))
            .set_up();
    request.conversation_id = Some(ConversationId::from("conv_1"));
    for _ in 0..20 {
        let run = runs.start(request.clone()).await.unwrap();
        let mut events = run.events().await.unwrap();
        while let Some(recorded) = events.next().await {
            recorded.unwrap();
        }
    }
}

/// C7: a cancelled turn leaves a history that a model accepts: the words, and no half call.
#[tokio::test(start_paused = true)]
async fn a_cancelled_turn_leaves_no_half_call_in_the_history() {
    let turn = Turn::new().text("Let me").call_raw("t", ["{\"a\""]).wait_forever();
    let (runs, mut request) = TestBench::new([turn]).tool(returns("t", "x")).set_up();
    let conversation = ConversationId::from("conv_1");
    request.conversation_id = Some(conversation.clone());
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    while !matches!(events.next().await.unwrap().unwrap().event, Event::ArgumentsAdded { .. }) {}
    run.cancel();
    run.outcome().await;
    let history = runs.store().history(&TenantId::default(), &conversation).await.unwrap();
    let history: Vec<&Item> = history.iter().map(|entry| &*entry.item).collect();
    assert_eq!(history, [&Item::user("Go."), &Item::assistant("Let me")]);
}

/// Models are found by name; any other name goes to the one for all names, if there is one.
#[tokio::test(start_paused = true)]
async fn models_are_found_by_name() {
    let says = |text: &str| Arc::new(Scripted::new([Turn::new().text(text)]).repeat_last());
    let mut parts = EngineParts::default();
    parts.models.insert("one".into(), says("I am one"));
    let runs = Runs::new(parts.clone());
    let ask = |name: &str| RunRequest::new(name, vec![Item::user("who?")]);
    assert!(runs.start(ask("one")).await.is_ok());
    let unknown = runs.start(ask("two")).await;
    assert!(matches!(unknown, Err(StartError::UnknownModel(name)) if name == "two"));
    parts.any_model = Some(says("I am any"));
    let runs = Runs::new(parts);
    let text = |journal: Vec<Arc<RecordedEvent>>| {
        journal.iter().find_map(|recorded| match &recorded.event {
            Event::MessageFinished { text, .. } => Some(text.clone()),
            _ => None,
        })
    };
    let one = runs.start(ask("one")).await.unwrap().journal().await.unwrap();
    assert_eq!(text(one).as_deref(), Some("I am one"));
    let other = runs.start(ask("two")).await.unwrap().journal().await.unwrap();
    assert_eq!(text(other).as_deref(), Some("I am any"));
}

/// A run can be found and listed, and followed after its end from any seq.
#[tokio::test(start_paused = true)]
async fn a_run_can_be_found_and_followed_later() {
    let (runs, request) = TestBench::new([Turn::new().text("a")]).set_up();
    let run = runs.start(request).await.unwrap();
    let tenant = TenantId::default();
    let journal = run.journal().await.unwrap();
    let record = runs.find(&tenant, run.id()).await.unwrap();
    let outcome = RunOutcome::Completed;
    assert_eq!(record.status, turnwire_contract::RunStatus::Finished { outcome });
    assert_eq!(runs.list(&tenant, 5).await.unwrap().len(), 1);
    let rest: Vec<_> =
        runs.follow(&TenantId::default(), run.id(), Seq(4)).await.unwrap().collect().await;
    assert_eq!(rest.len(), journal.len() - 4);
    assert_eq!(kinds(&journal)[0], "run_queued");
    assert!(runs.new_conversation_id().as_str().starts_with("conv_"));
}

/// I9: a first reader that never looks costs a run one grace period, once.
#[tokio::test(start_paused = true)]
async fn a_watcher_that_does_not_look_costs_one_grace_period() {
    let (runs, request) = TestBench::new([calls(&["t"]), calls(&["t"]), Turn::new().text("ok")])
        .tool(returns("t", "x"))
        .set_up();
    let (_seen, first_reader) = tokio::sync::watch::channel(Seq::START);
    let run = runs.start_with_first_reader(request, Some(first_reader)).await.unwrap();
    let journal = run.journal().await.unwrap();
    let took = journal.last().unwrap().at.since(journal[0].at);
    assert_eq!(took, Duration::from_millis(250));
}

/// S0-1: a tool does not begin before a first reader that looks has seen its start.
#[tokio::test(start_paused = true)]
async fn a_tool_waits_until_its_watcher_has_seen_the_start() {
    let prop = returns("t", "x");
    let (runs, request) =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(prop.clone()).set_up();
    let (seen, first_reader) = tokio::sync::watch::channel(Seq::START);
    let run = runs.start_with_first_reader(request, Some(first_reader)).await.unwrap();
    let mut events = run.events().await.unwrap();
    while let Some(recorded) = events.next().await {
        let recorded = recorded.unwrap();
        if matches!(recorded.event, Event::ToolStarted { .. }) {
            sleep(Duration::from_millis(100)).await;
            assert_eq!(prop.n_calls(), 0, "the tool did not wait");
        }
        seen.send_replace(recorded.seq);
    }
    assert_eq!(prop.n_calls(), 1);
}

/// A model that says forty words at its own pace, whether anybody listens or not.
struct Metronome;

const PACE: Duration = Duration::from_millis(20);

#[async_trait]
impl Model for Metronome {
    async fn stream(&self, _: Prompt) -> Result<ModelStream, ModelError> {
        let began = Instant::now();
        let words = stream::iter(1..=40).then(move |n| async move {
            sleep_until(began + PACE * n).await;
            Ok(ModelPart::Text(format!("{n} ")))
        });
        let end = stream::iter([Ok(ModelPart::Finished(Finish::Answered))]);
        Ok(Box::pin(words.chain(end)))
    }
}

/// Many answers at once are appended to less often, so that their words share rows and commits. An
/// answer alone is as prompt as its model, and no word waits for longer than the bound.
#[tokio::test(start_paused = true)]
async fn the_words_of_many_answers_share_appends() {
    let appends_with_text = async |n_runs: usize, max_gathering: Duration| {
        let log = Arc::new(SlowLog::default());
        let runs = Runs::new(EngineParts {
            journal: log.clone(),
            any_model: Some(Arc::new(Metronome)),
            max_gathering,
            ..EngineParts::default()
        });
        let began = Instant::now();
        let answers = (0..n_runs).map(async |_| {
            let run = runs.start(RunRequest::new("m", vec![Item::user("hi")])).await.unwrap();
            run.outcome().await
        });
        join_all(answers).await;
        let took = began.elapsed();
        let texts = log.texts.lock().unwrap();
        assert_eq!(texts.iter().sum::<usize>(), 40 * n_runs);
        (texts.iter().filter(|n| **n > 0).count(), took)
    };
    let bound = Duration::from_millis(40);
    let (alone, at_once) = appends_with_text(1, bound).await;
    assert_eq!(alone, 40);
    assert_eq!(appends_with_text(1000, Duration::ZERO).await.0, 40_000);
    let (shared, took) = appends_with_text(1000, bound).await;
    assert!((15_000..=25_000).contains(&shared), "{shared} appends for 40,000 words");
    assert!(took <= at_once + bound, "the answers took {took:?}, one alone {at_once:?}");
}

/// What a fast model has ready is written in one go, up to a bound.
#[tokio::test(start_paused = true)]
async fn parts_that_are_ready_share_an_append() {
    let log = Arc::new(SlowLog::default());
    let runs = Runs::new(EngineParts {
        journal: log.clone(),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text_in(vec!["word "; 650])]))),
        ..EngineParts::default()
    });
    let run = runs.start(RunRequest::new("m", vec![Item::user("hi")])).await.unwrap();
    run.outcome().await;
    let texts = log.texts.lock().unwrap();
    let with_text: Vec<usize> = texts.iter().copied().filter(|n| *n > 0).collect();
    assert_eq!(with_text, [vec![64; 10], vec![10]].concat());
    assert!(format!("{run:?}").contains(run.id().as_str()), "{run:?}");
}

/// R10: a client that hangs up while a run begins leaves a run that begins all the same, and
/// no conversation that is busy for ever.
#[tokio::test(start_paused = true)]
async fn a_run_is_never_left_half_begun() {
    let gate = Arc::new(Semaphore::new(0));
    let log =
        Arc::new(SlowLog::watched_by(Pace { held_up: Some(Arc::clone(&gate)), ..Pace::default() }));
    let runs = Runs::new(EngineParts {
        journal: log.clone(),
        any_model: Some(Arc::new(Scripted::new([Turn::new().text("a")]))),
        ..EngineParts::default()
    });
    let mut request = RunRequest::new("m", vec![Item::user("hi")]);
    request.conversation_id = Some(ConversationId::from("conv_1"));
    // Long enough to be stuck in the first append, then the client is gone.
    let gave_up = tokio::time::timeout(Duration::from_secs(1), runs.start(request)).await;
    assert!(gave_up.is_err());
    gate.add_permits(100);
    let begun = runs.list(&TenantId::default(), 1).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    let events: Vec<_> = runs
        .follow(&TenantId::default(), &begun[0].run_id, Seq::START)
        .await
        .unwrap()
        .collect()
        .await;
    assert!(matches!(events.last().unwrap().as_ref().unwrap().event, Event::RunFinished { .. }));
}

/// Takes its time to store the end of a run.
#[derive(Default)]
struct SlowEnd;

#[async_trait]
impl Watcher for SlowEnd {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        if call.name == "finish" {
            sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }
}

/// Whoever has seen the end and asks on waits until it is stored, and then knows of it.
#[tokio::test(start_paused = true)]
async fn the_next_run_waits_until_the_last_one_is_stored() {
    let model = Scripted::new([Turn::new().text("first"), Turn::new().text("second")]);
    let runs = Runs::new(EngineParts {
        store: Arc::new(Forwarding::<MemoryRunStore, SlowEnd>::default()),
        any_model: Some(Arc::new(model.clone())),
        ..EngineParts::default()
    });
    let mut request = RunRequest::new("m", vec![Item::user("hi")]);
    request.conversation_id = Some(ConversationId::from("conv_1"));
    let first = runs.start(request.clone()).await.unwrap();
    let _: Vec<_> = first.events().await.unwrap().collect().await;
    let second = runs.start(request).await.unwrap();
    second.outcome().await;
    assert_eq!(model.prompts()[1].items.len(), 3, "the first answer is in the history");
}
