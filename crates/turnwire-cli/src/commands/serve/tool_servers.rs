//! Connects to the tool servers and prints the results.

use std::collections::BTreeMap;

use futures::{StreamExt, stream::FuturesUnordered};
use turnwire_contract::{AskBefore, TenantId, ToolServers};
use turnwire_surfaces::clean;
use turnwire_tools::{McpServerOptions, McpServers};

use super::ServeOutput;
use crate::settings::did_you_mean;

/// Connects to these servers concurrently, so that the first run does not have to wait, and prints
/// each result. A failed server is tried again when a run needs it.
pub(super) async fn connect(
    servers: &McpServers,
    of_settings: &BTreeMap<String, McpServerOptions>,
    output: ServeOutput,
) {
    let tenant = TenantId::default();
    let connecting = of_settings.iter().map(|(label, options)| {
        let tenant = &tenant;
        async move { (label, options, servers.tools(tenant, label.as_str().into()).await) }
    });
    let mut connecting: FuturesUnordered<_> = connecting.collect();
    while let Some((label, options, tools)) = connecting.next().await {
        match tools {
            Ok(tools) => {
                let names: Vec<&str> = tools.iter().map(|tool| tool.spec().name.as_str()).collect();
                output.say(&format!("tool server {label}: {}", counted(names.len())));
                for warning in unknown_tools(label, options, &names) {
                    output.warn(&warning);
                }
            }
            Err(error) => {
                output.warn(&format!("{error}; it is tried again when a run needs it"));
            }
        }
    }
}

fn counted(n_tools: usize) -> String {
    if n_tools == 1 { "1 tool".to_owned() } else { format!("{n_tools} tools") }
}

/// Returns the tools in the settings that the server does not have. They are probably typos, which
/// would leave a tool without its intended approval.
fn unknown_tools(label: &str, options: &McpServerOptions, names: &[&str]) -> Vec<String> {
    let asked = match &options.require_approval {
        AskBefore::Only(tools) | AskBefore::AllBut(tools) => tools.as_slice(),
        AskBefore::Nothing | AskBefore::Everything => &[],
    };
    let enabled = options.enabled_tools.iter().flatten();
    let mentioned = (enabled.map(|tool| ("enabled_tools", tool)))
        .chain(asked.iter().map(|tool| ("require_approval", tool)))
        .chain(options.effects.keys().map(|tool| ("tools", tool)));
    let unknown = mentioned.filter(|(_, tool)| !names.contains(&tool.as_str()));
    let warning = |(key, tool): (&str, &String)| {
        let advice = did_you_mean(tool, names);
        clean(&format!("mcp_servers.{label}.{key}: the server has no tool `{tool}`; {advice}"))
            .into_owned()
    };
    unknown.map(warning).collect()
}

#[cfg(test)]
#[path = "tool_servers_tests.rs"]
mod tests;
