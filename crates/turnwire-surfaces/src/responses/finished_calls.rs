//! Ends of calls: each kind in its own item, and a failed one never as completed.

use serde_json::Value;
use turnwire_contract::{Completeness, ToolKind, ToolOutcome};

use super::{
    event::{Note, ResponseEvent, ToolFinishEvent, ToolFrame},
    ids,
    item::{FunctionCallOutputItem, ItemNote, ItemStatus, OutputItem},
    outcome::{self, Whose},
    projection::{Profile, ResponseWriter},
    shown_call::ShownCall,
    surface_data::include,
};

impl ResponseWriter {
    pub(super) fn finish(&mut self, call: &mut ShownCall, outcome: &ToolOutcome, duration_ms: u64) {
        self.show(call);
        self.close_arguments(call, call.written.unwrap_or(Completeness::Cut));
        call.is_over = true;
        let failure = outcome::failure(outcome);
        let duration = Some(duration_ms);
        let note = Note { duration_ms: duration, failure: failure.clone(), ..call.note(self) };
        if let Some(output_index) = call.output_index {
            match call.kind {
                ToolKind::Client | ToolKind::Custom => {}
                ToolKind::Function => self.finish_function(call, outcome),
                ToolKind::Mcp => self.finish_mcp(call, output_index, outcome, note),
                ToolKind::WebSearch => self.finish_web_search(call, output_index, outcome, note),
                ToolKind::FileSearch => self.finish_file_search(call, output_index, outcome, note),
            }
        }
        let (facts, success) = (self.facts(call), outcome.is_success());
        let event = ToolFinishEvent { facts, success, failure, duration_ms };
        self.send_own(ResponseEvent::ToolFinished(Box::new(event)));
    }

    /// Adds the output of a function as an item of its own. A call whose arguments were cut off has
    /// none, as in the history.
    fn finish_function(&mut self, call: &ShownCall, outcome: &ToolOutcome) {
        if call.written != Some(Completeness::Complete) {
            return;
        }
        let whose = Whose { run_id: &self.run_id, call_id: &call.call_id };
        let (output, turnwire) = outcome::function_output(outcome, whose);
        let output_index = self.add_item(OutputItem::FunctionCallOutput(FunctionCallOutputItem {
            id: ids::result_id(&call.item_id),
            status: ItemStatus::Completed,
            call_id: call.call_id.clone(),
            output,
            turnwire,
        }));
        self.item_done(output_index);
    }

    fn finish_mcp(
        &mut self,
        call: &ShownCall,
        output_index: usize,
        outcome: &ToolOutcome,
        note: Note,
    ) {
        let whose = Whose { run_id: &self.run_id, call_id: &call.call_id };
        let (output, turnwire) = outcome::mcp_output(outcome, whose);
        if let Some(OutputItem::McpCall(item)) = self.response.output.get_mut(output_index) {
            item.status = ended(outcome);
            item.output = output;
            item.error = outcome::mcp_error(outcome);
            item.turnwire = ItemNote { failure: note.failure.clone(), ..turnwire };
        }
        let end = if outcome.is_success() {
            ResponseEvent::McpCallCompleted
        } else {
            ResponseEvent::McpCallFailed
        };
        self.send_call(end, call, output_index, note);
        self.item_done(output_index);
    }

    fn finish_web_search(
        &mut self,
        call: &ShownCall,
        output_index: usize,
        outcome: &ToolOutcome,
        note: Note,
    ) {
        let with_sources = self.includes(include::WEB_SOURCES);
        if let Some(OutputItem::WebSearchCall(item)) = self.response.output.get_mut(output_index) {
            let found = structured(outcome);
            item.status = ended(outcome);
            item.action = Some(outcome::web_action(&call.arguments, found, with_sources));
            item.turnwire.failure.clone_from(&note.failure);
        }
        if outcome.is_success() {
            self.send_call(ResponseEvent::WebSearchCompleted, call, output_index, note);
        } else {
            self.send_failed_search(ResponseEvent::WebSearchFailed, call, output_index, note);
        }
        self.item_done(output_index);
    }

    fn finish_file_search(
        &mut self,
        call: &ShownCall,
        output_index: usize,
        outcome: &ToolOutcome,
        note: Note,
    ) {
        let found = structured(outcome);
        let whose = Whose { run_id: &self.run_id, call_id: &call.call_id };
        let is_shown = outcome.is_success() && self.includes(include::FILE_RESULTS);
        let results = is_shown.then(|| outcome::file_results(found, whose));
        let (results, turnwire) = results.unzip();
        if let Some(OutputItem::FileSearchCall(item)) = self.response.output.get_mut(output_index) {
            item.status = ended(outcome);
            item.queries = outcome::queries(&call.arguments, found);
            item.results = results;
            let failure = note.failure.clone();
            item.turnwire = ItemNote { failure, ..turnwire.unwrap_or_default() };
        }
        if outcome.is_success() {
            self.send_call(ResponseEvent::FileSearchCompleted, call, output_index, note);
        } else {
            self.send_failed_search(ResponseEvent::FileSearchFailed, call, output_index, note);
        }
        self.item_done(output_index);
    }

    /// Ends a failed search. There is no official event for it, so only the item shows it (R6).
    fn send_failed_search(
        &mut self,
        frame: impl FnOnce(Box<ToolFrame>) -> ResponseEvent,
        call: &ShownCall,
        output_index: usize,
        note: Note,
    ) {
        if self.profile == Profile::Extended {
            self.send_call(frame, call, output_index, note);
        }
    }
}

fn ended(outcome: &ToolOutcome) -> ItemStatus {
    if outcome.is_success() { ItemStatus::Completed } else { ItemStatus::Failed }
}

fn structured(outcome: &ToolOutcome) -> Option<&Value> {
    let ToolOutcome::Succeeded { output } = outcome else { return None };
    output.structured.as_ref()
}
