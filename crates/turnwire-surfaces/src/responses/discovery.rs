//! Discovery of tools: listing the tools of a server, as an item of its own.

use turnwire_contract::{DiscoveryOutcome, Failure, ItemId, ToolSpec};

use super::{
    event::{Note, ResponseEvent, ToolFrame},
    item::{McpListToolsItem, McpListedTool, OutputItem},
    projection::{ItemState, ResponseWriter, Responses},
};

impl Responses {
    pub(super) fn list_tools_started(&mut self, item_id: &ItemId, server: &str) -> Option<usize> {
        let is_new = !self.item_states.contains_key(item_id);
        let new = |id| {
            let (server_label, tools) = (server.to_owned(), Vec::new());
            OutputItem::McpListTools(McpListToolsItem { id, server_label, tools, error: None })
        };
        let place = self.opened(item_id, new)?;
        if is_new {
            let note = Note::at(self.writer.at);
            let frame = self.writer.list_frame(place, item_id, note);
            self.writer.send_tool(ResponseEvent::McpListToolsInProgress, frame);
        }
        Some(place)
    }

    pub(super) fn list_tools_finished(
        &mut self,
        item_id: &ItemId,
        server: &str,
        outcome: &DiscoveryOutcome,
    ) {
        let Some(place) = self.list_tools_started(item_id, server) else { return };
        if let DiscoveryOutcome::Listed { tools } = outcome {
            self.discovered.extend(tools.iter().cloned());
        }
        self.writer.finish_list(place, item_id, outcome);
        self.item_states.insert(item_id.clone(), ItemState::Closed);
    }
}

impl ResponseWriter {
    fn list_at(&mut self, place: usize) -> Option<&mut McpListToolsItem> {
        let Some(OutputItem::McpListTools(list)) = self.response.output.get_mut(place) else {
            return None;
        };
        Some(list)
    }

    fn finish_list(&mut self, place: usize, item_id: &ItemId, outcome: &DiscoveryOutcome) {
        let mut note = Note::at(self.at);
        let Some(list) = self.list_at(place) else { return };
        let end = match outcome {
            DiscoveryOutcome::Listed { tools } => {
                list.tools = tools.iter().map(|spec| listed(spec)).collect();
                ResponseEvent::McpListToolsCompleted
            }
            DiscoveryOutcome::Failed { failure } => {
                list.error = Some(failure.message.clone());
                note.failure = Some(failure.into());
                ResponseEvent::McpListToolsFailed
            }
        };
        let frame = self.list_frame(place, item_id, note);
        self.send_tool(end, frame);
        self.item_done(place);
    }

    /// Ends a listing that will not be answered any more.
    pub(super) fn close_list(&mut self, place: usize, item_id: &ItemId) {
        let failure = Failure::new("run_stopped", "the run ended before the server answered");
        self.finish_list(place, item_id, &DiscoveryOutcome::Failed { failure });
    }

    fn list_frame(&mut self, place: usize, item_id: &ItemId, note: Note) -> ToolFrame {
        let server_label = self.list_at(place).map(|list| list.server_label.clone());
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
