//! Recorded runs, one for each situation.
//!
//! A scenario is executed once, in simulated time. Its journal is in
//! `scenarios/<name>/events.jsonl`, with the output of every surface beside it.

mod custom;

use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::{Value, json};
use turnwire_contract::{
    Annotation, ApprovalAnswer, Approvals, CallId, Decision, Effect, Event, FirstCall, Item,
    ModelError, ModelPart, Question, RecordedEvent, Reply, Tool, ToolContext, ToolError, ToolKind,
    ToolOutput, ToolRef, ToolRequest, ToolSpec, UnknownOutcomes, Usage,
};
use turnwire_models::Turn;

use crate::{
    fake_servers::FakeServers,
    fake_tools::{Behaviour, FakeTool},
    test_bench::{Act, TestBench},
};

/// A run, and the commands sent to it.
pub struct Scenario {
    /// Name of its folder.
    pub name: &'static str,
    pub stage: TestBench,
    director: Director,
}

type Director = Box<dyn FnMut(&RecordedEvent) -> Option<Act>>;

impl Scenario {
    /// Executes the scenario and returns its journal.
    pub async fn play(self) -> Vec<Arc<RecordedEvent>> {
        self.stage.play_with(self.director).await.journal
    }

    /// Returns the folder of its files.
    pub fn folder(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(self.name)
    }
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

fn undisturbed(name: &'static str, stage: TestBench) -> Scenario {
    Scenario { name, stage, director: Box::new(|_| None) }
}

/// Performs `act` once, after the first event that matches `when`.
fn disturbed(
    name: &'static str,
    stage: TestBench,
    when: fn(&Event) -> bool,
    act: fn(&Event) -> Act,
) -> Scenario {
    let mut is_done = false;
    let director = move |recorded: &RecordedEvent| {
        if is_done || !when(&recorded.event) {
            return None;
        }
        is_done = true;
        Some(act(&recorded.event))
    };
    Scenario { name, stage, director: Box::new(director) }
}

/// Returns all scenarios. Must be called inside a runtime.
pub fn all() -> Vec<Scenario> {
    let kinds = [
        answers(),
        tools(),
        custom::custom(),
        people(),
        failing_tools(),
        servers(),
        handed_back(),
        searches(),
        stops(),
        limits(),
        models(),
    ];
    kinds.into_iter().flatten().collect()
}

fn multiply() -> FakeTool {
    FakeTool::new("multiply", Behaviour::Multiplies)
}

fn ask_to_multiply() -> Turn {
    Turn::new()
        .text("Let me multiply. ")
        .part(ModelPart::CallStarted { key: 0, id: Some("call_m".into()), name: "multiply".into() })
        .part(ModelPart::CallArguments { key: 0, text: "{\"a\": 5, ".into() })
        .part(ModelPart::CallArguments { key: 0, text: "\"b\": 4}".into() })
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn answers() -> Vec<Scenario> {
    let usage = Usage {
        input_tokens: 12,
        cached_tokens: 3,
        output_tokens: 5,
        reasoning_tokens: 0,
        cost_nanos: None,
    };
    vec![
        undisturbed(
            "plain_text",
            TestBench::new([Turn::new().text_in(["Hello", ", ", "world."]).usage(usage)]),
        ),
        undisturbed(
            "reasoning_then_text",
            TestBench::new([Turn::new().reasoning("The user greets me.").text("Hello.")]),
        ),
        undisturbed("refusal", TestBench::new([Turn::new().refusal("I cannot help with that.")])),
        undisturbed(
            "hostile_text",
            TestBench::new([Turn::new().text_in([
                "red \u{1b}[3",
                "1mtext\u{1b}[0m",
                " and\0 a bell\u{7}, naïve 🦀",
            ])]),
        ),
    ]
}

fn tools() -> Vec<Scenario> {
    let slow = Behaviour::Takes(seconds(12), "slow result".into());
    let three = || {
        Turn::new()
            .call_with_id("call_a", "fast", json!({ "query": "rust" }))
            .call_with_id("call_b", "broken", json!({ "path": "/tmp/x" }))
            .call_with_id("call_c", "slow", json!({ "id": 7 }))
    };
    let delete = FakeTool::new("delete", Behaviour::Returns("deleted".into()))
        .with(|spec: &mut ToolSpec| spec.needs_approval = true);
    let client =
        ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("locate", "Where the user is.") };
    vec![
        undisturbed(
            "one_tool",
            TestBench::new([ask_to_multiply(), Turn::new().text_in(["5 times 4 ", "is 20."])])
                .tool(multiply()),
        ),
        undisturbed(
            "two_tools_in_sequence",
            TestBench::new([
                Turn::new()
                    .call_with_id("call_1", "multiply", json!({ "a": 5, "b": 4 }))
                    .call_with_id("call_2", "multiply", json!({ "a": 20, "b": 2 })),
                Turn::new().text("20 and 40."),
            ])
            .tool(multiply())
            .request(|request| request.parallel_tool_calls = false),
        ),
        undisturbed(
            "three_tools_in_parallel",
            TestBench::new([three(), Turn::new().text("One of three failed.")])
                .tool(FakeTool::new(
                    "fast",
                    Behaviour::Takes(Duration::from_millis(200), "6 results".into()),
                ))
                .tool(FakeTool::new(
                    "broken",
                    Behaviour::FailsAfter(seconds(1), "disk is full".into()),
                ))
                .tool(FakeTool::new("slow", slow)),
        ),
        undisturbed(
            "tool_with_progress",
            TestBench::new([
                Turn::new().call_with_id("call_1", "deploy", json!({ "name": "v4" })),
                Turn::new().text("Deployed."),
            ])
            .tool(FakeTool::new("deploy", Behaviour::Reports(3, seconds(1), "all green".into()))),
        ),
        disturbed(
            "approval_denied",
            TestBench::new([
                Turn::new().call_with_id("call_1", "delete", json!({ "path": "old" })),
                Turn::new().text("Then I leave it."),
            ])
            .tool(delete),
            |event| matches!(event, Event::ApprovalRequested { .. }),
            |event| {
                let call_id = event.call_id().cloned().unwrap_or_else(|| CallId::new(""));
                Act::Resolve(call_id, Decision::Denied { reason: "not today".into() })
            },
        ),
        undisturbed(
            "client_tool",
            TestBench::new([Turn::new().text("Where are you? ").call_with_id(
                "call_1",
                "locate",
                json!({}),
            )])
            .request(|request| request.tools.push(Arc::new(client))),
        ),
        undisturbed(
            "empty_result",
            TestBench::new([
                Turn::new().call_with_id("call_1", "quiet", json!({})),
                Turn::new().text("Nothing came."),
            ])
            .tool(FakeTool::new("quiet", Behaviour::Returns(String::new()))),
        ),
        undisturbed(
            "big_result",
            TestBench::new([
                Turn::new().call_with_id("call_1", "dump", json!({})),
                Turn::new().text("That was a lot."),
            ])
            .tool(FakeTool::new(
                "dump",
                Behaviour::Returns("0123456789\n".repeat(5 * 1024 * 1024 / 11)),
            ))
            .limits(|limits| limits.output_in_journal = 2048),
        ),
        undisturbed(
            "image_result",
            TestBench::new([
                Turn::new().call_with_id("call_1", "draw", json!({})),
                Turn::new().text("A picture."),
            ])
            .tool(FakeTool::new("draw", Behaviour::Draws)),
        ),
    ]
}

/// Scenarios with edited arguments, remembered approvals and questions.
fn people() -> Vec<Scenario> {
    let delete = FakeTool::new("delete", Behaviour::Returns("deleted".into()))
        .with(|spec: &mut ToolSpec| spec.needs_approval = true);
    let question = Question {
        message: "Window or aisle?".to_owned(),
        schema: json!({ "type": "object", "properties": { "seat": { "type": "string" } } }),
    };
    vec![
        disturbed(
            "approval_edited",
            TestBench::new([
                Turn::new().call_with_id("call_1", "delete", json!({ "path": "/" })),
                Turn::new().text("Only that one, then."),
            ])
            .tool(delete)
            .limits(|limits| limits.approval_expiry = Some(seconds(60))),
            |event| matches!(event, Event::ApprovalRequested { .. }),
            |event| {
                let call_id = event.call_id().cloned().unwrap_or_else(|| CallId::new(""));
                let arguments = Some(json!({ "path": "/tmp/old" }).to_string());
                let yes = ApprovalAnswer::from(Decision::Approved).by("/ws/chat");
                Act::Answer(call_id, ApprovalAnswer { arguments, remember: true, ..yes })
            },
        ),
        disturbed(
            "input_given",
            TestBench::new([
                Turn::new().call_with_id("call_1", "book", json!({ "to": "Oslo" })),
                Turn::new().text("Booked."),
            ])
            .tool(FakeTool::new("book", Behaviour::Asks(question)))
            .request(|request| request.inputs = true),
            |event| matches!(event, Event::InputRequested { .. }),
            |event| {
                let call_id = event.call_id().cloned().unwrap_or_else(|| CallId::new(""));
                let content = [("seat".to_owned(), json!("window"))].into_iter().collect();
                Act::Reply(call_id, Reply::Accepted { content })
            },
        ),
        disturbed(
            "outcome_settled",
            TestBench::new([
                Turn::new().call_with_id("call_1", "publish", json!({ "post": "news" })),
                Turn::new().text("Published."),
            ])
            .tool(
                FakeTool::new(
                    "publish",
                    Behaviour::Vanishes(Duration::from_secs(1), "the line broke".to_owned()),
                )
                .with(|spec| spec.effect = Effect::Once),
            )
            .request(|request| {
                request.inputs = true;
                request.unknown_outcomes = UnknownOutcomes::Ask;
            }),
            |event| matches!(event, Event::InputRequested { .. }),
            |event| {
                let call_id = event.call_id().cloned().unwrap_or_else(|| CallId::new(""));
                let outcome = ("outcome".to_owned(), json!("done"));
                let result = ("result".to_owned(), json!("post 7 is online"));
                let content = [outcome, result].into_iter().collect();
                Act::Reply(call_id, Reply::Accepted { content })
            },
        ),
    ]
}

fn failing_tools() -> Vec<Scenario> {
    let call = |name: &str, arguments| Turn::new().call_with_id("call_1", name, arguments);
    let sorry = || Turn::new().text("That did not work.");
    vec![
        undisturbed(
            "failing_tool",
            TestBench::new([call("broken", json!({})), sorry()])
                .tool(FakeTool::new("broken", Behaviour::Fails("disk is full".into()))),
        ),
        undisturbed(
            "unknown_tool",
            TestBench::new([call("serch", json!({})), sorry()]).tool(multiply()),
        ),
        undisturbed(
            "invalid_arguments",
            TestBench::new([call("multiply", json!({ "a": "five" })), sorry()]).tool(multiply()),
        ),
        undisturbed(
            "broken_arguments",
            TestBench::new([Turn::new().call_raw("multiply", ["{\"a\": 5, \"b\""]), sorry()])
                .tool(multiply()),
        ),
        undisturbed(
            "tool_timeout",
            TestBench::new([call("hang", json!({})), sorry()])
                .tool(FakeTool::new("hang", Behaviour::Hangs))
                .limits(|limits| limits.call_silence = seconds(12)),
        ),
        undisturbed(
            "tool_outcome_unknown",
            TestBench::new([call("pay", json!({ "euros": 7 })), Turn::new().text("Please check.")])
                .tool(vanishing("pay", "the connection broke before it answered")),
        ),
        undisturbed(
            "tool_panic",
            TestBench::new([call("crash", json!({})), sorry()])
                .tool(FakeTool::new("crash", Behaviour::Panics)),
        ),
        undisturbed(
            "tool_retried",
            TestBench::new([call("flaky", json!({})), Turn::new().text("It worked at last.")])
                .tool(FakeTool::new("flaky", Behaviour::FailsAtFirst(1, "fine now".into()))),
        ),
    ]
}

/// A tool with effect class "once" that disappears with an unknown outcome.
fn vanishing(name: &str, what: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Vanishes(seconds(2), what.into()))
        .with(|spec: &mut ToolSpec| spec.effect = Effect::Once)
}

fn servers() -> Vec<Scenario> {
    let find = |text: &str| FakeTool::new("find", Behaviour::Returns(text.into()));
    let now = || FakeTool::new("now", Behaviour::Returns("9 o'clock".into()));
    let ask = || Turn::new().call_with_id("call_1", "find", json!({ "query": "rust" }));
    let broken = FakeTool::new("find", Behaviour::Fails("the index is being built".into()));
    let deploy = FakeTool::new("deploy", Behaviour::Reports(2, seconds(7), "all green".into()));
    let deep = FakeTool::new("explain", Behaviour::Returns(String::new()));
    let deep = deep.with(|spec| {
        let schema = (0..70).fold(json!({}), |inner, _| json!({ "items": inner }));
        spec.parameters = json!({ "properties": { "of": schema } });
    });
    vec![
        undisturbed(
            "server_known",
            TestBench::new([
                Turn::new()
                    .text("Let me look. ")
                    .part(ModelPart::CallStarted {
                        key: 0,
                        id: Some("call_1".into()),
                        name: "find".into(),
                    })
                    .part(ModelPart::CallArguments { key: 0, text: "{\"query\": ".into() })
                    .part(ModelPart::CallArguments { key: 0, text: "\"rust\"}".into() }),
                Turn::new().text("Found it."),
            ])
            .servers(FakeServers::default().with("docs", [find("3 pages")])),
        ),
        undisturbed(
            "server_slow",
            TestBench::new([ask(), Turn::new().text("Found it.")])
                .servers(FakeServers::default().slow("docs", seconds(3), [find("3 pages")])),
        ),
        undisturbed(
            "server_dead",
            TestBench::new([
                ask().call_with_id("call_2", "now", json!({})),
                Turn::new().text("I only know the time."),
            ])
            .servers(
                FakeServers::default().dead("docs", "connection refused").with("clock", [now()]),
            ),
        ),
        undisturbed(
            "server_dies",
            TestBench::new([ask(), Turn::new().text("Please check.")]).servers(
                FakeServers::default()
                    .with("docs", [vanishing("find", "the server went away in the middle")]),
            ),
        ),
        undisturbed(
            "server_names_collide",
            TestBench::new([
                ask().call_with_id("call_2", "wiki__find", json!({ "query": "rust" })),
                Turn::new().text("Found it twice."),
            ])
            .servers(
                FakeServers::default()
                    .with("docs", [find("3 pages")])
                    .with("wiki", [find("1 article")]),
            ),
        ),
        undisturbed(
            "server_tool_fails",
            TestBench::new([ask(), Turn::new().text("That did not work.")])
                .servers(FakeServers::default().with("docs", [broken])),
        ),
        undisturbed(
            "server_tool_left_out",
            TestBench::new([ask(), Turn::new().text("Found it.")])
                .servers(FakeServers::default().with("docs", [find("3 pages"), deep])),
        ),
        undisturbed(
            "server_tool_with_progress",
            TestBench::new([
                Turn::new().call_with_id("call_1", "deploy", json!({ "name": "v4" })),
                Turn::new().text("Deployed."),
            ])
            .servers(FakeServers::default().with("ship", [deploy])),
        ),
        disturbed(
            "cancel_during_discovery",
            TestBench::new([ask()]).servers(FakeServers::default().slow(
                "docs",
                seconds(60),
                [find("3 pages")],
            )),
            |event| matches!(event, Event::DiscoveryStarted { .. }),
            |_| Act::CancelRun,
        ),
    ]
}

/// A run that returns the approval to the client, and the two that bring the answer.
fn handed_back() -> Vec<Scenario> {
    let delete = || {
        FakeTool::new("delete", Behaviour::Returns("deleted".into()))
            .with(|spec| spec.needs_approval = true)
    };
    let files = || FakeServers::default().with("files", [delete()]);
    let arguments = || json!({ "path": "old" });
    let answered = |decision: Decision, turn: Turn| {
        TestBench::new([turn]).servers(files()).request(move |request| {
            request.approvals = Approvals::HandBack;
            request.first_calls = vec![FirstCall {
                call_id: CallId::new("call_1"),
                tool: ToolRef {
                    name: "delete".into(),
                    kind: ToolKind::Mcp,
                    server: Some("files".into()),
                },
                arguments: arguments().to_string(),
                decision: Some(decision),
                budget: None,
            }];
            let asked = json!({ "call_1": "mcpr_1" });
            request.surface_data.insert("approval_requests".into(), asked);
        })
    };
    vec![
        undisturbed(
            "approval_handed_back",
            TestBench::new([Turn::new().text("May I? ").call_with_id(
                "call_1",
                "delete",
                arguments(),
            )])
            .servers(files())
            .request(|request| request.approvals = Approvals::HandBack),
        ),
        undisturbed(
            "approval_answered_yes",
            answered(Decision::Approved, Turn::new().text("It is gone.")),
        ),
        undisturbed(
            "approval_answered_no",
            answered(
                Decision::Denied { reason: "not today".into() },
                Turn::new().text("Then I leave it."),
            ),
        ),
    ]
}

/// A built-in search with a fixed result.
struct Search {
    spec: ToolSpec,
    found: Result<ToolOutput, String>,
}

impl Search {
    fn new(name: &str, kind: ToolKind, found: Result<ToolOutput, &str>) -> Self {
        let spec = ToolSpec {
            kind,
            effect: Effect::Pure,
            parallel: true,
            ..ToolSpec::new(name, "A search.")
        };
        Self { spec, found: found.map_err(str::to_owned) }
    }
}

#[async_trait]
impl Tool for Search {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: ToolRequest, context: ToolContext) -> Result<ToolOutput, ToolError> {
        context.phase("searching").await;
        tokio::time::sleep(seconds(1)).await;
        self.found.clone().map_err(ToolError::failed)
    }
}

fn searches() -> Vec<Scenario> {
    let pages = json!({
        "query": "rust streams",
        "sources": [
            { "url": "https://example.com/one", "title": "One" },
            { "url": "https://example.com/two", "title": "Two" },
        ],
    });
    let chunks = json!({
        "queries": ["leave", "holidays"],
        "results": [{
            "file_id": "file_1",
            "filename": "handbook.md",
            "score": 0.5,
            "text": "Thirty days.",
            "attributes": { "year": 2026 },
        }],
    });
    let found = |text: &str, short: &str, structured: Value| {
        let (structured, short) = (Some(structured), Some(short.to_owned()));
        Ok(ToolOutput { structured, short, ..ToolOutput::text(text) })
    };
    let web = |found| Search::new("web_search", ToolKind::WebSearch, found);
    let look = || {
        let query = json!({ "query": "rust streams" });
        Turn::new().call_with_id("call_1", "web_search", query)
    };
    let source = Annotation {
        kind: "url_citation".into(),
        source: json!({
            "url": "https://example.com/one", "title": "One", "start_index": 0, "end_index": 9,
        }),
    };
    vec![
        undisturbed(
            "web_search",
            TestBench::new([
                look(),
                Turn::new().text("They are.").part(ModelPart::Annotation(source)),
            ])
            .tool(web(found("[1] One\n[2] Two", "2 results", pages))),
        ),
        undisturbed(
            "web_search_fails",
            TestBench::new([look(), Turn::new().text("The search is down.")])
                .tool(web(Err("the search engine did not answer"))),
        ),
        undisturbed(
            "file_search",
            TestBench::new([
                Turn::new().call_with_id(
                    "call_1",
                    "file_search",
                    json!({ "queries": ["leave", "holidays"] }),
                ),
                Turn::new().text("Thirty days."),
            ])
            .tool(Search::new(
                "file_search",
                ToolKind::FileSearch,
                found("[1] handbook.md (file_1)\nThirty days.", "1 passage", chunks),
            ))
            .request(|request| {
                let included = json!(["file_search_call.results"]);
                request.surface_data.insert("include".into(), included);
            }),
        ),
    ]
}

fn stops() -> Vec<Scenario> {
    let cancel = |_: &Event| Act::CancelRun;
    vec![
        disturbed(
            "cancel_during_text",
            TestBench::new([Turn::new().text("Once upon").pause(seconds(60)).text(" a time.")]),
            |event| matches!(event, Event::TextAdded { .. }),
            cancel,
        ),
        disturbed(
            "cancel_during_arguments",
            TestBench::new([Turn::new()
                .part(ModelPart::CallStarted {
                    key: 0,
                    id: Some("call_1".into()),
                    name: "multiply".into(),
                })
                .part(ModelPart::CallArguments { key: 0, text: "{\"a\": 5".into() })
                .pause(seconds(60))])
            .tool(multiply()),
            |event| matches!(event, Event::ArgumentsAdded { .. }),
            cancel,
        ),
        disturbed(
            "cancel_during_tool",
            TestBench::new([Turn::new().text("Working. ").call_with_id(
                "call_1",
                "wait",
                json!({}),
            )])
            .tool(FakeTool::new("wait", Behaviour::WaitsToBeStopped)),
            |event| matches!(event, Event::ToolStarted { .. }),
            cancel,
        ),
        disturbed(
            "cancel_one_of_two_calls",
            TestBench::new([
                Turn::new().call_with_id("call_1", "wait", json!({})).call_with_id(
                    "call_2",
                    "fast",
                    json!({}),
                ),
                Turn::new().text("One was stopped."),
            ])
            .tool(FakeTool::new("wait", Behaviour::WaitsToBeStopped))
            .tool(FakeTool::new("fast", Behaviour::Takes(seconds(2), "6 results".into()))),
            |event| matches!(event, Event::ToolStarted { .. }),
            |event| Act::CancelCall(event.call_id().cloned().unwrap_or_else(|| CallId::new(""))),
        ),
    ]
}

fn limits() -> Vec<Scenario> {
    let again = |n: u32| Turn::new().call("multiply", json!({ "a": n, "b": 1 }));
    vec![
        undisturbed(
            "max_turns",
            TestBench::new([again(1), again(2), again(3)])
                .tool(multiply())
                .limits(|limits| limits.max_turns = 2),
        ),
        undisturbed(
            "max_tool_calls",
            TestBench::new([
                again(1),
                Turn::new()
                    .call("multiply", json!({ "a": 2, "b": 1 }))
                    .call("multiply", json!({ "a": 3, "b": 1 })),
            ])
            .tool(multiply())
            .limits(|limits| limits.max_tool_calls = 2),
        ),
        undisturbed(
            "repeated_call",
            TestBench::new([again(1), again(1), again(1), again(1)]).tool(multiply()),
        ),
        undisturbed(
            "time_limit",
            TestBench::new([Turn::new().text("Working. ").call_with_id(
                "call_1",
                "hang",
                json!({}),
            )])
            .tool(FakeTool::new("hang", Behaviour::Hangs))
            .limits(|limits| limits.wall_clock = seconds(32)),
        ),
        undisturbed("length_cut", TestBench::new([Turn::new().text("It is a long").length_cut()])),
        undisturbed(
            "length_cut_in_arguments",
            TestBench::new([Turn::new().call_raw("multiply", ["{\"a\": 5"]).length_cut()])
                .tool(multiply()),
        ),
    ]
}

fn models() -> Vec<Scenario> {
    let away = || Turn::fails(ModelError::Unavailable { message: "503".into(), retry_after: None });
    let message = || "as the test wants it".to_owned();
    let busy = |wait| ModelError::RateLimited { message: message(), retry_after: Some(wait) };
    let lost = || ModelPart::Unreadable { bytes: 40 };
    vec![
        undisturbed("model_rate_limited", TestBench::new([Turn::fails(busy(seconds(90)))])),
        undisturbed(
            "context_length_exceeded",
            TestBench::new([Turn::fails(ModelError::ContextTooLong { message: message() })]),
        ),
        undisturbed(
            "part_skipped",
            TestBench::new([Turn::new().text("It goes ").part(lost()).text("on.")]),
        ),
        undisturbed(
            "part_skipped_in_call",
            TestBench::new([
                ask_to_multiply().part(lost()),
                Turn::new().call_with_id("call_2", "multiply", json!({ "a": 5, "b": 4 })),
                Turn::new().text("20."),
            ])
            .tool(multiply()),
        ),
        undisturbed("model_retry", TestBench::new([away(), Turn::new().text("Here I am.")])),
        undisturbed("model_unavailable", TestBench::new([away(), away(), away()])),
        undisturbed(
            "model_rejects",
            TestBench::new([Turn::fails(ModelError::Rejected { message: "no such model".into() })]),
        ),
        undisturbed(
            "model_breaks_off",
            TestBench::new([Turn::new().text("I was about to").breaks("connection reset")]),
        ),
        undisturbed(
            "conversation_of_images",
            TestBench::new([Turn::new().text("A cat.")]).request(|request| {
                let image = turnwire_contract::Content::image("data:image/png;base64,iVBO");
                request.input = vec![Item::Message {
                    role: turnwire_contract::Role::User,
                    content: vec![turnwire_contract::Content::text("What is this?"), image],
                }];
            }),
        ),
    ]
}
