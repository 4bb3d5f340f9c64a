//! Questions to people: the interrupts of the protocol.
//!
//! An interrupt carries the run and the call in its ID, so an answer needs nothing else to find
//! them. Whether the answering tenant owns the run is for the gateway to check.

use std::{fmt, str::FromStr};

use serde::Serialize;
use serde_json::{Value, json};
use turnwire_contract::{CallId, Effect, InputId, RunId, Timestamp, ToolClaims, ToolKind};

use super::event::{Interrupt, metadata};
use crate::{BudgetQuestion, calls::Call, clean::clean};

/// The ID of an interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterruptId {
    /// The run that waits.
    pub run_id: RunId,
    /// What it waits for.
    pub target: InterruptTarget,
}

/// What an interrupt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterruptTarget {
    /// The approval of a call.
    Approval(CallId),
    /// The answer to a question of a tool.
    Input(CallId, InputId),
}

impl fmt::Display for InterruptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = &self.run_id;
        match &self.target {
            InterruptTarget::Approval(call) => write!(f, "approval:{run}:{call}"),
            InterruptTarget::Input(call, input) => write!(f, "input:{run}:{input}:{call}"),
        }
    }
}

/// A text that is not the ID of an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseInterruptIdError;

impl FromStr for InterruptId {
    type Err = ParseInterruptIdError;

    /// The call comes last, because its ID is the model's and may contain anything.
    fn from_str(text: &str) -> Result<Self, ParseInterruptIdError> {
        let mut parts = text.splitn(3, ':');
        let (kind, run, rest) = (parts.next(), parts.next(), parts.next());
        let (Some(kind), Some(run), Some(rest)) = (kind, run, rest) else {
            return Err(ParseInterruptIdError);
        };
        let target = match (kind, rest.split_once(':')) {
            ("approval", _) => InterruptTarget::Approval(CallId::from(rest)),
            ("input", Some((input, call))) => {
                InterruptTarget::Input(CallId::from(call), InputId::from(input))
            }
            _ => return Err(ParseInterruptIdError),
        };
        Ok(Self { run_id: RunId::from(run), target })
    }
}

/// An approval that is asked for.
#[derive(Debug, Clone)]
pub(super) struct Approval {
    pub(super) expires_at: Option<Timestamp>,
    /// The tool's new definition, if it differs from the one that was trusted.
    pub(super) changed: Option<String>,
    /// The effect class, set together with the claims.
    pub(super) effect: Option<Effect>,
    pub(super) server_claims: Option<ToolClaims>,
    /// The budget that it is about, if it is about one.
    pub(super) budget: Option<BudgetQuestion>,
}

/// A question of a tool.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) input_id: InputId,
    pub(super) message: String,
    pub(super) schema: Value,
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct AskedFacts<'a> {
    tool: &'a str,
    kind: ToolKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    /// The arguments that the call would be executed with.
    arguments: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    /// What the server of the tool claims about it. Not verified.
    #[serde(skip_serializing_if = "Option::is_none")]
    server_claims: Option<ToolClaims>,
    /// The budget that the approval is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<&'a BudgetQuestion>,
}

impl Approval {
    pub(super) fn interrupt(&self, run_id: &RunId, call: &Call, tool: &str) -> Interrupt {
        let target = InterruptTarget::Approval(call.call_id.clone());
        let changed = self.changed.as_deref().map(|changed| clean(changed).into_owned());
        let title = call.title();
        let of_changed =
            || format!("The definition of {} has changed. Allow the call?", clean(&title));
        let message = match (&self.budget, &changed) {
            // The answer decides both.
            (Some(budget), Some(_)) => format!("{} {}", budget.message, of_changed()),
            (Some(budget), None) => budget.message.clone(),
            (None, Some(_)) => of_changed(),
            (None, None) => format!("Allow {}?", clean(&title)),
        };
        Interrupt {
            id: InterruptId { run_id: run_id.clone(), target }.to_string(),
            reason: "tool_call",
            message,
            tool_call_id: call.call_id.to_string(),
            response_schema: approval_schema(),
            expires_at: self.expires_at,
            metadata: metadata(&AskedFacts {
                changed,
                effect: self.effect,
                server_claims: self.server_claims,
                budget: self.budget.as_ref(),
                ..facts(call, tool)
            }),
        }
    }
}

impl Question {
    pub(super) fn interrupt(&self, run_id: &RunId, call: &Call, tool: &str) -> Interrupt {
        let target = InterruptTarget::Input(call.call_id.clone(), self.input_id.clone());
        Interrupt {
            id: InterruptId { run_id: run_id.clone(), target }.to_string(),
            reason: "input_required",
            message: clean(&self.message).into_owned(),
            tool_call_id: call.call_id.to_string(),
            response_schema: self.schema.clone(),
            expires_at: self.expires_at,
            metadata: metadata(&facts(call, tool)),
        }
    }
}

fn facts<'a>(call: &'a Call, tool: &'a str) -> AskedFacts<'a> {
    AskedFacts {
        tool,
        kind: call.tool.kind,
        server: call.tool.server.as_deref(),
        arguments: Value::Object(call.arguments()),
        changed: None,
        effect: None,
        server_claims: None,
        budget: None,
    }
}

/// The shape of the answer to an approval.
fn approval_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "approved": { "type": "boolean" },
            "reason": { "type": "string" },
            "arguments": { "type": "object" },
            "remember": { "type": "boolean" },
        },
        "required": ["approved"],
    })
}
