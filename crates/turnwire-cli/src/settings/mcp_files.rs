//! Servers in the files of other programs, named by the settings or by `--mcp-config`.
//!
//! Claude and Cursor use the key `mcpServers`, VS Code uses `servers`. The entries have the same
//! format, except for keys of a single program, which are ignored. `${NAME}` and `${env:NAME}` are
//! variables, `${NAME:-else}` has a default. Settings that only Turnwire has (effects, approvals,
//! enabled tools) are in `turnwire.toml`.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use toml::Table;
use turnwire_tools::McpServerOptions;

use super::{
    file::{SettingsFile, all_of},
    sections::Sections,
    tool_servers::{named_server, with_environment},
    words::not_set,
};
use crate::{environment::Environment, exit::Problem};

/// Keys of the server table.
const PLACES: [&str; 2] = ["mcpServers", "servers"];
/// Transport types in the files of other programs.
const KINDS: [(&str, Kind); 6] = [
    ("stdio", Kind::Program),
    ("http", Kind::Address),
    ("streamable-http", Kind::Address),
    ("streamable_http", Kind::Address),
    ("streamableHttp", Kind::Address),
    ("sse", Kind::Sse),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    Address,
    /// The HTTP+SSE transport, which streamable HTTP replaced.
    Sse,
}

/// Returns all servers: from the settings, from the files they name, and from the command line.
pub(super) fn servers(
    sections: &Sections,
    named: &[PathBuf],
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, McpServerOptions> {
    let mut servers = with_environment(&sections.tool_servers, environment, mistakes);
    for path in sections.mcp.files.iter().chain(named) {
        for (label, options) in servers_in(path, environment, mistakes) {
            match servers.entry(label) {
                Entry::Vacant(free) => {
                    free.insert(options);
                }
                Entry::Occupied(taken) => {
                    let (place, label) = (path.display(), taken.key());
                    let words = "there is a server of that name already; rename one of them";
                    mistakes.push(format!("{place}: {label}: {words}"));
                }
            }
        }
    }
    servers
}

/// Settings of the `mcp` commands.
#[derive(Debug)]
pub(crate) struct McpSettings {
    pub(crate) servers: BTreeMap<String, McpServerOptions>,
}

impl McpSettings {
    /// Reads the settings from flags, environment and file.
    pub(crate) fn read(
        config: Option<&Path>,
        mcp_config: &[PathBuf],
        environment: &Environment,
    ) -> Result<Self, Problem> {
        let file = SettingsFile::find(config)?;
        let mut mistakes = Vec::new();
        let sections = Sections::read(file.as_ref(), &mut mistakes)?;
        let servers = servers(&sections, mcp_config, environment, &mut mistakes);
        if mistakes.is_empty() {
            return Ok(Self { servers });
        }
        Err(all_of(mistakes, Vec::new(), file.as_ref()))
    }
}

fn servers_in(
    path: &Path,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, McpServerOptions> {
    let place = path.display();
    let found = match entries(path) {
        Ok(found) => found,
        Err(why) => {
            mistakes.push(format!("{place}: {why}"));
            return BTreeMap::new();
        }
    };
    let mut servers = BTreeMap::new();
    for (name, entry) in found {
        let at = format!("{place}: {name}");
        match table_of(&entry, environment) {
            Ok(Some(table)) => {
                let server = named_server(&at, table, mistakes);
                let label = label_of(&name);
                if let Some(server) = server
                    && servers.insert(label, server.options).is_some()
                {
                    let words = "another name has the same label";
                    mistakes.push(format!("{at}: {words}; rename one of them"));
                }
            }
            // The server is disabled.
            Ok(None) => {}
            Err(why) => mistakes.push(format!("{at}{why}")),
        }
    }
    servers
}

/// Returns the servers in a file by name.
fn entries(path: &Path) -> Result<Map<String, Value>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let whole: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("not JSON: {error}"))?;
    let found = PLACES.iter().find_map(|place| whole.get(*place));
    match found {
        Some(Value::Object(servers)) => Ok(servers.clone()),
        Some(_) => Err("`mcpServers` is not an object".to_owned()),
        None => Err("there is no `mcpServers` in it".to_owned()),
    }
}

/// Returns a valid label for a name.
fn label_of(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Converts an entry to a table of our settings; `None` if it is disabled. An error starts with its
/// location.
fn table_of(entry: &Value, environment: &Environment) -> Result<Option<Table>, String> {
    let Some(entry) = entry.as_object() else { return Err(": not an object".to_owned()) };
    let is = |key: &str, value: bool| entry.get(key).and_then(Value::as_bool) == Some(value);
    if is("disabled", true) || is("enabled", false) {
        return Ok(None);
    }
    check_kind(entry)?;
    let mut table = Table::new();
    for key in ["command", "cwd", "url"] {
        if let Some(value) = entry.get(key).filter(|value| !value.is_null()) {
            let text = filled(value, environment).map_err(|why| format!(".{key}: {why}"))?;
            table.insert(key.to_owned(), text.into());
        }
    }
    if let Some(values) = entry.get("args").filter(|value| !value.is_null()) {
        let values = values.as_array().ok_or(".args: not a list")?;
        let values: Result<Vec<toml::Value>, String> =
            values.iter().map(|value| filled(value, environment).map(Into::into)).collect();
        let values = values.map_err(|why| format!(".args: {why}"))?;
        table.insert("args".to_owned(), values.into());
    }
    for key in ["env", "headers"] {
        let Some(values) = entry.get(key).filter(|value| !value.is_null()) else { continue };
        let values = values.as_object().ok_or_else(|| format!(".{key}: not an object"))?;
        // Some programs write both keys, one of them empty.
        if values.is_empty() {
            continue;
        }
        let mut texts = Table::new();
        for (name, value) in values {
            let text = filled(value, environment).map_err(|why| format!(".{key}.{name}: {why}"))?;
            texts.insert(name.clone(), text.into());
        }
        table.insert(key.to_owned(), texts.into());
    }
    if table.get("args").and_then(toml::Value::as_array).is_some_and(Vec::is_empty) {
        table.remove("args");
    }
    Ok(Some(table))
}

fn check_kind(entry: &Map<String, Value>) -> Result<(), String> {
    let word = entry.get("type").or_else(|| entry.get("transport")).and_then(Value::as_str);
    let Some(word) = word else { return Ok(()) };
    let kind = KINDS.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let wanted = match kind {
        Some(Kind::Program) => "command",
        Some(Kind::Address) => "url",
        Some(Kind::Sse) => {
            let words = "servers that speak only the old HTTP+SSE are not supported; ask for its \
                         streamable HTTP address";
            return Err(format!(".type: {words}"));
        }
        None => return Err(format!(".type: there is no `{word}`; there are `stdio` and `http`")),
    };
    if entry.contains_key(wanted) {
        Ok(())
    } else {
        Err(format!(": `{wanted}` is missing, and the type is `{word}`"))
    }
}

/// Replaces the variables in a text. Numbers and booleans are converted to text. Errors do not
/// quote the text, because it may be a key.
fn filled(value: &Value, environment: &Environment) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Number(_) | Value::Bool(_) => return Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err("not a text".to_owned()),
    };
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else {
            return Err("there is a `${` without its `}`".to_owned());
        };
        whole.push_str(before);
        whole.push_str(variable(name, environment)?);
        rest = after;
    }
    whole.push_str(rest);
    if whole.contains(['\n', '\r', '\0']) {
        return Err("the value must be on one line".to_owned());
    }
    Ok(whole)
}

fn variable<'a>(name: &'a str, environment: &'a Environment) -> Result<&'a str, String> {
    let name = name.strip_prefix("env:").unwrap_or(name);
    if let Some((name, otherwise)) = name.split_once(":-") {
        return Ok(environment.get(name).unwrap_or(otherwise));
    }
    if let Some((asks, _)) = name.split_once(':') {
        return Err(format!(
            "`${{{asks}:…}}` means something to another program only; use a variable, ${{NAME}}"
        ));
    }
    match (environment.get(name), name) {
        (Some(value), _) => Ok(value),
        // Predefined variables that have the same meaning in all programs.
        (None, "userHome") => environment.get("HOME").ok_or_else(|| not_set("HOME")),
        (None, "workspaceFolder") => Ok("."),
        (None, name) => Err(not_set(name)),
    }
}

#[cfg(test)]
#[path = "mcp_files_tests.rs"]
mod tests;
