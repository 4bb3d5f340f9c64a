//! Approval requests at the terminal, one at a time in the order of their arrival. Without a
//! terminal every request is denied.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;
use turnwire::{ApprovalAnswer, CallId, Decision, Event, RecordedEvent};
use turnwire_surfaces::{Call, CallBook, clean};

use super::keyboard::{Keyboard, Request, Typed};
use crate::terminal::{Colour, DisplayUpdate, Paint};

/// Reason for the denial, for the model.
const NOBODY_TO_ASK: &str = "a person has to allow this, and there is nobody to ask";
/// Source of the answers.
const BY: &str = "terminal";
/// Maximum number of characters of the arguments that are shown. The editor shows all.
const MAX_SHOWN: usize = 2_000;

const CHOICES: &str =
    "allow it? [y]es, [n]o, [a]lways in this run, [e]dit the arguments, [?] help: ";
const HELP: &str = "\
  y          yes, this time
  n          no; what is written behind it is told to the model: n not on a Friday
  a          yes, and to every other call of this tool in this run
  e          yes, with other arguments: opens $VISUAL or $EDITOR, or reads a line of JSON
  ctrl-c     stops the run
";

/// The pending approval requests.
pub(super) struct Approver {
    /// None if there is no terminal.
    keyboard: Option<Keyboard>,
    paint: Paint,
    has_editor: bool,
    calls: CallBook,
    /// Tools that the person approved for all calls.
    always: HashSet<String>,
    /// The open question, followed by the waiting ones.
    questions: VecDeque<Question>,
    /// Whether the next line is edited arguments instead of an answer.
    is_editing: bool,
    /// Number of requested lines whose question is already settled. They are ignored.
    n_stale: usize,
}

struct Question {
    call_id: CallId,
    /// The tool's current description, if its definition changed.
    changed: Option<String>,
}

/// The person's answer to the open question.
pub(super) struct Answer {
    pub(super) call_id: CallId,
    pub(super) answer: ApprovalAnswer,
}

impl Approver {
    pub(super) fn new(keyboard: Option<Keyboard>, has_editor: bool, paint: Paint) -> Self {
        let (calls, always, questions) = (CallBook::new(), HashSet::new(), VecDeque::new());
        Self {
            keyboard,
            paint,
            has_editor,
            calls,
            always,
            questions,
            is_editing: false,
            n_stale: 0,
        }
    }

    /// Processes an event of the run. Returns an answer if no person can be asked.
    pub(super) fn note(
        &mut self,
        recorded: &RecordedEvent,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Answer> {
        self.calls.note(recorded);
        match &recorded.event {
            Event::ApprovalRequested { call_id, changed, .. } => {
                let call_id = call_id.clone();
                if self.keyboard.is_none() {
                    let denied = Decision::Denied { reason: NOBODY_TO_ASK.to_owned() };
                    return Some(Answer { call_id, answer: denied.into() });
                }
                if changed.is_none() && self.always.contains(&self.title(&call_id)) {
                    // The run resolves it from the earlier answer.
                    return None;
                }
                self.questions.push_back(Question { call_id, changed: changed.clone() });
                if self.questions.len() == 1 {
                    self.ask(updates);
                }
            }
            // Answered here, or resolved otherwise: by expiry, or by the end of the call.
            Event::ApprovalResolved { call_id, .. } | Event::ToolFinished { call_id, .. } => {
                self.settle(call_id, false, updates);
            }
            _ => {}
        }
        None
    }

    /// Waits for input. Waits forever if there is no question.
    pub(super) async fn typed(&mut self) -> Typed {
        match &mut self.keyboard {
            Some(keyboard) if !self.questions.is_empty() => keyboard.typed().await,
            _ => std::future::pending().await,
        }
    }

    /// Interprets the input. Returns an answer, or asks again.
    pub(super) fn read(
        &mut self,
        typed: Typed,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Answer> {
        let call_id = self.questions.front()?.call_id.clone();
        if self.n_stale > 0 {
            // The line was started for a question that is already settled, and must not answer
            // another one.
            self.n_stale -= 1;
            updates.push_back(DisplayUpdate::Question(format!("  {CHOICES}")));
            return None;
        }
        let Some(typed) = typed else {
            // The terminal was closed, or the editor failed: the call is denied.
            let denied = Decision::Denied { reason: String::new() };
            return answered(call_id, denied.into());
        };
        if std::mem::take(&mut self.is_editing) {
            return self.read_arguments(call_id, typed.trim(), updates);
        }
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((&typed, ""));
        match word.to_lowercase().as_str() {
            "y" | "yes" => answered(call_id, Decision::Approved.into()),
            "a" | "always" => {
                self.always.insert(self.title(&call_id));
                let answer = ApprovalAnswer { remember: true, ..Decision::Approved.into() };
                answered(call_id, answer)
            }
            "n" | "no" => {
                let reason = rest.trim().to_owned();
                answered(call_id, Decision::Denied { reason }.into())
            }
            "e" | "edit" => {
                self.edit(&call_id, updates);
                None
            }
            _ => {
                self.ask_again(HELP, updates);
                None
            }
        }
    }

    /// Repeats the open question, with the problem of the last answer.
    pub(super) fn ask_again(&mut self, why: &str, updates: &mut VecDeque<DisplayUpdate>) {
        let text = format!("{}\n  {CHOICES}", why.trim_end());
        self.put(Request::Line, text, updates);
    }

    /// Removes a question, and asks the next one.
    pub(super) fn settle(
        &mut self,
        call_id: &CallId,
        was_typed: bool,
        updates: &mut VecDeque<DisplayUpdate>,
    ) {
        let was_open = self.questions.front().is_some_and(|open| open.call_id == *call_id);
        self.questions.retain(|question| question.call_id != *call_id);
        if was_open {
            self.is_editing = false;
            self.n_stale += usize::from(!was_typed);
            updates.push_back(DisplayUpdate::QuestionClosed { was_typed });
            self.ask(updates);
        }
    }

    /// Asks the first waiting question.
    fn ask(&mut self, updates: &mut VecDeque<DisplayUpdate>) {
        let Some(question) = self.questions.front() else { return };
        let mut lines = vec![format!(
            "{} {} wants to run",
            self.paint.bold(Colour::Yellow, "?"),
            self.paint.strong(&self.title(&question.call_id))
        )];
        lines.push(format!("  arguments: {}", shown(&self.arguments(&question.call_id))));
        if let Some(changed) = &question.changed {
            let changed = shown(changed);
            lines.push(format!("  it has changed since it was trusted, and now says: {changed}"));
        }
        lines.push(format!("  {CHOICES}"));
        self.put(Request::Line, lines.join("\n"), updates);
    }

    fn edit(&mut self, call_id: &CallId, updates: &mut VecDeque<DisplayUpdate>) {
        self.is_editing = true;
        let arguments = self.arguments(call_id);
        let pretty = serde_json::from_str::<Value>(&arguments)
            .and_then(|value| serde_json::to_string_pretty(&value));
        let text =
            if self.has_editor { "" } else { "  the arguments, as JSON on one line: " }.to_owned();
        self.put(Request::Edited(pretty.unwrap_or(arguments)), text, updates);
    }

    fn read_arguments(
        &mut self,
        call_id: CallId,
        typed: &str,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Answer> {
        match serde_json::from_str::<Value>(typed) {
            Ok(Value::Object(arguments)) => {
                let arguments = Some(Value::Object(arguments).to_string());
                answered(call_id, ApprovalAnswer { arguments, ..Decision::Approved.into() })
            }
            Ok(_) => {
                self.ask_again("  the arguments must be a JSON object", updates);
                None
            }
            Err(error) => {
                self.ask_again(&format!("  that is not JSON: {error}"), updates);
                None
            }
        }
    }

    fn put(&self, request: Request, text: String, updates: &mut VecDeque<DisplayUpdate>) {
        updates.push_back(DisplayUpdate::Question(text));
        if let Some(keyboard) = &self.keyboard {
            keyboard.ask(request);
        }
    }

    fn title(&self, call_id: &CallId) -> String {
        let title = self.calls.get(call_id).map(Call::title);
        clean(&title.unwrap_or_else(|| call_id.to_string())).into_owned()
    }

    fn arguments(&self, call_id: &CallId) -> String {
        let arguments = self.calls.get(call_id).and_then(Call::raw_arguments);
        arguments.filter(|text| !text.trim().is_empty()).unwrap_or("{}").to_owned()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "beside the ways that lead to no answer")]
fn answered(call_id: CallId, answer: ApprovalAnswer) -> Option<Answer> {
    Some(Answer { call_id, answer: answer.by(BY) })
}

/// Truncates untrusted text and removes escape sequences.
fn shown(text: &str) -> String {
    let cleaned = clean(text).replace(['\n', '\r'], " ");
    match cleaned.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => {
            let (beginning, _) = cleaned.split_at(end);
            format!("{beginning}… ({} bytes, e shows them all)", text.len())
        }
        None => cleaned,
    }
}
