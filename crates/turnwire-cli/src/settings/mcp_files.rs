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
    lines::line_of_json,
    sections::Sections,
    tool_servers::{NamedServer, filled_by, named_server, with_environment},
    words::{child, unset},
};
use crate::{environment::Environment, exit::Result};

/// Keys of the server table.
const PLACES: [&str; 2] = ["mcpServers", "servers"];

/// Returns all servers: from the settings, from the files they name, and from the command line.
pub(super) fn servers(
    sections: &Sections,
    named: &[PathBuf],
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, McpServerOptions> {
    let mut servers = with_environment(&sections.tool_servers, environment, mistakes);
    let in_file = sections.mcp.files.iter().enumerate();
    let in_file = in_file.map(|(n, path)| (path, format!("mcp.files[{n}]")));
    let named = named.iter().map(|path| (path, "--mcp-config".to_owned()));
    for (path, named_at) in in_file.chain(named) {
        for (label, (options, at)) in servers_in(path, &named_at, environment, mistakes) {
            match servers.entry(label) {
                Entry::Vacant(free) => {
                    free.insert(options);
                }
                Entry::Occupied(_) => {
                    let words = "there is a server of that name already; rename one of them";
                    mistakes.push(format!("{at}: {words}"));
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
    ) -> Result<Self> {
        let file = SettingsFile::find(config)?;
        let mut mistakes = Vec::new();
        let sections = Sections::read(file.as_ref(), &mut mistakes);
        let servers = servers(&sections, mcp_config, environment, &mut mistakes);
        if mistakes.is_empty() {
            return Ok(Self { servers });
        }
        Err(all_of(mistakes, Vec::new(), file.as_ref()))
    }
}

/// Reads the servers in a file. `named_at` says where it is named.
fn servers_in(
    path: &Path,
    named_at: &str,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, (McpServerOptions, String)> {
    let place = path.display();
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            mistakes.push(format!("{named_at}: {place} cannot be read: {error}"));
            return BTreeMap::new();
        }
    };
    let text = text.trim_start_matches('\u{feff}');
    let mut servers = BTreeMap::new();
    let mut told = Vec::new();
    match entries(text) {
        Ok((key, found)) => {
            for (name, entry) in found {
                let path = child(key, &name);
                let Some(server) = server(&path, &entry, environment, &mut told) else { continue };
                let at = format!("{place}:{}: {path}", line_of_json(text, &path));
                let label = label_of(&name);
                if servers.insert(label, (server.options, at)).is_some() {
                    told.push(format!(
                        "{path}: another name has the same label; rename one of them"
                    ));
                }
            }
        }
        Err((line, why)) => mistakes.push(format!("{place}:{line}: {why}")),
    }
    mistakes.extend(told.into_iter().map(|mistake| {
        let path = mistake.split(": ").next().unwrap_or_default();
        format!("{place}:{}: {mistake}", line_of_json(text, path))
    }));
    servers
}

/// The key that servers are under, and the servers by name.
type Entries = (&'static str, Map<String, Value>);

/// Returns the servers in a file. An error has a line.
fn entries(text: &str) -> Result<Entries, (usize, String)> {
    let whole: Value = serde_json::from_str(text).map_err(|error| {
        // The words end with the line and the column.
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        (error.line(), format!("not JSON: {words}"))
    })?;
    let found = PLACES.iter().find_map(|place| Some((*place, whole.get(*place)?)));
    match found {
        Some((key, Value::Object(servers))) => Ok((key, servers.clone())),
        Some((key, _)) => Err((line_of_json(text, key), format!("{key}: not an object"))),
        None => Err((1, "there is no `mcpServers` in it".to_owned())),
    }
}

/// Returns a valid label for a name.
fn label_of(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().take(64).map(|c| if fits(c) { c } else { '_' }).collect()
}

/// Reads an entry; `None` if it is disabled or cannot be read.
fn server(
    path: &str,
    entry: &Value,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> Option<NamedServer> {
    let Some(entry) = entry.as_object() else {
        mistakes.push(format!("{path}: not an object"));
        return None;
    };
    let is = |key: &str, value: bool| entry.get(key).and_then(Value::as_bool) == Some(value);
    if is("disabled", true) || is("enabled", false) {
        return None;
    }
    let n_before = mistakes.len();
    check_kind(path, entry, mistakes);
    let has_kind = mistakes.len() == n_before;
    let table = table_of(path, entry, environment, mistakes);
    // A server of an unknown kind has neither, and that is reported already.
    let has_place = table.contains_key("command") || table.contains_key("url");
    (has_kind || has_place).then(|| named_server(path, table, mistakes))
}

/// Converts an entry to a table of our settings.
fn table_of(
    path: &str,
    entry: &Map<String, Value>,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> Table {
    let mut text = |path: &str, value: &Value| {
        let text = filled(value, environment);
        text.map_err(|why| mistakes.push(format!("{path}: {why}"))).ok()
    };
    let written = |key: &str| entry.get(key).filter(|value| !value.is_null());
    let mut table = Table::new();
    for key in ["command", "cwd", "url"] {
        if let Some(value) = written(key) {
            let text = text(&child(path, key), value);
            table.extend(text.map(|text| (key.to_owned(), text.into())));
        }
    }
    match written("args") {
        Some(Value::Array(values)) if !values.is_empty() => {
            let path = child(path, "args");
            let values = values.iter().enumerate();
            let values: Vec<toml::Value> = values
                .filter_map(|(n, value)| Some(text(&format!("{path}[{n}]"), value)?.into()))
                .collect();
            table.insert("args".to_owned(), values.into());
        }
        Some(Value::Array(_)) | None => {}
        Some(_) => mistakes.push(format!("{path}.args: not a list")),
    }
    for key in ["env", "headers"] {
        let path = child(path, key);
        let values = match written(key) {
            // Some programs write both keys, one of them empty.
            Some(Value::Object(values)) if !values.is_empty() => values,
            Some(Value::Object(_)) | None => continue,
            Some(_) => {
                mistakes.push(format!("{path}: not an object"));
                continue;
            }
        };
        let mut texts = Table::new();
        for (name, value) in values {
            match filled(value, environment) {
                Ok(text) => drop(texts.insert(name.clone(), text.into())),
                Err(why) => mistakes.push(format!("{}: {why}", child(&path, name))),
            }
        }
        table.insert(key.to_owned(), texts.into());
    }
    table
}

fn check_kind(path: &str, entry: &Map<String, Value>, mistakes: &mut Vec<String>) {
    let key = if entry.contains_key("type") { "type" } else { "transport" };
    let Some(word) = entry.get(key).and_then(Value::as_str) else { return };
    let wanted = match word {
        "stdio" => "command",
        "http" | "streamable-http" | "streamable_http" | "streamableHttp" => "url",
        // The transport that streamable HTTP replaced.
        "sse" => {
            let words = "servers that speak only the old HTTP+SSE are not supported; ask for its \
                         streamable HTTP address";
            mistakes.push(format!("{path}.{key}: {words}"));
            return;
        }
        _ => {
            let words = "there are `stdio` and `http`";
            mistakes.push(format!("{path}.{key}: there is no `{word}`; {words}"));
            return;
        }
    };
    if !entry.contains_key(wanted) {
        mistakes.push(format!("{path}: `{wanted}` is missing, and the type is `{word}`"));
    }
}

/// Replaces the variables in a text. Numbers and booleans are converted to text.
fn filled(value: &Value, environment: &Environment) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.as_str(),
        Value::Number(_) | Value::Bool(_) => return Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => return Err("not a text".to_owned()),
    };
    filled_by(text, |name| variable(name, environment))
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
        (None, "userHome") => environment.get("HOME").ok_or_else(|| unset("HOME")),
        (None, "workspaceFolder") => Ok("."),
        (None, name) => Err(unset(name)),
    }
}

#[cfg(test)]
#[path = "mcp_files_tests.rs"]
mod tests;
