//! Bytes of model output in a run, and the remaining limit.
//!
//! Counted from the events, so the count is the same after a takeover.

use turnwire_contract::{Event, Limits, Logprob};

/// Size of a call announcement, without its name.
const CALL_BYTES: usize = 256;

/// Size of one token's logprob, without its text.
const LOGPROB_BYTES: usize = 32;

/// Text is cut at a character boundary, so up to this many bytes may remain below a reached limit.
const LEFT_BY_CUT: usize = 3;

/// Bytes of model output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Output {
    /// In the latest turn.
    turn: usize,
    /// In earlier turns.
    earlier: usize,
}

impl Output {
    /// Adds the size of one event.
    pub(crate) fn note(&mut self, event: &Event) {
        if matches!(event, Event::TurnStarted { .. }) {
            *self = Self { turn: 0, earlier: self.earlier + self.turn };
        }
        self.turn += output_bytes(event);
    }

    /// Returns the byte limit of the next turn.
    pub(crate) fn remaining_turn_bytes(&self, limits: &Limits) -> usize {
        let of_run = limits.max_run_output.saturating_sub(self.earlier + self.turn);
        limits.max_turn_output.min(of_run)
    }

    /// Returns whether the latest turn, or the whole run, has reached its limit.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        is_reached(self.turn, limits.max_turn_output)
            || is_reached(self.earlier + self.turn, limits.max_run_output)
    }
}

/// Returns whether a text truncated at `limit` has reached it.
pub(crate) fn is_reached(n_bytes: usize, limit: usize) -> bool {
    n_bytes + LEFT_BY_CUT >= limit
}

/// Returns the output bytes of an event.
pub(crate) fn output_bytes(event: &Event) -> usize {
    if let Some(text) = delta_of(event) {
        return text.len();
    }
    if let Event::CallAnnounced { tool, .. } = event {
        return CALL_BYTES + tool.name.len();
    }
    if let Event::AnnotationAdded { annotation, .. } = event {
        return annotation.source.to_string().len();
    }
    if let Event::ReasoningFinished { encrypted_content: Some(encrypted_content), .. } = event {
        return encrypted_content.len();
    }
    if let Event::LogprobsAdded { logprobs, .. } = event {
        return logprobs.iter().map(logprob_bytes).sum();
    }
    0
}

fn logprob_bytes(logprob: &Logprob) -> usize {
    let n_bytes = logprob.bytes.as_ref().map_or(0, Vec::len);
    let alternatives: usize = logprob.top.iter().map(logprob_bytes).sum();
    LOGPROB_BYTES + logprob.token.len() + n_bytes + alternatives
}

/// Returns the text delta of an event, if it is one.
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

/// Like [`delta_of`], to be changed.
pub(crate) fn delta_mut(event: &mut Event) -> Option<&mut String> {
    let (Event::TextAdded { text, .. }
    | Event::RefusalAdded { text, .. }
    | Event::ReasoningAdded { text, .. }
    | Event::ArgumentsAdded { text, .. }) = event
    else {
        return None;
    };
    Some(text)
}
