//! C22, C36: a run that kills every worker that executes it, and the runs beside it.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::json;
use tokio::{sync::Notify, time::timeout};
use turnwire_contract::{
    Effect, Event, Item, Journal, RunId, RunOutcome, RunRequest, Seq, TenantId, Tool, ToolContext,
    ToolError, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::Runs;

use super::{engine_on, faulty_database::FaultyDatabase, in_simulated_time};
use crate::Store;

/// Eleven deaths that are blamed on the run, two until it is suspected, and one more because it got
/// a turn of the model done.
const MAX_DEATHS: usize = 11 + 2 + 1;

/// Kills the node that calls it.
struct Poison {
    spec: ToolSpec,
    database: FaultyDatabase,
    killed: Arc<Notify>,
}

#[async_trait]
impl Tool for Poison {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.database.die();
        self.killed.notify_one();
        std::future::pending().await
    }
}

fn poison() -> ToolSpec {
    let mut spec = ToolSpec::new("poison", "Kills its worker.");
    spec.effect = Effect::Pure;
    spec
}

/// A node that dies of the poison.
struct Node {
    runs: Runs,
    store: Store,
    killed: Arc<Notify>,
}

impl Node {
    async fn start(database: FaultyDatabase) -> Self {
        let killed = Arc::new(Notify::new());
        let tool =
            Poison { spec: poison(), database: database.clone(), killed: Arc::clone(&killed) };
        let (runs, store) = engine_on(&database, Arc::new(tool)).await;
        Self { runs, store, killed }
    }

    /// Starts a run with this turn of the model, and then another one.
    async fn ask(&self, turn: serde_json::Value, tools: Vec<Arc<ToolSpec>>) -> RunId {
        let script = json!({ "turns": [turn, { "text": ["done"] }] }).to_string();
        let mut request = RunRequest::new("any", vec![Item::user(script)]);
        request.tools = tools;
        self.runs.start(request).await.unwrap().id().clone()
    }

    /// Waits until the run has ended or the node is dead. Returns the outcome.
    async fn outcome(&self, run_id: &RunId) -> Option<RunOutcome> {
        let read = async {
            let tenant = TenantId::default();
            let mut events = self.store.read(&tenant, run_id, Seq::START).await.ok()?;
            while let Some(Ok(recorded)) = events.next().await {
                if let Event::RunFinished { outcome, .. } = &recorded.event {
                    return Some(outcome.clone());
                }
            }
            None
        };
        tokio::select! {
            biased;
            () = self.killed.notified() => None,
            outcome = read => outcome,
        }
    }
}

/// The poison ends with what is known of it. A run beside it that has no tools and never gets
/// anything done survives all those deaths: none is counted against it.
#[test]
fn a_poison_run_harms_itself_alone() {
    in_simulated_time(async {
        let folder = tempfile::tempdir().unwrap();
        let database = FaultyDatabase::open(&folder.path().join("runs.db"));
        let mut node = Node::start(database.of_node("first")).await;
        let words = vec!["word "; 300];
        let beside = node.ask(json!({ "text": words, "pace_ms": 1_500 }), Vec::new()).await;
        let call = json!({ "calls": [{ "name": "poison", "arguments": {} }] });
        let poison = node.ask(call, vec![Arc::new(poison())]).await;
        let mut n_deaths = 0;
        let outcome = loop {
            let ended = timeout(Duration::from_mins(10), node.outcome(&poison)).await;
            if let Some(outcome) = ended.expect("it is taken over, or ends") {
                break outcome;
            }
            n_deaths += 1;
            assert!(n_deaths <= MAX_DEATHS, "it should have been found out");
            node = Node::start(database.of_node("next")).await;
        };
        assert_eq!(n_deaths, MAX_DEATHS);
        let RunOutcome::Failed { failure } = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.code, "max_recoveries");
        let ended = timeout(Duration::from_mins(30), node.outcome(&beside)).await;
        assert_eq!(ended.expect("it goes on"), Some(RunOutcome::Completed), "{n_deaths} deaths");
    });
}
