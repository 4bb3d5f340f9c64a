//! The outcome of a call, in the format of this surface.

use serde_json::{Map, Value};
use turnwire_contract::{CallId, Failure, Image, RunId, ToolOutcome, ToolOutput};

use super::item::{
    ErrorText, FailureNote, FileSearchResult, FunctionOutput, InputContent, ItemNote, McpError,
    WebSearchAction, WebSource,
};
use crate::preview::{WIRE_BYTES, result_ref, wire_text};

/// The code of a failure that the tool itself reported.
const TOOL_SAYS_NO: &str = "tool_failed";

impl From<&Failure> for FailureNote {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.code.clone(), message: failure.message.clone() }
    }
}

/// The failure of a call; `None` for a success.
pub(super) fn failure(outcome: &ToolOutcome) -> Option<FailureNote> {
    if outcome.is_success() {
        return None;
    }
    let code = if let ToolOutcome::Failed { failure } = outcome {
        failure.code.as_str()
    } else {
        outcome.name()
    };
    let problem = outcome.problem().unwrap_or_default();
    let message = wire_text(&problem, WIRE_BYTES).text.to_owned();
    Some(FailureNote { code: code.to_owned(), message })
}

/// The error of an MCP call (R7): the tool's own content if it reported the failure itself, else
/// the closest JSON-RPC error code.
pub(super) fn mcp_error(outcome: &ToolOutcome) -> Option<McpError> {
    let FailureNote { message, .. } = failure(outcome)?;
    let code = match outcome {
        ToolOutcome::Succeeded { .. } => return None,
        ToolOutcome::Failed { failure } if failure.code == TOOL_SAYS_NO => {
            return Some(said_by_tool(message));
        }
        ToolOutcome::Failed { .. } => -32603,
        ToolOutcome::TimedOut { .. } => -32001,
        ToolOutcome::Cancelled => -32800,
        ToolOutcome::Denied { .. } => -32003,
        ToolOutcome::InvalidArguments { .. } => -32602,
        ToolOutcome::NotFound { .. } => -32601,
        ToolOutcome::Skipped { .. } => -32004,
        ToolOutcome::OutcomeUnknown { .. } => -32005,
    };
    Some(McpError::McpProtocolError { code, message })
}

pub(super) fn said_by_tool(text: String) -> McpError {
    McpError::McpToolExecutionError { content: vec![ErrorText::Text { text }] }
}

/// The call that a result belongs to, for the path of the full result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whose<'a> {
    pub(super) run_id: &'a RunId,
    pub(super) call_id: &'a CallId,
}

/// The text that an MCP tool returned, up to the wire limit. The item cannot contain images, so
/// they are counted.
pub(super) fn mcp_output(outcome: &ToolOutcome, whose: Whose<'_>) -> (Option<String>, ItemNote) {
    let ToolOutcome::Succeeded { output } = outcome else {
        return (None, ItemNote::default());
    };
    let (text, mut note) = cut(output, whose);
    hide(output.images.len(), &mut note);
    (Some(text), note)
}

/// The output of a function, up to the wire limit.
pub(super) fn function_output(
    outcome: &ToolOutcome,
    whose: Whose<'_>,
) -> (FunctionOutput, ItemNote) {
    let ToolOutcome::Succeeded { output } = outcome else {
        let failure = failure(outcome);
        let problem = failure.as_ref().map_or("", |failure| &failure.message);
        let text = FunctionOutput::Text(format!("Error: {problem}"));
        return (text, ItemNote { failure, ..ItemNote::default() });
    };
    let (text, mut note) = cut(output, whose);
    let shown = fitting(&output.images, WIRE_BYTES - text.len());
    hide(output.images.len() - shown.len(), &mut note);
    (with_pictures(text, shown), note)
}

/// The first images that fit into `room` bytes.
fn fitting(images: &[Image], mut room: usize) -> &[Image] {
    let mut n_fitting = 0;
    for image in images {
        let Some(left) = room.checked_sub(image.base64.len()) else { break };
        room = left;
        n_fitting += 1;
    }
    images.get(..n_fitting).unwrap_or_default()
}

/// Text, and images if there are any.
pub(super) fn with_pictures(text: String, images: &[Image]) -> FunctionOutput {
    let mut pictures: Vec<InputContent> =
        images.iter().map(|image| InputContent::image(image.data_url(), None)).collect();
    if pictures.is_empty() {
        return FunctionOutput::Text(text);
    }
    if !text.is_empty() {
        pictures.insert(0, InputContent::InputText { text });
    }
    FunctionOutput::Parts(pictures)
}

/// The text up to the wire limit, and a note about what was cut off.
fn cut(output: &ToolOutput, whose: Whose<'_>) -> (String, ItemNote) {
    let text = wire_text(&output.text, WIRE_BYTES);
    let mut note = ItemNote::default();
    if text.truncated || output.rest.is_some() {
        note.truncated = true;
        note.result_bytes = Some(output.total_bytes());
        note.result_ref = Some(result_ref(whose.run_id.as_str(), whose.call_id.as_str()));
    }
    (text.text.to_owned(), note)
}

fn hide(n_images: usize, note: &mut ItemNote) {
    note.images = Some(n_images).filter(|n_images| *n_images > 0);
}

/// The action of a web search, from its arguments and its structured result.
pub(super) fn web_action(
    arguments: &str,
    structured: Option<&Value>,
    with_sources: bool,
) -> WebSearchAction {
    if let Some(action) = page_action(arguments, structured) {
        return action;
    }
    let queries = queries(arguments, structured);
    let sources = || structured?.get("sources")?.as_array();
    let urls = sources().into_iter().flatten().filter_map(|source| source.get("url")?.as_str());
    let sources = urls.map(|url| WebSource::Url { url: url.to_owned() });
    WebSearchAction::Search {
        query: queries.first().cloned().unwrap_or_default(),
        queries,
        sources: with_sources.then(|| sources.collect()),
    }
}

/// The action on a page, if there was one: from the structured result, else as the model named it,
/// else from its arguments.
fn page_action(arguments: &str, structured: Option<&Value>) -> Option<WebSearchAction> {
    let told: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = |key: &str| Some(told.get(key)?.as_str()?.to_owned());
    let (url, pattern) = (text("url"), text("pattern"));
    let account = structured.and_then(|found| found.get("action")).and_then(Value::as_str);
    let given = || match (&url, &pattern) {
        (Some(_), Some(_)) => Some("find_in_page".to_owned()),
        (Some(_), None) if queries(arguments, None).is_empty() => Some("open_page".to_owned()),
        _ => None,
    };
    let action = account.map(str::to_owned).or_else(|| text("action")).or_else(given)?;
    match action.as_str() {
        "open_page" => Some(WebSearchAction::OpenPage { url: url? }),
        "find_in_page" => Some(WebSearchAction::FindInPage { url: url?, pattern: pattern? }),
        _ => None,
    }
}

/// The queries: those of the model, else those in the structured result.
pub(super) fn queries(arguments: &str, structured: Option<&Value>) -> Vec<String> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
    let told = [arguments.get("queries"), arguments.get("query")];
    let found = structured.map(|found| [found.get("queries"), found.get("query")]);
    let told = told.into_iter().chain(found.into_iter().flatten()).flatten();
    told.map(texts).find(|texts| !texts.is_empty()).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    let one = value.as_str().map(str::to_owned);
    let many = value.as_array().into_iter().flatten();
    one.into_iter().chain(many.filter_map(|text| Some(text.as_str()?.to_owned()))).collect()
}

/// The chunks that a file search found, up to the wire limit.
pub(super) fn file_results(
    structured: Option<&Value>,
    whose: Whose<'_>,
) -> (Vec<FileSearchResult>, ItemNote) {
    let found = || structured?.get("results")?.as_array();
    let (mut results, mut room, mut cut) = (Vec::new(), WIRE_BYTES, false);
    for result in found().into_iter().flatten() {
        let text = wire_text(text_of(result, "text"), room);
        room -= text.text.len();
        cut |= text.truncated;
        results.push(FileSearchResult {
            file_id: text_of(result, "file_id").to_owned(),
            filename: text_of(result, "filename").to_owned(),
            score: result.get("score").and_then(Value::as_f64).unwrap_or(0.0),
            text: text.text.to_owned(),
            attributes: result.get("attributes").cloned().unwrap_or_else(|| Map::new().into()),
        });
    }
    let result_ref = cut.then(|| result_ref(whose.run_id.as_str(), whose.call_id.as_str()));
    (results, ItemNote { truncated: cut, result_ref, ..ItemNote::default() })
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
