//! Every call needs its output, and every output its call.
//!
//! Providers refuse a history in which one is missing, and say so in their own words, after
//! the run has begun. So it is looked at before.

use std::{borrow::Borrow, sync::Arc};

use turnwire_contract::{CallId, Decision, FirstCall, Item, ToolKind, ToolRef, ToolSpec};

use super::{
    error::{ClientError, shown},
    input::{ApprovalAnswer, Input},
};

/// Whether `new` fits behind `history`: each output answers a call that came before it and has
/// none yet, and no call is left open, but for those of servers that wait for a person.
pub fn check_calls(history: &[impl Borrow<Item>], new: &[Item]) -> Result<(), ClientError> {
    let mut calls: Vec<Waiting<'_>> = Vec::new();
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
    match calls.iter().find(|call| call.is_open && call.kind != ToolKind::Mcp) {
        None => Ok(()),
        Some(open) => {
            let id = shown(open.call_id.as_str());
            let message = format!("No tool output found for function call {id}.");
            Err(ClientError::new("no_tool_output_found", "input", message))
        }
    }
}

/// Gives calls that come back with the name their client knows the name that the model knows: a
/// tool in a namespace may be offered under a longer one.
pub fn name_calls(items: &mut [Item], tools: &[Arc<ToolSpec>]) {
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

struct Waiting<'a> {
    call_id: &'a CallId,
    kind: ToolKind,
    is_open: bool,
}

fn note<'a>(calls: &mut Vec<Waiting<'a>>, item: &'a Item) {
    match item {
        Item::Call { call_id, kind, .. } => {
            calls.push(Waiting { call_id, kind: *kind, is_open: true });
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

/// Makes calls to carry out of what a person has decided, in the order of the calls.
///
/// `call_of` tells which call an approval request was about; where it does not know, the
/// request's id is taken for the call's. A call that waits and was not answered is denied: a
/// person who writes on has seen the question, and a history with an open call is of no use.
///
/// A waiting call that came with the input leaves it: the engine adds it with its result.
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
        Item::Call { call_id, name, arguments, kind: ToolKind::Mcp, server }
            if !has_result(call_id) =>
        {
            let tool = ToolRef { name: name.clone(), kind: ToolKind::Mcp, server: server.clone() };
            let (call_id, arguments) = (call_id.clone(), arguments.clone());
            Some(FirstCall { call_id, tool, arguments, decision: None })
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
    }
    for call in &mut calls {
        let reason = "no answer was given".to_owned();
        call.decision.get_or_insert(Decision::Denied { reason });
    }
    input.items.retain(|item| {
        !matches!(item, Item::Call { call_id, .. }
            if calls.iter().any(|call| call.call_id == *call_id))
    });
    Ok(calls)
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
