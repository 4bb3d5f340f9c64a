//! The same things under the names that clients of this surface expect.
//!
//! Names are translated letter by letter and nothing is looked up: `run_X` is `resp_X`, and
//! the question about the call behind the item `mcp_X` is `mcpr_X`.

use turnwire_contract::{ItemId, RunId};

const RUN: &str = "run_";
const RESPONSE: &str = "resp_";
const APPROVAL: &str = "mcpr_";
const SERVER_CALL: &str = "mcp_";
const OTHER_CALLS: [&str; 3] = ["fc_", "ws_", "fs_"];

/// The response that shows the run.
pub fn response_id(run_id: &RunId) -> String {
    let run = run_id.as_str();
    format!("{RESPONSE}{}", run.strip_prefix(RUN).unwrap_or(run))
}

/// The run that the response shows; nothing if this is no name of a response.
pub fn run_id(response_id: &str) -> Option<RunId> {
    let rest = response_id.strip_prefix(RESPONSE).filter(|rest| !rest.is_empty())?;
    Some(RunId::new(format!("{RUN}{rest}")))
}

/// The item that asks a person about the call behind the item `call`: `mcpr_X` for `mcp_X`,
/// and `mcpr_fc_X` for `fc_X`, because other calls than those of servers can be asked about too.
pub fn approval_request_id(call: &ItemId) -> ItemId {
    let call = call.as_str();
    ItemId::new(format!("{APPROVAL}{}", call.strip_prefix(SERVER_CALL).unwrap_or(call)))
}

/// The item of the call that was asked about; nothing if this is no name of such a question.
pub fn asked_about(approval_request_id: &str) -> Option<ItemId> {
    let rest = approval_request_id.strip_prefix(APPROVAL).filter(|rest| !rest.is_empty())?;
    let is_whole = OTHER_CALLS.iter().any(|prefix| rest.starts_with(prefix));
    let prefix = if is_whole { "" } else { SERVER_CALL };
    Some(ItemId::new(format!("{prefix}{rest}")))
}

/// The item of what came of the call behind the item `call`, as the conversation names it too.
pub fn result_id(call: &ItemId) -> ItemId {
    let call = call.as_str();
    ItemId::new(format!("fco_{}", call.split_once('_').map_or(call, |(_, rest)| rest)))
}

#[cfg(test)]
#[path = "ids_tests.rs"]
mod tests;
