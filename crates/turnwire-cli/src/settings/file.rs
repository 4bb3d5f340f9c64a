//! `turnwire.toml`: found, read as it is written, and checked section by section.
//!
//! The whole file is checked whichever command reads it. Only what the environment has to say
//! about a section is left to the commands that use it: a key that `serve` needs must not stop
//! `run`.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use toml::{Table, Value};
use turnwire_tools::EgressOptions;

use super::{
    approvals::{ApprovalSettings, approvals},
    egress::egress,
    embeddings::EmbeddingsSection,
    functions::{NamedFunction, named_functions},
    limits::{LimitsSection, limits},
    lines::line_of,
    mcp_files::{McpSection, mcp},
    models::{NamedModel, named_models},
    server::ServerSection,
    store::StoreSection,
    tool_servers::{NamedServer, named_servers},
    web_search::WebSearchSection,
    words::did_you_mean,
};
use crate::exit::Problem;

/// The file that is read when none is named.
pub(super) const DEFAULT_FILE: &str = "turnwire.toml";
/// How to go on after a mistake.
const REPAIR: &str = "repair it, or name another settings file with --config FILE";

/// The file as it is on the disk.
#[derive(Debug, Clone)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

impl SettingsFile {
    /// A file that was named must be there; the usual one need not.
    pub(super) fn find(named: Option<&Path>) -> Result<Option<Self>, Problem> {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE)).to_owned();
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Self { path, text })),
            Err(error) if named.is_none() && error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => {
                Err(Problem::usage(format!("{} cannot be read: {error}", path.display()))
                    .hint("name a settings file that can be read with --config FILE"))
            }
        }
    }

    /// A mistake, which begins with the path of its setting, with the file and the line where that
    /// stands. What is about something else stays as it is.
    pub(super) fn located(&self, mistake: &str) -> String {
        let line = mistake.split_once(": ").and_then(|(path, _)| line_of(&self.text, path));
        match line {
            Some(line) => format!("{}:{line}: {mistake}", self.path.display()),
            None => mistake.to_owned(),
        }
    }

    fn table(&self) -> Result<Table, Problem> {
        self.text.parse().map_err(|error: toml::de::Error| {
            let mut problem = Problem::usage(format!("{} is not TOML", self.path.display()));
            problem.details = error.to_string().lines().map(str::to_owned).collect();
            problem.hint(REPAIR)
        })
    }
}

/// What the file says, checked.
#[derive(Default)]
pub(super) struct Sections {
    pub(super) models: BTreeMap<String, NamedModel>,
    pub(super) server: ServerSection,
    pub(super) tool_servers: BTreeMap<String, NamedServer>,
    /// Files that name more of them.
    pub(super) mcp: McpSection,
    pub(super) functions: BTreeMap<String, NamedFunction>,
    pub(super) web_search: Option<WebSearchSection>,
    pub(super) egress: EgressOptions,
    pub(super) embeddings: Option<EmbeddingsSection>,
    pub(super) limits: LimitsSection,
    pub(super) approvals: ApprovalSettings,
    pub(super) store: StoreSection,
}

impl Sections {
    pub(super) fn read(
        file: Option<&SettingsFile>,
        mistakes: &mut Vec<String>,
    ) -> Result<Self, Problem> {
        let Some(file) = file else { return Ok(Self::default()) };
        let RawSettings {
            models,
            server,
            mcp_servers,
            mcp: of_others,
            functions,
            web_search: search,
            egress: way_out,
            embeddings,
            limits: most,
            approvals: asking,
            store,
            fanout,
        } = read_table("", file.table()?, mistakes);
        let mut section = |name: &str, value| table_of(name, value, mistakes);
        let models = section("models", models);
        let server = section("server", server);
        let servers = section("mcp_servers", mcp_servers);
        let of_others = section("mcp", of_others);
        let functions = section("functions", functions);
        let search = section("web_search", search);
        let way_out = section("egress", way_out);
        let embeddings = section("embeddings", embeddings);
        let most = section("limits", most);
        let asking = section("approvals", asking);
        let (store, fanout) = (section("store", store), section("fanout", fanout));
        Ok(Self {
            models: named_models(models.unwrap_or_default(), mistakes),
            server: ServerSection::read(server.unwrap_or_default(), mistakes),
            tool_servers: named_servers(servers.unwrap_or_default(), mistakes),
            mcp: mcp(of_others.unwrap_or_default(), file, mistakes),
            functions: named_functions(functions.unwrap_or_default(), file, mistakes),
            web_search: search.and_then(|table| WebSearchSection::read(table, mistakes)),
            egress: egress(way_out.unwrap_or_default(), mistakes),
            embeddings: embeddings.and_then(|table| EmbeddingsSection::read(table, mistakes)),
            limits: limits(most.unwrap_or_default(), mistakes),
            approvals: approvals(asking.unwrap_or_default(), mistakes),
            store: StoreSection::read(store, fanout, mistakes),
        })
    }
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawSettings {
    models: Option<Value>,
    server: Option<Value>,
    mcp_servers: Option<Value>,
    mcp: Option<Value>,
    functions: Option<Value>,
    web_search: Option<Value>,
    egress: Option<Value>,
    embeddings: Option<Value>,
    limits: Option<Value>,
    approvals: Option<Value>,
    store: Option<Value>,
    fanout: Option<Value>,
}

/// A table of the file.
pub(super) trait RawTable: DeserializeOwned + Default {
    /// Every setting it has; each has a line in examples/turnwire.toml and in docs/settings.md.
    const KEYS: &'static [&'static str];
}

impl RawTable for RawSettings {
    const KEYS: &'static [&'static str] = &[
        "models",
        "server",
        "mcp_servers",
        "mcp",
        "functions",
        "web_search",
        "egress",
        "embeddings",
        "limits",
        "approvals",
        "store",
        "fanout",
    ];
}

/// Reads a table key by key, so that one mistake does not hide the next.
pub(super) fn read_table<T: RawTable>(path: &str, table: Table, mistakes: &mut Vec<String>) -> T {
    let mut good = Table::new();
    for (key, value) in table {
        let alone = Table::from_iter([(key.clone(), value.clone())]);
        match alone.try_into::<T>() {
            Ok(_) => {
                good.insert(key, value);
            }
            Err(_) if !T::KEYS.contains(&key.as_str()) => {
                let advice = did_you_mean(&key, T::KEYS);
                mistakes.push(format!("{path}{key}: there is no such setting; {advice}"));
            }
            Err(error) => mistakes.push(format!("{path}{key}: {}", error.message().trim())),
        }
    }
    good.try_into().unwrap_or_default()
}

/// The table that a value should be.
pub(super) fn table_of(
    path: &str,
    value: Option<Value>,
    mistakes: &mut Vec<String>,
) -> Option<Table> {
    if let Value::Table(table) = value? {
        return Some(table);
    }
    mistakes.push(format!("{path}: not a table; write [{path}] above its settings"));
    None
}

/// A problem with a single setting, with the line where that stands.
pub(super) fn located(mut problem: Problem, file: Option<&SettingsFile>) -> Problem {
    if let Some(file) = file {
        problem.message = file.located(&problem.message);
    }
    problem
}

/// One problem that tells every mistake, and where they are.
pub(super) fn all_of(
    mut in_file: Vec<String>,
    in_environment: Vec<String>,
    file: Option<&SettingsFile>,
) -> Problem {
    if let Some(file) = file {
        in_file = in_file.iter().map(|mistake| file.located(mistake)).collect();
    }
    let file = file.map(|file| file.path.display().to_string()).filter(|_| !in_file.is_empty());
    let environment = (!in_environment.is_empty()).then(|| "the environment".to_owned());
    let places: Vec<String> = file.into_iter().chain(environment).collect();
    in_file.extend(in_environment);
    let count = match in_file.len() {
        1 => "a mistake".to_owned(),
        n_mistakes => format!("{n_mistakes} mistakes"),
    };
    let message = format!("{count} in {}", places.join(" and "));
    Problem { details: in_file, ..Problem::usage(message).hint(REPAIR) }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
