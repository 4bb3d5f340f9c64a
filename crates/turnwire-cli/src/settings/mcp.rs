//! `[mcp]`: which files of other programs name servers (`files`), and which servers requests may
//! supply (`on_request`).

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Table;
use turnwire_tools::UrlRule;

use super::file::{RawTable, SettingsFile, read_table};

/// The section as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawMcp {
    files: Option<Vec<PathBuf>>,
    on_request: Option<Vec<Table>>,
}

impl RawTable for RawMcp {
    const KEYS: &'static [&'static str] = &["files", "on_request"];
}

/// A rule for servers from requests, as written in the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawOnRequest {
    url: Option<String>,
    tenants: Option<Vec<String>>,
}

impl RawTable for RawOnRequest {
    const KEYS: &'static [&'static str] = &["url", "tenants"];
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct McpSection {
    /// Files with servers, relative to the settings file.
    pub(super) files: Vec<PathBuf>,
    /// URL rules for servers from requests.
    pub(super) on_request: Vec<UrlRule>,
}

pub(super) fn mcp(table: Table, file: &SettingsFile, mistakes: &mut Vec<String>) -> McpSection {
    let raw: RawMcp = read_table("mcp.", table, mistakes);
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let files = raw.files.unwrap_or_default().iter().map(|name| folder.join(name)).collect();
    let on_request = raw.on_request.unwrap_or_default().into_iter().enumerate();
    let on_request = on_request.filter_map(|(n, table)| url_rule(n, table, mistakes)).collect();
    McpSection { files, on_request }
}

fn url_rule(n: usize, table: Table, mistakes: &mut Vec<String>) -> Option<UrlRule> {
    let path = format!("mcp.on_request[{n}]");
    let raw: RawOnRequest = read_table(&format!("{path}."), table, mistakes);
    let Some(url) = raw.url else {
        mistakes.push(format!("{path}: say `url`, where servers of requests may be"));
        return None;
    };
    let url_rule = match UrlRule::at(&url) {
        Ok(url_rule) => url_rule,
        Err(why) => {
            mistakes.push(format!("{path}.url: `{url}`: {why}"));
            return None;
        }
    };
    Some(match raw.tenants {
        Some(tenants) => {
            url_rule.only_for(tenants.iter().map(|name| name.as_str().into()).collect())
        }
        None => url_rule,
    })
}

#[cfg(test)]
#[path = "mcp_tests.rs"]
mod tests;
