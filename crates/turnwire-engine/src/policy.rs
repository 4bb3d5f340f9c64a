//! The operator's approval policy for all tools.

use std::sync::Arc;

use turnwire_contract::{Effect, Pins, RunRequest, ToolSpec, UnknownOutcomes};

/// The operator's policy on when people are asked.
#[derive(Clone, Default)]
pub struct ApprovalPolicy {
    /// Tools with these effects need an approval for each call, unless the operator has made an
    /// exception for the tool.
    pub ask_before: Vec<Effect>,
    /// How to handle calls whose outcome is unknown.
    pub unknown_outcomes: UnknownOutcomes,
    /// Store of pinned definitions. `None` disables the detection of changed tools.
    pub pins: Option<Arc<dyn Pins>>,
}

impl ApprovalPolicy {
    /// Applies the policy to the tools in a request.
    pub(crate) fn apply_to_request(&self, request: &mut RunRequest) {
        if self.unknown_outcomes == UnknownOutcomes::Ask {
            request.unknown_outcomes = UnknownOutcomes::Ask;
        }
        for spec in &mut request.tools {
            if self.wants(spec) && !spec.needs_approval {
                Arc::make_mut(spec).needs_approval = true;
            }
        }
    }

    /// Whether each call of a tool needs approval. Client-side tools are exempt.
    pub(crate) fn wants(&self, spec: &ToolSpec) -> bool {
        !spec.exempt && !spec.kind.is_run_by_client() && self.ask_before.contains(&spec.effect)
    }
}

impl std::fmt::Debug for ApprovalPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApprovalPolicy")
            .field("ask_before", &self.ask_before)
            .field("unknown_outcomes", &self.unknown_outcomes)
            .field("pins", &self.pins.is_some())
            .finish()
    }
}
