//! Fields that the chosen model does not support.

use crate::client_error::ClientError;
use turnwire_contract::{
    Capabilities, Content, CustomTools, InputFormat, Item, Parameter, RunRequest, ToolKind,
    ToolSpec,
};

/// Path of the input format of a custom tool.
const FORMATS: &str = "tools[].format";

/// Refuses custom tools if the model does not support them in any form.
pub fn check_custom_tools(
    capabilities: &Capabilities,
    run: &RunRequest,
) -> Result<(), ClientError> {
    let custom = run.tools.iter().find(|tool| tool.kind == ToolKind::Custom);
    let (Some(tool), CustomTools::Refused) = (custom, capabilities.custom_tools) else {
        return Ok(());
    };
    let message = format!(
        "The model `{}` does not support custom tools such as `{}`; use a function.",
        run.model, tool.name
    );
    Err(ClientError::new("unsupported_tool", "tools", message))
}

/// The fields of a request that its model does not support.
pub fn not_taken(capabilities: &Capabilities, run: &RunRequest) -> Vec<String> {
    let asked = run.generation.asked().chain(asked_elsewhere(run));
    let mut names: Vec<&str> =
        asked.filter(|asked| !capabilities.takes(*asked)).map(Parameter::as_str).collect();
    let has_grammar = run.tools.iter().any(|tool| has_grammar(tool));
    if has_grammar && capabilities.custom_tools != CustomTools::Native {
        names.push(FORMATS);
    }
    names.into_iter().map(str::to_owned).collect()
}

/// Parameters that are set in the input and in the tools.
fn asked_elsewhere(run: &RunRequest) -> impl Iterator<Item = Parameter> {
    let has_detail = run.input.iter().any(asks_for_detail);
    let is_strict = |tool: &ToolSpec| tool.strict == Some(true);
    let is_described = |tool: &ToolSpec| !tool.namespace_description.is_empty();
    [
        (has_detail, Parameter::ImageDetail),
        (run.tools.iter().any(|tool| is_strict(tool)), Parameter::StrictFunctions),
        (run.tools.iter().any(|tool| is_described(tool)), Parameter::Namespaces),
    ]
    .into_iter()
    .filter_map(|(is_asked, parameter)| is_asked.then_some(parameter))
}

fn asks_for_detail(item: &Item) -> bool {
    let Item::Message { content, .. } = item else { return false };
    content
        .iter()
        .any(|part| matches!(part, Content::Image { detail: Some(detail), .. } if detail != "auto"))
}

fn has_grammar(tool: &ToolSpec) -> bool {
    matches!(tool.format, Some(InputFormat::Grammar { .. }))
}

#[cfg(test)]
#[path = "ignored_tests.rs"]
mod tests;
