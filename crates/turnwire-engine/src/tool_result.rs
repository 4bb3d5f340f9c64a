//! What the model is told about a call that is over.
//!
//! The model hears of every ending, and of everything that was left out: a result is never
//! cut silently.

use turnwire_contract::{CallId, Item, ToolOutcome, ToolOutput};

/// The result of a call as an item of the conversation; at most `limit` bytes of text.
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

/// What is said of a tool that may have done its work, or not.
const DOUBT: &str = "whether it did its work is not known, so check before you try again";

/// The end of a call of which nobody knows whether it did its work, because of `what`.
pub(crate) fn outcome_unknown(what: &str) -> ToolOutcome {
    ToolOutcome::OutcomeUnknown { message: format!("{what}; {DOUBT}") }
}

/// Says that the tool may have done its work although it did not answer.
pub(crate) fn add_unknown_outcome_note(result: &mut Item) {
    if let Item::CallResult { output, .. } = result {
        *output = format!("{output}; {DOUBT}");
    }
}

/// Says that the tool was called with other arguments than the model's.
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

/// The longest beginning of `text` that has at most `limit` bytes and no broken character.
pub(crate) fn prefix(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}
