//! A tool that blocks its thread.

use std::sync::{
    Arc, Mutex,
    mpsc::{Receiver, channel},
};

use serde_json::json;
use turnwire_contract::{
    Item, Model, RunRequest, Tool, ToolContext, ToolError, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::{EngineParts, Toolbox};
use turnwire_models::{Scripted, Turn};

use super::*;

/// Blocks the thread that polls it until it is told to go on.
struct Blocking {
    spec: ToolSpec,
    begun: Sender<()>,
    go_on: Mutex<Receiver<()>>,
}

#[async_trait::async_trait]
impl Tool for Blocking {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.begun.send(()).unwrap();
        let _ = self.go_on.lock().unwrap().recv();
        Ok(ToolOutput::text("at last"))
    }
}

/// C36: a thread that a run blocks is told with what it does and counted, and in the end named as
/// the reason to end the process. Looks are counted, so that no time has to pass here.
#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_thread_is_noticed() {
    let ((begun, has_begun), (go_on, may_go_on)) = (channel(), channel());
    let spec = ToolSpec::new("block", "Blocks its thread.");
    let tool = Blocking { spec: spec.clone(), begun, go_on: Mutex::new(may_go_on) };
    let mut tools = Toolbox::default();
    tools.add(Arc::new(tool)).unwrap();
    let turns = [Turn::new().call("block", json!({})), Turn::new().text("done")];
    let model: Arc<dyn Model> = Arc::new(Scripted::new(turns));
    let runs = Runs::new(EngineParts { any_model: Some(model), tools, ..EngineParts::default() });
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.tools = vec![Arc::new(spec)];
    let run = runs.start(request).await.unwrap();
    tokio::task::spawn_blocking(move || has_begun.recv()).await.unwrap().unwrap();

    let mut looks =
        Looks { runs: runs.clone(), watch: PollWatch::default(), shown: VecDeque::new() };
    for _ in 0..TOLD_AFTER {
        assert_eq!(looks.look(), None);
        assert_eq!(runs.n_blocked_threads(), 0);
    }
    for _ in TOLD_AFTER..ENDS_AFTER {
        assert_eq!(looks.look(), None);
        assert_eq!(runs.n_blocked_threads(), 1, "it is told once");
    }
    let (run_id, step) = (run.id().clone(), "calls of tools".to_owned());
    assert_eq!(looks.look(), Some(LongPoll { run_id, step, n_looks: ENDS_AFTER }));
    go_on.send(()).unwrap();
    run.outcome().await;
    assert_eq!(looks.look(), None);
    assert_eq!(runs.n_blocked_threads(), 1, "it is shown for a minute");
}
