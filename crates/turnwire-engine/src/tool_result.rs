//! Tool results as shown to the model.
//!
//! Every outcome is shown, and every truncation is marked.

use turnwire_contract::{CallId, Item, ToolOutcome, ToolOutput};

/// Returns the result of a call as a conversation item, with at most `limit` bytes of text.
pub(crate) fn tool_result(call_id: &CallId, outcome: &ToolOutcome, limit: usize) -> Item {
    let (output, images) = match outcome {
        ToolOutcome::Succeeded { output } => (shown(output, limit), output.images.clone()),
        ToolOutcome::Failed { .. }
        | ToolOutcome::TimedOut { .. }
        | ToolOutcome::Cancelled
        | ToolOutcome::Denied { .. }
        | ToolOutcome::InvalidArguments { .. }
        | ToolOutcome::NotFound { .. }
        | ToolOutcome::Skipped { .. }
        | ToolOutcome::OutcomeUnknown { .. } => {
            let problem = outcome.problem().unwrap_or_default();
            let shown = prefix(&problem, limit);
            let cut = if shown.len() < problem.len() { "\n[cut here]" } else { "" };
            (format!("Error: {shown}{cut}"), Vec::new())
        }
    };
    let failed = !outcome.is_success();
    Item::CallResult { call_id: call_id.clone(), output, images, failed, custom: false }
}

/// Shown for a tool whose effect is unknown.
const DOUBT: &str = "whether it did its work is not known, so check before you try again";

/// Returns the outcome of a call whose effect is unknown because of `what`.
pub(crate) fn outcome_unknown(what: &str) -> ToolOutcome {
    ToolOutcome::OutcomeUnknown { message: format!("{what}; {DOUBT}") }
}

/// Notes that the tool may have had an effect although it did not respond.
pub(crate) fn add_unknown_outcome_note(result: &mut Item) {
    if let Item::CallResult { output, .. } = result {
        *output = format!("{output}; {DOUBT}");
    }
}

/// Notes that a person edited the arguments.
pub(crate) fn add_edit_note(result: &mut Item, arguments: &str) {
    if let Item::CallResult { output, .. } = result {
        *output = format!("[a person changed the arguments of this call to {arguments}]\n{output}");
    }
}

fn shown(output: &ToolOutput, limit: usize) -> String {
    let head = prefix(&output.text, limit);
    let total = output.total_bytes();
    if total > head.len() as u64 {
        return format!("{head}\n[cut here: {} of {total} bytes shown]", head.len());
    }
    if head.is_empty() && output.images.is_empty() {
        "(no output)".to_owned()
    } else {
        head.to_owned()
    }
}

/// Returns the longest prefix of at most `limit` bytes that ends at a character boundary.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}
