//! IDs in the format of this surface.
//!
//! They are derived from our own without a lookup: `run_X` becomes `resp_X`, and the approval
//! request of the call with the item `mcp_X` becomes `mcpr_X`.

use turnwire_contract::{BudgetScope, ItemId, RunId, ToolKind};

const RUN: &str = "run_";
const RESPONSE: &str = "resp_";
const APPROVAL: &str = "mcpr_";
/// What follows in the ID of an approval request about a budget.
const BUDGETS: [(&str, BudgetScope); 3] =
    [("run_", BudgetScope::Run), ("key_", BudgetScope::Key), ("tenant_", BudgetScope::Tenant)];
const SERVER_CALL: &str = "mcp_";
const OTHER_CALLS: [(&str, ToolKind); 3] =
    [("fc_", ToolKind::Function), ("ws_", ToolKind::WebSearch), ("fs_", ToolKind::FileSearch)];

/// The response ID of a run.
pub fn response_id(run_id: &RunId) -> String {
    let run = run_id.as_str();
    format!("{RESPONSE}{}", run.strip_prefix(RUN).unwrap_or(run))
}

/// The run ID of a response; `None` if it is not a response ID.
pub fn run_id(response_id: &str) -> Option<RunId> {
    let rest = response_id.strip_prefix(RESPONSE).filter(|rest| !rest.is_empty())?;
    Some(RunId::new(format!("{RUN}{rest}")))
}

/// The ID of the approval request for the call with the item `call`: `mcpr_X` for `mcp_X`, and
/// `mcpr_fc_X` for `fc_X`, because calls other than those of MCP servers may need an approval too.
/// If it is about a `budget`, the ID says so (`mcpr_run_X`), so that the answer does.
pub fn approval_request_id(call: &ItemId, budget: Option<BudgetScope>) -> ItemId {
    let call = call.as_str();
    let of_scope = BUDGETS.iter().find(|(_, scope)| Some(*scope) == budget);
    let about = of_scope.map_or("", |(name, _)| name);
    ItemId::new(format!("{APPROVAL}{about}{}", call.strip_prefix(SERVER_CALL).unwrap_or(call)))
}

/// The budget that an approval request is about; `None` if it is about a call alone.
pub fn asked_budget(approval_request_id: &str) -> Option<BudgetScope> {
    split_budget(approval_request_id.strip_prefix(APPROVAL)?).0
}

fn split_budget(rest: &str) -> (Option<BudgetScope>, &str) {
    let split =
        |(name, scope): &(&str, BudgetScope)| Some((Some(*scope), rest.strip_prefix(name)?));
    BUDGETS.iter().find_map(split).unwrap_or((None, rest))
}

/// The item of the call that an approval request is about; `None` if it is not the ID of one.
pub fn asked_about(approval_request_id: &str) -> Option<ItemId> {
    let (_, rest) = split_budget(approval_request_id.strip_prefix(APPROVAL)?);
    let rest = Some(rest).filter(|rest| !rest.is_empty())?;
    let is_whole = OTHER_CALLS.iter().any(|(prefix, _)| rest.starts_with(prefix));
    let prefix = if is_whole { "" } else { SERVER_CALL };
    Some(ItemId::new(format!("{prefix}{rest}")))
}

/// The kind of tool that an approval request is about.
pub fn asked_kind(approval_request_id: &str) -> ToolKind {
    let call = asked_about(approval_request_id);
    let is_of = |prefix: &str| call.as_ref().is_some_and(|call| call.as_str().starts_with(prefix));
    let kind = OTHER_CALLS.iter().find(|(prefix, _)| is_of(prefix));
    kind.map_or(ToolKind::Mcp, |(_, kind)| *kind)
}

/// The item ID of the result of the call with the item `call`, as in the conversation.
pub fn result_id(call: &ItemId) -> ItemId {
    let call = call.as_str();
    ItemId::new(format!("fco_{}", call.split_once('_').map_or(call, |(_, rest)| rest)))
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
