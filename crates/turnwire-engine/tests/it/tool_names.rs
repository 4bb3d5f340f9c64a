//! Which tool a name means: the order of the request decides, and what a person allows belongs to
//! the server and the tool.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use turnwire_contract::{
    ApprovalAnswer, CallId, ConversationId, Decision, DiscoveryOutcome, Event, FirstCall, LeftOut,
    RecordedEvent, RunOutcome, RunRequest, ServerUse, TenantId, ToolKind, ToolOutcome, ToolRef,
    ToolSpec,
};
use turnwire_engine::{RunState, Runs, Step};
use turnwire_models::Turn;
use turnwire_testkit::{Behaviour, FakeServers, FakeTool, Played, TestBench};

use crate::{calls, outcome_of, returns};

const SECOND: Duration = Duration::from_secs(1);

/// The names under which the tools of each server are offered, as they were recorded.
fn names(journal: &[Arc<RecordedEvent>]) -> Vec<(String, Vec<String>)> {
    let listed = |recorded: &Arc<RecordedEvent>| match &recorded.event {
        Event::ToolsDiscovered { server, outcome: DiscoveryOutcome::Listed { tools }, .. } => {
            Some((server.clone(), tools.iter().map(|spec| spec.name.clone()).collect()))
        }
        _ => None,
    };
    journal.iter().filter_map(listed).collect()
}

fn left_out_of(event: &Event) -> Option<&LeftOut> {
    match event {
        Event::ToolsDiscovered { left_out, .. } => Some(left_out),
        _ => None,
    }
}

fn text_of(played: &Played, call: &str) -> String {
    match outcome_of(played, call) {
        ToolOutcome::Succeeded { output } => output.text.clone(),
        other => panic!("{other:?}"),
    }
}

fn guarded(name: &str, text: &str) -> FakeTool {
    returns(name, text).with(|spec| spec.needs_approval = true)
}

/// A7: two servers have a tool of one name, and calls of one of them need a person. Whichever
/// answers first, and whichever is known already, the same name means the same tool.
#[tokio::test(start_paused = true)]
async fn a_name_does_not_depend_on_who_answers_first() {
    type Add = fn(FakeServers, &str, FakeTool) -> FakeServers;
    let known: Add = |servers, label, tool| servers.with(label, [tool]);
    let quick: Add = |servers, label, tool| servers.slow(label, Duration::ZERO, [tool]);
    let slow: Add = |servers, label, tool| servers.slow(label, 3 * SECOND, [tool]);
    for (add_one, add_two) in
        [(known, slow), (slow, known), (slow, quick), (quick, slow), (quick, quick), (known, known)]
    {
        let servers = add_one(FakeServers::default(), "one", guarded("find", "of one"));
        let servers = add_two(servers, "two", returns("find", "of two"));
        let played = TestBench::new([calls(&["find", "two__find"]), Turn::new().text("Both.")])
            .servers(servers)
            .request(|request| request.approvals = turnwire_contract::Approvals::Decline)
            .play()
            .await;
        let expected = [
            ("one".to_owned(), vec!["find".to_owned()]),
            ("two".to_owned(), vec!["two__find".to_owned()]),
        ];
        assert_eq!(names(&played.journal), expected);
        assert!(matches!(outcome_of(&played, "call_1"), ToolOutcome::Denied { .. }));
        assert_eq!(text_of(&played, "call_2"), "of two");
    }
}

/// A7, C11: a run that is taken over at any point of the discovery gives the same names.
#[tokio::test(start_paused = true)]
async fn a_takeover_gives_the_same_names() {
    let servers = FakeServers::default()
        .slow("one", 3 * SECOND, [returns("find", "of one")])
        .slow("two", SECOND, [returns("find", "of two")])
        .slow("zwo", 2 * SECOND, [returns("find", "of zwo")]);
    let stage = TestBench::new([Turn::new().text("Hello.")]).servers(servers);
    let (runs, request) = stage.set_up();
    let run = runs.start(request).await.unwrap();
    assert_eq!(run.outcome().await, RunOutcome::Completed);
    let journal = run.journal().await.unwrap();
    let whole = names(&journal);
    let labels: Vec<&str> = whole.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["one", "two", "zwo"], "recorded in the order of the request");
    let request = Arc::clone(&runs.find(&TenantId::default(), run.id()).await.unwrap().request);
    for cut in 0..journal.len() {
        let mut folded = RunState::new(run.id(), Arc::clone(&request), Vec::new());
        journal[..cut].iter().for_each(|recorded| folded.apply(&recorded.event));
        let Step::Discover(to_ask) = folded.next_step() else { continue };
        let n_listed = names(&journal[..cut]).len();
        let to_ask: Vec<&str> = to_ask.iter().map(|server| server.label.as_str()).collect();
        assert_eq!(to_ask, labels[n_listed..], "the first ones have their names already");
    }
}

/// A7: a server that does not answer takes no names.
#[tokio::test(start_paused = true)]
async fn a_dead_server_takes_no_names() {
    let servers =
        FakeServers::default().dead("one", "not there").with("two", [returns("find", "of two")]);
    let played = TestBench::new([calls(&["find"]), Turn::new().text("Found.")])
        .servers(servers)
        .play()
        .await;
    assert_eq!(text_of(&played, "call_1"), "of two");
}

/// A7: of two tools of one server whose names become one, each is called under its own name, also
/// if the request allows only one of them.
#[tokio::test(start_paused = true)]
async fn names_that_become_one_are_told_apart() {
    let tools = || [returns("get.it", "dot"), returns("get_it", "line"), returns("get it", "gap")];
    let script = || [calls(&["get_it", "one__get_it"]), Turn::new().text("Both.")];
    let servers = FakeServers::default().with("one", tools());
    let played = TestBench::new(script()).servers(servers.clone()).play().await;
    assert_eq!(
        (text_of(&played, "call_1"), text_of(&played, "call_2")),
        ("dot".into(), "line".into())
    );
    assert_eq!(names(&played.journal)[0].1, ["get_it", "one__get_it"], "there is no third name");

    let only = |request: &mut RunRequest| {
        request.servers[0].allowed = Some(vec!["get.it".to_owned()]);
    };
    let played = TestBench::new(script()).servers(servers).request(only).play().await;
    assert_eq!(text_of(&played, "call_1"), "dot");
    assert!(matches!(outcome_of(&played, "call_2"), ToolOutcome::NotFound { .. }));
}

/// A7: a tool whose own name looks like that of another one with its server in front is not taken
/// for it.
#[tokio::test(start_paused = true)]
async fn a_name_that_looks_qualified_is_qualified() {
    let servers = FakeServers::default()
        .with("one", [returns("one__find", "long"), guarded("find", "short")]);
    let played = TestBench::new([calls(&["one__one__find"]), Turn::new().text("Found.")])
        .servers(servers)
        .play()
        .await;
    assert_eq!(text_of(&played, "call_1"), "long");
    let announced = played.events().find_map(|event| match event {
        Event::CallAnnounced { tool, .. } => Some(tool.own_name().to_owned()),
        _ => None,
    });
    assert_eq!(announced.as_deref(), Some("one__find"), "that is what people see");
}

/// A call of the guarded tool `find` in a conversation. Returns how often a person was asked.
async fn asks(runs: &Runs, request: &RunRequest, servers: &[&str]) -> usize {
    let mut request = request.clone();
    request.conversation_id = Some(ConversationId::from("conv_1"));
    request.servers = servers.iter().map(|label| ServerUse::all_of(*label)).collect();
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    let mut n_asked = 0;
    while let Some(recorded) = events.next().await {
        let recorded = recorded.unwrap();
        if let Event::ApprovalRequested { call_id, .. } = &recorded.event {
            n_asked += 1;
            let always = ApprovalAnswer { remember: true, ..Decision::Approved.into() };
            // Given at once if the conversation allows it; then nobody is asked.
            let _ = runs.answer(&TenantId::default(), run.id(), call_id, always).await;
        }
        if let Event::ApprovalResolved { by: Some(by), .. } = &recorded.event
            && by == "conversation"
        {
            n_asked -= 1;
        }
    }
    n_asked
}

/// A7, C15: what a person allows for a conversation is a tool of one server. Another server that
/// says the same of a tool of the same name is not allowed with it.
#[tokio::test(start_paused = true)]
async fn a_permission_is_for_one_server() {
    let servers = FakeServers::default()
        .with("one", [guarded("find", "of one")])
        .with("two", [guarded("find", "of two")]);
    let script = (0..4).flat_map(|_| [calls(&["find"]), Turn::new().text("Found.")]);
    let (runs, request) = TestBench::new(script).servers(servers).set_up();
    assert_eq!(asks(&runs, &request, &["one"]).await, 1);
    assert_eq!(asks(&runs, &request, &["one", "two"]).await, 0, "the same tool");
    assert_eq!(asks(&runs, &request, &["two"]).await, 1, "another server");
    assert_eq!(asks(&runs, &request, &["two", "one"]).await, 0);
}

/// A7, C15: an approval that the next run brings is for the tool of the server that was asked
/// about, whatever its name is in that run.
#[tokio::test(start_paused = true)]
async fn an_approval_is_for_one_server() {
    let of = |server: &str, name: &str| ToolRef {
        name: name.to_owned(),
        kind: ToolKind::Mcp,
        server: Some(server.to_owned()),
    };
    for (approved, used, expected) in [
        // Then `two__find`, because the other server was there, too.
        (of("two", "two__find"), vec!["two"], Some("of two")),
        // Then `find`, because the other server was not there.
        (of("two", "find"), vec!["one", "two"], Some("of two")),
        // The server is not there any more, and another one has the name.
        (of("one", "find"), vec!["two"], None),
    ] {
        let servers = FakeServers::default()
            .with("one", [guarded("find", "of one")])
            .with("two", [guarded("find", "of two")]);
        let played = TestBench::new([Turn::new().text("Done.")])
            .servers(servers)
            .request(|request| {
                request.servers = used.iter().map(|label| ServerUse::all_of(*label)).collect();
                request.first_calls = vec![FirstCall {
                    call_id: CallId::new("call_1"),
                    tool: approved.clone(),
                    arguments: "{}".to_owned(),
                    decision: Some(Decision::Approved),
                    budget: None,
                }];
            })
            .play()
            .await;
        let outcome = outcome_of(&played, "call_1");
        let text = match outcome {
            ToolOutcome::Succeeded { output } => Some(output.text.as_str()),
            ToolOutcome::NotFound { .. } => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(text, expected);
    }
}

/// A19: of all that the servers of a run list, the first two megabytes are offered, the same each
/// time, and the rest is said to be left out.
#[tokio::test(start_paused = true)]
async fn the_tools_of_a_run_have_a_limit() {
    let tools = |n: usize| {
        let tool = |n| FakeTool::new(&format!("tool_{n}"), Behaviour::Returns(String::new()));
        (0..n).map(move |n| tool(n).with(|spec| spec.description = "d".repeat(4_000)))
    };
    let servers = || {
        let servers = FakeServers::default().slow("one", 2 * SECOND, tools(240));
        servers.slow("two", SECOND, tools(240)).with("zwo", tools(240))
    };
    let play = || TestBench::new([Turn::new().text("Hi.")]).servers(servers()).play();
    let (first, second) = (play().await, play().await);
    assert_eq!(names(&first.journal), names(&second.journal));
    let n_of = |n: usize| names(&first.journal)[n].1.len();
    assert_eq!((n_of(0), n_of(1)), (240, 240));
    assert!((1..60).contains(&n_of(2)), "{}", n_of(2));
    let left_out: Vec<&LeftOut> = first.events().filter_map(left_out_of).collect();
    assert_eq!((left_out[0].is_empty(), left_out[1].is_empty()), (true, true));
    let [first_one, ..] = left_out[2].tools.as_slice() else { panic!("{left_out:?}") };
    assert_eq!(first_one.name, format!("tool_{}", n_of(2)));
    assert_eq!(first_one.reason, "the tools before it take the 2 MiB of a run");
    assert_eq!(left_out[2].tools.len() + left_out[2].more, 240 - n_of(2));
}

/// A19: the tools of a server are in memory once, whatever the number of runs.
#[tokio::test(start_paused = true)]
async fn runs_share_the_tools_of_a_server() {
    struct Listed(Arc<ToolSpec>);
    #[async_trait::async_trait]
    impl turnwire_contract::Tool for Listed {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }

        fn shared_spec(&self) -> Arc<ToolSpec> {
            Arc::clone(&self.0)
        }

        async fn call(
            &self,
            _request: turnwire_contract::ToolRequest,
            _context: turnwire_contract::ToolContext,
        ) -> Result<turnwire_contract::ToolOutput, turnwire_contract::ToolError> {
            Ok(turnwire_contract::ToolOutput::text(""))
        }
    }
    struct Servers(Arc<ToolSpec>);
    #[async_trait::async_trait]
    impl turnwire_contract::ToolServers for Servers {
        fn labels(&self, _tenant: &TenantId) -> Vec<String> {
            vec!["docs".to_owned()]
        }

        fn known_tools(
            &self,
            _tenant: &TenantId,
            _server: turnwire_contract::ServerRef<'_>,
        ) -> Option<Vec<Arc<dyn turnwire_contract::Tool>>> {
            Some(vec![Arc::new(Listed(Arc::clone(&self.0)))])
        }

        async fn tools(
            &self,
            tenant: &TenantId,
            server: turnwire_contract::ServerRef<'_>,
        ) -> Result<Vec<Arc<dyn turnwire_contract::Tool>>, turnwire_contract::ToolError> {
            Ok(self.known_tools(tenant, server).unwrap_or_default())
        }
    }
    let mut spec = ToolSpec::new("find", "Finds.");
    (spec.kind, spec.server) = (ToolKind::Mcp, Some("docs".to_owned()));
    let spec = Arc::new(spec);
    let servers = Servers(Arc::clone(&spec));
    let played = TestBench::new([Turn::new().text("Hi.")]).servers(servers).play().await;
    let is_shared = played.events().any(|event| match event {
        Event::ToolsDiscovered { outcome: DiscoveryOutcome::Listed { tools }, .. } => {
            Arc::ptr_eq(&tools[0], &spec)
        }
        _ => false,
    });
    assert!(is_shared);
}
