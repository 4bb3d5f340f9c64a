//! Approvals and questions of tools, and their expiry.

use turnwire_contract::{
    ApprovalAnswer, Approvals, BudgetUse, CallId, Decision, Event, InputId, Reply, Timestamp,
    ToolSpec,
};

use super::{Call, OpenQuestion, RunState};

/// Denial reason when no approval is possible.
pub(super) const NOBODY_TO_ASK: &str = "nobody can be asked on this connection";
/// Denial reason when the tool's definition has changed.
const CHANGED: &str = "the tool's definition has changed since it was last trusted, and nobody can \
                       be asked about it on this connection";
/// Denial reason when the approval expires.
const NOT_IN_TIME: &str = "nobody answered in time";

impl RunState {
    /// Returns the events that request approvals at `now`, with immediate answers where no approval
    /// is possible or one was given for the whole conversation. `is_allowed` covers permissions
    /// from other runs.
    pub fn asking_events(
        &self,
        calls: Vec<CallId>,
        now: Timestamp,
        is_allowed: impl Fn(&ToolSpec) -> bool,
    ) -> Vec<Event> {
        let asked = |call_id: CallId| {
            let spec = self.call(&call_id).and_then(|call| self.spec_of(&call.tool));
            let is_changed = spec.is_some_and(|spec| spec.changed.is_some());
            let is_remembered = |spec: &ToolSpec| self.remembered.contains(&spec.name);
            let answer = if spec.is_some_and(|spec| is_remembered(spec) || is_allowed(spec)) {
                let yes = ApprovalAnswer::from(Decision::Approved).by("conversation");
                Some(ApprovalAnswer { remember: true, ..yes })
            } else if self.request.approvals == Approvals::Decline {
                let reason = if is_changed { CHANGED } else { NOBODY_TO_ASK }.to_owned();
                Some(ApprovalAnswer::from(Decision::Denied { reason }).by("nobody"))
            } else {
                None
            };
            self.approval_question(call_id, now, answer, None)
        };
        calls.into_iter().flat_map(asked).collect()
    }

    /// Returns the event that requests an approval at `now`, and its `answer` if there is one
    /// already.
    pub(super) fn approval_question(
        &self,
        call_id: CallId,
        now: Timestamp,
        answer: Option<ApprovalAnswer>,
        budget: Option<Box<BudgetUse>>,
    ) -> impl Iterator<Item = Event> + use<> {
        let spec = self.call(&call_id).and_then(|call| self.spec_of(&call.tool));
        let patience = spec.and_then(|spec| spec.approval_expiry);
        let patience = patience.or(self.limits().approval_expiry);
        // An approval that is returned to the client does not expire in this run.
        let waits = answer.is_none() && self.request.approvals == Approvals::Wait;
        let expires_at = patience.filter(|_| waits).map(|wait| now.later(wait));
        let answer = answer.map(|answer| Event::approval_resolved(call_id.clone(), answer));
        let changed = spec.and_then(|spec| spec.changed.clone());
        let server_claims = spec.and_then(|spec| spec.claims);
        let effect = spec.filter(|_| server_claims.is_some()).map(|spec| spec.effect);
        let asked = Event::ApprovalRequested {
            call_id,
            expires_at,
            changed,
            effect,
            server_claims,
            budget,
        };
        [asked].into_iter().chain(answer)
    }

    /// Returns the events for questions that expired by `now`.
    pub fn expired_events(&self, now: Timestamp) -> Vec<Event> {
        let is_due = |expires_at: Option<Timestamp>| expires_at.is_some_and(|at| at <= now);
        let calls = self.calls.iter().filter(|call| is_due(call.expires_at()));
        let denied = calls.map(|call| {
            let decision = Decision::Denied { reason: NOT_IN_TIME.to_owned() };
            let answer = ApprovalAnswer::from(decision).by("expiry");
            Event::approval_resolved(call.call_id.clone(), answer)
        });
        let questions = self.questions.iter().filter(|question| is_due(question.expires_at));
        let unanswered = questions.flat_map(|question| {
            [question.put_aside("expiry")]
                .into_iter()
                .chain(question.end_of_call(&Reply::Cancelled))
        });
        denied.chain(unanswered).collect()
    }

    /// Returns when the next question expires.
    pub fn next_expiry(&self) -> Option<Timestamp> {
        let of_calls = self.calls.iter().filter_map(Call::expires_at);
        of_calls.chain(self.questions.iter().filter_map(|question| question.expires_at)).min()
    }

    /// Returns the open questions of a call, in order.
    pub fn questions<'a>(
        &'a self,
        call_id: &'a CallId,
    ) -> impl Iterator<Item = &'a OpenQuestion> + 'a {
        self.questions.iter().filter(move |question| question.call_id == *call_id)
    }

    /// Returns an open question.
    pub fn question(&self, input_id: &InputId) -> Option<&OpenQuestion> {
        self.questions.iter().find(|question| question.input_id == *input_id)
    }

    /// Returns the events that close the questions of an ended call.
    pub fn close_questions(&self, call_id: &CallId) -> Vec<Event> {
        self.questions(call_id).map(|question| question.put_aside("call_over")).collect()
    }
}

impl OpenQuestion {
    pub(super) fn put_aside(&self, by: &str) -> Event {
        Event::InputResolved {
            call_id: self.call_id.clone(),
            input_id: self.input_id.clone(),
            reply: Reply::Cancelled,
            by: Some(by.to_owned()),
        }
    }
}
