//! Spans in the form of the official SDK.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use turnwire_contract::{RunTrace, SpanId as Id, Timestamp};

use crate::attributes::{ERROR_TYPE, SCHEMA};

/// A span that has ended.
#[derive(Debug)]
pub(crate) struct EndedSpan {
    pub(crate) id: Id,
    /// The span above it, and whether that is of another process.
    pub(crate) parent: Option<(Id, bool)>,
    pub(crate) kind: SpanKind,
    pub(crate) name: Cow<'static, str>,
    pub(crate) start: Timestamp,
    pub(crate) end: Timestamp,
    pub(crate) attributes: Vec<KeyValue>,
    /// Low-cardinality name of the error, if it ended with one.
    pub(crate) error: Option<String>,
}

impl EndedSpan {
    /// Returns the span as part of the trace of its run.
    pub(crate) fn of(self, trace: &RunTrace) -> SpanData {
        let Self { id, parent, kind, name, start, end, mut attributes, error } = self;
        let status = match &error {
            // What happened is in the journal, with whatever a tool or provider said.
            Some(_) => Status::error(""),
            None => Status::Unset,
        };
        attributes.extend(error.map(|error| KeyValue::new(ERROR_TYPE, error)));
        let (parent, is_remote) = parent.unwrap_or_default();
        SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(trace.trace_id),
                SpanId::from_bytes(id),
                TraceFlags::SAMPLED,
                false,
                TraceState::NONE,
            ),
            parent_span_id: SpanId::from_bytes(parent),
            parent_span_is_remote: is_remote,
            span_kind: kind,
            name,
            start_time: moment(start),
            // The clocks of two workers may differ.
            end_time: moment(end.max(start)),
            attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status,
            instrumentation_scope: scope(),
        }
    }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("turnwire")
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA)
        .build()
}

fn moment(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(at.as_micros()).unwrap_or(0))
}
