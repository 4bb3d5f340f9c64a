//! Trace context: where a run belongs in a distributed trace.
//!
//! The IDs of the spans of a run are hashes of what the journal says: the ID of the run, the number
//! of a turn, the ID of a call. So whoever executes the run, now or after a takeover, passes the
//! same IDs on to models and tools, and exports the same spans, without storing one.
//!
//! The format is that of W3C Trace Context, level 1.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{CallId, ItemId, RunId};

/// Length of a `traceparent` of version 00.
const TRACEPARENT_LEN: usize = 55;
/// Maximum length of a `tracestate` that is passed on, from the specification.
const MAX_TRACESTATE: usize = 512;

/// ID of a trace.
pub type TraceId = [u8; 16];
/// ID of a span within its trace.
pub type SpanId = [u8; 8];

/// The trace context of a request: who asked, and in which trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceContext {
    /// The header `traceparent`.
    pub traceparent: String,
    /// The header `tracestate`, which vendors of tracing systems use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl TraceContext {
    /// Reads the headers of a request. Returns `None` if `traceparent` is malformed; a malformed
    /// `tracestate` is left out.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let Parent { trace_id, span_id, is_sampled } = Parent::parse(traceparent)?;
        let tracestate = tracestate.map(str::trim).filter(|state| is_tracestate(state));
        Some(Self {
            traceparent: traceparent_of(trace_id, span_id, is_sampled),
            tracestate: tracestate.map(str::to_owned),
        })
    }
}

/// What a `traceparent` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parent {
    trace_id: TraceId,
    span_id: SpanId,
    is_sampled: bool,
}

impl Parent {
    /// Parses a `traceparent` of this version or a later one, which may have more fields.
    fn parse(text: &str) -> Option<Self> {
        let (known, more) = text.split_at_checked(TRACEPARENT_LEN)?;
        let mut fields = known.split('-');
        let [version] = bytes(fields.next()?)?;
        let (trace_id, span_id) = (bytes(fields.next()?)?, bytes(fields.next()?)?);
        let [flags] = bytes(fields.next()?)?;
        let has_right_length = more.is_empty() || (version > 0 && more.starts_with('-'));
        let is_valid = fields.next().is_none()
            && version != 0xff
            && has_right_length
            && trace_id != TraceId::default()
            && span_id != SpanId::default();
        is_valid.then_some(Self { trace_id, span_id, is_sampled: flags & 1 == 1 })
    }
}

/// Reads `N` bytes in lower-case hexadecimal.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    if text.len() != 2 * N || !is_hex {
        return None;
    }
    let mut read = [0; N];
    for (n, byte) in read.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(read)
}

fn is_tracestate(text: &str) -> bool {
    let is_plain = |c: u8| (b' '..=b'~').contains(&c) || c == b'\t';
    !text.is_empty() && text.len() <= MAX_TRACESTATE && text.bytes().all(is_plain)
}

fn traceparent_of(trace_id: TraceId, span_id: SpanId, is_sampled: bool) -> String {
    let mut text = String::with_capacity(TRACEPARENT_LEN);
    text.push_str("00-");
    let mut push = |bytes: &[u8]| {
        for byte in bytes {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
        }
        text.push('-');
    };
    push(&trace_id);
    push(&span_id);
    text.push_str(if is_sampled { "01" } else { "00" });
    text
}

/// Decides which traces are recorded, by their ID alone, so that all processes agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampler {
    /// Share of the traces that are recorded, from 0 to 1.
    pub ratio: f64,
    /// Whether the decision of the caller holds, if the request has a trace context.
    pub follows_parent: bool,
}

impl Default for Sampler {
    /// Records everything, unless the caller decides otherwise.
    fn default() -> Self {
        Self { ratio: 1.0, follows_parent: true }
    }
}

impl Sampler {
    fn decides(self, trace_id: TraceId, parent: Option<Parent>) -> bool {
        match parent.filter(|_| self.follows_parent) {
            Some(parent) => parent.is_sampled,
            None => is_in_ratio(trace_id, self.ratio),
        }
    }
}

/// The rule of the OpenTelemetry SDKs: the last 63 bits are below their share.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "the SDKs round the same way"
)]
fn is_in_ratio(trace_id: TraceId, ratio: f64) -> bool {
    // The cast keeps the last eight bytes.
    let random = u128::from_be_bytes(trace_id) as u64 >> 1;
    ratio >= 1.0 || random < (ratio.max(0.0) * (1_u64 << 63) as f64) as u64
}

/// The trace of a run, and the IDs of its spans.
#[derive(Debug, Clone)]
pub struct RunTrace {
    /// ID of the trace: that of the request, or a hash of the ID of the run.
    pub trace_id: TraceId,
    /// The span of the caller, if the request names one.
    pub parent: Option<SpanId>,
    /// Whether the spans are recorded.
    pub is_sampled: bool,
    run_id: RunId,
    asked_in: Option<Arc<TraceContext>>,
}

impl RunTrace {
    /// Returns the trace of the run `run_id`, which was asked for in this context.
    pub fn of(run_id: &RunId, asked_in: Option<&Arc<TraceContext>>, sampler: Sampler) -> Self {
        let parent = asked_in.and_then(|context| Parent::parse(&context.traceparent));
        let derived = || first_bytes(&["trace", run_id.as_str()]);
        let trace_id = parent.map_or_else(derived, |parent| parent.trace_id);
        Self {
            trace_id,
            parent: parent.map(|parent| parent.span_id),
            is_sampled: sampler.decides(trace_id, parent),
            run_id: run_id.clone(),
            asked_in: asked_in.cloned(),
        }
    }

    /// The span of the run itself.
    pub fn run_span(&self) -> SpanId {
        self.span(&["run"])
    }

    /// The span of a turn. A turn that is repeated after a takeover is another one, so `attempt`,
    /// the number of workers so far, is part of it.
    pub fn turn_span(&self, turn: u32, attempt: u32) -> SpanId {
        self.span(&["turn", &turn.to_string(), &attempt.to_string()])
    }

    /// The span of a call.
    pub fn call_span(&self, call_id: &CallId) -> SpanId {
        self.span(&["call", call_id.as_str()])
    }

    /// The span of an attempt to execute a call on its server.
    pub fn attempt_span(&self, call_id: &CallId, attempt: u32) -> SpanId {
        self.span(&["attempt", call_id.as_str(), &attempt.to_string()])
    }

    /// The span of a request for the list of a server's tools.
    pub fn listing_span(&self, item_id: &ItemId) -> SpanId {
        self.span(&["listing", item_id.as_str()])
    }

    /// The context that is passed on, with `span` as the parent of what follows.
    pub fn context(&self, span: SpanId) -> TraceContext {
        let tracestate = self.asked_in.as_ref().and_then(|context| context.tracestate.clone());
        let traceparent = traceparent_of(self.trace_id, span, self.is_sampled);
        TraceContext { traceparent, tracestate }
    }

    fn span(&self, of: &[&str]) -> SpanId {
        let parts: Vec<&str> = ["span", self.run_id.as_str()].iter().chain(of).copied().collect();
        first_bytes(&parts)
    }
}

/// The first bytes of a hash of `parts`. An ID of zeros would be invalid.
fn first_bytes<const N: usize>(parts: &[&str]) -> [u8; N] {
    let mut hash = Sha256::new_with_prefix("turnwire");
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    let mut id = [0; N];
    for (byte, hashed) in id.iter_mut().zip(hash.finalize()) {
        *byte = hashed;
    }
    if id.iter().all(|byte| *byte == 0) {
        id = [1; N];
    }
    id
}

/// What became of the spans of a process, for its metrics.
#[derive(Debug, Default)]
pub struct SpanCounts {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl SpanCounts {
    /// Counts spans that the receiver accepted.
    pub fn exported(&self, n_spans: usize) {
        self.exported.fetch_add(n_spans as u64, Ordering::Relaxed);
    }

    /// Counts spans that are lost.
    pub fn dropped(&self, n_spans: usize) {
        self.dropped.fetch_add(n_spans as u64, Ordering::Relaxed);
    }

    /// Number of spans that the receiver accepted.
    pub fn n_exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Number of spans that are lost.
    pub fn n_dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
