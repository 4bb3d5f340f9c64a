//! How many events per second one core carries from `record` to a projected frame.
//!
//! `cargo bench -p turnwire-engine --bench pipeline`; the figures are in docs/performance.md.
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should fall over")]

use std::{hint::black_box, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::runtime::Runtime;
use turnwire_contract::{Event, Item, ItemId, Journal, RunId, RunOutcome, RunRequest, Seq, Usage};
use turnwire_engine::{ClockAndIds, LiveRun, MemoryJournal, RunState};
use turnwire_models::{Scripted, Turn};
use turnwire_surfaces::{Callbacks, ChatEvents, Messages, Projection, ToolCallbacks, Transcript};
use turnwire_testkit::{TestBench, stopwatch::measure};

const N_EVENTS: usize = 50_000;
const N_SAMPLES: usize = 20;

fn main() {
    record_to("one_by_one_to_callbacks", 1, || Callbacks::new(ToolCallbacks::default()));
    record_to("sixteen_at_once_to_callbacks", 16, || Callbacks::new(ToolCallbacks::default()));
    record_to("one_by_one_to_chat_events", 1, ChatEvents::new);
    record_to("one_by_one_to_messages", 1, Messages::new);
    record_to("one_by_one_to_transcript", 1, Transcript::new);
    a_whole_run();
    a_thousand_runs_side_by_side();
}

/// One by one, every event is an append of its own and wakes the reader. Several at once are
/// gathered as the engine gathers them when the model is faster than the journal.
fn record_to<P: Projection>(name: &str, at_once: usize, projection: impl Fn() -> P) {
    let runtime = one_core();
    measure(name, N_SAMPLES, N_EVENTS, || {
        runtime.block_on(record_and_project(at_once, projection()));
    });
}

fn one_core() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

fn live_run(log: Arc<MemoryJournal>) -> LiveRun {
    let request = Arc::new(RunRequest::new("m", vec![Item::user("hi")]));
    let run_id = RunId::from("run_1");
    let state = RunState::new(&run_id, request, Vec::new());
    LiveRun::new(run_id, log, Arc::new(ClockAndIds::system()), state, Seq::START)
}

/// What a model of twenty characters a part makes of a run: deltas, and then the end.
fn deltas() -> impl Iterator<Item = Event> {
    let item_id = ItemId::from("msg_1");
    let start = Event::MessageStarted { item_id: item_id.clone() };
    let text = "twenty characters ok".to_owned();
    let delta = Event::TextAdded { item_id, text };
    let end = Event::RunFinished { outcome: RunOutcome::Completed, usage: Usage::default() };
    [start].into_iter().chain((2..N_EVENTS).map(move |_| delta.clone())).chain([end])
}

/// One task records, `at_once` events at a time, and another reads and projects.
async fn record_and_project<P: Projection>(at_once: usize, mut projection: P) {
    let log = Arc::new(MemoryJournal::default());
    let run = live_run(Arc::clone(&log));
    let mut events = deltas();
    run.record_all(events.by_ref().take(1).collect()).await.unwrap();
    let mut reader = log.read(run.tenant(), run.id(), Seq::START).await.unwrap();
    let record = async {
        loop {
            let batch: Vec<Event> = events.by_ref().take(at_once).collect();
            if batch.is_empty() {
                return;
            }
            run.record_all(batch).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    let project = async {
        while let Some(recorded) = reader.next().await {
            black_box(projection.project(&recorded.unwrap()));
        }
    };
    tokio::join!(record, project);
}

/// The whole way: a scripted model's parts, the engine's loop, the journal, a projection.
fn a_whole_run() {
    let runtime = one_core();
    let words: Vec<String> = (0..N_EVENTS).map(|_| "twenty characters ok".to_owned()).collect();
    let scripted = |_| Scripted::new([Turn::new().text_in(words.clone())]);
    let mut models: Vec<Scripted> = (0..=N_SAMPLES).map(scripted).collect();
    measure("a_whole_run", N_SAMPLES, N_EVENTS, || {
        let model = models.pop().unwrap();
        runtime.block_on(async {
            let (runs, request) = TestBench::with_model(Arc::new(model)).set_up();
            let run = runs.start(request).await.unwrap();
            let mut projection = Callbacks::new(ToolCallbacks::default());
            let mut events = run.events().await.unwrap();
            while let Some(recorded) = events.next().await {
                black_box(projection.project(&recorded.unwrap()));
            }
        });
    });
}

/// A thousand runs side by side, each saying a word and pausing, as many small ones do.
fn a_thousand_runs_side_by_side() {
    const N_RUNS: usize = 1_000;
    const N_WORDS: usize = 50;
    let runtime = one_core();
    let turn = (0..N_WORDS).fold(Turn::new(), |turn, _| {
        turn.text("twenty characters ok").pause(Duration::from_millis(1))
    });
    measure("a_thousand_runs_side_by_side", 5, N_RUNS * N_WORDS, || {
        runtime.block_on(async {
            let model = Scripted::new([turn.clone()]).repeat_last();
            let (runs, request) = TestBench::with_model(Arc::new(model)).set_up();
            let mut started = Vec::new();
            for _ in 0..N_RUNS {
                started.push(runs.start(request.clone()).await.unwrap());
            }
            let follow = async |run: turnwire_engine::RunHandle| {
                let mut projection = Callbacks::new(ToolCallbacks::default());
                let mut events = run.events().await.unwrap();
                while let Some(recorded) = events.next().await {
                    black_box(projection.project(&recorded.unwrap()));
                }
            };
            futures::future::join_all(started.into_iter().map(follow)).await;
        });
    });
}
