//! The soft limit of budgets: a person is asked before the run goes on.
//!
//! Every further turn of a run follows tool calls, so the question is an approval request on a call
//! of the turn, which every surface can show and answer. It comes before anything of the turn is
//! executed, and until it is answered nothing is. An approval is valid for that budget until the
//! run ends. A denial ends the run.

use turnwire_contract::{
    ApprovalAnswer, Approvals, BudgetScope, BudgetUse, CallId, Decision, Event, FirstCall,
    RunOutcome, Timestamp,
};

use super::{Approval, Call, RunState, Step, questions::NOBODY_TO_ASK};

/// The budgets that a person was asked about. A bit for each, because many runs wait at once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AskedBudgets(u8);

impl AskedBudgets {
    pub(super) fn extend(&mut self, scope: Option<BudgetScope>) {
        self.0 |= scope.map_or(0, Self::bit);
    }

    fn contains(self, scope: BudgetScope) -> bool {
        self.0 & Self::bit(scope) != 0
    }

    fn bit(scope: BudgetScope) -> u8 {
        match scope {
            BudgetScope::Run => 1,
            BudgetScope::Key => 2,
            BudgetScope::Tenant => 4,
        }
    }
}

impl RunState {
    /// Returns whether a question about a budget may come now: another turn can follow, and nothing
    /// of this one has been executed or asked.
    pub(crate) fn may_ask_about_budget(&self) -> bool {
        let is_untouched = |call: &Call| {
            let is_open = call.outcome.is_none() && !self.is_external(call);
            let is_unasked = matches!(call.approval, Approval::NotNeeded | Approval::Needed);
            is_open && is_unasked && call.attempts == 0
        };
        // A run that ends after its calls, or has no first turn behind it, spends nothing on them.
        self.turn > 0
            && !self.turn_is_open
            && self.turn < self.limits().max_turns
            && !self.has_spent_its_budget()
            && self.calls.iter().all(is_untouched)
            && self.calls.iter().any(|call| !call.was_cut())
    }

    /// Returns whether a person was asked about this budget in this run.
    pub(crate) fn was_asked_about(&self, scope: BudgetScope) -> bool {
        self.asked_budgets.contains(scope)
    }

    /// Returns whether the run has reached its hard limit.
    pub(super) fn has_spent_its_budget(&self) -> bool {
        self.limits().max_cost_nanos.is_some_and(|most| self.cost_nanos() >= most)
    }

    fn cost_nanos(&self) -> u64 {
        self.usage.cost_nanos.unwrap_or_default()
    }

    /// Returns the budget of the run, if it is used to its soft limit and a person is to be asked.
    pub(super) fn budget_to_ask_about(&self) -> Option<BudgetUse> {
        let (scope, used_nanos) = (BudgetScope::Run, self.cost_nanos());
        let ask_nanos = self.limits().ask_cost_nanos.filter(|soft| used_nanos >= *soft)?;
        let is_due = !self.was_asked_about(scope) && self.may_ask_about_budget();
        let max_nanos = self.limits().max_cost_nanos;
        is_due.then_some(BudgetUse { scope, used_nanos, ask_nanos, max_nanos })
    }

    /// Returns the events that ask about a budget at `now`: on the first call, or on all of them if
    /// the answer comes with another run, because none could wait for it here.
    pub(crate) fn budget_events(&self, budget: &BudgetUse, now: Timestamp) -> Vec<Event> {
        let n_asked = match self.request.approvals {
            Approvals::HandBack => usize::MAX,
            Approvals::Wait | Approvals::Decline => 1,
        };
        let calls = self.open_calls().filter(|call| !call.was_cut()).take(n_asked);
        let nobody = || {
            let decision = Decision::Denied { reason: NOBODY_TO_ASK.to_owned() };
            ApprovalAnswer::from(decision).by("nobody")
        };
        let answer = (self.request.approvals == Approvals::Decline).then(nobody);
        let budget = Some(Box::new(*budget));
        let ask = |call: &Call| {
            self.approval_question(call.call_id.clone(), now, answer.clone(), budget.clone())
        };
        calls.flat_map(ask).collect()
    }

    /// Returns whether nothing may begin because of a budget: its question is open, or was answered
    /// with no. A question that was handed back holds up nothing that is left here.
    pub(super) fn is_held_by_budget(&self) -> bool {
        let waits = |call: &Call| call.waits_for_approval() && !self.is_external(call);
        let holds = |call: &Call| waits(call) || call.denied().is_some();
        self.calls.iter().any(|call| call.budget.is_some() && holds(call))
    }

    /// Returns the step that follows a no to a question about a budget, if there was one: the call
    /// that was asked about ends as denied, then the run, and with it the other calls.
    pub(super) fn after_refused_budget(&self) -> Option<Step> {
        let is_refused = |call: &&Call| call.budget.is_some() && call.denied().is_some();
        let refused = self.calls.iter().filter(is_refused);
        let scope = refused.clone().find_map(|call| call.budget)?;
        let open: Vec<CallId> = refused
            .filter(|call| call.outcome.is_none())
            .map(|call| call.call_id.clone())
            .collect();
        Some(if open.is_empty() {
            Step::Finish(RunOutcome::Incomplete { reason: scope.reason() })
        } else {
            Step::RunTools(open)
        })
    }

    /// Returns the budget that a call in the request was asked about, in the run before.
    pub(super) fn budget_asked_before(&self, call_id: &CallId) -> Option<BudgetScope> {
        let is_it = |first: &&FirstCall| self.turn == 0 && first.call_id == *call_id;
        self.request.first_calls.iter().find(is_it)?.budget
    }
}

impl Call {
    /// Returns the answer to an approval request as it counts for this call: permission for a
    /// budget is not permission for a tool, so it does not hold for later calls.
    pub(crate) fn as_counted(&self, answer: ApprovalAnswer) -> ApprovalAnswer {
        let remember = answer.remember && self.budget.is_none();
        ApprovalAnswer { remember, ..answer }
    }
}
