//! A journal for tests: a run that lists tools, calls one of an MCP server, and answers.

use std::sync::Arc;

use turnwire_contract::{
    CallId, Completeness, DiscoveryOutcome, Event, Failure, Finish, Item, ItemId, LeftOut,
    RecordedEvent, RunId, RunOutcome, RunRequest, Seq, Timestamp, ToolKind, ToolOutcome,
    ToolOutput, ToolRef, TraceContext, Usage,
};

pub(crate) const RUN: &str = "run_1";
pub(crate) const CALL: &str = "call_1";
pub(crate) const LISTING: &str = "mcpl_1";
pub(crate) const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

pub(crate) fn request(traceparent: Option<&str>) -> Arc<RunRequest> {
    let trace = traceparent
        .map(|text| Arc::new(TraceContext { traceparent: text.to_owned(), tracestate: None }));
    let instructions = Some("Be kind.".to_owned());
    let input = vec![Item::user("How warm is it?")];
    Arc::new(RunRequest { trace, instructions, ..RunRequest::new("m", input) })
}

/// Seconds after the start of the run.
pub(crate) fn second(n: i64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + n * 1_000_000)
}

/// Events, one per second.
pub(crate) fn recorded(events: impl IntoIterator<Item = Event>) -> Vec<RecordedEvent> {
    let mut seq = Seq::START;
    let events = events.into_iter().zip(0..).map(|(event, n)| {
        seq = seq.next();
        RecordedEvent { run_id: RunId::from(RUN), seq, at: second(n), event }
    });
    events.collect()
}

pub(crate) fn call_id() -> CallId {
    CallId::from(CALL)
}

pub(crate) fn usage() -> Usage {
    Usage { input_tokens: 5, cached_tokens: 1, output_tokens: 3, ..Usage::default() }
}

/// The start of the run, up to a call that its server executes.
pub(crate) fn until_call(request: &Arc<RunRequest>) -> Vec<Event> {
    let tool = ToolRef {
        name: "weather__get".to_owned(),
        kind: ToolKind::Mcp,
        server: Some("weather".to_owned()),
    };
    let item_id = ItemId::from(LISTING);
    let (server, tools) = ("weather".to_owned(), Vec::new());
    vec![
        Event::RunQueued { request: Arc::clone(request) },
        Event::RunStarted,
        Event::DiscoveryStarted { item_id: item_id.clone(), server: server.clone() },
        Event::ToolsDiscovered {
            item_id,
            server,
            outcome: DiscoveryOutcome::Listed { tools },
            left_out: LeftOut::default(),
        },
        Event::TurnStarted { turn: 1 },
        Event::CallAnnounced { call_id: call_id(), item_id: ItemId::from("mcp_1"), tool },
        Event::ArgumentsFinished {
            call_id: call_id(),
            arguments: r#"{"city":"Rome"}"#.to_owned(),
            completeness: Completeness::Complete,
        },
        Event::TurnFinished { turn: 1, finish: Finish::CalledTools, usage: usage() },
        Event::ToolStarted { call_id: call_id(), attempt: 1, label: String::new() },
    ]
}

pub(crate) fn call_finished() -> Event {
    let outcome = ToolOutcome::Succeeded { output: ToolOutput::text("31 degrees") };
    Event::ToolFinished { call_id: call_id(), outcome, duration_ms: 10 }
}

pub(crate) fn call_repeated() -> Event {
    let reason = Failure::new("engine_stopped", "x");
    Event::ToolRetried { call_id: call_id(), attempt: 2, reason }
}

pub(crate) fn message(text: &str) -> [Event; 3] {
    let item_id = ItemId::from("msg_1");
    [
        Event::MessageStarted { item_id: item_id.clone() },
        Event::TextAdded { item_id: item_id.clone(), text: text.to_owned() },
        Event::MessageFinished {
            item_id,
            text: text.to_owned(),
            refusal: String::new(),
            completeness: Completeness::Complete,
        },
    ]
}

/// The rest of the run: the model answers.
pub(crate) fn answer() -> Vec<Event> {
    let mut events = vec![Event::TurnStarted { turn: 2 }];
    events.extend(message("It is warm."));
    events.push(Event::TurnFinished { turn: 2, finish: Finish::Answered, usage: usage() });
    events.push(Event::RunFinished { outcome: RunOutcome::Completed, usage: usage() });
    events
}
