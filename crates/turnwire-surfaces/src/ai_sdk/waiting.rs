//! Whether a run waits for nothing but people.
//!
//! This follows the rule of the engine: a call that waits for an approval does not hold up others,
//! unless the request wants its calls one after another.

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
                self.calls.push(OpenCall { call_id: call_id.clone(), is_asked: false });
            }
            Event::ApprovalRequested { call_id, .. } => self.ask(call_id, true),
            Event::ApprovalResolved { call_id, .. } => self.ask(call_id, false),
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
        self.waits && !blocking.is_empty() && blocking.iter().all(|call| call.is_asked)
    }

    fn ask(&mut self, call_id: &CallId, is_asked: bool) {
        if let Some(call) = self.calls.iter_mut().find(|call| call.call_id == *call_id) {
            call.is_asked = is_asked;
        }
    }
}
