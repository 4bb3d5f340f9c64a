use std::collections::{BTreeMap, BTreeSet};

use opentelemetry::trace::{SpanId, Status};
use turnwire_contract::{Failure, RunId, Sampler};

use super::*;
use crate::journal_for_tests::{
    CALL, LISTING, PARENT, RUN, answer, call_finished, call_id, call_repeated, recorded, request,
    second, until_call, usage,
};

fn projection(request: &Arc<RunRequest>, captures_contents: bool) -> Projection {
    let run_id = RunId::from(RUN);
    let trace = RunTrace::of(&run_id, request.trace.as_ref(), Sampler::default());
    let (request, provider) = (Arc::clone(request), Arc::from("openai"));
    Projection::new(RUN, AboutRun { trace, request, provider, captures_contents })
}

fn trace(request: &Arc<RunRequest>) -> RunTrace {
    RunTrace::of(&RunId::from(RUN), request.trace.as_ref(), Sampler::default())
}

fn spans(
    request: &Arc<RunRequest>,
    captures_contents: bool,
    events: impl IntoIterator<Item = Event>,
) -> Vec<SpanData> {
    let mut projection = projection(request, captures_contents);
    recorded(events).iter().flat_map(|recorded| projection.apply(recorded)).collect()
}

fn whole(request: &Arc<RunRequest>) -> Vec<Event> {
    until_call(request).into_iter().chain([call_finished()]).chain(answer()).collect()
}

fn attributes(span: &SpanData) -> BTreeMap<String, String> {
    let read = |pair: &KeyValue| (pair.key.to_string(), pair.value.to_string());
    span.attributes.iter().map(read).collect()
}

fn names(spans: &[SpanData]) -> Vec<&str> {
    spans.iter().map(|span| span.name.as_ref()).collect()
}

/// A span ends with the event that ends what it is about, in the trace of the caller, below the
/// span of the caller.
#[test]
fn spans_are_projections_of_the_journal() {
    let request = request(Some(PARENT));
    let trace = trace(&request);
    let spans = spans(&request, false, whole(&request));
    let tool = ["tools/call get", "execute_tool weather__get"];
    let expected = ["tools/list", "chat m", tool[0], tool[1], "chat m", "invoke_agent"];
    assert_eq!(names(&spans), expected);
    assert!(spans.iter().all(|span| span.span_context.trace_id().to_bytes() == trace.trace_id));
    let run = trace.run_span();
    let places: Vec<_> = spans
        .iter()
        .map(|span| {
            let own = span.span_context.span_id().to_bytes();
            (own, span.parent_span_id.to_bytes(), span.span_kind.clone())
        })
        .collect();
    let (call, caller) = (call_id(), trace.parent.unwrap());
    let client = SpanKind::Client;
    let expected = [
        (trace.listing_span(&LISTING.into()), run, client.clone()),
        (trace.turn_span(1, 1), run, client.clone()),
        (trace.attempt_span(&call, 1), trace.call_span(&call), client.clone()),
        (trace.call_span(&call), run, SpanKind::Internal),
        (trace.turn_span(2, 1), run, client),
        (run, caller, SpanKind::Internal),
    ];
    assert_eq!(places, expected);
    let remote: Vec<bool> = spans.iter().map(|span| span.parent_span_is_remote).collect();
    assert_eq!(remote, [false, false, false, false, false, true]);
    assert!(spans.iter().all(|span| span.status == Status::Unset));
    // Start and end are the times of events.
    let at =
        |n| std::time::UNIX_EPOCH + second(n).since(turnwire_contract::Timestamp::from_micros(0));
    let times: Vec<_> = spans.iter().map(|span| (span.start_time, span.end_time)).collect();
    let expected = [(2, 3), (4, 7), (8, 9), (8, 9), (10, 14), (0, 15)];
    assert_eq!(times, expected.map(|(start, end)| (at(start), at(end))));
}

/// The attributes are those of the conventions, and no text of anybody is among them.
#[test]
fn attributes_follow_the_conventions_and_have_no_contents() {
    let request = request(None);
    let spans = spans(&request, false, whole(&request));
    let chat = attributes(&spans[1]);
    for (name, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.request.stream", "true"),
        ("gen_ai.response.finish_reasons", "[\"tool_call\"]"),
        ("gen_ai.response.time_to_first_chunk", "1"),
        ("gen_ai.usage.input_tokens", "5"),
        ("gen_ai.usage.output_tokens", "3"),
        ("gen_ai.usage.cache_read.input_tokens", "1"),
        ("turnwire.run.id", RUN),
        ("turnwire.turn", "1"),
    ] {
        assert_eq!(chat.get(name).map(String::as_str), Some(value), "{name}");
    }
    let request_span = attributes(&spans[2]);
    assert_eq!(request_span["mcp.method.name"], "tools/call");
    assert_eq!(request_span["gen_ai.tool.name"], "get");
    let call = attributes(&spans[3]);
    assert_eq!(call["gen_ai.tool.name"], "weather__get");
    assert_eq!(call["gen_ai.tool.call.id"], CALL);
    assert_eq!(call["gen_ai.tool.type"], "extension");
    assert_eq!(call["turnwire.tool.outcome"], "succeeded");
    assert_eq!(call["turnwire.tool.server"], "weather");
    let run = attributes(&spans[5]);
    assert_eq!(run["gen_ai.operation.name"], "invoke_agent");
    assert_eq!(run["turnwire.run.outcome"], "completed");
    let text = format!("{spans:?}");
    for content in ["warm", "Rome", "31 degrees", "Be kind"] {
        assert!(!text.contains(content), "{content}");
    }
}

/// Contents are there if the operator asks for them.
#[test]
fn contents_are_opt_in() {
    let request = request(None);
    let spans = spans(&request, true, whole(&request));
    let call = attributes(&spans[3]);
    assert_eq!(call["gen_ai.tool.call.arguments"], r#"{"city":"Rome"}"#);
    assert_eq!(call["gen_ai.tool.call.result"], "31 degrees");
    let chat = &attributes(&spans[4])["gen_ai.output.messages"];
    assert!(chat.contains("It is warm.") && chat.contains("stop"), "{chat}");
    let run = attributes(&spans[5]);
    assert!(run["gen_ai.input.messages"].contains("How warm is it?"), "{run:?}");
    assert!(run["gen_ai.system_instructions"].contains("Be kind."), "{run:?}");
    let bounded = contents::bounded(&"é".repeat(100_000));
    assert!(bounded.len() <= 8 * 1024 && bounded.starts_with('é'), "{}", bounded.len());
}

/// After a takeover, the lost attempt has ended, the next one is a span of its own, and the call is
/// still the same.
#[test]
fn a_takeover_continues_the_trace() {
    let request = request(None);
    let trace = trace(&request);
    let events = until_call(&request).into_iter().chain([Event::taken_over(2), call_repeated()]);
    let events = events.chain([call_finished()]).chain(answer());
    let spans = spans(&request, false, events);
    let own: Vec<_> = spans.iter().map(|span| span.span_context.span_id().to_bytes()).collect();
    let call = call_id();
    let expected = [
        trace.listing_span(&LISTING.into()),
        trace.turn_span(1, 1),
        trace.attempt_span(&call, 1),
        trace.attempt_span(&call, 2),
        trace.call_span(&call),
        trace.turn_span(2, 2),
        trace.run_span(),
    ];
    assert_eq!(own, expected);
    assert_eq!(attributes(&spans[2])["error.type"], "engine_stopped");
    assert_eq!(attributes(&spans[6])["turnwire.run.attempt"], "2");
    let unique: BTreeSet<_> = own.iter().collect();
    assert_eq!(unique.len(), own.len());
}

/// A turn whose worker died is one span, and its repetition another.
#[test]
fn an_abandoned_turn_ends_with_an_error() {
    let request = request(None);
    let start = [
        Event::RunQueued { request: Arc::clone(&request) },
        Event::RunStarted,
        Event::TurnStarted { turn: 1 },
        Event::taken_over(2),
        Event::TurnAbandoned { turn: 1 },
        Event::TurnStarted { turn: 1 },
        Event::TurnFinished { turn: 1, finish: Finish::Answered, usage: usage() },
    ];
    let spans = spans(&request, false, start);
    let trace = trace(&request);
    let own = |span: &SpanData| span.span_context.span_id();
    assert_eq!(own(&spans[0]), SpanId::from_bytes(trace.turn_span(1, 1)));
    assert_eq!(own(&spans[1]), SpanId::from_bytes(trace.turn_span(1, 2)));
    assert_eq!(attributes(&spans[0])["error.type"], "worker_lost");
    assert_eq!((&spans[0].status, &spans[1].status), (&Status::error(""), &Status::Unset));
    assert_eq!(attributes(&spans[1])["turnwire.run.attempt"], "2");
}

/// An interrupted turn says why: because of what ended the run.
#[test]
fn an_interrupted_turn_has_the_error_of_its_run() {
    let request = request(None);
    let failure = Failure::new("model_unavailable", "secret words of a provider");
    let spans = spans(
        &request,
        false,
        [
            Event::RunQueued { request: Arc::clone(&request) },
            Event::TurnStarted { turn: 1 },
            Event::TurnFinished { turn: 1, finish: Finish::Interrupted, usage: Usage::default() },
            Event::RunFinished { outcome: RunOutcome::Failed { failure }, usage: usage() },
        ],
    );
    assert_eq!(names(&spans), ["chat m", "invoke_agent"]);
    for span in &spans {
        assert_eq!(attributes(span)["error.type"], "model_unavailable");
        assert!(!format!("{span:?}").contains("secret words"));
    }
}

/// What nobody executed here has no span: skipped calls, calls of the client, listings from memory.
#[test]
fn what_did_not_happen_has_no_span() {
    let request = request(None);
    let mut events = until_call(&request);
    events.truncate(7);
    let outcome = ToolOutcome::Skipped { reason: "the answer was withdrawn".to_owned() };
    events.push(Event::ToolFinished { call_id: call_id(), outcome, duration_ms: 0 });
    let ended = spans(&request, false, events);
    assert_eq!(names(&ended), ["tools/list"]);
    // A denied call was to be executed.
    let mut events = until_call(&request);
    events.truncate(7);
    let outcome = ToolOutcome::Denied { reason: "private reason".to_owned() };
    events.push(Event::ToolFinished { call_id: call_id(), outcome, duration_ms: 0 });
    let denied = spans(&request, false, events);
    assert_eq!(names(&denied), ["tools/list", "execute_tool weather__get"]);
    assert_eq!(attributes(&denied[1])["error.type"], "denied");
    // A list that is known is recorded at once.
    let mut projection = projection(&request, false);
    let at_once = recorded(until_call(&request)).into_iter().map(|mut recorded| {
        recorded.at = second(0);
        recorded
    });
    let ended: Vec<_> = at_once.flat_map(|recorded| projection.apply(&recorded)).collect();
    assert_eq!(names(&ended), ["chat m"]);
}

/// A run that waits costs what is open, however long it has been.
#[test]
fn ended_spans_are_forgotten() {
    let request = request(None);
    let mut projection = projection(&request, true);
    for _ in 0..50 {
        let events = until_call(&request).into_iter().chain([call_finished()]).chain(answer());
        for recorded in &recorded(events) {
            drop(projection.apply(recorded));
        }
    }
    assert!(projection.calls.is_empty() && projection.listings.is_empty());
    assert!(projection.turn.is_none() && projection.interrupted.is_none());
}
