//! Calls: each kind of tool as the native item of this surface (R2).
//!
//! **When a call is shown.** A function is shown as soon as the model names it, and is done when
//! its arguments are; the output of a function of the server is an item of its own. An MCP call is
//! shown at once too, with its first `in_progress`, so that the official order holds and the tool
//! has not started. A search is shown when the search starts, because its item has no field for
//! unfinished arguments. Three kinds of calls are shown later:
//!
//! * if calls are executed one after the other, an MCP call waits for those before it, so that
//!   their frames do not interleave;
//! * if approvals are handed back, a call that needs one is not shown, only its
//!   `mcp_approval_request`; if a budget may need one, no call is shown before it starts;
//! * and a call that ends without having started is shown right before its end.
//!
//! **What is sent while a tool runs.** Its official event again, with a new `turnwire` object (R5).
//! There is no official event for a function, so only the extended profile has one.

use turnwire_contract::{
    Approvals, CallId, Completeness, Decision, Event, ItemId, ToolKind, ToolOutcome, ToolRef,
    ToolSpec,
};

use super::{
    event::{
        ApprovalEvent, ApprovalRequestEvent, ArgumentsDelta, ArgumentsDone, InputDone,
        InputReplyEvent, InputRequestEvent, Note, ResponseEvent, ToolFacts, ToolFrame,
        ToolOutputEvent, ToolPhaseEvent, ToolProgressEvent, ToolRetryEvent, ToolSilenceEvent,
        ToolStartEvent,
    },
    ids,
    item::{
        ApprovalNote, CustomToolCallItem, FailureNote, FileSearchCallItem, FunctionCallItem,
        ItemNote, ItemStatus, McpApprovalRequestItem, McpCallItem, OutputItem, WebSearchCallItem,
    },
    projection::{ResponseWriter, Responses},
    shown_call::ShownCall,
    surface_data::SurfaceData,
};
use crate::{BudgetQuestion, partial_json::PartialJson, preview};

/// Server label of tools without a server, for items that require one.
const NO_SERVER: &str = "turnwire";

/// The arguments in short form, as on every surface.
fn label_of(arguments: &str) -> String {
    let mut partial = PartialJson::default();
    partial.push(arguments);
    preview::label(&[], &partial)
}

impl Responses {
    /// Projects events about tools.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    pub(super) fn tell_tools(&mut self, event: &Event) {
        match event {
            Event::DiscoveryStarted { item_id, server } => {
                self.list_tools_started(item_id, server);
            }
            Event::ToolsDiscovered { item_id, server, outcome, left_out } => {
                self.list_tools_finished(item_id, server, outcome, left_out);
            }
            Event::CallAnnounced { call_id, item_id, tool } => {
                self.announce(call_id, item_id, tool);
            }
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                self.finish(call_id, outcome, *duration_ms);
            }
            _ => {
                let call = event.call_id().and_then(|call_id| self.calls.get_mut(call_id));
                if let Some(call) = call.filter(|call| !call.is_over) {
                    self.writer.tell_call(call, event);
                }
            }
        }
    }

    fn announce(&mut self, call_id: &CallId, item_id: &ItemId, tool: &ToolRef) {
        if self.calls.contains_key(call_id) {
            return;
        }
        let mut call = ShownCall {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            name: tool.own_name().to_owned(),
            kind: tool.kind,
            server: tool.server.clone(),
            output_index: None,
            asked_at: None,
            budget: None,
            arguments: String::new(),
            label: String::new(),
            is_streamed: false,
            written: None,
            is_written_told: false,
            attempt: None,
            is_over: false,
        };
        let waits_its_turn = !self.writer.request.parallel_tool_calls && self.n_open > 0;
        let shows_now = match tool.kind {
            ToolKind::Client | ToolKind::Custom => true,
            ToolKind::Function => !self.may_be_handed_back(&tool.name),
            ToolKind::Mcp => !self.may_be_handed_back(&tool.name) && !waits_its_turn,
            ToolKind::WebSearch | ToolKind::FileSearch => false,
        };
        if shows_now {
            self.writer.show(&mut call);
        }
        if !tool.kind.is_run_by_client() {
            self.n_open += 1;
        }
        self.order.push(call_id.clone());
        self.calls.insert(call_id.clone(), call);
    }

    /// Whether a call of this tool may be handed back as an approval request of this response:
    /// because of the tool, or of a budget, which is known only when the turn is over. Calls before
    /// the first turn are already decided.
    fn may_be_handed_back(&self, name: &str) -> bool {
        let request = &self.writer.request;
        self.turn > 0
            && request.approvals == Approvals::HandBack
            && (request.limits.ask_about_budgets()
                || self.spec(name).is_some_and(ToolSpec::is_guarded))
    }

    fn spec(&self, name: &str) -> Option<&ToolSpec> {
        let offered = self.writer.request.tools.iter().chain(&self.discovered);
        offered.map(AsRef::as_ref).find(|spec| spec.name == name)
    }

    fn finish(&mut self, call_id: &CallId, outcome: &ToolOutcome, duration_ms: u64) {
        let Some(call) = self.calls.get_mut(call_id).filter(|call| !call.is_over) else { return };
        self.writer.finish(call, outcome, duration_ms);
        if !call.kind.is_run_by_client() {
            self.n_open = self.n_open.saturating_sub(1);
        }
    }

    /// Ends the calls that are still open. The engine ends them itself; a journal that lost its end
    /// might not.
    pub(super) fn close_calls(&mut self) {
        for call_id in &self.order {
            let Some(call) = self.calls.get_mut(call_id) else { continue };
            if call.is_over || call.asked_at.is_some() && call.output_index.is_none() {
                continue;
            }
            if call.kind.is_run_by_client() {
                self.writer.close_arguments(call, Completeness::Cut);
                continue;
            }
            let message = "the run ended before the call did".to_owned();
            self.writer.finish(call, &ToolOutcome::OutcomeUnknown { message }, 0);
        }
    }
}

impl ResponseWriter {
    /// Projects the events of a call between its announcement and its end.
    #[expect(clippy::wildcard_enum_match_arm, reason = "callers have matched every event")]
    fn tell_call(&mut self, call: &mut ShownCall, event: &Event) {
        match event {
            Event::ArgumentsAdded { text, .. } => self.add_arguments(call, text),
            Event::ArgumentsFinished { arguments, completeness, .. } => {
                self.finish_arguments(call, arguments, *completeness);
            }
            Event::ApprovalRequested { .. } => self.ask(call, event),
            Event::ApprovalResolved { .. } => self.resolve(call, event),
            Event::InputRequested { input_id, message, schema, expires_at, .. } => {
                let facts = self.facts(call);
                self.send_own(ResponseEvent::InputRequested(Box::new(InputRequestEvent {
                    facts,
                    input_id: input_id.clone(),
                    message: message.clone(),
                    schema: schema.clone(),
                    expires_at: *expires_at,
                })));
            }
            Event::InputResolved { input_id, reply, by, .. } => {
                let facts = self.facts(call);
                let (input_id, reply, by) = (input_id.clone(), reply.clone(), by.clone());
                let event = InputReplyEvent { facts, input_id, reply, by };
                self.send_own(ResponseEvent::InputResolved(Box::new(event)));
            }
            Event::ToolStarted { attempt, label, .. } => self.start(call, *attempt, label),
            Event::ToolPhase { phase, .. } => self.enter_phase(call, phase),
            Event::ToolProgressed { progress, total, message, .. } => {
                self.progress(call, *progress, *total, message.as_deref());
            }
            Event::ToolOutputAdded { text, .. } => {
                let facts = self.facts(call);
                let event = ToolOutputEvent { facts, delta: text.clone() };
                self.send_own(ResponseEvent::ToolOutputAdded(Box::new(event)));
            }
            Event::ToolStayedSilent { elapsed_ms, .. } => self.stay_silent(call, *elapsed_ms),
            Event::ToolRetried { attempt, reason, .. } => {
                self.retry(call, *attempt, FailureNote::from(reason));
            }
            _ => {}
        }
    }

    /// Adds the item of a call, with all that is known of it.
    pub(super) fn show(&mut self, call: &mut ShownCall) {
        if call.output_index.is_some() {
            return;
        }
        let item = self.new_item(call);
        let output_index = self.add_item(item);
        call.output_index = Some(output_index);
        let note = Note::at(self.at);
        match call.kind {
            ToolKind::Function | ToolKind::Client | ToolKind::Custom => {}
            ToolKind::Mcp => {
                self.send_call(ResponseEvent::McpCallInProgress, call, output_index, note);
            }
            ToolKind::WebSearch => {
                self.send_call(ResponseEvent::WebSearchInProgress, call, output_index, note);
            }
            ToolKind::FileSearch => {
                self.send_call(ResponseEvent::FileSearchInProgress, call, output_index, note);
            }
        }
        if !call.has_arguments_in_item() {
            return;
        }
        let arguments = std::mem::take(&mut call.arguments);
        if !arguments.is_empty() {
            self.add_arguments(call, &arguments);
        }
        if let Some(completeness) = call.written {
            self.close_arguments(call, completeness);
        }
    }

    fn new_item(&self, call: &ShownCall) -> OutputItem {
        let (id, status) = (call.item_id.clone(), ItemStatus::InProgress);
        match call.kind {
            ToolKind::Function | ToolKind::Client => OutputItem::FunctionCall(FunctionCallItem {
                id,
                status,
                arguments: String::new(),
                call_id: call.call_id.clone(),
                name: call.name.clone(),
                namespace: call.server.clone(),
            }),
            ToolKind::Custom => OutputItem::CustomToolCall(CustomToolCallItem {
                id,
                status,
                call_id: call.call_id.clone(),
                input: String::new(),
                name: call.name.clone(),
                namespace: call.server.clone(),
            }),
            ToolKind::Mcp => OutputItem::McpCall(McpCallItem {
                id,
                status,
                approval_request_id: self.asked_before(call),
                arguments: String::new(),
                error: None,
                name: call.name.clone(),
                output: None,
                server_label: call.server.clone().unwrap_or_default(),
                turnwire: ItemNote::default(),
            }),
            ToolKind::WebSearch => OutputItem::WebSearchCall(WebSearchCallItem {
                id,
                status,
                action: None,
                turnwire: ItemNote::default(),
            }),
            ToolKind::FileSearch => OutputItem::FileSearchCall(FileSearchCallItem {
                id,
                status,
                queries: Vec::new(),
                results: None,
                turnwire: ItemNote::default(),
            }),
        }
    }

    /// The approval request of the call: of this response, or of the one before.
    fn asked_before(&self, call: &ShownCall) -> Option<ItemId> {
        let asked_here = call.asked_at.map(|_| call.approval_request_id());
        asked_here
            .or_else(|| SurfaceData(&self.request.surface_data).approval_request(&call.call_id))
    }

    fn arguments_at(&mut self, output_index: usize) -> Option<&mut String> {
        match self.response.output.get_mut(output_index)? {
            OutputItem::FunctionCall(item) => Some(&mut item.arguments),
            OutputItem::CustomToolCall(item) => Some(&mut item.input),
            OutputItem::McpCall(item) => Some(&mut item.arguments),
            OutputItem::Message(_)
            | OutputItem::FunctionCallOutput(_)
            | OutputItem::Reasoning(_)
            | OutputItem::McpListTools(_)
            | OutputItem::McpApprovalRequest(_)
            | OutputItem::WebSearchCall(_)
            | OutputItem::FileSearchCall(_)
            | OutputItem::Compaction(_) => None,
        }
    }

    fn add_arguments(&mut self, call: &mut ShownCall, text: &str) {
        let output_index = call.output_index.filter(|_| call.has_arguments_in_item());
        let Some((output_index, so_far)) = output_index
            .and_then(|output_index| Some((output_index, self.arguments_at(output_index)?)))
        else {
            call.arguments.push_str(text);
            return;
        };
        so_far.push_str(text);
        call.is_streamed = true;
        let frame = match call.kind {
            ToolKind::Mcp => ResponseEvent::McpArgumentsDelta,
            ToolKind::Custom => ResponseEvent::CustomInputDelta,
            ToolKind::Function | ToolKind::Client | ToolKind::WebSearch | ToolKind::FileSearch => {
                ResponseEvent::FunctionArgumentsDelta
            }
        };
        self.send(frame(ArgumentsDelta {
            item_id: call.item_id.clone(),
            output_index,
            delta: text.to_owned(),
        }));
    }

    fn finish_arguments(&mut self, call: &mut ShownCall, arguments: &str, how: Completeness) {
        if call.written.is_some() {
            return;
        }
        call.written = Some(how);
        call.label = label_of(arguments);
        if call.output_index.is_none() || !call.has_arguments_in_item() {
            arguments.clone_into(&mut call.arguments);
            return;
        }
        if !call.is_streamed && !arguments.is_empty() {
            self.add_arguments(call, arguments);
        }
        if let Some(so_far) =
            call.output_index.and_then(|output_index| self.arguments_at(output_index))
        {
            arguments.clone_into(so_far);
        }
        self.close_arguments(call, how);
    }

    /// Sends the end of the arguments. A function is done with that.
    pub(super) fn close_arguments(&mut self, call: &mut ShownCall, how: Completeness) {
        let Some(output_index) = call.output_index.filter(|_| !call.is_written_told) else {
            return;
        };
        let Some(arguments) = self.arguments_at(output_index).cloned() else { return };
        call.is_written_told = true;
        self.send_arguments_done(call, output_index, arguments);
        let status = match self.response.output.get_mut(output_index) {
            Some(OutputItem::FunctionCall(item)) => &mut item.status,
            Some(OutputItem::CustomToolCall(item)) => &mut item.status,
            _ => return,
        };
        *status = how.into();
        self.item_done(output_index);
    }

    fn send_arguments_done(&mut self, call: &ShownCall, output_index: usize, arguments: String) {
        let item_id = call.item_id.clone();
        if call.kind == ToolKind::Custom {
            let done = InputDone { item_id, output_index, input: arguments };
            return self.send(ResponseEvent::CustomInputDone(done));
        }
        let done = ArgumentsDone { item_id, output_index, name: call.name.clone(), arguments };
        self.send(if call.kind == ToolKind::Mcp {
            ResponseEvent::McpArgumentsDone(done)
        } else {
            ResponseEvent::FunctionArgumentsDone(done)
        });
    }

    /// Handles an approval request. If the answer comes with another request, it is an item;
    /// otherwise the call stays as it is until the answer comes.
    fn ask(&mut self, call: &mut ShownCall, event: &Event) {
        let Event::ApprovalRequested { expires_at, changed, effect, server_claims, budget, .. } =
            event
        else {
            return;
        };
        call.budget = budget.as_ref().map(|budget| budget.scope);
        let budget = BudgetQuestion::of(budget.as_deref());
        let is_handed_back = self.request.approvals == Approvals::HandBack
            && call.output_index.is_none()
            && call.asked_at.is_none();
        if is_handed_back {
            let output_index =
                self.add_item(OutputItem::McpApprovalRequest(McpApprovalRequestItem {
                    id: call.approval_request_id(),
                    arguments: call.arguments.clone(),
                    name: call.name.clone(),
                    server_label: call.server.clone().unwrap_or_else(|| NO_SERVER.to_owned()),
                    turnwire: budget.clone().map(|budget| ApprovalNote { budget }),
                }));
            call.asked_at = Some(output_index);
            self.item_done(output_index);
        }
        let facts = self.facts(call);
        let event = ApprovalRequestEvent {
            facts,
            expires_at: *expires_at,
            changed: changed.clone(),
            effect: *effect,
            server_claims: *server_claims,
            budget,
        };
        self.send_own(ResponseEvent::ApprovalRequested(Box::new(event)));
    }

    fn resolve(&mut self, call: &mut ShownCall, event: &Event) {
        let Event::ApprovalResolved { decision, arguments, remember, by, .. } = event else {
            return;
        };
        let (approve, reason) = match decision {
            Decision::Approved => (true, String::new()),
            Decision::Denied { reason } => (false, reason.clone()),
        };
        if let Some(arguments) = arguments {
            self.replace_arguments(call, arguments);
        }
        let (arguments, remember, by) = (arguments.clone(), *remember, by.clone());
        let facts = self.facts(call);
        let event = ApprovalEvent { facts, approve, reason, arguments, remember, by };
        self.send_own(ResponseEvent::ApprovalResolved(Box::new(event)));
    }

    /// Replaces the model's arguments by those of the user. What was streamed stays as it was; the
    /// done item has the arguments that the tool received.
    fn replace_arguments(&mut self, call: &mut ShownCall, arguments: &str) {
        call.label = label_of(arguments);
        match call.output_index.and_then(|output_index| self.response.output.get_mut(output_index))
        {
            Some(OutputItem::McpCall(item)) => arguments.clone_into(&mut item.arguments),
            Some(_) => {}
            None => arguments.clone_into(&mut call.arguments),
        }
    }

    fn start(&mut self, call: &mut ShownCall, attempt: u32, label: &str) {
        call.attempt = Some(attempt);
        self.show(call);
        // A label given by the tool takes precedence.
        let label = if label.is_empty() { call.label.clone() } else { label.to_owned() };
        let message = Some(label.clone()).filter(|label| !label.is_empty());
        self.repeat(call, Note { message, ..call.note(self) });
        let facts = self.facts(call);
        self.send_own(ResponseEvent::ToolStarted(Box::new(ToolStartEvent {
            facts,
            attempt,
            label,
        })));
    }

    fn enter_phase(&mut self, call: &ShownCall, phase: &str) {
        if !call.is_searching(phase) {
            self.repeat(call, Note { message: Some(phase.to_owned()), ..call.note(self) });
        }
        let (facts, phase) = (self.facts(call), phase.to_owned());
        self.send_own(ResponseEvent::ToolPhase(Box::new(ToolPhaseEvent { facts, phase })));
    }

    fn progress(
        &mut self,
        call: &ShownCall,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let message = message.map(str::to_owned);
        let note = call.note(self);
        self.repeat(
            call,
            Note { progress: Some(progress), total, message: message.clone(), ..note },
        );
        let facts = self.facts(call);
        let event = ToolProgressEvent { facts, progress, total, message };
        self.send_own(ResponseEvent::ToolProgress(Box::new(event)));
    }

    fn stay_silent(&mut self, call: &ShownCall, elapsed_ms: u64) {
        self.repeat(call, Note { duration_ms: Some(elapsed_ms), ..call.note(self) });
        let facts = self.facts(call);
        self.send_own(ResponseEvent::ToolSilent(Box::new(ToolSilenceEvent { facts, elapsed_ms })));
    }

    fn retry(&mut self, call: &mut ShownCall, attempt: u32, failure: FailureNote) {
        call.attempt = Some(attempt);
        self.repeat(call, Note { failure: Some(failure.clone()), ..call.note(self) });
        let facts = self.facts(call);
        let event = ToolRetryEvent { facts, attempt, failure };
        self.send_own(ResponseEvent::ToolRetried(Box::new(event)));
    }

    /// Sends the official event of a running tool again.
    fn repeat(&mut self, call: &ShownCall, note: Note) {
        let Some(output_index) = call.output_index else { return };
        match call.kind {
            ToolKind::Function | ToolKind::Client | ToolKind::Custom => {}
            ToolKind::Mcp => {
                self.send_call(ResponseEvent::McpCallInProgress, call, output_index, note);
            }
            ToolKind::WebSearch => {
                self.set_status(output_index, ItemStatus::Searching);
                self.send_call(ResponseEvent::WebSearchSearching, call, output_index, note);
            }
            ToolKind::FileSearch => {
                self.set_status(output_index, ItemStatus::Searching);
                self.send_call(ResponseEvent::FileSearchSearching, call, output_index, note);
            }
        }
    }

    fn set_status(&mut self, output_index: usize, status: ItemStatus) {
        match self.response.output.get_mut(output_index) {
            Some(OutputItem::WebSearchCall(item)) => item.status = status,
            Some(OutputItem::FileSearchCall(item)) => item.status = status,
            Some(OutputItem::McpCall(item)) => item.status = status,
            Some(
                OutputItem::Message(_)
                | OutputItem::FunctionCall(_)
                | OutputItem::CustomToolCall(_)
                | OutputItem::FunctionCallOutput(_)
                | OutputItem::Reasoning(_)
                | OutputItem::McpListTools(_)
                | OutputItem::McpApprovalRequest(_)
                | OutputItem::Compaction(_),
            )
            | None => {}
        }
    }

    pub(super) fn facts(&self, call: &ShownCall) -> ToolFacts {
        let asked = call.asked_at.filter(|_| call.output_index.is_none());
        let item_id = match asked {
            Some(_) => call.approval_request_id(),
            None => call.item_id.clone(),
        };
        ToolFacts {
            call_id: call.call_id.clone(),
            item_id,
            output_index: call.output_index.or(asked),
            name: call.name.clone(),
            server_label: call.server.clone().filter(|_| !call.kind.is_run_by_client()),
            at: self.at,
        }
    }

    pub(super) fn send_call(
        &mut self,
        frame: impl FnOnce(Box<ToolFrame>) -> ResponseEvent,
        call: &ShownCall,
        output_index: usize,
        turnwire: Note,
    ) {
        let facts = ToolFrame {
            item_id: call.item_id.clone(),
            output_index,
            name: Some(call.name.clone()),
            call_id: Some(call.call_id.clone()),
            server_label: call.server.clone(),
            turnwire,
        };
        self.send_tool(frame, facts);
    }

    pub(super) fn send_tool(
        &mut self,
        frame: impl FnOnce(Box<ToolFrame>) -> ResponseEvent,
        facts: ToolFrame,
    ) {
        self.send(frame(Box::new(facts)));
    }
}

impl ShownCall {
    fn approval_request_id(&self) -> ItemId {
        ids::approval_request_id(&self.item_id, self.budget)
    }

    pub(super) fn note(&self, writer: &ResponseWriter) -> Note {
        Note { attempt: self.attempt, ..Note::at(writer.at) }
    }
}
