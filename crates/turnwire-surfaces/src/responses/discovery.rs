//! Discovery of tools: listing the tools of a server, as an item of its own.

use turnwire_contract::{DiscoveryOutcome, Failure, ItemId, ToolSpec};

use super::{
    event::{Note, ResponseEvent, ToolFrame},
    item::{McpListToolsItem, McpListedTool, OutputItem},
    projection::{ItemState, ResponseWriter, Responses},
};

impl Responses {
    pub(super) fn question(&mut self, item_id: &ItemId, server: &str) -> Option<usize> {
        let is_new = !self.spoken.contains_key(item_id);
        let new = |id| {
            let (server_label, tools) = (server.to_owned(), Vec::new());
            OutputItem::McpListTools(McpListToolsItem { id, server_label, tools, error: None })
        };
        let place = self.opened(item_id, new)?;
        if is_new {
            let note = Note::at(self.writer.at);
            let frame = self.writer.question_frame(place, item_id, note);
            self.writer.send_tool(ResponseEvent::McpListToolsInProgress, frame);
        }
        Some(place)
    }

    pub(super) fn answer_question(
        &mut self,
        item_id: &ItemId,
        server: &str,
        outcome: &DiscoveryOutcome,
    ) {
        let Some(place) = self.question(item_id, server) else { return };
        if let DiscoveryOutcome::Listed { tools } = outcome {
            self.discovered.extend(tools.iter().cloned());
        }
        self.writer.answer(place, item_id, outcome);
        self.spoken.insert(item_id.clone(), ItemState::Closed);
    }
}

impl ResponseWriter {
    fn question_at(&mut self, place: usize) -> Option<&mut McpListToolsItem> {
        let Some(OutputItem::McpListTools(question)) = self.response.output.get_mut(place) else {
            return None;
        };
        Some(question)
    }

    fn answer(&mut self, place: usize, item_id: &ItemId, outcome: &DiscoveryOutcome) {
        let mut note = Note::at(self.at);
        let Some(question) = self.question_at(place) else { return };
        let end = match outcome {
            DiscoveryOutcome::Listed { tools } => {
                question.tools = tools.iter().map(|spec| listed(spec)).collect();
                ResponseEvent::McpListToolsCompleted
            }
            DiscoveryOutcome::Failed { failure } => {
                question.error = Some(failure.message.clone());
                note.failure = Some(failure.into());
                ResponseEvent::McpListToolsFailed
            }
        };
        let frame = self.question_frame(place, item_id, note);
        self.send_tool(end, frame);
        self.item_done(place);
    }

    /// Ends a listing that will not be answered any more.
    pub(super) fn close_question(&mut self, place: usize, item_id: &ItemId) {
        let failure = Failure::new("run_stopped", "the run ended before the server answered");
        self.answer(place, item_id, &DiscoveryOutcome::Failed { failure });
    }

    fn question_frame(&mut self, place: usize, item_id: &ItemId, note: Note) -> ToolFrame {
        let server_label = self.question_at(place).map(|question| question.server_label.clone());
        ToolFrame {
            item_id: item_id.clone(),
            output_index: place,
            name: None,
            call_id: None,
            server_label,
            turnwire: note,
        }
    }
}

fn listed(spec: &ToolSpec) -> McpListedTool {
    McpListedTool {
        name: spec.reference().own_name().to_owned(),
        description: Some(spec.description.clone()).filter(|text| !text.is_empty()),
        input_schema: spec.parameters.clone(),
    }
}
