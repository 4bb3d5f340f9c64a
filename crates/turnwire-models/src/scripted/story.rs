//! The demo's story: three calls at once, and an answer about what came of them.

use serde_json::{Value, json};
use turnwire_contract::{CallId, Item, Prompt, ToolChoice};

use super::{
    Turn,
    turn::{pieces_of, say},
};

const BEGINNING: &str = "I will look at three things at once: what people report, whether the \
                         release can go out, and the old branch. ";
const END: &str = "\n\nThis was a demo: nothing was searched, deployed or deleted.";

/// Returns the calls of the story, if the question asks for it and the tools are offered.
pub(super) fn begin(prompt: &Prompt, question: &str) -> Option<Turn> {
    let question = question.to_lowercase();
    let is_offered = |name: &str| prompt.tools.iter().any(|tool| tool.name == name);
    let is_asked = question.contains("release") && question.contains("branch");
    let may_call = prompt.tool_choice != ToolChoice::None;
    if !is_asked || !may_call || !is_offered("deploy_check") || !is_offered("delete_branch") {
        return None;
    }
    let calls = [
        ("web_search", json!({ "query": "turnwire 0.4 regressions" })),
        ("deploy_check", json!({ "ref": "v0.4" })),
        ("delete_branch", json!({ "name": "old/rel-3", "force": true })),
    ];
    let offered = calls.into_iter().filter(|(name, _)| is_offered(name));
    let call = |turn: Turn, (name, arguments): (&str, Value)| {
        turn.call_raw(name, pieces_of(&arguments.to_string()))
    };
    Some(offered.fold(say(BEGINNING), call))
}

/// Returns the answer, if the last results are those of the story.
pub(super) fn end(prompt: &Prompt) -> Option<Turn> {
    let results: Vec<CallResult<'_>> = last_results(prompt);
    let is_ours =
        |result: &CallResult<'_>| ["deploy_check", "delete_branch"].contains(&result.tool);
    if !results.iter().any(is_ours) {
        return None;
    }
    let lines: Vec<String> = results.iter().map(CallResult::line).collect();
    Some(say(&format!("{}{END}", lines.join("\n"))))
}

struct CallResult<'a> {
    tool: &'a str,
    output: &'a str,
    failed: bool,
}

impl CallResult<'_> {
    fn line(&self) -> String {
        let Self { tool, output, failed } = self;
        let output = output.trim().trim_start_matches("Error: ");
        match (*tool, failed) {
            ("web_search", false) => {
                "- Two people report that a stream stops after a restart [1] [2].".to_owned()
            }
            ("deploy_check", true) => format!("- **The release is not ready.** {output}"),
            ("delete_branch", false) => format!("- The old branch is gone: {output}"),
            ("delete_branch", true) => format!("- The old branch is still there: {output}"),
            (tool, true) => format!("- `{tool}` did not work: {output}"),
            (tool, false) => format!("- `{tool}` answered: {output}"),
        }
    }
}

/// Returns the results at the end of the conversation, in order.
fn last_results(prompt: &Prompt) -> Vec<CallResult<'_>> {
    let at_end = prompt.items.iter().rev().map_while(|item| match item.as_ref() {
        Item::CallResult { call_id, output, failed, .. } => {
            Some(CallResult { tool: tool_of(prompt, call_id), output, failed: *failed })
        }
        Item::Message { .. } | Item::Reasoning { .. } | Item::Call { .. } => None,
    });
    let mut results: Vec<CallResult<'_>> = at_end.collect();
    results.reverse();
    results
}

fn tool_of<'a>(prompt: &'a Prompt, about: &CallId) -> &'a str {
    let name = prompt.items.iter().rev().find_map(|item| match item.as_ref() {
        Item::Call { call_id, name, .. } if call_id == about => Some(name.as_str()),
        _ => None,
    });
    name.unwrap_or_default()
}
