//! Discovery of tools: listing the tools of a server, as an item of its own.

use turnwire_contract::{DiscoveryOutcome, Failure, ItemId, LeftOut, ToolSpec};

use super::{
    event::{Note, ResponseEvent, ToolFrame},
    item::{ItemNote, McpListToolsItem, McpListedTool, OutputItem},
    projection::{ItemState, ResponseWriter, Responses},
};

impl Responses {
    pub(super) fn list_tools_started(&mut self, item_id: &ItemId, server: &str) -> Option<usize> {
        let is_new = !self.item_states.contains_key(item_id);
        let new = |id| {
            OutputItem::McpListTools(McpListToolsItem {
                id,
                server_label: server.to_owned(),
                tools: Vec::new(),
                error: None,
                turnwire: ItemNote::default(),
            })
        };
        let output_index = self.opened(item_id, new)?;
        if is_new {
            let note = Note::at(self.writer.at);
            let frame = self.writer.list_frame(output_index, item_id, note);
            self.writer.send_tool(ResponseEvent::McpListToolsInProgress, frame);
        }
        Some(output_index)
    }

    pub(super) fn list_tools_finished(
        &mut self,
        item_id: &ItemId,
        server: &str,
        outcome: &DiscoveryOutcome,
        left_out: &LeftOut,
    ) {
        let Some(output_index) = self.list_tools_started(item_id, server) else { return };
        if let DiscoveryOutcome::Listed { tools } = outcome {
            self.discovered.extend(tools.iter().cloned());
        }
        if let Some(list) = self.writer.list_at(output_index) {
            list.turnwire.left_out.clone_from(left_out);
        }
        self.writer.finish_list(output_index, item_id, outcome);
        self.item_states.insert(item_id.clone(), ItemState::Closed);
    }
}

impl ResponseWriter {
    fn list_at(&mut self, output_index: usize) -> Option<&mut McpListToolsItem> {
        let Some(OutputItem::McpListTools(list)) = self.response.output.get_mut(output_index)
        else {
            return None;
        };
        Some(list)
    }

    fn finish_list(&mut self, output_index: usize, item_id: &ItemId, outcome: &DiscoveryOutcome) {
        let mut note = Note::at(self.at);
        let Some(list) = self.list_at(output_index) else { return };
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
        let frame = self.list_frame(output_index, item_id, note);
        self.send_tool(end, frame);
        self.item_done(output_index);
    }

    /// Ends a listing that will not be answered any more.
    pub(super) fn close_list(&mut self, output_index: usize, item_id: &ItemId) {
        let failure = Failure::new("run_stopped", "the run ended before the server answered");
        self.finish_list(output_index, item_id, &DiscoveryOutcome::Failed { failure });
    }

    fn list_frame(&mut self, output_index: usize, item_id: &ItemId, note: Note) -> ToolFrame {
        let server_label = self.list_at(output_index).map(|list| list.server_label.clone());
        ToolFrame {
            item_id: item_id.clone(),
            output_index,
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
