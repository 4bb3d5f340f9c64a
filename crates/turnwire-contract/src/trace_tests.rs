use std::{collections::BTreeSet, sync::Arc};

use super::*;
use crate::RunRequest;

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn trace_of(run: &str, traceparent: Option<&str>, sampler: Sampler) -> RunTrace {
    RunTrace::of(&RunId::from(run), traceparent.map(context).as_ref(), sampler)
}

fn context(traceparent: &str) -> Arc<TraceContext> {
    let tracestate = Some("vendor=1".to_owned());
    Arc::new(TraceContext { traceparent: traceparent.to_owned(), tracestate })
}

/// A malformed `traceparent` is ignored, as the specification asks.
#[test]
fn only_a_valid_traceparent_is_read() {
    let read = |text: &str| TraceContext::read(text, None).map(|context| context.traceparent);
    assert_eq!(read(TRACEPARENT).as_deref(), Some(TRACEPARENT));
    // A later version may have more fields; what is passed on is of ours.
    let later = TRACEPARENT.replacen("00", "01", 1) + "-more";
    assert_eq!(read(&later).as_deref(), Some(TRACEPARENT));
    // The flags of other versions are not passed on.
    assert_eq!(read(&TRACEPARENT.replace("-01", "-03")).as_deref(), Some(TRACEPARENT));
    for wrong in [
        "",
        "x",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319cb-7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319é-b7ad6b716920333-01",
    ] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}

#[test]
fn a_malformed_tracestate_is_left_out() {
    let state = |text: &str| TraceContext::read(TRACEPARENT, Some(text)).unwrap().tracestate;
    assert_eq!(state(" a=1,b=2 ").as_deref(), Some("a=1,b=2"));
    for wrong in ["", "a=\nb", "a=é", &"a".repeat(513)] {
        assert_eq!(state(wrong), None, "{wrong}");
    }
}

/// Every process derives the same IDs, and no two spans of a run share one.
#[test]
fn ids_are_derived_from_run_and_call() {
    let (call, item) = (CallId::from("call_1"), ItemId::from("mcpl_1"));
    let spans = |run: &str| {
        let trace = trace_of(run, None, Sampler::default());
        assert_eq!(trace.parent, None);
        let spans = [
            trace.run_span(),
            trace.turn_span(1, 1),
            trace.turn_span(1, 2),
            trace.turn_span(2, 1),
            trace.call_span(&call),
            trace.attempt_span(&call, 1),
            trace.attempt_span(&call, 2),
            trace.listing_span(&item),
        ];
        (trace.trace_id, spans)
    };
    assert_eq!(spans("run_1"), spans("run_1"));
    let ((one, ours), (other, theirs)) = (spans("run_1"), spans("run_2"));
    assert_ne!(one, other);
    let all: BTreeSet<SpanId> = ours.into_iter().chain(theirs).collect();
    assert_eq!(all.len(), 16);
}

/// The trace of the caller is continued.
#[test]
fn the_callers_trace_is_continued() {
    let trace = trace_of("run_1", Some(TRACEPARENT), Sampler::default());
    let parent = Parent::parse(TRACEPARENT).unwrap();
    assert_eq!((trace.trace_id, trace.parent), (parent.trace_id, Some(parent.span_id)));
    let passed_on = trace.context([7; 8]);
    let expected = "00-0af7651916cd43dd8448eb211c80319c-0707070707070707-01";
    assert_eq!(passed_on.traceparent, expected);
    assert_eq!(passed_on.tracestate.as_deref(), Some("vendor=1"));
}

/// The decision is a function of the trace, so that a takeover does not change it.
#[test]
fn sampling_depends_on_the_trace_alone() {
    let is_sampled =
        |run: &str, parent: Option<&str>, sampler| trace_of(run, parent, sampler).is_sampled;
    let unsampled = TRACEPARENT.replace("-01", "-00");
    let (always, never) = (
        Sampler { ratio: 1.0, follows_parent: false },
        Sampler { ratio: 0.0, follows_parent: false },
    );
    assert!(is_sampled("run_1", Some(&unsampled), always));
    assert!(!is_sampled("run_1", Some(TRACEPARENT), never));
    assert!(!is_sampled("run_1", None, never));
    let following = Sampler { ratio: 0.0, follows_parent: true };
    assert!(is_sampled("run_1", Some(TRACEPARENT), following));
    assert!(!is_sampled("run_1", Some(&unsampled), Sampler::default()));
    assert!(is_sampled("run_1", None, Sampler::default()));
    let quarter = Sampler { ratio: 0.25, follows_parent: true };
    let runs: Vec<String> = (0..2_000).map(|n| format!("run_{n}")).collect();
    let n_sampled = runs.iter().filter(|run| is_sampled(run, None, quarter)).count();
    assert!((400..600).contains(&n_sampled), "{n_sampled}");
}

/// The journal has the two headers, and an older journal has neither.
#[test]
fn a_request_keeps_its_trace() {
    let trace = Some(context(TRACEPARENT));
    let request = RunRequest { trace, ..RunRequest::new("m", Vec::new()) };
    let text = serde_json::to_string(&request).unwrap();
    let trace = format!(r#""trace":{{"traceparent":"{TRACEPARENT}","tracestate":"vendor=1"}}"#);
    assert!(text.contains(&trace), "{text}");
    assert_eq!(serde_json::from_str::<RunRequest>(&text).unwrap(), request);
    let plain = serde_json::to_string(&RunRequest::new("m", Vec::new())).unwrap();
    assert!(!plain.contains("trace"), "{plain}");
}
