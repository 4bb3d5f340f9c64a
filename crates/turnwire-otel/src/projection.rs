//! The spans of a run, projected from its events.
//!
//! Pure: the same events give the same spans, on whatever worker and however often. Only what has
//! started and not ended is remembered.

use std::{mem, sync::Arc};

use opentelemetry::{Array, KeyValue, StringValue, Value, trace::SpanKind};
use opentelemetry_sdk::trace::SpanData;
use turnwire_contract::{
    CallId, DiscoveryOutcome, Event, Finish, ItemId, RecordedEvent, RunOutcome, RunRequest,
    RunTrace, Timestamp, ToolKind, ToolOutcome, ToolRef, Usage, any_event,
};

use crate::{attributes as names, contents, spans::EndedSpan};

/// Error of a turn whose worker was lost.
const ABANDONED: &str = "worker_lost";
/// Error of whatever a cancelled run did.
const CANCELLED: &str = "cancelled";

/// What all spans of a run have in common.
#[derive(Debug)]
pub(crate) struct AboutRun {
    pub(crate) trace: RunTrace,
    pub(crate) request: Arc<RunRequest>,
    /// Name of the provider of the model.
    pub(crate) provider: Arc<str>,
    /// Whether spans have the contents of messages, arguments and results.
    pub(crate) captures_contents: bool,
}

/// The open spans of a run.
#[derive(Debug)]
pub(crate) struct Projection {
    about: AboutRun,
    run_id: String,
    queued_at: Option<Timestamp>,
    /// Number of workers so far.
    attempt: u32,
    turn: Option<Box<OpenTurn>>,
    /// An interrupted turn, until the end of the run says why.
    interrupted: Option<(Box<OpenTurn>, Timestamp)>,
    calls: Vec<OpenCall>,
    listings: Vec<(ItemId, Timestamp)>,
}

#[derive(Debug)]
struct OpenTurn {
    turn: u32,
    /// Number of workers when it started.
    attempt: u32,
    n_attempts: u32,
    began: Timestamp,
    first_part: Option<Timestamp>,
    /// Texts of its messages, if contents are captured.
    texts: Vec<String>,
}

#[derive(Debug)]
struct OpenCall {
    call_id: CallId,
    tool: ToolRef,
    /// When it could have been executed: its arguments were there.
    ready: Option<Timestamp>,
    began: Option<Timestamp>,
    /// The attempt under way: its number and start.
    under_way: Option<(u32, Timestamp)>,
    /// Its arguments, if contents are captured.
    arguments: Option<String>,
}

impl Projection {
    pub(crate) fn new(run_id: &str, about: AboutRun) -> Self {
        Self {
            about,
            run_id: run_id.to_owned(),
            queued_at: None,
            attempt: 1,
            turn: None,
            interrupted: None,
            calls: Vec::new(),
            listings: Vec::new(),
        }
    }

    /// Returns the spans that end with this event.
    pub(crate) fn apply(&mut self, recorded: &RecordedEvent) -> Vec<SpanData> {
        let at = recorded.at;
        match &recorded.event {
            Event::RunQueued { .. } => self.queued_at = Some(at),
            Event::RunTakenOver { attempt, .. } => self.attempt = *attempt,
            // Turn 0 is not a model's: it has the calls of the request.
            Event::TurnStarted { turn } if *turn > 0 => self.open_turn(*turn, at),
            Event::TurnRetried { attempt, .. } => {
                self.turn.iter_mut().for_each(|turn| turn.n_attempts = *attempt);
            }
            Event::TextAdded { .. } | Event::RefusalAdded { .. } | Event::ReasoningAdded { .. } => {
                self.note_part(at);
            }
            Event::MessageFinished { text, .. } => self.note_text(text),
            Event::TurnAbandoned { .. } => return self.abandon_turn(at),
            Event::TurnFinished { finish, usage, .. } => return self.end_turn(at, *finish, usage),
            Event::DiscoveryStarted { item_id, .. } => self.listings.push((item_id.clone(), at)),
            Event::ToolsDiscovered { item_id, server, outcome, left_out: _ } => {
                return self.end_listing(item_id, server, outcome, at);
            }
            Event::RunFinished { outcome, usage } => return self.end_run(at, outcome, usage),
            any_event!(
                CallAnnounced ArgumentsFinished ToolStarted ToolRetried ToolFinished
            ) => return self.apply_call(&recorded.event, at),
            any_event!(
                RunStarted TurnStarted PartSkipped MessageStarted LogprobsAdded AnnotationAdded
                ReasoningFinished ArgumentsAdded ApprovalRequested ApprovalResolved ToolTaskStarted
                ToolPhase ToolProgressed ToolOutputAdded InputRequested InputResolved
                ToolStayedSilent Unknown
            ) => {}
        }
        Vec::new()
    }

    fn apply_call(&mut self, event: &Event, at: Timestamp) -> Vec<SpanData> {
        match event {
            Event::CallAnnounced { call_id, tool, .. } => {
                self.note_part(at);
                self.calls.push(OpenCall::new(call_id, tool));
                Vec::new()
            }
            Event::ArgumentsFinished { call_id, arguments, .. } => {
                let captures = self.about.captures_contents;
                if let Some(call) = self.call(call_id) {
                    call.ready = Some(at);
                    call.arguments = captures.then(|| contents::bounded(arguments));
                }
                Vec::new()
            }
            Event::ToolStarted { call_id, attempt, .. } => {
                if let Some(call) = self.call(call_id) {
                    call.began = Some(at);
                    call.under_way = Some((*attempt, at));
                }
                Vec::new()
            }
            Event::ToolRetried { call_id, attempt, reason } => {
                let error = Some(reason.code.clone());
                let Some(call) = self.call(call_id) else { return Vec::new() };
                let before = call.under_way.replace((*attempt, at));
                let (tool, before) = (call.tool.clone(), before);
                self.request_span(call_id, &tool, before, at, error).into_iter().collect()
            }
            Event::ToolFinished { call_id, outcome, .. } => self.end_call(call_id, outcome, at),
            _ => Vec::new(),
        }
    }

    fn call(&mut self, call_id: &CallId) -> Option<&mut OpenCall> {
        self.calls.iter_mut().find(|call| call.call_id == *call_id)
    }

    fn open_turn(&mut self, turn: u32, began: Timestamp) {
        let (attempt, n_attempts) = (self.attempt, 1);
        let (first_part, texts) = (None, Vec::new());
        self.turn =
            Some(Box::new(OpenTurn { turn, attempt, n_attempts, began, first_part, texts }));
    }

    fn note_part(&mut self, at: Timestamp) {
        if let Some(turn) = &mut self.turn {
            turn.first_part.get_or_insert(at);
        }
    }

    fn note_text(&mut self, text: &str) {
        if !self.about.captures_contents {
            return;
        }
        self.turn.iter_mut().for_each(|turn| turn.texts.push(contents::bounded(text)));
    }

    fn abandon_turn(&mut self, at: Timestamp) -> Vec<SpanData> {
        let Some(turn) = self.turn.take() else { return Vec::new() };
        vec![self.turn_span(*turn, at, Finish::Interrupted, &Usage::default(), Some(ABANDONED))]
    }

    fn end_turn(&mut self, at: Timestamp, finish: Finish, usage: &Usage) -> Vec<SpanData> {
        let Some(turn) = self.turn.take() else { return Vec::new() };
        if finish == Finish::Interrupted {
            self.interrupted = Some((turn, at));
            return Vec::new();
        }
        vec![self.turn_span(*turn, at, finish, usage, None)]
    }

    fn turn_span(
        &self,
        turn: OpenTurn,
        end: Timestamp,
        finish: Finish,
        usage: &Usage,
        error: Option<&str>,
    ) -> SpanData {
        let model = self.model();
        let reason = finish_reason(finish);
        let mut attributes = self.common(names::CHAT_OPERATION);
        attributes.extend(self.asked());
        attributes.extend([
            KeyValue::new(names::FINISH_REASONS, strings(reason)),
            KeyValue::new(names::TURN, i64::from(turn.turn)),
            KeyValue::new(names::TURN_ATTEMPTS, i64::from(turn.n_attempts)),
            KeyValue::new(names::RUN_ATTEMPT, i64::from(turn.attempt)),
        ]);
        if let Some(first) = turn.first_part {
            let seconds = first.since(turn.began).as_secs_f64();
            attributes.push(KeyValue::new(names::TIME_TO_FIRST_CHUNK, seconds));
        }
        if finish != Finish::Interrupted {
            attributes.extend(tokens(usage));
        }
        if !turn.texts.is_empty() {
            let text = contents::output(&turn.texts, reason);
            attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, text));
        }
        let trace = &self.about.trace;
        EndedSpan {
            id: trace.turn_span(turn.turn, turn.attempt),
            parent: Some((trace.run_span(), false)),
            kind: SpanKind::Client,
            name: format!("{} {model}", names::CHAT_OPERATION).into(),
            start: turn.began,
            end,
            attributes,
            error: error.map(str::to_owned),
        }
        .of(trace)
    }

    /// Parameters of the request to the model.
    fn asked(&self) -> Vec<KeyValue> {
        let generation = &self.about.request.generation;
        let number = |name, value: Option<f64>| value.map(|value| KeyValue::new(name, value));
        let max_tokens = generation.max_output_tokens;
        let mut asked = vec![KeyValue::new(names::REQUEST_STREAM, true)];
        asked
            .extend(max_tokens.map(|max| KeyValue::new(names::REQUEST_MAX_TOKENS, i64::from(max))));
        asked.extend(number(names::REQUEST_TEMPERATURE, generation.temperature));
        asked.extend(number(names::REQUEST_TOP_P, generation.top_p));
        asked
    }

    fn end_call(
        &mut self,
        call_id: &CallId,
        outcome: &ToolOutcome,
        at: Timestamp,
    ) -> Vec<SpanData> {
        let found = self.calls.iter().position(|call| call.call_id == *call_id);
        let Some(call) = found.map(|n| self.calls.swap_remove(n)) else { return Vec::new() };
        let error = (!outcome.is_success()).then(|| error_of(outcome));
        let request = self.request_span(
            &call.call_id,
            &call.tool,
            call.under_way,
            at,
            error.clone().map(|error| request_error(outcome, error)),
        );
        request.into_iter().chain(self.call_span(call, outcome, at, error)).collect()
    }

    /// The span of a call, unless nobody meant to execute it here.
    fn call_span(
        &self,
        call: OpenCall,
        outcome: &ToolOutcome,
        end: Timestamp,
        error: Option<String>,
    ) -> Option<SpanData> {
        let is_skipped = matches!(outcome, ToolOutcome::Skipped { .. });
        if call.began.is_none() && (is_skipped || call.tool.kind.is_run_by_client()) {
            return None;
        }
        let mut attributes = self.operation(names::TOOL_OPERATION);
        attributes.extend([
            KeyValue::new(names::TOOL_NAME, call.tool.name.clone()),
            KeyValue::new(names::TOOL_CALL_ID, call.call_id.as_str().to_owned()),
            KeyValue::new(names::TOOL_TYPE, type_of(call.tool.kind)),
            KeyValue::new(names::TOOL_OUTCOME, outcome.name()),
        ]);
        attributes.extend(server_of(&call.tool));
        attributes.extend(call.arguments.map(|text| KeyValue::new(names::TOOL_ARGUMENTS, text)));
        if let ToolOutcome::Succeeded { output } = outcome
            && self.about.captures_contents
        {
            attributes.push(KeyValue::new(names::TOOL_RESULT, contents::result(output)));
        }
        let trace = &self.about.trace;
        let span = EndedSpan {
            id: trace.call_span(&call.call_id),
            parent: Some((trace.run_span(), false)),
            kind: SpanKind::Internal,
            name: format!("{} {}", names::TOOL_OPERATION, call.tool.name).into(),
            start: call.began.or(call.ready).unwrap_or(end),
            end,
            attributes,
            error,
        };
        Some(span.of(trace))
    }

    /// The span of a request to an MCP server.
    fn request_span(
        &self,
        call_id: &CallId,
        tool: &ToolRef,
        under_way: Option<(u32, Timestamp)>,
        end: Timestamp,
        error: Option<String>,
    ) -> Option<SpanData> {
        let (attempt, start) = under_way.filter(|_| tool.kind == ToolKind::Mcp)?;
        let (trace, name) = (&self.about.trace, tool.own_name());
        let mut attributes = self.operation(names::TOOL_OPERATION);
        attributes.extend([
            KeyValue::new(names::MCP_METHOD, "tools/call"),
            KeyValue::new(names::TOOL_NAME, name.to_owned()),
            KeyValue::new(names::TOOL_ATTEMPT, i64::from(attempt)),
        ]);
        attributes.extend(server_of(tool));
        let span = EndedSpan {
            id: trace.attempt_span(call_id, attempt),
            parent: Some((trace.call_span(call_id), false)),
            kind: SpanKind::Client,
            name: format!("tools/call {name}").into(),
            start,
            end,
            attributes,
            error,
        };
        Some(span.of(trace))
    }

    /// The span of a request for a list of tools. A list that was known already is recorded with
    /// its start, and nothing was requested.
    fn end_listing(
        &mut self,
        item_id: &ItemId,
        server: &str,
        outcome: &DiscoveryOutcome,
        end: Timestamp,
    ) -> Vec<SpanData> {
        let found = self.listings.iter().position(|(open, _)| open == item_id);
        let Some((_, start)) = found.map(|n| self.listings.swap_remove(n)) else {
            return Vec::new();
        };
        if start == end {
            return Vec::new();
        }
        let trace = &self.about.trace;
        let error = match outcome {
            DiscoveryOutcome::Listed { .. } => None,
            DiscoveryOutcome::Failed { failure } => Some(failure.code.clone()),
        };
        let attributes = vec![
            KeyValue::new(names::MCP_METHOD, "tools/list"),
            KeyValue::new(names::TOOL_SERVER, server.to_owned()),
            KeyValue::new(names::RUN_ID, self.run_id.clone()),
        ];
        let span = EndedSpan {
            id: trace.listing_span(item_id),
            parent: Some((trace.run_span(), false)),
            kind: SpanKind::Client,
            name: "tools/list".into(),
            start,
            end,
            attributes,
            error,
        };
        vec![span.of(trace)]
    }

    fn end_run(&mut self, end: Timestamp, outcome: &RunOutcome, usage: &Usage) -> Vec<SpanData> {
        let error = match outcome {
            RunOutcome::Failed { failure } => Some(failure.code.as_str()),
            RunOutcome::Cancelled => Some(CANCELLED),
            RunOutcome::Completed | RunOutcome::Incomplete { .. } => None,
        };
        let interrupted = mem::take(&mut self.interrupted).map(|(turn, at)| {
            let error = error.unwrap_or("interrupted");
            self.turn_span(*turn, at, Finish::Interrupted, &Usage::default(), Some(error))
        });
        let run = self.run_span(end, outcome, usage, error);
        interrupted.into_iter().chain([run]).collect()
    }

    fn run_span(
        &self,
        end: Timestamp,
        outcome: &RunOutcome,
        usage: &Usage,
        error: Option<&str>,
    ) -> SpanData {
        let (trace, request) = (&self.about.trace, &self.about.request);
        let mut attributes = self.common(names::AGENT_OPERATION);
        attributes.extend(tokens(usage));
        attributes.extend([
            KeyValue::new(names::RUN_OUTCOME, outcome.name()),
            KeyValue::new(names::RUN_ATTEMPT, i64::from(self.attempt)),
        ]);
        if self.about.captures_contents {
            let instructions = request.instructions.as_deref().map(contents::instructions);
            attributes
                .extend(instructions.map(|text| KeyValue::new(names::SYSTEM_INSTRUCTIONS, text)));
            let input = contents::input(&request.input);
            attributes.push(KeyValue::new(names::INPUT_MESSAGES, input));
        }
        EndedSpan {
            id: trace.run_span(),
            parent: trace.parent.map(|parent| (parent, true)),
            kind: SpanKind::Internal,
            name: names::AGENT_OPERATION.into(),
            start: self.queued_at.unwrap_or(end),
            end,
            attributes,
            error: error.map(str::to_owned),
        }
        .of(trace)
    }

    /// Attributes of a span that is about the model.
    fn common(&self, operation: &'static str) -> Vec<KeyValue> {
        let mut attributes = self.operation(operation);
        attributes.extend([
            KeyValue::new(names::PROVIDER_NAME, Arc::clone(&self.about.provider)),
            KeyValue::new(names::REQUEST_MODEL, self.model().to_owned()),
        ]);
        attributes
    }

    fn operation(&self, operation: &'static str) -> Vec<KeyValue> {
        let conversation_id = self.about.request.conversation_id.as_ref();
        let conversation_id =
            conversation_id.map(|id| KeyValue::new(names::CONVERSATION_ID, id.as_str().to_owned()));
        [
            KeyValue::new(names::OPERATION_NAME, operation),
            KeyValue::new(names::RUN_ID, self.run_id.clone()),
        ]
        .into_iter()
        .chain(conversation_id)
        .collect()
    }

    /// The name by which the provider knows the model.
    fn model(&self) -> &str {
        let request = &self.about.request;
        request.upstream_model.as_deref().unwrap_or(&request.model)
    }
}

impl OpenCall {
    fn new(call_id: &CallId, tool: &ToolRef) -> Self {
        let (call_id, tool) = (call_id.clone(), tool.clone());
        Self { call_id, tool, ready: None, began: None, under_way: None, arguments: None }
    }
}

fn server_of(tool: &ToolRef) -> Option<KeyValue> {
    tool.server.as_ref().map(|label| KeyValue::new(names::TOOL_SERVER, label.clone()))
}

fn tokens(usage: &Usage) -> [KeyValue; 4] {
    let count = |name, n: u64| KeyValue::new(name, i64::try_from(n).unwrap_or(i64::MAX));
    [
        count(names::INPUT_TOKENS, usage.input_tokens),
        count(names::OUTPUT_TOKENS, usage.output_tokens),
        count(names::CACHED_TOKENS, usage.cached_tokens),
        count(names::REASONING_TOKENS, usage.reasoning_tokens),
    ]
}

fn strings(text: &'static str) -> Value {
    Value::Array(Array::String(vec![StringValue::from(text)]))
}

fn finish_reason(finish: Finish) -> &'static str {
    match finish {
        Finish::Answered => "stop",
        Finish::CalledTools => "tool_call",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Interrupted => "error",
    }
}

fn type_of(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Function | ToolKind::Client | ToolKind::Custom => "function",
        ToolKind::Mcp | ToolKind::WebSearch => "extension",
        ToolKind::FileSearch => "datastore",
    }
}

fn error_of(outcome: &ToolOutcome) -> String {
    outcome.failure().map_or_else(|| outcome.name().to_owned(), |failure| failure.code)
}

/// The conventions have a name for a tool that reports an error.
fn request_error(outcome: &ToolOutcome, error: String) -> String {
    match outcome {
        ToolOutcome::Failed { .. } => "tool_error".to_owned(),
        ToolOutcome::Succeeded { .. }
        | ToolOutcome::TimedOut { .. }
        | ToolOutcome::Cancelled
        | ToolOutcome::Denied { .. }
        | ToolOutcome::InvalidArguments { .. }
        | ToolOutcome::NotFound { .. }
        | ToolOutcome::Skipped { .. }
        | ToolOutcome::OutcomeUnknown { .. } => error,
    }
}

#[cfg(test)]
#[path = "projection_tests.rs"]
mod tests;
