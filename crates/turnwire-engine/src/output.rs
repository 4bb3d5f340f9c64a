//! How much the model has said in a run, and how much more it may.
//!
//! Counted from the events, so that whoever takes a run over counts the same.

use turnwire_contract::{Event, Limits, Logprob};

/// What it costs to announce a call, beside its name.
const CALL_WEIGHT: usize = 256;

/// What it costs to tell how likely one token is, beside its text.
const LOGPROB_WEIGHT: usize = 32;

/// A text is cut between two characters, so that this much may be left of a limit that was reached.
const LEFT_BY_CUT: usize = 3;

/// How many bytes the model has said.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output {
    /// In the latest turn.
    turn: usize,
    /// In those before it.
    earlier: usize,
}

impl Output {
    /// Takes note of one event.
    pub(crate) fn note(&mut self, event: &Event) {
        if matches!(event, Event::TurnStarted { .. }) {
            *self = Self { turn: 0, earlier: self.earlier + self.turn };
        }
        self.turn += weight_of(event);
    }

    /// How many bytes the next turn may have.
    pub(crate) fn room_for_turn(&self, limits: &Limits) -> usize {
        let of_run = limits.max_run_output.saturating_sub(self.earlier + self.turn);
        limits.max_turn_output.min(of_run)
    }

    /// Whether the latest turn, or all of them together, came to the limit.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        is_reached(self.turn, limits.max_turn_output)
            || is_reached(self.earlier + self.turn, limits.max_run_output)
    }
}

/// Whether something that was cut at `limit` is as long as it could be.
pub(crate) fn is_reached(n_bytes: usize, limit: usize) -> bool {
    n_bytes + LEFT_BY_CUT >= limit
}

/// How many bytes of the model's output an event stands for.
pub(crate) fn weight_of(event: &Event) -> usize {
    if let Some(text) = delta_of(event) {
        return text.len();
    }
    if let Event::CallAnnounced { tool, .. } = event {
        return CALL_WEIGHT + tool.name.len();
    }
    if let Event::AnnotationAdded { annotation, .. } = event {
        return annotation.source.to_string().len();
    }
    if let Event::ReasoningFinished { seal: Some(seal), .. } = event {
        return seal.len();
    }
    if let Event::LogprobsAdded { logprobs, .. } = event {
        return logprobs.iter().map(weight_of_logprob).sum();
    }
    0
}

fn weight_of_logprob(logprob: &Logprob) -> usize {
    let n_bytes = logprob.bytes.as_ref().map_or(0, Vec::len);
    let alternatives: usize = logprob.top.iter().map(weight_of_logprob).sum();
    LOGPROB_WEIGHT + logprob.token.len() + n_bytes + alternatives
}

/// What the model has added to what it is saying, if that is what the event tells.
pub(crate) fn delta_of(event: &Event) -> Option<&str> {
    let (Event::TextAdded { text, .. }
    | Event::RefusalAdded { text, .. }
    | Event::ReasoningAdded { text, .. }
    | Event::ArgumentsAdded { text, .. }) = event
    else {
        return None;
    };
    Some(text)
}
