//! What calls were given and what they returned, in full: every call with `--tools full`, and the
//! last one that ended if a person asks for it.

use serde_json::Value;
use turnwire_contract::{Event, RecordedEvent, ToolOutcome};
use turnwire_surfaces::{Call, CallBook, clean, visible::exact};

/// What the lines of a value begin with.
const MARGIN: &str = "    ";

/// The calls of a run.
#[derive(Debug, Default)]
pub(super) struct CallDetails {
    calls: CallBook,
    last: Option<String>,
}

impl CallDetails {
    /// Processes an event. Returns whether a call has ended.
    pub(super) fn note(&mut self, recorded: &RecordedEvent) -> bool {
        self.calls.note(recorded);
        let Event::ToolFinished { call_id, outcome, .. } = &recorded.event else { return false };
        self.last = self.calls.get(call_id).map(|call| described(call, outcome));
        self.last.is_some()
    }

    /// Arguments and result of the last call that ended.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }
}

fn described(call: &Call, outcome: &ToolOutcome) -> String {
    let arguments = call.raw_arguments().map(str::trim).filter(|text| !text.is_empty());
    let arguments = indented(&exact(&pretty(arguments.unwrap_or("{}"))));
    let ToolOutcome::Succeeded { output } = outcome else {
        let why = indented(&outcome.problem().unwrap_or_default());
        return format!("  arguments of {}\n{arguments}\n  no result\n{why}", exact(&call.title()));
    };
    let (n_shown, n_bytes) = (output.text.len(), output.total_bytes());
    let size = match &output.rest {
        Some(_) => format!(", {n_shown} of {n_bytes} bytes"),
        None => String::new(),
    };
    let text = if output.text.trim().is_empty() { "(no text)" } else { output.text.trim_end() };
    let (title, text) = (call.title(), indented(&pretty(text)));
    format!("  arguments of {}\n{arguments}\n  result{size}\n{text}", exact(&title))
}

/// JSON on several lines; any other text as it is.
fn pretty(text: &str) -> String {
    let parsed = serde_json::from_str::<Value>(text).ok();
    let parsed = parsed.filter(|value| value.is_object() || value.is_array());
    let pretty = parsed.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| text.to_owned())
}

fn indented(text: &str) -> String {
    let lines = clean(text).lines().map(|line| format!("{MARGIN}{line}")).collect::<Vec<_>>();
    lines.join("\n")
}

#[cfg(test)]
#[path = "call_details_tests.rs"]
mod tests;
