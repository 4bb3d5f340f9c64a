//! Calls whose outcome is unknown. A person settles such a call: says what it returned, has it
//! executed again, or gives it up.
//!
//! A tool that acts once must not be repeated just because its worker died or its connection broke.
//! The model is told so, or, if the run says so, a person is asked first: by a question on the call
//! like those of tools, so that every surface can show and answer it.

use serde_json::{Map, Value, json};
use turnwire_contract::{
    CallId, Effect, Event, InputId, Reply, Timestamp, ToolOutcome, ToolOutput, UnknownOutcomes,
};

use super::{Call, OpenQuestion, RunState};
use crate::tool_result::{outcome_unknown, prefix};

/// Why the outcome of a call is unknown after a takeover.
pub(crate) const INTERRUPTED: &str = "the server stopped while the tool was running";

/// Bytes of the reason that a person is shown.
const MAX_REASON_BYTES: usize = 64 * 1024;

/// Characters of a result that a person gives. It is kept in the journal, where the results of
/// tools have a limit, too.
const MAX_RESULT_CHARACTERS: usize = 64 * 1024;

impl RunState {
    /// Returns whether a person settles calls whose outcome is unknown.
    pub(crate) fn settles_unknown_outcomes(&self) -> bool {
        self.request.unknown_outcomes == UnknownOutcomes::Ask && self.request.inputs
    }

    /// Returns the calls that a worker left unfinished and that must not just be repeated.
    pub(super) fn in_doubt(&self) -> impl Iterator<Item = &Call> {
        let is_left = |call: &&Call| call.attempts > 0 && call.task.is_none() && !call.may_repeat;
        self.open_calls().filter(is_left).filter(|call| {
            let effect = self.spec_of(&call.tool).map(|spec| spec.effect);
            effect.is_none_or(|effect| effect == Effect::Once)
        })
    }

    /// Returns the calls in doubt about which a person is to be asked.
    pub(super) fn to_be_settled(&self) -> impl Iterator<Item = &Call> {
        let is_asked = |call: &&Call| self.open_outcome_question(&call.call_id).is_some();
        let may_ask = self.settles_unknown_outcomes();
        self.in_doubt().filter(move |call| may_ask && !is_asked(call))
    }

    /// Returns why the outcome of a call is unknown, while a person is asked about it.
    pub(super) fn open_outcome_question<'a>(&'a self, call_id: &'a CallId) -> Option<&'a str> {
        self.questions(call_id).find_map(|question| question.unknown_outcome.as_deref())
    }

    /// Returns the question about the outcome of a call, which is unknown because of `what`.
    pub(crate) fn outcome_question(
        &self,
        call_id: &CallId,
        input_id: InputId,
        what: &str,
        now: Timestamp,
    ) -> Event {
        let spec = self.call(call_id).and_then(|call| self.spec_of(&call.tool));
        let expiry = spec.and_then(|spec| spec.approval_expiry).or(self.limits().approval_expiry);
        Event::InputRequested {
            call_id: call_id.clone(),
            input_id,
            message: prefix(what, MAX_REASON_BYTES).to_owned(),
            schema: answer_schema(),
            expires_at: expiry.map(|wait| now.later(wait)),
            unknown_outcome: true,
        }
    }

    /// Applies the answer to a question about an outcome.
    pub(super) fn note_settled(&mut self, input_id: &InputId, reply: &Reply) {
        let Some(question) = self.question(input_id).cloned() else { return };
        let runs_again = question.unknown_outcome.is_some() && Settlement::of(reply).runs_again();
        if let Some(call) = self.call_mut(&question.call_id) {
            call.may_repeat |= runs_again;
        }
    }
}

impl OpenQuestion {
    /// Returns the end of the call that follows from the answer, if the question is about its
    /// outcome and the call does not run again.
    pub(crate) fn end_of_call(&self, reply: &Reply) -> Option<Event> {
        let what = self.unknown_outcome.as_deref()?;
        let outcome = match Settlement::of(reply) {
            Settlement::Done { result } => ToolOutcome::Succeeded { output: confirmed(&result) },
            Settlement::RunAgain => return None,
            Settlement::GivenUp => outcome_unknown(what),
        };
        Some(Event::ToolFinished { call_id: self.call_id.clone(), outcome, duration_ms: 0 })
    }
}

/// What a person decided about a call whose outcome is unknown.
enum Settlement {
    /// The tool did its work, and returned this as far as the person knows.
    Done {
        result: String,
    },
    RunAgain,
    /// Nobody knows. The model is told so.
    GivenUp,
}

impl Settlement {
    fn of(reply: &Reply) -> Self {
        let Reply::Accepted { content } = reply else { return Self::GivenUp };
        match text_of(content, "outcome") {
            "done" => Self::Done { result: text_of(content, "result").to_owned() },
            "run_again" => Self::RunAgain,
            _ => Self::GivenUp,
        }
    }

    fn runs_again(&self) -> bool {
        matches!(self, Self::RunAgain)
    }
}

fn text_of<'a>(content: &'a Map<String, Value>, name: &str) -> &'a str {
    content.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The result of a call as a person knows it. The model learns that it is not the tool's own.
fn confirmed(result: &str) -> ToolOutput {
    let text = format!("[a person confirmed that this call did its work]\n{result}");
    ToolOutput { text: text.trim_end().to_owned(), ..ToolOutput::default() }
}

fn answer_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "outcome": {
                "type": "string",
                "title": "Did the tool do its work?",
                "enum": ["done", "run_again", "give_up"],
                "enumNames": ["Yes, it is done", "No, run it again", "Nobody knows, go on without it"],
            },
            "result": {
                "type": "string",
                "title": "Result",
                "description": "What the tool returned, if it is done and you know it.",
                "maxLength": MAX_RESULT_CHARACTERS,
            },
        },
        "required": ["outcome"],
        "additionalProperties": false,
    })
}
