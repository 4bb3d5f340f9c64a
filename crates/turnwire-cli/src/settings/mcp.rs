//! `[mcp]`: which files of other programs name servers (`files`), and which servers requests may
//! supply (`on_request`).

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Table;
use turnwire_tools::UrlRule;

use super::{
    file::{SettingsFile, read_table},
    words::{missing, quoted_url, tenants_of},
};

/// MCP servers from files of other programs, and from requests.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMcp {
    /// Files with `mcpServers`, in the format other MCP clients use; `--mcp-config` adds one
    #[schemars(extend("default" = []))]
    files: Option<Vec<PathBuf>>,
    /// Tables: addresses from which requests may supply servers
    on_request: Vec<RawOnRequest>,
}

/// An address from which a request may supply an MCP server by `server_url`. They get the
/// credentials that the same request brings, if there are keys in [`[secrets]`](#secrets), and no
/// others.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct RawOnRequest {
    /// This URL and paths below it
    #[schemars(extend("x-required" = true))]
    url: Option<String>,
    /// Tenants whose requests may supply servers from here
    tenants: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct McpSection {
    /// Files with servers, relative to the settings file.
    pub(super) files: Vec<PathBuf>,
    /// URL rules for servers from requests.
    pub(super) on_request: Vec<UrlRule>,
}

pub(super) fn mcp(table: Table, file: &SettingsFile, mistakes: &mut Vec<String>) -> McpSection {
    let raw: RawMcp = read_table("mcp", table, mistakes);
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let files = raw.files.unwrap_or_default().iter().map(|name| folder.join(name)).collect();
    let on_request = raw.on_request.into_iter().enumerate();
    let on_request = on_request.filter_map(|(n, raw)| url_rule(n, raw, mistakes)).collect();
    McpSection { files, on_request }
}

fn url_rule(n: usize, raw: RawOnRequest, mistakes: &mut Vec<String>) -> Option<UrlRule> {
    let path = format!("mcp.on_request[{n}]");
    let tenants = raw.tenants.map(|names| tenants_of(&path, names, mistakes));
    let path = format!("{path}.url");
    let Some(url) = raw.url else {
        missing(&path, "missing; say where servers of requests may be", mistakes);
        return None;
    };
    let rule = UrlRule::at(&url);
    let rule =
        rule.map_err(|why| mistakes.push(format!("{path}: {}: {why}", quoted_url(&url)))).ok()?;
    Some(match tenants {
        Some(tenants) => rule.only_for(tenants.into_iter().collect()),
        None => rule,
    })
}

#[cfg(test)]
#[path = "mcp_tests.rs"]
mod tests;
