//! Whether a run waits for nothing but people.
//!
//! This follows the rule of the engine: a call that waits for an approval does not hold up others,
//! unless the request wants its calls one after another, or the question is about a budget.

use turnwire_contract::{Approvals, CallId, Event};

/// The open calls of the latest turn, in order.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    calls: Vec<OpenCall>,
    /// Whether calls are executed one after another.
    in_order: bool,
    /// Whether the run itself waits for approvals.
    waits: bool,
}

#[derive(Debug)]
struct OpenCall {
    call_id: CallId,
    /// Whether it waits for an approval.
    is_asked: bool,
    /// Whether all calls wait for that approval, because it is about a budget.
    holds_up_others: bool,
}

impl Waiting {
    #[expect(clippy::wildcard_enum_match_arm, reason = "the projection matches every event")]
    pub(super) fn note(&mut self, event: &Event) {
        match event {
            Event::RunQueued { request } => {
                self.in_order = !request.parallel_tool_calls;
                self.waits = request.approvals == Approvals::Wait;
            }
            Event::TurnStarted { .. } | Event::TurnAbandoned { .. } | Event::RunFinished { .. } => {
                self.calls.clear();
            }
            Event::CallAnnounced { call_id, tool, .. } if !tool.kind.is_run_by_client() => {
                let (is_asked, holds_up_others) = (false, false);
                self.calls.push(OpenCall { call_id: call_id.clone(), is_asked, holds_up_others });
            }
            Event::ApprovalRequested { call_id, budget, .. } => {
                self.ask(call_id, true, budget.is_some());
            }
            Event::ApprovalResolved { call_id, .. } => self.ask(call_id, false, false),
            Event::ToolFinished { call_id, .. } => {
                self.calls.retain(|call| call.call_id != *call_id);
            }
            _ => {}
        }
    }

    /// Whether nothing happens until a person answers.
    pub(super) fn is_for_people_only(&self) -> bool {
        let blocking =
            if self.in_order { self.calls.get(..1) } else { Some(self.calls.as_slice()) };
        let blocking = blocking.unwrap_or_default();
        let are_asked = !blocking.is_empty() && blocking.iter().all(|call| call.is_asked);
        self.waits && (are_asked || self.calls.iter().any(|call| call.holds_up_others))
    }

    fn ask(&mut self, call_id: &CallId, is_asked: bool, holds_up_others: bool) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.call_id == *call_id) {
            (call.is_asked, call.holds_up_others) = (is_asked, holds_up_others);
        }
    }
}
