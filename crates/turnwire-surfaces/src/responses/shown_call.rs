//! What the client has seen of a call.

use turnwire_contract::{BudgetScope, CallId, Completeness, ItemId, ToolKind};

/// A call, and how much of it the client has seen.
#[derive(Debug)]
pub(super) struct ShownCall {
    pub(super) call_id: CallId,
    pub(super) item_id: ItemId,
    /// Name of the tool on its server, or of the function.
    pub(super) name: String,
    pub(super) kind: ToolKind,
    pub(super) server: Option<String>,
    /// Index of its item in the output; `None` if there is no item yet.
    pub(super) output_index: Option<usize>,
    /// Output index of its approval request, if the run ended with it
    /// ([`Approvals::HandBack`](turnwire_contract::Approvals::HandBack)).
    pub(super) asked_at: Option<usize>,
    /// The budget that its approval request is about.
    pub(super) budget: Option<BudgetScope>,
    /// The arguments, until there is an item that has them.
    pub(super) arguments: String,
    /// The arguments in short form, once they are complete.
    pub(super) label: String,
    /// Whether any of the arguments were sent.
    pub(super) is_streamed: bool,
    /// Set when the arguments are closed: whether they are complete or cut off.
    pub(super) written: Option<Completeness>,
    /// Whether the end of the arguments was sent.
    pub(super) is_written_told: bool,
    pub(super) attempt: Option<u32>,
    pub(super) is_over: bool,
}

impl ShownCall {
    /// Whether the item of this kind of call shows its arguments while they are generated.
    pub(super) fn has_arguments_in_item(&self) -> bool {
        match self.kind {
            ToolKind::Function | ToolKind::Client | ToolKind::Custom | ToolKind::Mcp => true,
            ToolKind::WebSearch | ToolKind::FileSearch => false,
        }
    }

    /// Whether this phase of a search is already covered by its `searching` event.
    pub(super) fn is_searching(&self, phase: &str) -> bool {
        matches!(self.kind, ToolKind::WebSearch | ToolKind::FileSearch) && phase == "searching"
    }
}
