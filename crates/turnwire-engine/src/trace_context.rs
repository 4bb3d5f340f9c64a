//! The trace context that models and tools receive.
//!
//! If this process records spans, it is that of the span of the turn or call. Otherwise the context
//! of the request is passed on as it came, so that the trace of the caller goes on behind this
//! server.

use turnwire_contract::{CallId, RunTrace, SpanId, ToolKind, TraceContext};

use crate::{live_run::LiveRun, run_context::RunContext};

/// The context of a turn, for its model.
pub(crate) fn of_turn(run: &LiveRun, context: &RunContext, turn: u32) -> Option<TraceContext> {
    let attempt = run.state().n_workers();
    passed_on(run, context, |trace| trace.turn_span(turn, attempt))
}

/// The context of an attempt of a call, for its tool. A request to an MCP server is a span of its
/// own.
pub(crate) fn of_call(
    run: &LiveRun,
    context: &RunContext,
    call_id: &CallId,
    attempt: u32,
    kind: ToolKind,
) -> Option<TraceContext> {
    passed_on(run, context, |trace| match kind {
        ToolKind::Mcp => trace.attempt_span(call_id, attempt),
        ToolKind::Function
        | ToolKind::Client
        | ToolKind::Custom
        | ToolKind::WebSearch
        | ToolKind::FileSearch => trace.call_span(call_id),
    })
}

fn passed_on(
    run: &LiveRun,
    context: &RunContext,
    span: impl FnOnce(&RunTrace) -> SpanId,
) -> Option<TraceContext> {
    let state = run.state();
    let asked_in = state.request().trace.as_ref();
    let Some(sampler) = context.sampler else {
        return asked_in.map(|trace| (**trace).clone());
    };
    let trace = RunTrace::of(run.id(), asked_in, sampler);
    Some(trace.context(span(&trace)))
}
