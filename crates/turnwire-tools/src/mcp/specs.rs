//! The tools of a server as the engine knows them.

use std::collections::HashSet;

use rmcp::model::ToolAnnotations;
use serde_json::Value;
use turnwire_contract::{AskBefore, Effect, ToolClaims, ToolKind, ToolSpec, WhyLeftOut};

use super::options::McpServerOptions;

/// Maximum length of a tool name.
const MAX_NAME: usize = 128;

/// A tool that cannot be offered, and why.
pub(super) type Unusable = (String, WhyLeftOut);

/// Returns the specs of the enabled tools of a server.
pub(super) fn specs<'a>(
    label: &'a str,
    options: &'a McpServerOptions,
    listed: Vec<rmcp::model::Tool>,
) -> impl Iterator<Item = Result<ToolSpec, Unusable>> + 'a {
    let mut seen = HashSet::new();
    listed.into_iter().filter_map(move |tool| {
        let name = tool.name.as_ref();
        let enabled = options.enabled_tools.as_ref();
        if !enabled.is_none_or(|enabled| enabled.iter().any(|known| known == name)) {
            return None;
        }
        let unusable = |why| Some(Err((name.to_owned(), why)));
        if !is_valid_name(name) {
            return unusable(WhyLeftOut::Name);
        }
        if !seen.insert(name.to_owned()) {
            return unusable(WhyLeftOut::NameTaken);
        }
        Some(Ok(spec(label, options, &tool)))
    })
}

/// A name is shown to models and people, so it must not be empty, too long or contain control
/// characters.
fn is_valid_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.contains(char::is_control)
}

fn spec(label: &str, options: &McpServerOptions, tool: &rmcp::model::Tool) -> ToolSpec {
    let name = tool.name.as_ref();
    let title = || tool.title.as_deref().unwrap_or_default();
    let description = tool.description.as_deref().unwrap_or_else(title);
    let configured = options.effects.get(name).copied().unwrap_or(Effect::Once);
    let own = options.tools.get(name).cloned().unwrap_or_default();
    let is_excepted = matches!(&options.require_approval, AskBefore::AllBut(names)
        if names.iter().any(|excepted| excepted == name));
    ToolSpec {
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        kind: ToolKind::Mcp,
        server: Some(label.to_owned()),
        effect: tightened(configured, tool.annotations.as_ref()),
        parallel: true,
        needs_approval: own.ask.unwrap_or_else(|| options.require_approval.includes(name)),
        exempt: own.ask.map_or(options.exempt || is_excepted, |ask| !ask),
        approval_expiry: own.approval_expiry,
        timeout: own.timeout.or(options.tool_timeout),
        deadline: own.deadline.or(options.tool_deadline),
        most_at_once: own.max_parallel_calls,
        server_most_at_once: options.max_parallel_calls,
        title: title_of(tool),
        claims: tool.annotations.as_ref().and_then(claims),
        ..ToolSpec::new(name, description)
    }
}

fn title_of(tool: &rmcp::model::Tool) -> Option<String> {
    let in_annotations = || tool.annotations.as_ref()?.title.clone();
    tool.title.clone().or_else(in_annotations).filter(|title| !title.is_empty())
}

/// Returns what the server claims, if it claims anything.
fn claims(hints: &ToolAnnotations) -> Option<ToolClaims> {
    let claims = ToolClaims {
        read_only: hints.read_only_hint,
        destructive: hints.destructive_hint,
        idempotent: hints.idempotent_hint,
        open_world: hints.open_world_hint,
    };
    (claims != ToolClaims::default()).then_some(claims)
}

/// Returns the effect class set by the operator, or a stricter one if the server's hints say so.
fn tightened(configured: Effect, hints: Option<&ToolAnnotations>) -> Effect {
    let Some(hints) = hints else { return configured };
    let acts = hints.read_only_hint == Some(false);
    match (configured, hints.idempotent_hint) {
        (Effect::Pure, Some(true)) if acts => Effect::Idempotent,
        (Effect::Pure, _) | (Effect::Idempotent, Some(false)) if acts => Effect::Once,
        (configured, _) => configured,
    }
}

#[cfg(test)]
#[path = "specs_tests.rs"]
mod tests;
