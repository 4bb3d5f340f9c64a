//! Events that close everything open: at the end of a turn or a run, and at a takeover.

use turnwire_contract::{
    Completeness, DiscoveryOutcome, Event, Finish, ItemId, LeftOut, RunOutcome, ToolOutcome,
};

use super::{OpenMessage, OpenReasoning, RunState, settling::INTERRUPTED};
use crate::{citations::citations, failures, tool_result::outcome_unknown};

impl RunState {
    /// Returns the events that close the open message and reasoning.
    pub fn close_text(&self, completeness: Completeness) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(reasoning) = self.reasoning.clone() {
            let OpenReasoning { item_id, text } = *reasoning;
            events.push(Event::ReasoningFinished {
                item_id,
                text,
                encrypted_content: None,
                completeness,
            });
        }
        if let Some(message) = self.message.clone() {
            events.extend(self.citations_of(&message, completeness));
            let OpenMessage { item_id, text, refusal, .. } = *message;
            events.push(Event::MessageFinished { item_id, text, refusal, completeness });
        }
        events
    }

    /// Returns the citations of a message. Citations sent by the model take precedence. A withdrawn
    /// message has none.
    fn citations_of(&self, message: &OpenMessage, completeness: Completeness) -> Vec<Event> {
        if message.has_sources || completeness == Completeness::Superseded {
            return Vec::new();
        }
        let added =
            |annotation| Event::AnnotationAdded { item_id: message.item_id.clone(), annotation };
        citations(&message.text, &self.sources).into_iter().map(added).collect()
    }

    /// Returns the events that close arguments still being streamed.
    pub fn close_arguments(&self, completeness: Completeness) -> Vec<Event> {
        let unfinished = self.calls.iter().filter(|call| call.completeness.is_none());
        unfinished
            .map(|call| Event::ArgumentsFinished {
                call_id: call.call_id.clone(),
                arguments: call.arguments.clone(),
                completeness,
            })
            .collect()
    }

    /// Returns all events that end the run now, including the end itself.
    pub fn closing_events(&self, outcome: RunOutcome) -> Vec<Event> {
        let mut events = self.close_discoveries();
        events.extend(self.close_text(Completeness::Cut));
        events.extend(self.close_arguments(Completeness::Cut));
        events.extend(self.questions.iter().map(|question| question.put_aside("call_over")));
        let stopped = why_skipped(&outcome);
        // A truncated call is not left to the client either.
        let open = self.calls.iter().filter(|call| call.outcome.is_none());
        events.extend(open.filter(|call| self.turn_is_open || !self.is_external(call)).map(
            |call| {
                let outcome = match call.attempts {
                    0 => ToolOutcome::Skipped { reason: stopped.to_owned() },
                    _ => outcome_unknown(
                        self.open_outcome_question(&call.call_id)
                            .unwrap_or("the run ended while the tool was running"),
                    ),
                };
                Event::ToolFinished { call_id: call.call_id.clone(), outcome, duration_ms: 0 }
            },
        ));
        let mut usage = self.usage;
        if self.turn_is_open {
            let finish = Finish::Interrupted;
            let open_usage = self.open_usage.as_deref().copied().unwrap_or_default();
            usage += open_usage;
            events.push(Event::TurnFinished { turn: self.turn, finish, usage: open_usage });
        }
        events.push(Event::RunFinished { outcome, usage });
        events
    }

    fn close_discoveries(&self) -> Vec<Event> {
        let closed = |(server, item_id): &(String, ItemId)| Event::ToolsDiscovered {
            item_id: item_id.clone(),
            server: server.clone(),
            outcome: DiscoveryOutcome::Failed { failure: failures::run_stopped() },
            left_out: LeftOut::default(),
        };
        self.discovering.iter().map(closed).collect()
    }

    /// Returns the events that a worker records when it takes over a run.
    ///
    /// An interrupted turn is withdrawn and repeated. An interrupted tool call is repeated only if
    /// that is safe, or if the tool continues as a task under an id. Otherwise its outcome is
    /// recorded as unknown, or a person is asked about it next.
    pub fn takeover_events(&self) -> Vec<Event> {
        let mut events = vec![Event::taken_over(self.n_workers + 1)];
        if self.turn_is_open {
            events.extend(self.close_text(Completeness::Superseded));
            events.extend(self.close_arguments(Completeness::Superseded));
            events.extend(self.calls.iter().map(|call| Event::ToolFinished {
                call_id: call.call_id.clone(),
                outcome: ToolOutcome::Skipped { reason: "the answer was withdrawn".to_owned() },
                duration_ms: 0,
            }));
            events.push(Event::TurnAbandoned { turn: self.turn });
            return events;
        }
        // The receivers of the answers died with their worker. A repeated tool call asks again.
        // A question about an outcome has no receiver: its answer is for the journal.
        let of_tools = self.questions.iter().filter(|question| question.unknown_outcome.is_none());
        events.extend(of_tools.map(|question| question.put_aside("call_over")));
        if !self.settles_unknown_outcomes() {
            events.extend(self.in_doubt().map(|call| Event::ToolFinished {
                call_id: call.call_id.clone(),
                outcome: outcome_unknown(INTERRUPTED),
                duration_ms: 0,
            }));
        }
        events
    }
}

fn why_skipped(outcome: &RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Completed => "the run was over",
        RunOutcome::Incomplete { .. } => "the run reached a limit",
        RunOutcome::Failed { .. } => "the run failed",
        RunOutcome::Cancelled => "the run was cancelled",
    }
}
