//! An answer cites what tools of its run found, and whoever takes the run over finds the same.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use turnwire_contract::{
    Annotation, Effect, Event, Journal, ModelPart, NewRun, RecordedEvent, RunOutcome, RunRecords,
    TenantId, Tool, ToolContext, ToolError, ToolKind, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::{ClockAndIds, EngineParts, MemoryJournal, MemoryRunStore, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{TestBench, invariants};

use crate::kinds;

/// A search that always finds the same two pages.
#[derive(Clone)]
struct Finder(ToolSpec);

fn finder() -> Finder {
    Finder(ToolSpec {
        kind: ToolKind::WebSearch,
        effect: Effect::Pure,
        parallel: true,
        ..ToolSpec::new("web_search", "Finds.")
    })
}

#[async_trait]
impl Tool for Finder {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let source =
            |name: &str| json!({ "url": format!("https://{name}.example/"), "title": name });
        let found = json!({ "action": "search", "sources": [source("a"), source("b")] });
        Ok(ToolOutput { structured: Some(found), ..ToolOutput::text("[1] a\n[2] b") })
    }
}

fn look() -> Turn {
    Turn::new().call("web_search", json!({ "query": "x" }))
}

fn answer() -> Turn {
    Turn::new().text("🦭 So says ").text("[a](https://a.exam").text("ple), and [2].")
}

fn cited(journal: &[Arc<RecordedEvent>]) -> Vec<Value> {
    let annotations = journal.iter().filter_map(|recorded| match &recorded.event {
        Event::AnnotationAdded { annotation, .. } => Some(annotation.source.clone()),
        _ => None,
    });
    annotations.collect()
}

fn expected() -> [Value; 2] {
    [
        json!({ "start_index": 10, "end_index": 32, "url": "https://a.example/", "title": "a" }),
        json!({ "start_index": 38, "end_index": 41, "url": "https://b.example/", "title": "b" }),
    ]
}

/// Citations are recorded right before the end of the message, and their places cut out the
/// right text.
#[tokio::test(start_paused = true)]
async fn an_answer_cites_what_was_found() {
    let played = TestBench::new([look(), answer()]).tool(finder()).play().await;
    let kinds = kinds(&played.journal);
    let end = kinds.iter().rposition(|kind| kind == "message_finished").unwrap();
    assert_eq!(kinds[end - 3..end], ["text_added", "annotation_added", "annotation_added"]);
    assert_eq!(cited(&played.journal), expected());
    let letters: Vec<char> = "🦭 So says [a](https://a.example), and [2].".chars().collect();
    assert_eq!(letters[10..32].iter().collect::<String>(), "[a](https://a.example)");
    assert_eq!(letters[38..41].iter().collect::<String>(), "[2]");
}

/// C2: whenever the worker dies, the answer that stands cites the same, once.
#[tokio::test(start_paused = true)]
async fn a_takeover_finds_the_same_citations() {
    let played = TestBench::new([look(), answer()]).tool(finder()).play().await;
    for n_kept in 2..played.journal.len() {
        let kept = &played.journal[..n_kept];
        let script = match kinds(kept).iter().filter(|kind| *kind == "turn_finished").count() {
            0 => vec![look(), answer()],
            1 => vec![answer()],
            _ => vec![],
        };
        let runs = engine_with(kept, Scripted::new(script)).await;
        let run = runs.take_over(&TenantId::default(), &kept[0].run_id).await.unwrap();
        assert_eq!(run.outcome().await, RunOutcome::Completed, "after {n_kept} events");
        let journal = run.journal().await.unwrap();
        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        assert!(wrong.is_empty(), "after {n_kept} events: {wrong:#?}");
        assert_eq!(of_what_stands(&journal), expected(), "after {n_kept} events");
    }
}

/// The citations of turns that were not withdrawn.
fn of_what_stands(journal: &[Arc<RecordedEvent>]) -> Vec<Value> {
    let (mut stands, mut turn) = (Vec::new(), Vec::new());
    for recorded in journal {
        match &recorded.event {
            Event::AnnotationAdded { annotation, .. } => turn.push(annotation.source.clone()),
            Event::TurnAbandoned { .. } => turn.clear(),
            Event::TurnFinished { .. } => stands.append(&mut turn),
            _ => {}
        }
    }
    stands
}

async fn engine_with(journal: &[Arc<RecordedEvent>], model: Scripted) -> Runs {
    let (log, store) = (MemoryJournal::default(), MemoryRunStore::default());
    let Event::RunQueued { request } = &journal[0].event else { panic!() };
    let (run_id, created_at) = (journal[0].run_id.clone(), journal[0].at);
    let request = Arc::clone(request);
    store.create(NewRun::new(run_id, created_at, request)).await.unwrap();
    log.append(&TenantId::default(), journal.to_vec()).await.unwrap();
    let mut tools = Toolbox::default();
    tools.add(Arc::new(finder())).unwrap();
    Runs::new(EngineParts {
        journal: Arc::new(log),
        store: Arc::new(store),
        any_model: Some(Arc::new(model)),
        tools,
        clock_and_ids: Arc::new(ClockAndIds::system()),
        ..EngineParts::default()
    })
}

/// A model that names its sources itself knows best.
#[tokio::test(start_paused = true)]
async fn sources_of_the_model_are_not_added_to() {
    let source = json!({ "url": "https://own.example/", "start_index": 0, "end_index": 2 });
    let own = Annotation { kind: "url_citation".to_owned(), source: source.clone() };
    let answer = answer().part(ModelPart::Annotation(own));
    let played = TestBench::new([look(), answer]).tool(finder()).play().await;
    assert_eq!(cited(&played.journal), [source]);
}

/// What was found in one run is not cited in the next: its journal knows nothing of it.
#[tokio::test(start_paused = true)]
async fn without_a_search_nothing_is_cited() {
    let played = TestBench::new([answer()]).tool(finder()).play().await;
    assert_eq!(cited(&played.journal), Vec::<Value>::new());
}

/// An answer that was cut still says where it comes from.
#[tokio::test(start_paused = true)]
async fn a_cut_answer_cites_too() {
    let cut = Turn::new().text("As [1] says, ").length_cut();
    let played = TestBench::new([look(), cut]).tool(finder()).play().await;
    assert_eq!(cited(&played.journal).len(), 1);
}
