//! Runs for the tests of this folder: one for each form a stream can have.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwire_contract::{
    Annotation, Approvals, CallId, Completeness, ConversationId, Decision, DiscoveryOutcome, Event,
    Failure, Finish, FirstCall, IncompleteReason, InputId, ItemId, LeftOut, Reply, RunOutcome,
    RunRequest, ServerUse, ToolKind, ToolOutcome, ToolOutput, ToolRef, ToolSpec, WhyLeftOut,
};

use crate::story::{Story, failed, request, succeeded};

/// Every story, by name.
pub(super) fn all() -> Vec<(&'static str, Story)> {
    vec![
        ("text", text()),
        ("refusal", refusal()),
        ("reasoning", reasoning()),
        ("annotated", annotated()),
        ("client function", client_function()),
        ("custom tool", custom_tool()),
        ("server function", server_function()),
        ("mcp", mcp()),
        ("mcp failed", mcp_failed()),
        ("mcp never started", mcp_never_started()),
        ("mcp at work", mcp_at_work()),
        ("mcp asking", mcp_asking()),
        ("web search", web_search()),
        ("web search failed", web_search_failed()),
        ("file search", file_search()),
        ("file search failed", file_search_failed()),
        ("side by side", side_by_side()),
        ("one after the other", one_after_the_other()),
        ("discovery", discovery()),
        ("discovery failed", discovery_failed()),
        ("handed back", handed_back()),
        ("answered", answered()),
        ("length", length()),
        ("cancelled", cancelled()),
        ("failed", run_failed()),
        ("taken over", taken_over()),
        ("background", background()),
    ]
}

pub(super) fn text() -> Story {
    let story = Story::new().turn().says(&["It is ", "20."]).turn_done(Finish::Answered);
    story.ended(RunOutcome::Completed)
}

/// Text, then a refusal, then text again.
pub(super) fn refusal() -> Story {
    let story = Story::new().turn().message().text("Well, ").refusal("I ").refusal("cannot.");
    let story = story.text("Sorry.").message_done(Completeness::Complete);
    story.turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn thinking(
    story: Story,
    item: &str,
    deltas: &[&str],
    encrypted_content: Option<&str>,
) -> Story {
    let item_id = ItemId::from(item);
    let text = deltas.concat();
    let story = deltas.iter().fold(story, |story, delta| {
        story.then(Event::ReasoningAdded { item_id: item_id.clone(), text: (*delta).to_owned() })
    });
    let (encrypted_content, completeness) =
        (encrypted_content.map(str::to_owned), Completeness::Complete);
    story.then(Event::ReasoningFinished {
        item_id: item_id.clone(),
        text,
        encrypted_content,
        completeness,
    })
}

/// Reasoning with and without text, and encrypted reasoning that the client requested.
pub(super) fn reasoning() -> Story {
    let request = asking(json!({ "include": ["reasoning.encrypted_content"] }));
    let story = thinking(Story::of(request).turn(), "rs_1", &["Five ", "times."], Some("seal"));
    let story = thinking(story, "rs_2", &[], Some("mute"));
    story.says(&["20"]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn annotated() -> Story {
    let source =
        json!({ "url": "https://a.example", "title": "A", "start_index": 0, "end_index": 2 });
    let annotation = Annotation { kind: "url_citation".to_owned(), source };
    let story = Story::new().turn().message().text("20");
    let item_id = ItemId::from("msg_1");
    let story = story.then(Event::AnnotationAdded { item_id, annotation });
    let story = story.message_done(Completeness::Complete).turn_done(Finish::Answered);
    story.ended(RunOutcome::Completed)
}

pub(super) fn tool(name: &str, kind: ToolKind, server: Option<&str>) -> ToolRef {
    ToolRef { name: name.to_owned(), kind, server: server.map(str::to_owned) }
}

pub(super) fn mcp_tool() -> ToolRef {
    tool("ask", ToolKind::Mcp, Some("docs"))
}

pub(super) fn called(story: Story, call: &str, tool: ToolRef, arguments: &[&str]) -> Story {
    let story = announced(story, call, tool);
    let story = arguments.iter().fold(story, |story, text| story.writes(call, text));
    story.written(call, &arguments.concat())
}

/// Item IDs with the prefix that the engine uses for the kind of the tool.
pub(super) fn announced(story: Story, call: &str, tool: ToolRef) -> Story {
    let prefix = match tool.kind {
        ToolKind::Function | ToolKind::Client => "fc",
        ToolKind::Custom => "ctc",
        ToolKind::Mcp => "mcp",
        ToolKind::WebSearch => "ws",
        ToolKind::FileSearch => "fs",
    };
    let item_id = ItemId::new(format!("{prefix}_{call}"));
    story.then(Event::CallAnnounced { call_id: CallId::from(call), item_id, tool })
}

/// A client's function: the run ends with the call.
pub(super) fn client_function() -> Story {
    let spec = ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("weather", "Tells it.") };
    let story = Story::with_tools(vec![spec]).turn();
    let weather = tool("weather", ToolKind::Client, None);
    let story = called(story, "call_1", weather, &[r#"{"city":"#, r#""Bonn"}"#]);
    story.turn_done(Finish::CalledTools).ended(RunOutcome::Completed)
}

/// A custom tool of the client, in a namespace.
pub(super) fn custom_tool() -> Story {
    let spec = ToolSpec { kind: ToolKind::Custom, ..ToolSpec::new("apply_patch", "Edits files.") };
    let story = Story::with_tools(vec![spec]).turn();
    let patch = tool("apply_patch", ToolKind::Custom, Some("files"));
    let story = called(story, "call_1", patch, &["*** Begin Patch\n", "+\"x\"\n"]);
    story.turn_done(Finish::CalledTools).ended(RunOutcome::Completed)
}

/// Functions of the server: one succeeds and reports progress, one fails.
pub(super) fn server_function() -> Story {
    let story = Story::with_tools(vec![ToolSpec::new("multiply", "Multiplies.")]).turn();
    let story = story.calls("a", "multiply", r#"{"a":5}"#).calls("b", "nothing", "{}");
    let story = story.turn_done(Finish::CalledTools).started("a");
    let story = progressed(story, "a");
    let call_id = CallId::from("a");
    let story = story.then(Event::ToolOutputAdded { call_id, text: "2".to_owned() });
    let missing = ToolOutcome::NotFound { message: "there is no `nothing`".to_owned() };
    let story = story.finished("a", succeeded("20")).finished_after("b", missing, 0);
    story.turn().says(&["20"]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn progressed(story: Story, call: &str) -> Story {
    let (call_id, message) = (CallId::from(call), Some("half".to_owned()));
    story.then(Event::ToolProgressed { call_id, progress: 1.0, total: Some(2.0), message })
}

pub(super) fn mcp() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &[r#"{"q":"#, "1}"]);
    let story = story.turn_done(Finish::CalledTools).started_with("a", 1, "q=1");
    let story = story.finished("a", succeeded("yes"));
    story.turn().says(&["Yes."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn mcp_failed() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    let story = story.finished("a", failed("no such page"));
    story.turn().says(&["No."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

/// A call with invalid arguments: its tool never starts.
pub(super) fn mcp_never_started() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{"]);
    let wrong = ToolOutcome::InvalidArguments { message: "not JSON".to_owned() };
    let story = story.turn_done(Finish::CalledTools).finished_after("a", wrong, 0);
    story.ended(RunOutcome::Completed)
}

/// All events of a running tool.
pub(super) fn mcp_at_work() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    let call_id = CallId::from("a");
    let phase = "connecting".to_owned();
    let story = story.then(Event::ToolPhase { call_id: call_id.clone(), phase });
    let story = progressed(story, "a");
    let story = story.then(Event::ToolStayedSilent { call_id: call_id.clone(), elapsed_ms: 300 });
    let reason = Failure::new("tool_failed", "busy");
    let story = story.then(Event::ToolRetried { call_id, attempt: 2, reason });
    story.finished("a", succeeded("yes")).ended(RunOutcome::Completed)
}

/// A tool that asks the user a question.
pub(super) fn mcp_asking() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    let (call_id, input_id) = (CallId::from("a"), InputId::from("inp_1"));
    let story = story.then(Event::InputRequested {
        call_id: call_id.clone(),
        input_id: input_id.clone(),
        message: "Who is there?".to_owned(),
        schema: json!({ "type": "object" }),
        expires_at: None,
        unknown_outcome: false,
    });
    let (reply, by) = (Reply::Declined, Some("/ws/chat".to_owned()));
    let story = story.then(Event::InputResolved { call_id, input_id, reply, by });
    story.finished("a", succeeded("yes")).ended(RunOutcome::Completed)
}

pub(super) fn asking(surface_data: Value) -> RunRequest {
    let Value::Object(surface_data) = surface_data else { panic!("not an object") };
    RunRequest { surface_data, ..request() }
}

pub(super) fn found(text: &str, structured: Value) -> ToolOutcome {
    let output = ToolOutput { structured: Some(structured), ..ToolOutput::text(text) };
    ToolOutcome::Succeeded { output }
}

pub(super) fn web_search() -> Story {
    let request = asking(json!({ "include": ["web_search_call.action.sources"] }));
    let search = tool("web_search", ToolKind::WebSearch, None);
    let story = called(Story::of(request).turn(), "a", search, &[r#"{"query":"bonn"}"#]);
    let story = progressed(story.turn_done(Finish::CalledTools).started("a"), "a");
    let sources =
        json!({ "query": "bonn", "sources": [{ "url": "https://a.example", "title": "A" }] });
    let story = story.finished("a", found("A", sources));
    story.turn().says(&["A."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn web_search_failed() -> Story {
    let search = tool("web_search", ToolKind::WebSearch, None);
    let story = called(Story::new().turn(), "a", search.clone(), &[r#"{"query":"bonn"}"#]);
    let story = called(story, "b", search, &["{"]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    let wrong = ToolOutcome::InvalidArguments { message: "not JSON".to_owned() };
    let story = story.finished("a", ToolOutcome::TimedOut { after_ms: 5000 });
    story.finished_after("b", wrong, 0).ended(RunOutcome::Completed)
}

pub(super) fn file_search() -> Story {
    let request = asking(json!({ "include": ["file_search_call.results"] }));
    let search = tool("file_search", ToolKind::FileSearch, None);
    let story = called(Story::of(request).turn(), "a", search, &[r#"{"query":"tax"}"#]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    let results = json!({ "queries": ["tax"], "results": [
        { "file_id": "file_1", "filename": "a.md", "score": 0.5, "text": "Taxes.", "attributes": {} },
    ] });
    let story = story.finished("a", found("Taxes.", results));
    story.turn().says(&["Taxes."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn file_search_failed() -> Story {
    let search = tool("file_search", ToolKind::FileSearch, None);
    let story = called(Story::new().turn(), "a", search, &[r#"{"queries":["tax","law"]}"#]);
    let story = story.turn_done(Finish::CalledTools).started("a");
    story.finished("a", failed("no index")).ended(RunOutcome::Completed)
}

/// Three tools at the same time, ending in another order than they started.
pub(super) fn side_by_side() -> Story {
    let story = announced(Story::new().turn(), "a", mcp_tool());
    let story = announced(story, "b", mcp_tool());
    let story = story.writes("a", "{").writes("b", "{}").writes("a", "}");
    let story = story.written("a", "{}").written("b", "{}");
    let search = tool("web_search", ToolKind::WebSearch, None);
    let story = called(story, "c", search, &[r#"{"query":"x"}"#]);
    let story = story.turn_done(Finish::CalledTools).started("a").started("b").started("c");
    let story = story.finished("c", succeeded("C")).finished("b", failed("no"));
    let story = story.finished("a", succeeded("A"));
    story.turn().says(&["Done."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

/// The same tool twice, where the request wants one call at a time.
pub(super) fn one_after_the_other() -> Story {
    let story = Story::of(RunRequest { parallel_tool_calls: false, ..request() });
    let story = called(story.turn(), "a", mcp_tool(), &["{}"]);
    let story = called(story, "b", mcp_tool(), &["{", "}"]).turn_done(Finish::CalledTools);
    let story = story.started("a").finished("a", succeeded("A"));
    story.started("b").finished("b", succeeded("B")).ended(RunOutcome::Completed)
}

pub(super) fn server_spec(name: &str, needs_approval: bool) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        kind: ToolKind::Mcp,
        server: Some("docs".to_owned()),
        needs_approval,
        ..ToolSpec::new(name, "Asks.")
    })
}

pub(super) fn discovered(story: Story, outcome: DiscoveryOutcome) -> Story {
    discovered_without(story, outcome, LeftOut::default())
}

fn discovered_without(story: Story, outcome: DiscoveryOutcome, left_out: LeftOut) -> Story {
    let (item_id, server) = (ItemId::from("mcpl_1"), "docs".to_owned());
    let story =
        story.then(Event::DiscoveryStarted { item_id: item_id.clone(), server: server.clone() });
    story.then(Event::ToolsDiscovered { item_id, server, outcome, left_out })
}

pub(super) fn discovery() -> Story {
    let request = RunRequest { servers: vec![ServerUse::all_of("docs")], ..request() };
    let tools = vec![server_spec("ask", false), server_spec("docs__find", false)];
    let story = discovered(Story::of(request), DiscoveryOutcome::Listed { tools });
    let find = tool("docs__find", ToolKind::Mcp, Some("docs"));
    let story = called(story.turn(), "a", find, &["{}"]).turn_done(Finish::CalledTools);
    let story = story.started("a").finished("a", succeeded("yes"));
    story.turn().says(&["Yes."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

/// A server of whose tools one is not offered.
pub(super) fn discovery_with_left_out() -> Story {
    let mut left_out = LeftOut::default();
    left_out.add("huge", &WhyLeftOut::TooLarge);
    let outcome = DiscoveryOutcome::Listed { tools: vec![server_spec("ask", false)] };
    discovered_without(Story::new(), outcome, left_out).ended(RunOutcome::Completed)
}

pub(super) fn discovery_failed() -> Story {
    let failure = Failure::new("server_unreachable", "the server did not tell its tools: gone");
    let story = discovered(Story::new(), DiscoveryOutcome::Failed { failure });
    story.turn().says(&["No."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

/// A call that needs an approval, where the answer comes with the next request.
pub(super) fn handed_back() -> Story {
    let request = RunRequest { approvals: Approvals::HandBack, ..request() };
    let tools = vec![server_spec("ask", true)];
    let story = discovered(Story::of(request), DiscoveryOutcome::Listed { tools });
    let story = called(story.turn(), "a", mcp_tool(), &[r#"{"q":"#, "1}"]);
    let story = story.turn_done(Finish::CalledTools);
    let story = story.then(Event::approval_requested(CallId::from("a")));
    story.ended(RunOutcome::Completed)
}

/// The next request: the call comes first, with the decision.
pub(super) fn answered() -> Story {
    let decision = Some(Decision::Approved);
    let arguments = r#"{"q":1}"#.to_owned();
    let call_id = CallId::from("a");
    let call =
        FirstCall { call_id: call_id.clone(), tool: mcp_tool(), arguments, decision, budget: None };
    let surface_data = json!({ "approval_requests": { "a": "mcpr_a" } });
    let request = RunRequest {
        approvals: Approvals::HandBack,
        tools: vec![server_spec("ask", true)],
        first_calls: vec![call],
        conversation_id: Some(ConversationId::from("conv_1")),
        ..asking(surface_data)
    };
    let story = Story::of(request).then(Event::TurnStarted { turn: 0 });
    let story = announced(story, "a", mcp_tool()).written("a", r#"{"q":1}"#);
    let story = story.turn_done(Finish::CalledTools);
    let story = story.then(Event::approval_resolved(call_id, Decision::Approved));
    let story = story.started("a").finished("a", succeeded("yes"));
    story.turn().says(&["Yes."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

/// The model's output was cut off in the middle of a call.
pub(super) fn length() -> Story {
    let story = Story::new().turn().message().text("It").message_done(Completeness::Complete);
    let story = story.announced("a", "multiply").writes("a", r#"{"a":"#);
    let call_id = CallId::from("a");
    let (arguments, completeness) = (r#"{"a":"#.to_owned(), Completeness::Cut);
    let story = story.then(Event::ArgumentsFinished { call_id, arguments, completeness });
    let story = story.turn_done(Finish::Length);
    let skipped = ToolOutcome::Skipped { reason: "the model's answer was cut off".to_owned() };
    let story = story.finished_after("a", skipped, 0);
    story.ended(RunOutcome::Incomplete { reason: IncompleteReason::MaxOutputTokens })
}

pub(super) fn cancelled() -> Story {
    let story = called(Story::new().turn(), "a", mcp_tool(), &["{}"]).message().text("It");
    let story = story.message_done(Completeness::Cut);
    let story = story.finished_after("a", ToolOutcome::Cancelled, 0);
    story.turn_done(Finish::Interrupted).ended(RunOutcome::Cancelled)
}

/// The model could not be reached, twice.
pub(super) fn run_failed() -> Story {
    let reason = Failure::new("model_unavailable", "the model is not available right now");
    let retried = Event::TurnRetried { turn: 1, attempt: 2, reason: reason.clone(), delay_ms: 500 };
    let unreadable = Failure::new("model_unreadable", "a part could not be read");
    let skipped = Event::PartSkipped { turn: 1, bytes: 40, reason: unreadable };
    let story = Story::new().turn().then(retried).then(skipped).turn_done(Finish::Interrupted);
    story.ended(RunOutcome::Failed { failure: reason })
}

/// A worker died while the model generated text, and the next one while a tool was running.
pub(super) fn taken_over() -> Story {
    let story = Story::new().turn().message().text("It i").then(Event::taken_over(2));
    let story = story.message_done(Completeness::Superseded).then(Event::TurnAbandoned { turn: 1 });
    let story = story.then(Event::TurnStarted { turn: 1 });
    let story = called(story, "a", mcp_tool(), &["{}"]).turn_done(Finish::CalledTools);
    let story = story.started("a").then(Event::taken_over(3));
    let story = story.started_with("a", 2, "").finished("a", succeeded("20"));
    story.turn().says(&["It is 20."]).turn_done(Finish::Answered).ended(RunOutcome::Completed)
}

pub(super) fn background() -> Story {
    let story = Story::of(asking(json!({ "background": true })));
    let story = story.turn().says(&["20"]).turn_done(Finish::Answered);
    story.ended(RunOutcome::Completed)
}
