//! Decides the next step.

use std::collections::HashSet;

use turnwire_contract::{
    Approvals, CallId, Failure, Finish, FirstCall, IncompleteReason, RunOutcome, ServerUse,
    ToolSpec,
};

use super::{Approval, Call, RunState, Step};
use crate::output::is_reached;

impl RunState {
    /// Returns the next step, from recorded events only.
    pub fn next_step(&self) -> Step {
        if let Some(outcome) = &self.outcome {
            return Step::Finish(outcome.clone());
        }
        if self.is_unreadable {
            return Step::Finish(RunOutcome::Failed { failure: Failure::journal_unreadable() });
        }
        let to_ask =
            self.request.servers.iter().filter(|server| !self.asked.contains(&server.label));
        let to_ask: Vec<ServerUse> = to_ask.cloned().collect();
        if !to_ask.is_empty() {
            return Step::Discover(to_ask);
        }
        let Some(finish) = self.last_finish else { return self.ask_again() };
        let stopped_by = match finish {
            Finish::Length if self.was_too_long() => Some(IncompleteReason::MaxOutputBytes),
            Finish::Length => Some(IncompleteReason::MaxOutputTokens),
            Finish::ContentFilter => Some(IncompleteReason::ContentFilter),
            Finish::Answered | Finish::CalledTools | Finish::Interrupted => None,
        };
        let open: Vec<&Call> = self.open_calls().collect();
        if let Some(reason) = stopped_by {
            return if open.is_empty() {
                Step::Finish(RunOutcome::Incomplete { reason })
            } else {
                skip(open, "the model's answer was cut off")
            };
        }
        if let Some(step) = self.after_refused_budget() {
            return step;
        }
        if !open.is_empty() {
            return self.step_for(open);
        }
        // Without a turn if a tool is only tried.
        let is_done = self.calls.is_empty() || self.request.calls_only;
        if is_done || self.calls.iter().any(|call| self.is_external(call)) {
            return Step::Finish(RunOutcome::Completed);
        }
        if self.calls.iter().any(Call::was_skipped) {
            return Step::Finish(RunOutcome::Incomplete { reason: IncompleteReason::MaxToolCalls });
        }
        if self.n_same_rounds >= self.limits().max_repeats {
            return Step::Finish(RunOutcome::Incomplete { reason: IncompleteReason::RepeatedCall });
        }
        self.ask_again()
    }

    /// Returns whether the output limit cut the latest turn. Discarded arguments are not counted as
    /// output, so a truncated call also counts.
    fn was_too_long(&self) -> bool {
        let is_full = |call: &Call| {
            call.was_cut() && is_reached(call.arguments.len(), self.limits().max_arguments)
        };
        self.output.is_full(self.limits()) || self.calls.iter().any(is_full)
    }

    fn ask_again(&self) -> Step {
        if self.turn >= self.limits().max_turns && !self.turn_is_open {
            let reason = IncompleteReason::MaxTurns;
            return Step::Finish(RunOutcome::Incomplete { reason });
        }
        if self.has_spent_its_budget() && !self.turn_is_open {
            return Step::Finish(RunOutcome::Incomplete { reason: IncompleteReason::MaxCost });
        }
        Step::AskModel
    }

    /// Returns the step for calls without an end.
    fn step_for(&self, open: Vec<&Call>) -> Step {
        let remaining = self.limits().max_tool_calls.saturating_sub(self.n_dispatched);
        if remaining == 0 {
            return skip(open, "the run has used up its tool calls");
        }
        if let Some(budget) = self.budget_to_ask_about() {
            return Step::AskBudget(budget);
        }
        let to_ask: Vec<CallId> = open
            .iter()
            // No approval is requested for a truncated call.
            .filter(|call| !call.was_cut())
            .filter(|call| call.approval == Approval::Needed || self.is_asked_about_late(call))
            .map(|call| call.call_id.clone())
            .collect();
        if !to_ask.is_empty() {
            return Step::AskApproval(to_ask);
        }
        if self.is_held_by_budget() {
            return Step::Wait;
        }
        let unsettled: Vec<CallId> =
            self.to_be_settled().map(|call| call.call_id.clone()).collect();
        if !unsettled.is_empty() {
            return Step::AskOutcome(unsettled);
        }
        let most = remaining.min(self.limits().max_parallel_calls.max(1));
        let batch = self.next_batch(&open, usize::try_from(most).unwrap_or(usize::MAX));
        if batch.is_empty() { Step::Wait } else { Step::RunTools(batch) }
    }

    /// Returns whether a call in the request still needs an approval: its tool may have been
    /// discovered after the call was announced.
    fn is_asked_about_late(&self, call: &Call) -> bool {
        let is_it = |first: &FirstCall| first.call_id == call.call_id && first.decision.is_none();
        call.approval == Approval::NotNeeded
            && self.turn == 0
            && self.request.first_calls.iter().any(is_it)
            && self.spec_of(&call.tool).is_some_and(ToolSpec::is_guarded)
    }

    /// Returns the next calls to execute: adjacent parallel ones, or a single one. A call that
    /// waits for a person does not block others, unless order is required.
    fn next_batch(&self, open: &[&Call], most: usize) -> Vec<CallId> {
        let waits = |call: &Call| {
            matches!(call.approval, Approval::Requested { .. })
                || self.open_outcome_question(&call.call_id).is_some()
        };
        if !self.request.parallel_tool_calls {
            return open
                .first()
                .filter(|call| !waits(call))
                .map(|c| c.call_id.clone())
                .into_iter()
                .collect();
        }
        let mut ready = open.iter().filter(|call| !waits(call));
        let Some(first) = ready.next() else { return Vec::new() };
        let mut batch = vec![first.call_id.clone()];
        if self.may_run_beside_others(first) {
            let others = ready.take_while(|call| self.may_run_beside_others(call));
            batch.extend(others.take(most - 1).map(|call| call.call_id.clone()));
        }
        batch
    }

    /// Returns the calls that a person has answered and that may run beside those that have
    /// `begun`. A person who approves a call does not wait for other tools.
    pub(crate) fn ready_beside(&self, begun: &HashSet<CallId>) -> Vec<CallId> {
        let at_work = || self.open_calls().filter(|call| begun.contains(&call.call_id));
        let may_share = at_work().all(|call| self.may_run_beside_others(call));
        if !self.request.parallel_tool_calls || !may_share || self.is_held_by_budget() {
            return Vec::new();
        }
        let remaining = self.limits().max_tool_calls.saturating_sub(self.n_dispatched);
        let most = remaining.min(self.limits().max_parallel_calls.max(1));
        let n_free = usize::try_from(most).unwrap_or(usize::MAX).saturating_sub(at_work().count());
        let is_ready = |call: &&Call| {
            matches!(call.approval, Approval::Resolved(_))
                && call.attempts == 0
                && !begun.contains(&call.call_id)
                && self.may_run_beside_others(call)
        };
        self.open_calls().filter(is_ready).take(n_free).map(|call| call.call_id.clone()).collect()
    }

    /// A call of an unknown tool only fails, so it can run in parallel.
    fn may_run_beside_others(&self, call: &Call) -> bool {
        self.spec_of(&call.tool).is_none_or(|spec| spec.parallel)
    }

    /// Returns server-side calls of the latest turn without an end.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.outcome.is_none() && !self.is_external(call))
    }

    /// Returns whether this run does not execute the call: the client does, or the next run after
    /// an approval.
    pub(super) fn is_external(&self, call: &Call) -> bool {
        let is_handed_back =
            self.request.approvals == Approvals::HandBack && call.waits_for_approval();
        call.is_for_client() || is_handed_back
    }
}

fn skip(calls: Vec<&Call>, reason: &str) -> Step {
    let calls = calls.into_iter().map(|call| call.call_id.clone()).collect();
    Step::SkipCalls { calls, reason: reason.to_owned() }
}
