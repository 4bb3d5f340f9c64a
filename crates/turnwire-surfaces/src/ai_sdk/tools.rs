//! Calls: their arguments, approvals, progress and outputs.
//!
//! Clients refuse an output whose call they do not know. So nothing is sent about a call that was
//! not announced, or that was withdrawn with its step.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, Completeness, Decision, Event, RecordedEvent, ToolKind, ToolOutcome, ToolOutput,
    any_event,
};

use super::{
    Dialect, approval_id,
    chunk::{
        ApprovalData, ApprovalState, Data, OutcomeData, ProgressData, ToolEnd, ToolInput,
        ToolMetadata, UiChunk,
    },
};
use crate::{
    BudgetQuestion,
    call_state::CallState,
    calls::{Call, CallBook, CallEvent, UNNAMED},
    clean::clean,
    preview::{WIRE_BYTES, result_ref, sentence, wire_text},
    words,
};

/// Maximum size of a preliminary output in bytes: the end of what the tool has sent so far.
const TAIL_BYTES: usize = 4 * 1024;

/// What the chunks about calls need beside the facts of each call.
#[derive(Debug, Default)]
pub(super) struct Tools {
    dialect: Dialect,
    /// Calls of the open step.
    in_step: Vec<CallId>,
    /// Calls that were withdrawn with their step.
    withdrawn: HashSet<CallId>,
    /// Calls that a person was asked about in this run. The answer may also come with the request.
    asked: HashSet<CallId>,
    /// Calls whose state or input a client has to be told again when the tool starts.
    to_repeat: HashSet<CallId>,
    /// The end of the output of running tools.
    tails: HashMap<CallId, String>,
}

impl Tools {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, ..Self::default() }
    }

    pub(super) fn start_turn(&mut self) {
        self.in_step.clear();
    }

    /// The calls of the open step.
    pub(super) fn take_calls(&mut self) -> Vec<CallId> {
        std::mem::take(&mut self.in_step)
    }

    /// Sends nothing more about the calls of the open step.
    pub(super) fn withdraw(&mut self) {
        self.withdrawn.extend(self.in_step.drain(..));
    }

    /// The chunks of an event about a call, which `book` has noted with the result `change`.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the projection matches every event")]
    pub(super) fn project(
        &mut self,
        book: &CallBook,
        recorded: &RecordedEvent,
        change: CallEvent,
        out: &mut Vec<UiChunk>,
    ) {
        let Some(call) = recorded.event.call_id().and_then(|call_id| book.get(call_id)) else {
            return;
        };
        if self.withdrawn.contains(&call.call_id) || (call.is_over && change == CallEvent::Neither)
        {
            return;
        }
        match &recorded.event {
            Event::CallAnnounced { call_id, .. } => {
                self.in_step.push(call_id.clone());
                out.push(UiChunk::ToolInputStart(tool_input(call)));
            }
            Event::ArgumentsAdded { call_id, text } => out.push(UiChunk::ToolInputDelta {
                tool_call_id: call_id.clone(),
                input_text_delta: text.clone(),
            }),
            Event::ArgumentsFinished { completeness, .. } => {
                out.push(arguments_finished(call, *completeness));
            }
            Event::ApprovalRequested { .. } | Event::ApprovalResolved { .. } => {
                self.approval(call, recorded, out);
            }
            Event::ToolStarted { call_id, attempt, .. } => {
                if self.to_repeat.remove(call_id) {
                    out.push(UiChunk::ToolInputAvailable(with_input(call)));
                }
                if *attempt > 1 {
                    out.extend(progress(call, recorded));
                }
            }
            any_event!(
                ToolPhase ToolProgressed ToolStayedSilent ToolRetried InputRequested InputResolved
            ) => out.extend(progress(call, recorded)),
            Event::ToolOutputAdded { text, .. } => out.push(self.preliminary(call, text)),
            Event::ToolFinished { outcome, duration_ms, .. } => {
                self.tails.remove(&call.call_id);
                self.finish(call, outcome, *duration_ms, recorded, out);
            }
            _ => {}
        }
    }

    fn approval(&mut self, call: &Call, recorded: &RecordedEvent, out: &mut Vec<UiChunk>) {
        let approval_id = approval_id(&recorded.run_id, &call.call_id);
        let mut data = ApprovalData {
            run_id: recorded.run_id.clone(),
            call_id: call.call_id.clone(),
            tool: call.shown_name(),
            state: ApprovalState::Requested,
            expires_at: None,
            changed: None,
            effect: None,
            server_claims: None,
            budget: None,
            reason: None,
        };
        if let Event::ApprovalRequested {
            expires_at, changed, effect, server_claims, budget, ..
        } = &recorded.event
        {
            (data.effect, data.server_claims) = (*effect, *server_claims);
            self.asked.insert(call.call_id.clone());
            data.expires_at = *expires_at;
            data.changed = changed.as_deref().map(sentence);
            data.budget = BudgetQuestion::of(budget.as_deref());
            if self.dialect.has_approvals() {
                out.push(UiChunk::ToolApprovalRequest {
                    approval_id: approval_id.clone(),
                    tool_call_id: call.call_id.clone(),
                });
            }
        } else if let Event::ApprovalResolved { decision, arguments, .. } = &recorded.event {
            (data.state, data.reason) = match decision {
                Decision::Approved => (ApprovalState::Approved, None),
                Decision::Denied { reason } => (ApprovalState::Denied, Some(sentence(reason))),
            };
            data.reason = data.reason.filter(|reason| !reason.is_empty());
            let was_asked = self.asked.contains(&call.call_id);
            // Version 6 has no chunk for the answer. A client that has not answered itself learns
            // it from the input, which it gets again.
            if (self.dialect == Dialect::V6 && was_asked) || arguments.is_some() {
                self.to_repeat.insert(call.call_id.clone());
            }
            if self.dialect == Dialect::V7 && was_asked {
                out.push(UiChunk::ToolApprovalResponse {
                    approval_id: approval_id.clone(),
                    approved: data.state == ApprovalState::Approved,
                    reason: data.reason.clone(),
                });
            }
        }
        out.push(UiChunk::DataApproval(Data::part(approval_id, data)));
    }

    fn preliminary(&mut self, call: &Call, text: &str) -> UiChunk {
        let tail = self.tails.entry(call.call_id.clone()).or_default();
        tail.push_str(text);
        let excess = tail.ceil_char_boundary(tail.len().saturating_sub(TAIL_BYTES));
        let is_cut = excess > 0;
        tail.drain(..excess);
        let beginning = if is_cut { "…" } else { "" };
        let output = Value::String(format!("{beginning}{}", clean(tail)));
        UiChunk::ToolOutputAvailable(ToolEnd {
            output: Some(output),
            preliminary: true,
            ..tool_end(call)
        })
    }

    fn finish(
        &self,
        call: &Call,
        outcome: &ToolOutcome,
        duration_ms: u64,
        recorded: &RecordedEvent,
        out: &mut Vec<UiChunk>,
    ) {
        if matches!(outcome, ToolOutcome::Denied { .. }) && self.dialect.has_approvals() {
            let tool_call_id = call.call_id.clone();
            return out.push(UiChunk::ToolOutputDenied { tool_call_id });
        }
        let state = CallState::at_end(outcome);
        let mut end = tool_end(call);
        end.tool_metadata.state = Some(state);
        end.tool_metadata.duration_ms = Some(duration_ms);
        end.tool_metadata.code = outcome.failure().map(|failure| failure.code);
        if let ToolOutcome::Succeeded { output } = outcome {
            end.output = Some(output_value(call, output, recorded));
            return out.push(UiChunk::ToolOutputAvailable(end));
        }
        let problem = sentence(&outcome.problem().unwrap_or_default());
        end.error_text = Some(with_state(state, &problem));
        out.push(UiChunk::ToolOutputError(end));
        if state == CallState::Unknown {
            let (call_id, tool) = (call.call_id.clone(), call.shown_name());
            let data = OutcomeData { call_id, tool, state, message: problem };
            out.push(UiChunk::DataToolOutcome(Data::part(call.call_id.to_string(), data)));
        }
    }
}

/// The end of the arguments. A call whose arguments are cut or no JSON object is not executed.
fn arguments_finished(call: &Call, completeness: Completeness) -> UiChunk {
    let raw = call.raw_arguments().unwrap_or_default();
    let why = match completeness {
        Completeness::Cut => Some("the arguments were cut off"),
        Completeness::Superseded => Some("the answer was interrupted and begins again"),
        Completeness::Complete if arguments(call).is_none() => {
            Some("the arguments are not a JSON object")
        }
        Completeness::Complete => None,
    };
    match why {
        None => UiChunk::ToolInputAvailable(with_input(call)),
        Some(why) => UiChunk::ToolInputError(ToolInput {
            input: Some(Value::String(raw.to_owned())),
            error_text: Some(format!("not executed: {why}")),
            ..tool_input(call)
        }),
    }
}

fn progress(call: &Call, recorded: &RecordedEvent) -> Option<UiChunk> {
    let message = words::tool_note(call, &recorded.event, recorded.at)?;
    let mut data = ProgressData {
        call_id: call.call_id.clone(),
        tool: call.shown_name(),
        message,
        progress: None,
        total: None,
    };
    if let Event::ToolProgressed { progress, total, message, .. } = &recorded.event {
        // JSON has no other numbers, and would have `null` in their place.
        data.progress = Some(*progress).filter(|number| number.is_finite());
        data.total = total.filter(|number| number.is_finite());
        if let Some(message) = message.as_deref().filter(|message| !message.is_empty()) {
            data.message = sentence(message);
        }
    }
    Some(UiChunk::DataToolProgress(Data::part(call.call_id.to_string(), data)))
}

/// The output as a page gets it: structured data if the tool returned it, else its text; an object
/// if there is more to say.
fn output_value(call: &Call, output: &ToolOutput, recorded: &RecordedEvent) -> Value {
    let structured = output.structured.as_ref().filter(|value| !value.is_null());
    if let Some(structured) = structured
        && structured.to_string().len() <= WIRE_BYTES
    {
        return structured.clone();
    }
    let text = clean(&output.text);
    let beginning = wire_text(&text, WIRE_BYTES);
    let is_cut = beginning.truncated || output.rest.is_some();
    let mut value = Map::from_iter([("text".to_owned(), json!(beginning.text))]);
    if is_cut {
        let reference = result_ref(recorded.run_id.as_str(), call.call_id.as_str());
        value.insert("truncated".to_owned(), json!(true));
        value.insert("result_bytes".to_owned(), json!(output.total_bytes()));
        value.insert("result_ref".to_owned(), json!(reference));
    }
    if !output.images.is_empty() {
        let image = |image: &turnwire_contract::Image| json!({ "media_type": image.media_type, "url": image.data_url() });
        value.insert("images".to_owned(), output.images.iter().map(image).collect());
    }
    if value.len() == 1 { json!(beginning.text) } else { Value::Object(value) }
}

fn tool_input(call: &Call) -> ToolInput {
    let is_text = call.tool.kind == ToolKind::Custom;
    ToolInput {
        tool_call_id: call.call_id.clone(),
        tool_name: call.shown_name(),
        dynamic: true,
        provider_executed: !call.tool.kind.is_run_by_client(),
        input_encoding: is_text.then_some("text"),
        title: title(call),
        tool_metadata: metadata(call),
        input: None,
        error_text: None,
    }
}

fn with_input(call: &Call) -> ToolInput {
    let input = arguments(call).unwrap_or_else(|| Value::Object(call.arguments()));
    ToolInput { input: Some(input), ..tool_input(call) }
}

/// The arguments as a page gets them; `None` if they are not valid.
fn arguments(call: &Call) -> Option<Value> {
    let raw = call.raw_arguments()?;
    if call.tool.kind == ToolKind::Custom {
        return Some(Value::String(raw.to_owned()));
    }
    let raw = if raw.trim().is_empty() { "{}" } else { raw };
    serde_json::from_str(raw).ok().map(Value::Object)
}

fn tool_end(call: &Call) -> ToolEnd {
    ToolEnd {
        tool_call_id: call.call_id.clone(),
        dynamic: true,
        provider_executed: !call.tool.kind.is_run_by_client(),
        output: None,
        error_text: None,
        preliminary: false,
        tool_metadata: metadata(call),
    }
}

fn metadata(call: &Call) -> ToolMetadata {
    ToolMetadata {
        kind: call.tool.kind,
        server_label: call.tool.server.as_deref().map(|label| clean(label).into_owned()),
        state: None,
        code: None,
        duration_ms: None,
    }
}

/// The tool and, once known, its arguments in short form.
fn title(call: &Call) -> String {
    let title = call.title();
    let title = if title.is_empty() { UNNAMED.into() } else { clean(&title) };
    match call.raw_arguments().map(|_| call.label()) {
        Some(label) if !label.is_empty() => format!("{title}: {label}"),
        Some(_) | None => title.into_owned(),
    }
}

/// A problem that begins with the state of its call.
fn with_state(state: CallState, problem: &str) -> String {
    if problem.is_empty() || problem.starts_with(state.as_str()) {
        let rest = problem.strip_prefix(state.as_str()).unwrap_or_default();
        return format!("{state}{rest}");
    }
    format!("{state}: {problem}")
}
