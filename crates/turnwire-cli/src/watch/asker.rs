//! Questions at the terminal, one at a time in the order of their arrival: approvals of calls, and
//! questions of tools.

use std::collections::{HashSet, VecDeque};

use serde_json::Value;
use turnwire::{ApprovalAnswer, CallId, Decision, Event, RecordedEvent};
use turnwire_contract::{DiscoveryOutcome, Effect, InputId, Reply, ToolClaims, ToolSpec};
use turnwire_surfaces::{Call, CallBook, visible, words};

use super::{
    BY,
    form::{Form, FormStep},
    input::{Input, Line, Request},
    keyboard::Keyboard,
};
use crate::{
    args::ApprovalPolicy,
    terminal::{Colour, DisplayUpdate, Paint},
};

/// Reason for the denial, for the model.
const NOBODY_TO_ASK: &str = "a person has to allow this, and there is nobody to ask";
/// Reason for a denial by `--approve never`, for the model.
const NEVER: &str = "the person who watches this run allows no calls that need an approval";
/// Maximum number of characters of the arguments that are shown. The editor shows all.
const MAX_SHOWN: usize = 2_000;

const CHOICES: &str =
    "allow it? [y]es, [n]o, [a]lways in this run, [e]dit the arguments, [?] help: ";
/// A budget is allowed for the run, not for a tool.
const BUDGET_CHOICES: &str = "continue? [y]es, [n]o, [e]dit the arguments, [?] help: ";
const HELP: &str = "\
  y          yes, this time
  n          no; what is written behind it is told to the model: n not on a Friday
  a          yes, and to every other call of this tool in this run
  e          yes, with other arguments: opens $VISUAL or $EDITOR, or reads a line of JSON
  ctrl-c     stops the run
";
const BUDGET_HELP: &str = "\
  y          yes, the run goes on with this call; it does not ask about this budget again
  n          no, the run ends here as incomplete
  e          yes, with other arguments: opens $VISUAL or $EDITOR, or reads a line of JSON
  ctrl-c     stops the run
";

/// What happens to questions if there is no terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithoutTerminal {
    /// Calls are denied, and tools are told that nobody answers.
    Deny,
    /// Others may answer.
    Wait,
    /// The run is left to those who can answer.
    Leave,
}

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answering {
    /// Which approvals are given without a question.
    pub(crate) policy: ApprovalPolicy,
    pub(crate) otherwise: WithoutTerminal,
}

pub(crate) struct Asker {
    /// None if there is no terminal.
    keyboard: Option<Keyboard>,
    answering: Answering,
    must_leave: bool,
    paint: Paint,
    has_editor: bool,
    calls: CallBook,
    /// Tools without side effects, by the class that the operator gave them. What a server claims
    /// about its tools does not count.
    pure: HashSet<(Option<String>, String)>,
    /// Tools that the person approved for all calls.
    always: HashSet<String>,
    /// The open question, followed by the waiting ones.
    questions: VecDeque<Question>,
    /// Whether the next line is edited arguments instead of an answer.
    is_editing: bool,
    /// Number of the last request to the keyboard. Lines typed for others are ignored.
    n_requests: u64,
}

#[derive(Debug)]
struct Question {
    id: QuestionId,
    kind: QuestionKind,
}

/// Which question is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuestionId {
    call_id: CallId,
    /// None for an approval.
    input_id: Option<InputId>,
}

#[derive(Debug)]
enum QuestionKind {
    Approval {
        /// The tool's current description, if its definition changed.
        changed: Option<String>,
        claims: Option<ToolClaims>,
        /// The question about a budget, if that is why the person is asked.
        budget: Option<String>,
    },
    Input(Form),
}

/// The person's answer to the open question.
#[derive(Debug)]
pub(super) enum Given {
    Approval { call_id: CallId, answer: ApprovalAnswer },
    Input { call_id: CallId, input_id: InputId, reply: Reply },
}

impl Given {
    pub(super) fn question(&self) -> QuestionId {
        match self {
            Self::Approval { call_id, .. } => {
                QuestionId { call_id: call_id.clone(), input_id: None }
            }
            Self::Input { call_id, input_id, .. } => {
                QuestionId { call_id: call_id.clone(), input_id: Some(input_id.clone()) }
            }
        }
    }
}

impl Asker {
    pub(crate) fn new(
        keyboard: Option<Keyboard>,
        has_editor: bool,
        paint: Paint,
        answering: Answering,
    ) -> Self {
        Self {
            keyboard,
            answering,
            must_leave: false,
            paint,
            has_editor,
            calls: CallBook::new(),
            pure: HashSet::new(),
            always: HashSet::new(),
            questions: VecDeque::new(),
            is_editing: false,
            n_requests: 0,
        }
    }

    /// Whether the run waits for a person, and there is nobody to ask.
    pub(super) fn must_leave(&self) -> bool {
        self.must_leave
    }

    /// Processes an event of the run. Returns an answer if no person can be asked.
    pub(super) fn note(
        &mut self,
        recorded: &RecordedEvent,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Given> {
        self.calls.note(recorded);
        match &recorded.event {
            Event::RunQueued { request } => self.note_effects(request.tools.iter().map(|it| &**it)),
            Event::ToolsDiscovered { outcome: DiscoveryOutcome::Listed { tools }, .. } => {
                self.note_effects(tools.iter().map(|it| &**it));
            }
            Event::ApprovalRequested { call_id, changed, server_claims, budget, .. } => {
                let is_new = changed.is_some() || budget.is_some();
                if !is_new && self.always.contains(&self.title(call_id)) {
                    // The run resolves it from the earlier answer.
                    return None;
                }
                if let Some(decision) = self.decided(call_id, is_new) {
                    return answered(call_id.clone(), decision.into());
                }
                let id = QuestionId { call_id: call_id.clone(), input_id: None };
                let (changed, claims) = (changed.clone(), *server_claims);
                let budget = budget.as_deref().map(words::budget_question);
                let kind = QuestionKind::Approval { changed, claims, budget };
                return self.queue(Question { id, kind }, updates);
            }
            Event::InputRequested { call_id, input_id, message, schema, .. } => {
                let id = QuestionId { call_id: call_id.clone(), input_id: Some(input_id.clone()) };
                let kind = QuestionKind::Input(Form::new(message, schema));
                return self.queue(Question { id, kind }, updates);
            }
            // Answered here, or resolved otherwise: by expiry, or by somebody else.
            Event::ApprovalResolved { call_id, .. } => {
                let id = QuestionId { call_id: call_id.clone(), input_id: None };
                self.settle(&id, false, updates);
            }
            Event::InputResolved { call_id, input_id, .. } => {
                let id = QuestionId { call_id: call_id.clone(), input_id: Some(input_id.clone()) };
                self.settle(&id, false, updates);
            }
            Event::ToolFinished { call_id, .. } => {
                let of_call = |question: &&Question| question.id.call_id == *call_id;
                while let Some(id) = self.questions.iter().find(of_call).map(|it| it.id.clone()) {
                    self.settle(&id, false, updates);
                }
            }
            Event::RunFinished { .. } => {
                while let Some(id) = self.questions.back().map(|question| question.id.clone()) {
                    self.settle(&id, false, updates);
                }
            }
            _ => {}
        }
        None
    }

    fn note_effects<'a>(&mut self, tools: impl Iterator<Item = &'a ToolSpec>) {
        let pure = tools.filter(|tool| tool.effect == Effect::Pure);
        self.pure.extend(pure.map(|tool| (tool.server.clone(), tool.name.clone())));
    }

    /// The decision that the command line makes. What is new to the person is never approved
    /// unseen: a definition that has changed, or a budget.
    fn decided(&self, call_id: &CallId, is_new: bool) -> Option<Decision> {
        let is_pure = || {
            let tool = self.calls.get(call_id).map(|call| &call.tool);
            tool.is_some_and(|it| self.pure.contains(&(it.server.clone(), it.name.clone())))
        };
        match self.answering.policy {
            ApprovalPolicy::Never => Some(Decision::Denied { reason: NEVER.to_owned() }),
            ApprovalPolicy::All if !is_new => Some(Decision::Approved),
            ApprovalPolicy::ReadOnly if !is_new && is_pure() => Some(Decision::Approved),
            ApprovalPolicy::Ask | ApprovalPolicy::All | ApprovalPolicy::ReadOnly => None,
        }
    }

    /// Waits for input. Waits forever if there is no terminal.
    pub(super) async fn input(&mut self) -> Input {
        if let Some(keyboard) = &mut self.keyboard
            && let Some(input) = keyboard.next().await
        {
            return input;
        }
        std::future::pending().await
    }

    /// Interprets a line. Returns an answer, or asks again.
    pub(super) fn read(
        &mut self,
        line: Line,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Given> {
        if line.request != self.n_requests {
            return None;
        }
        let was_editing = std::mem::take(&mut self.is_editing);
        let Question { id, kind } = self.questions.front_mut()?;
        let id = id.clone();
        let step = match kind {
            QuestionKind::Input(form) => form.read(line.text.as_deref()),
            QuestionKind::Approval { .. } => {
                let call_id = id.call_id;
                return match line.text {
                    // The terminal was closed, or the editor failed: the call is denied.
                    None => answered(call_id, Decision::Denied { reason: String::new() }.into()),
                    Some(typed) if was_editing => {
                        self.read_arguments(call_id, typed.trim(), updates)
                    }
                    Some(typed) => self.read_decision(call_id, &typed, updates),
                };
            }
        };
        match (step, id.input_id) {
            (FormStep::Done(reply), Some(input_id)) => {
                Some(Given::Input { call_id: id.call_id, input_id, reply })
            }
            (FormStep::Ask(text), _) => {
                self.put_line(text, updates);
                None
            }
            (FormStep::Done(_), None) => None,
        }
    }

    fn read_decision(
        &mut self,
        call_id: CallId,
        typed: &str,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Given> {
        let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
        match word.to_lowercase().as_str() {
            "y" | "yes" => answered(call_id, Decision::Approved.into()),
            "a" | "always" if !self.is_about_budget() => {
                self.always.insert(self.title(&call_id));
                let answer = ApprovalAnswer { remember: true, ..Decision::Approved.into() };
                answered(call_id, answer)
            }
            "n" | "no" | "d" | "deny" => {
                let reason = rest.trim().to_owned();
                answered(call_id, Decision::Denied { reason }.into())
            }
            "e" | "edit" => {
                self.edit(&call_id, updates);
                None
            }
            _ => {
                self.ask_again(if self.is_about_budget() { BUDGET_HELP } else { HELP }, updates);
                None
            }
        }
    }

    /// Whether the open question is about a budget.
    fn is_about_budget(&self) -> bool {
        let kind = self.questions.front().map(|question| &question.kind);
        matches!(kind, Some(QuestionKind::Approval { budget: Some(_), .. }))
    }

    /// Repeats the open question, with the problem of the last answer.
    pub(super) fn ask_again(&mut self, why: &str, updates: &mut VecDeque<DisplayUpdate>) {
        let again = match self.questions.front_mut().map(|question| &mut question.kind) {
            Some(QuestionKind::Input(form)) => form.begin_again(),
            Some(QuestionKind::Approval { budget: Some(_), .. }) => format!("  {BUDGET_CHOICES}"),
            Some(QuestionKind::Approval { .. }) => format!("  {CHOICES}"),
            None => return,
        };
        self.put_line(format!("{}\n{again}", why.trim_end()), updates);
    }

    /// Removes a question, and asks the next one.
    pub(super) fn settle(
        &mut self,
        id: &QuestionId,
        was_typed: bool,
        updates: &mut VecDeque<DisplayUpdate>,
    ) {
        let was_open = self.questions.front().is_some_and(|open| open.id == *id);
        self.questions.retain(|question| question.id != *id);
        if !was_open {
            return;
        }
        self.is_editing = false;
        if !was_typed && let Some(keyboard) = &self.keyboard {
            keyboard.ask(Request::Withdrawn);
        }
        self.n_requests += 1;
        updates.push_back(DisplayUpdate::QuestionClosed { was_typed });
        self.ask(updates);
    }

    /// Puts a question at the end of the queue. Returns an answer if it is given without a person.
    fn queue(
        &mut self,
        question: Question,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Given> {
        if self.keyboard.is_none() {
            match self.answering.otherwise {
                WithoutTerminal::Wait => {}
                WithoutTerminal::Leave => self.must_leave = true,
                WithoutTerminal::Deny => return Some(without_person(question.id)),
            }
            return None;
        }
        self.questions.push_back(question);
        if self.questions.len() == 1 {
            self.ask(updates);
        }
        None
    }

    /// Asks the first waiting question.
    fn ask(&mut self, updates: &mut VecDeque<DisplayUpdate>) {
        let Some(question) = self.questions.front() else { return };
        let mark = self.paint.bold(Colour::Yellow, "?");
        let title = self.paint.strong(&self.title(&question.id.call_id));
        let text = match &question.kind {
            QuestionKind::Approval { changed, claims, budget } => {
                let claims = claims.map(claimed).unwrap_or_default();
                let mut lines = vec![format!("{mark} {title} wants to run{claims}")];
                let arguments = shown(&self.arguments(&question.id.call_id));
                lines.push(format!("  arguments: {arguments}"));
                if let Some(changed) = changed {
                    lines.push(format!(
                        "  it has changed since it was trusted, and now says: {}",
                        shown(changed)
                    ));
                }
                match budget {
                    Some(budget) => lines.extend([
                        format!("  {budget} A no ends the run."),
                        format!("  {BUDGET_CHOICES}"),
                    ]),
                    None => lines.push(format!("  {CHOICES}")),
                }
                lines.join("\n")
            }
            QuestionKind::Input(form) => {
                format!("{mark} {title} asks: {}\n{}", shown(form.message()), form.begin())
            }
        };
        self.put_line(text, updates);
    }

    fn edit(&mut self, call_id: &CallId, updates: &mut VecDeque<DisplayUpdate>) {
        self.is_editing = true;
        let arguments = self.arguments(call_id);
        let pretty = serde_json::from_str::<Value>(&arguments)
            .and_then(|value| serde_json::to_string_pretty(&value));
        let text =
            if self.has_editor { "" } else { "  the arguments, as JSON on one line: " }.to_owned();
        self.n_requests += 1;
        let request =
            Request::Edited(self.n_requests, visible::exact_json(&pretty.unwrap_or(arguments)));
        self.put(request, text, updates);
    }

    fn read_arguments(
        &mut self,
        call_id: CallId,
        typed: &str,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> Option<Given> {
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

    fn put_line(&mut self, text: String, updates: &mut VecDeque<DisplayUpdate>) {
        self.n_requests += 1;
        self.put(Request::Line(self.n_requests), text, updates);
    }

    fn put(&self, request: Request, text: String, updates: &mut VecDeque<DisplayUpdate>) {
        // Before the question is visible, so that what is typed then is its answer.
        if let Some(keyboard) = &self.keyboard {
            keyboard.ask(request);
        }
        updates.push_back(DisplayUpdate::Question(text));
    }

    fn title(&self, call_id: &CallId) -> String {
        let title = self.calls.get(call_id).map(Call::title);
        visible::exact(&title.unwrap_or_else(|| call_id.to_string())).into_owned()
    }

    fn arguments(&self, call_id: &CallId) -> String {
        let arguments = self.calls.get(call_id).and_then(Call::raw_arguments);
        arguments.filter(|text| !text.trim().is_empty()).unwrap_or("{}").to_owned()
    }
}

#[expect(clippy::unnecessary_wraps, reason = "beside the ways that lead to no answer")]
fn answered(call_id: CallId, answer: ApprovalAnswer) -> Option<Given> {
    Some(Given::Approval { call_id, answer: answer.by(BY) })
}

fn without_person(id: QuestionId) -> Given {
    match id {
        QuestionId { call_id, input_id: None } => {
            let denied = Decision::Denied { reason: NOBODY_TO_ASK.to_owned() };
            Given::Approval { call_id, answer: denied.into() }
        }
        QuestionId { call_id, input_id: Some(input_id) } => {
            Given::Input { call_id, input_id, reply: Reply::Declined }
        }
    }
}

/// What the server of a tool claims about it. It is not verified.
fn claimed(claims: ToolClaims) -> String {
    let words = [
        (claims.destructive == Some(true), "destructive"),
        (claims.read_only == Some(true), "read-only"),
    ];
    let words: Vec<&str> =
        words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" ({}, its server says)", words.join(", "))
}

/// Shows untrusted text as what it is, on one line, and truncates it.
fn shown(text: &str) -> String {
    let exact = visible::exact(text).replace(['\n', '\r'], " ");
    let Some((end, _)) = exact.char_indices().nth(MAX_SHOWN) else { return exact };
    let (beginning, _) = exact.split_at(end);
    format!("{beginning}… ({} bytes, e shows them all)", text.len())
}
