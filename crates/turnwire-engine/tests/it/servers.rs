//! Tools of servers: asked for, offered, called.

use std::{sync::Arc, time::Duration};

use turnwire_contract::{
    AskBefore, DiscoveryOutcome, Event, RunOutcome, TenantId, ToolOutcome, ToolSpec,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Act, Behaviour, FakeServers, FakeTool, Played, TestBench};

use crate::{calls, kinds, outcome_of, returns};

fn offered<'a>(played: &'a Played, label: &str) -> &'a [Arc<ToolSpec>] {
    let found =
        played.events().find_map(|event| match event {
            Event::ToolsDiscovered {
                server, outcome: DiscoveryOutcome::Listed { tools }, ..
            } if server == label => Some(tools.as_slice()),
            _ => None,
        });
    found.unwrap_or_else(|| panic!("{label} has told nothing"))
}

fn names(tools: &[Arc<ToolSpec>]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

/// S1-A4, S1-O2: asking a server for its tools is part of the run, before the model is asked.
#[tokio::test(start_paused = true)]
async fn a_server_is_asked_before_the_model() {
    let servers = FakeServers::default().slow(
        "docs",
        Duration::from_secs(1),
        [returns("find", "found"), returns("read", "text")],
    );
    let model = Scripted::new([calls(&["find"]), Turn::new().text("Done.")]);
    let stage = TestBench::with_model(Arc::new(model.clone())).servers(servers.clone());
    let played = stage.play().await;
    assert_eq!(
        kinds(&played.journal)[..6],
        [
            "run_queued",
            "run_started",
            "discovery_started",
            "tools_discovered",
            "turn_started",
            "call_announced"
        ]
    );
    assert_eq!(names(offered(&played, "docs")), ["find", "read"]);
    assert_eq!(names(&model.prompts()[0].tools), ["find", "read"]);
    assert!(outcome_of(&played, "call_1").is_success());
    assert_eq!(servers.n_asked("docs"), 1);
}

/// A server that is known is not asked again.
#[tokio::test(start_paused = true)]
async fn a_known_server_is_not_asked() {
    let servers = FakeServers::default().with("docs", [returns("find", "found")]);
    let played = TestBench::new([calls(&["find"]), Turn::new().text("Done.")])
        .servers(servers.clone())
        .play()
        .await;
    assert!(outcome_of(&played, "call_1").is_success());
    assert_eq!(servers.n_asked("docs"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_costs_its_tools_and_not_the_run() {
    let servers = FakeServers::default()
        .dead("docs", "connection refused")
        .with("clock", [returns("now", "9")]);
    let played = TestBench::new([calls(&["now", "find"]), Turn::new().text("Well.")])
        .servers(servers)
        .play()
        .await;
    let failed = played.events().find_map(|event| match event {
        Event::ToolsDiscovered { outcome: DiscoveryOutcome::Failed { failure }, .. } => {
            Some(failure)
        }
        _ => None,
    });
    assert_eq!(failed.unwrap().code, "server_unreachable");
    assert!(outcome_of(&played, "call_1").is_success());
    assert!(matches!(outcome_of(&played, "call_2"), ToolOutcome::NotFound { .. }));
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// A7: two tools of one name are told apart by their servers.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_taken_gets_its_server_in_front() {
    let servers = FakeServers::default()
        .with("one", [returns("find", "first")])
        .with("two", [returns("find", "second")]);
    let played = TestBench::new([calls(&["find", "two__find"]), Turn::new().text("Both.")])
        .servers(servers)
        .play()
        .await;
    assert_eq!(names(offered(&played, "two")), ["two__find"]);
    let text = |call| match outcome_of(&played, call) {
        ToolOutcome::Succeeded { output } => output.text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!((text("call_1"), text("call_2")), ("first".to_owned(), "second".to_owned()));
    let own = offered(&played, "two")[0].reference();
    assert_eq!(own.own_name(), "find");
}

/// Providers refuse names with dots or spaces, and names that are too long: the model is offered
/// names that they take, and the server is called by its own.
#[tokio::test(start_paused = true)]
async fn a_name_that_providers_refuse_is_made_fit() {
    let long = "x".repeat(100);
    let servers = FakeServers::default()
        .with("one", [returns("admin.list", "listed"), returns(&long, "long")])
        .with("two", [returns("admin list", "other")]);
    let shortened = "x".repeat(64);
    let asked = calls(&["admin_list", "two__admin_list", shortened.as_str()]);
    let played = TestBench::new([asked, Turn::new().text("All.")]).servers(servers).play().await;
    assert_eq!(names(offered(&played, "one")), ["admin_list", shortened.as_str()]);
    for (call, expected) in [("call_1", "listed"), ("call_2", "other"), ("call_3", "long")] {
        let outcome = outcome_of(&played, call);
        assert!(
            matches!(outcome, ToolOutcome::Succeeded { output } if output.text == expected),
            "{outcome:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_allowed_tools_are_offered_and_some_need_a_person() {
    let servers = FakeServers::default()
        .with("files", [returns("read", "r"), returns("write", "w"), returns("drop", "d")]);
    let played = TestBench::new([calls(&["drop"]), Turn::new().text("No.")])
        .servers(servers)
        .request(|request| {
            request.servers[0].allowed = Some(vec!["read".to_owned(), "write".to_owned()]);
            request.servers[0].ask_before = AskBefore::Only(vec!["write".to_owned()]);
        })
        .play()
        .await;
    let approval: Vec<(&str, bool)> = offered(&played, "files")
        .iter()
        .map(|tool| (tool.name.as_str(), tool.needs_approval))
        .collect();
    assert_eq!(approval, [("read", false), ("write", true)]);
    assert!(matches!(outcome_of(&played, "call_1"), ToolOutcome::NotFound { .. }));
}

/// I12: a question that is open when the run is cancelled gets its end.
#[tokio::test(start_paused = true)]
async fn a_cancel_closes_the_question() {
    let servers =
        FakeServers::default().slow("docs", Duration::from_hours(1), [returns("find", "found")]);
    let played = TestBench::new([Turn::new().text("Never.")])
        .servers(servers)
        .play_with(|recorded| {
            matches!(recorded.event, Event::DiscoveryStarted { .. }).then_some(Act::CancelRun)
        })
        .await;
    assert_eq!(
        kinds(&played.journal)[2..],
        ["discovery_started", "tools_discovered", "run_finished"]
    );
    assert_eq!(played.outcome, RunOutcome::Cancelled);
}

/// A server's schema is checked like any other, and a cancelled call reaches its tool (L3).
#[tokio::test(start_paused = true)]
async fn a_call_to_a_server_has_the_same_life_as_any_other() {
    let waits = FakeTool::new("wait", Behaviour::WaitsToBeStopped);
    let servers =
        FakeServers::default().with("m", [FakeTool::new("multiply", Behaviour::Multiplies), waits]);
    let played = TestBench::new([calls(&["multiply", "wait"]), Turn::new().text("Hm.")])
        .servers(servers)
        .play_with(|recorded| match &recorded.event {
            Event::ToolStarted { call_id, .. } => Some(Act::CancelCall(call_id.clone())),
            _ => None,
        })
        .await;
    assert!(matches!(outcome_of(&played, "call_1"), ToolOutcome::InvalidArguments { .. }));
    assert_eq!(outcome_of(&played, "call_2"), &ToolOutcome::Cancelled);
}

/// C11, R21: a run taken over while it asks goes on asking, under the same item.
#[tokio::test(start_paused = true)]
async fn a_question_is_asked_again_after_a_takeover() {
    let servers =
        FakeServers::default().slow("docs", Duration::from_secs(5), [returns("find", "found")]);
    let stage = TestBench::new([Turn::new().text("Hello.")]).servers(servers.clone());
    let (runs, request) = stage.set_up();
    let run = runs.start(request).await.unwrap();
    let mut folded = turnwire_engine::RunState::new(
        run.id(),
        Arc::clone(&runs.find(&TenantId::default(), run.id()).await.unwrap().request),
        Vec::new(),
    );
    let journal = run.journal().await.unwrap();
    // All but the answer: what another worker would find.
    let cut = journal.iter().position(|r| matches!(r.event, Event::ToolsDiscovered { .. }));
    journal[..cut.unwrap()].iter().for_each(|recorded| folded.apply(&recorded.event));
    assert!(
        matches!(folded.next_step(), turnwire_engine::Step::Discover(asked) if asked.len() == 1)
    );
    assert_eq!(folded.takeover_events().len(), 1, "nothing has to be closed");
}
