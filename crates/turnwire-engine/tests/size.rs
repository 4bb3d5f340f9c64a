//! What a run costs while it waits. A process of its own: it looks at its whole memory.

use std::{fs, time::Duration};

use futures::StreamExt;
use turnwire_contract::Event;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool, TestBench};

const N_RUNS: usize = 10_000;
const MAX_BYTES: usize = 20 * 1024;

/// This process's memory, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap_or_default();
    kilobytes * 1024
}

/// Ten thousand runs in one process, each waiting for its tool, with one watcher each: at most
/// 20 KB a run.
#[tokio::test]
async fn a_waiting_run_is_small() {
    let model = Scripted::new([Turn::new()
        .text("Let me see. ")
        .call("wait", serde_json::json!({ "query": "something" }))])
    .repeat_last();
    let (runs, request) = TestBench::with_model(std::sync::Arc::new(model))
        .tool(FakeTool::new("wait", Behaviour::WaitsToBeStopped))
        .tool_silent_interval(Duration::from_mins(10))
        .set_up();
    let mut watchers = Vec::with_capacity(N_RUNS);
    let mut before = 0;
    for n in 0..N_RUNS + 100 {
        if n == 100 {
            // The first hundred warm up allocators and tables.
            before = resident();
            assert!(before > 0, "this system does not tell how much memory is used");
        }
        let run = runs.start(request.clone()).await.unwrap();
        let mut events = run.events().await.unwrap();
        while !matches!(events.next().await.unwrap().unwrap().event, Event::ToolStarted { .. }) {}
        watchers.push((run, events));
    }
    let each = (resident() - before) / N_RUNS;
    assert!(each <= MAX_BYTES, "a waiting run takes {each} bytes");
    #[expect(clippy::print_stdout, reason = "the figure is what one runs this for")]
    {
        println!("a waiting run takes {each} bytes");
    }
}
