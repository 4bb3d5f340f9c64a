//! Checks that every call has an output and every output a call.
//!
//! Providers refuse a history in which one is missing, with their own wording and after the run has
//! started. So it is checked before.

use std::{borrow::Borrow, sync::Arc};

use turnwire_contract::{CallId, Decision, FirstCall, Item, ToolKind, ToolRef, ToolSpec};
use turnwire_surfaces::responses::ids;

use super::input::{ApprovalAnswer, Input};
use crate::client_error::{ClientError, shown};

/// Checks that `new` can follow `history`: each output belongs to an earlier call that has none
/// yet, and no call is left open, except calls of this server that wait for an approval.
pub fn check_calls(history: &[impl Borrow<Item>], new: &[Item]) -> Result<(), ClientError> {
    let mut calls: Vec<PendingCall<'_>> = Vec::new();
    for item in history.iter().map(Borrow::borrow) {
        note(&mut calls, item);
    }
    for item in new {
        if let Item::CallResult { call_id, .. } = item {
            match calls.iter().rev().find(|call| call.call_id == call_id) {
                None => return Err(no_call(call_id)),
                Some(call) if !call.is_open => return Err(second_output(call_id)),
                Some(_) => {}
            }
        }
        note(&mut calls, item);
    }
    let open = calls.iter().find(|call| call.is_open && call.kind.is_run_by_client());
    let Some(open) = open else { return Ok(()) };
    let id = shown(open.call_id.as_str());
    let message = format!("No tool output found for function call {id}.");
    Err(ClientError::new("no_tool_output_found", "input", message))
}

/// Renames calls in the input to the names the model knows: a tool in a namespace may be offered
/// under a longer name than the client uses.
pub fn qualify_call_names(items: &mut [Item], tools: &[Arc<ToolSpec>]) {
    for item in items {
        let Item::Call { name, kind, server: Some(namespace), .. } = item else { continue };
        let is_it = |tool: &&Arc<ToolSpec>| {
            tool.server.as_ref() == Some(namespace) && tool.reference().own_name() == *name
        };
        if kind.is_run_by_client()
            && let Some(tool) = tools.iter().find(is_it)
        {
            name.clone_from(&tool.name);
        }
    }
}

struct PendingCall<'a> {
    call_id: &'a CallId,
    kind: ToolKind,
    is_open: bool,
}

fn note<'a>(calls: &mut Vec<PendingCall<'a>>, item: &'a Item) {
    match item {
        Item::Call { call_id, kind, .. } => {
            calls.push(PendingCall { call_id, kind: *kind, is_open: true });
        }
        Item::CallResult { call_id, .. } => {
            let call = calls.iter_mut().rev().find(|call| call.call_id == call_id);
            if let Some(call) = call {
                call.is_open = false;
            }
        }
        Item::Message { .. } | Item::Reasoning { .. } => {}
    }
}

fn no_call(call_id: &CallId) -> ClientError {
    let id = shown(call_id.as_str());
    let message = format!("No tool call found for function call output with call_id {id}.");
    ClientError::new("no_tool_call_found", "input", message)
}

fn second_output(call_id: &CallId) -> ClientError {
    let id = shown(call_id.as_str());
    let message = format!("The tool call with call_id {id} already has an output.");
    ClientError::new("duplicate_tool_output", "input", message)
}

/// Returns the calls that a user has decided about, in the order of the calls.
///
/// `call_of` returns the call an approval request was about; if it is unknown, the ID of the
/// request is used as call ID. A waiting call without an answer is denied: a user who continues has
/// seen the question, and models refuse a history with an open call.
///
/// A waiting call in the input is removed from it: the engine adds it with its result, in the same
/// place.
pub fn take_first_calls(
    history: &[impl Borrow<Item>],
    input: &mut Input,
    call_of: impl Fn(&str) -> Option<CallId>,
) -> Result<Vec<FirstCall>, ClientError> {
    let all: Vec<&Item> = history.iter().map(Borrow::borrow).chain(&input.items).collect();
    let has_result = |id: &CallId| {
        all.iter().any(|item| matches!(item, Item::CallResult { call_id, .. } if call_id == id))
    };
    let waiting = |item: &&Item| match item {
        Item::Call { call_id, name, arguments, kind, server }
            if !kind.is_run_by_client() && !has_result(call_id) =>
        {
            let tool = ToolRef { name: name.clone(), kind: *kind, server: server.clone() };
            let (call_id, arguments) = (call_id.clone(), arguments.clone());
            Some(FirstCall { call_id, tool, arguments, decision: None, budget: None })
        }
        _ => None,
    };
    let mut calls: Vec<FirstCall> = all.iter().filter_map(waiting).collect();
    for ApprovalAnswer { approval_request_id, decision, param } in input.answers.drain(..) {
        let call_id = call_of(&approval_request_id);
        let call_id = call_id.unwrap_or_else(|| CallId::new(approval_request_id.as_str()));
        let is_it = |call: &&mut FirstCall| call.call_id == call_id && call.decision.is_none();
        let Some(call) = calls.iter_mut().find(is_it) else {
            let id = shown(&approval_request_id);
            let message =
                format!("No approval request found with id {id} that waits for an answer.");
            let param = format!("{param}.approval_request_id");
            return Err(ClientError::new("approval_request_not_found", param, message));
        };
        call.decision = Some(decision);
        call.budget = ids::asked_budget(&approval_request_id);
    }
    for call in &mut calls {
        call.decision.get_or_insert_with(Decision::unanswered);
    }
    let waits = |item: &Item| {
        matches!(item, Item::Call { call_id, .. }
            if calls.iter().any(|call| call.call_id == *call_id))
    };
    if let Some(last) = input.items.iter().rposition(waits) {
        input.n_before_calls = input.items.iter().take(last).filter(|item| !waits(item)).count();
    }
    input.items.retain(|item| !waits(item));
    Ok(calls)
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
