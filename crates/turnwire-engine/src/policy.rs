//! What the operator wants people to be asked about, for all tools alike.

use std::sync::Arc;

use turnwire_contract::{Effect, Pins, RunRequest, ToolSpec};

/// What the operator wants people to be asked about.
#[derive(Clone, Default)]
pub struct ApprovalPolicy {
    /// The effects whose tools need a person's permission for each call, unless the operator has
    /// made an exception for the tool.
    pub ask_before: Vec<Effect>,
    /// Where the trusted definitions of servers' tools are kept; without it, tools may change
    /// as they like.
    pub pins: Option<Arc<dyn Pins>>,
}

impl ApprovalPolicy {
    /// Tightens what is known about a tool. What the client carries out is the client's affair.
    pub(crate) fn apply(&self, spec: &mut ToolSpec) {
        spec.needs_approval |= self.wants(spec);
    }

    /// Tightens what is known about the tools that a request brings.
    pub(crate) fn apply_to_request(&self, request: &mut RunRequest) {
        for spec in &mut request.tools {
            if self.wants(spec) && !spec.needs_approval {
                self.apply(Arc::make_mut(spec));
            }
        }
    }

    fn wants(&self, spec: &ToolSpec) -> bool {
        !spec.exempt && !spec.kind.is_run_by_client() && self.ask_before.contains(&spec.effect)
    }
}

impl std::fmt::Debug for ApprovalPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalPolicy")
            .field("ask_before", &self.ask_before)
            .field("pins", &self.pins.is_some())
            .finish()
    }
}
