//! What the person wants: defaults, then `turnwire.toml`, then the environment, then the flags.
//!
//! Two steps: the file is read as it is written ([`RawSettings`]), then checked and put together
//! with the rest ([`Settings`]). Nothing past this file sees the raw form. A wrong setting stops
//! the start, and all of them are told at once.
//!
//! ```toml
//! [models.default]                       # any number of named models
//! kind = "chat_completions"              # or "openai_responses", "anthropic_messages"
//! base_url = "http://localhost:11434/v1"
//! model = "qwen3:8b"                     # the name sent to the server; left out, our own
//! api_key_env = "OPENAI_API_KEY"         # the variable that has the key
//! ```

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, de::DeserializeOwned};
use toml::{Table, Value};
use turnwire::Limits;
use turnwire_models::Secret;

use crate::{args::RunArguments, environment::Environment, exit::Problem};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "turnwire.toml";
/// The model that is used when none is named.
const DEFAULT_MODEL: &str = "default";
/// The model that needs no settings.
const SCRIPTED: &str = "scripted";
const OPENAI_URL: &str = "https://api.openai.com/v1";
const ANTHROPIC_URL: &str = "https://api.anthropic.com";
/// How the demo behaves where somebody watches.
const WATCHED_DEMO: Demo =
    Demo { pace: Duration::from_millis(60), tool_time: Duration::from_millis(1200) };
/// How to go on after a mistake.
const REPAIR: &str = "repair it, or name another settings file with --config FILE";
/// How alike a word and a known word must be for the one to be meant by the other.
const ALIKE: f64 = 0.8;

/// What a run is made of, checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    pub(crate) model: ModelSettings,
    /// The name under which the model is asked for.
    pub(crate) model_name: String,
    pub(crate) instructions: Option<String>,
    pub(crate) limits: Limits,
    /// Sections of the file that `run` does not use.
    pub(crate) unused_sections: Vec<String>,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ModelSettings {
    Scripted(Demo),
    Provider(Provider),
}

/// How fast the demo is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Demo {
    /// Between two words.
    pub(crate) pace: Duration,
    /// For one use of its tool.
    pub(crate) tool_time: Duration,
}

/// Where a model is, and how to speak to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Provider {
    pub(crate) kind: Kind,
    pub(crate) base_url: String,
    pub(crate) api_key: Option<Secret>,
    /// The name sent to the server, if it is not the one that was asked for.
    pub(crate) model: Option<String>,
}

/// What the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ChatCompletions,
    OpenAiResponses,
    AnthropicMessages,
}

impl Kind {
    const NAMES: [(&str, Self); 3] = [
        ("chat_completions", Self::ChatCompletions),
        ("openai_responses", Self::OpenAiResponses),
        ("anthropic_messages", Self::AnthropicMessages),
    ];

    fn speaks_openai(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::OpenAiResponses)
    }
}

impl Settings {
    /// Reads everything that has a say.
    pub(crate) fn read(
        arguments: &RunArguments,
        environment: &Environment,
        is_watched: bool,
    ) -> Result<Self, Problem> {
        let file = SettingsFile::find(arguments.config.as_deref())?;
        Self::of(arguments, environment, file.as_ref(), is_watched)
    }

    fn of(
        arguments: &RunArguments,
        environment: &Environment,
        file: Option<&SettingsFile>,
        is_watched: bool,
    ) -> Result<Self, Problem> {
        let mut mistakes = Vec::new();
        let raw = match file {
            Some(file) => RawSettings::parse(file, &mut mistakes)?,
            None => RawSettings::default(),
        };
        let unused_sections = raw.unused_sections();
        let models = named_models(raw.models, &mut mistakes);
        let mut in_environment = Vec::new();
        let demo = demo(environment, is_watched, &mut in_environment);
        if !(mistakes.is_empty() && in_environment.is_empty()) {
            return Err(all_of(mistakes, in_environment, file));
        }
        let wish = arguments.model.as_deref().or(environment.get("TURNWIRE_MODEL"));
        let (model, model_name) = match wish {
            Some(SCRIPTED) => (ModelSettings::Scripted(demo), SCRIPTED.to_owned()),
            wish => {
                let (provider, name) = choose(&models, environment, wish)?;
                (ModelSettings::Provider(provider), name)
            }
        };
        let mut limits = Limits::default();
        if let Some(max_turns) = arguments.max_turns {
            limits.max_turns = max_turns.get();
        }
        if let Some(timeout) = arguments.timeout {
            limits.wall_clock = Duration::from_secs(timeout.get());
        }
        let instructions = arguments.instructions.clone();
        Ok(Self { model, model_name, instructions, limits, unused_sections })
    }
}

impl Settings {
    /// The name that the server is asked for.
    pub(crate) fn upstream_name(&self) -> &str {
        match &self.model {
            ModelSettings::Provider(Provider { model: Some(model), .. }) => model,
            ModelSettings::Provider(_) | ModelSettings::Scripted(_) => &self.model_name,
        }
    }
}

/// The file as it is on the disk.
#[derive(Debug)]
struct SettingsFile {
    path: PathBuf,
    text: String,
}

impl SettingsFile {
    /// A file that was named must be there; the usual one need not.
    fn find(named: Option<&Path>) -> Result<Option<Self>, Problem> {
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
}

/// The file as it is written. What `run` does not use is not looked into.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawSettings {
    models: Table,
    server: Option<Value>,
    mcp_servers: Option<Value>,
    web_search: Option<Value>,
    store: Option<Value>,
    fanout: Option<Value>,
}

/// A model as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawModel {
    kind: Option<String>,
    base_url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
}

/// A table of the file.
trait RawTable: DeserializeOwned + Default {
    const KEYS: &'static [&'static str];
}

impl RawTable for RawSettings {
    const KEYS: &'static [&'static str] =
        &["models", "server", "mcp_servers", "web_search", "store", "fanout"];
}

impl RawTable for RawModel {
    const KEYS: &'static [&'static str] = &["kind", "base_url", "model", "api_key_env"];
}

impl RawSettings {
    fn parse(file: &SettingsFile, mistakes: &mut Vec<String>) -> Result<Self, Problem> {
        let table: Table = file.text.parse().map_err(|error: toml::de::Error| {
            let mut problem = Problem::usage(format!("{} is not TOML", file.path.display()));
            problem.details = error.to_string().lines().map(str::to_owned).collect();
            problem.hint(REPAIR)
        })?;
        Ok(read_table("", table, mistakes))
    }

    fn unused_sections(&self) -> Vec<String> {
        let Self { models: _, server, mcp_servers, web_search, store, fanout } = self;
        let sections = [
            ("server", server),
            ("mcp_servers", mcp_servers),
            ("web_search", web_search),
            ("store", store),
            ("fanout", fanout),
        ];
        let used = sections.iter().filter(|(_, section)| section.is_some());
        used.map(|(name, _)| (*name).to_owned()).collect()
    }
}

/// Reads a table key by key, so that one mistake does not hide the next.
fn read_table<T: RawTable>(path: &str, table: Table, mistakes: &mut Vec<String>) -> T {
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

/// A model of the file, checked.
#[derive(Debug)]
struct NamedModel {
    kind: Kind,
    base_url: Option<String>,
    model: Option<String>,
    api_key_env: Option<String>,
}

fn named_models(models: Table, mistakes: &mut Vec<String>) -> BTreeMap<String, NamedModel> {
    let mut named = BTreeMap::new();
    for (name, value) in models {
        let path = format!("models.{name}");
        match value {
            Value::Table(_) if name == SCRIPTED => mistakes
                .push(format!("{path}: this name is taken by the demo; give it another name")),
            Value::Table(table) => {
                if let Some(model) = named_model(&path, table, mistakes) {
                    named.insert(name, model);
                }
            }
            _ => mistakes.push(format!("{path}: not a table; write [{path}] above its settings")),
        }
    }
    named
}

fn named_model(path: &str, table: Table, mistakes: &mut Vec<String>) -> Option<NamedModel> {
    let has_kind = table.contains_key("kind");
    let raw: RawModel = read_table(&format!("{path}."), table, mistakes);
    let RawModel { kind, base_url, model, api_key_env } = raw;
    let kinds: Vec<&str> = Kind::NAMES.iter().map(|(name, _)| *name).collect();
    let known = kind.as_deref().and_then(|kind| Kind::NAMES.iter().find(|(name, _)| *name == kind));
    match (&kind, known) {
        (_, Some(_)) => {}
        (Some(kind), None) => mistakes.push(format!(
            "{path}.kind: there is no kind `{kind}`; {}",
            did_you_mean(kind, &kinds)
        )),
        // A kind that could not be read has been told already.
        (None, None) if has_kind => {}
        (None, None) => mistakes.push(format!("{path}.kind: missing; {}", one_of(&kinds))),
    }
    if let Some(base_url) = base_url.as_deref().filter(|base_url| !is_http_url(base_url)) {
        mistakes.push(format!("{path}.base_url: {}", not_a_url(base_url)));
    }
    let kind = known?.1;
    Some(NamedModel { kind, base_url, model, api_key_env })
}

/// The model that is meant, with the name under which it is asked for.
///
/// `OPENAI_BASE_URL` wins over the file for the default model, as the environment does; a model
/// that was named for a purpose keeps its own address.
fn choose(
    models: &BTreeMap<String, NamedModel>,
    environment: &Environment,
    wish: Option<&str>,
) -> Result<(Provider, String), Problem> {
    let named = wish.and_then(|wish| models.get_key_value(wish));
    if let Some((name, model)) = named {
        return Ok((provider(name, model, environment)?, name.clone()));
    }
    let name = wish.unwrap_or(DEFAULT_MODEL).to_owned();
    let default = match (models.get_key_value(DEFAULT_MODEL), models.len()) {
        (Some(default), _) => Some(default),
        (None, 1) if !environment.is_set("OPENAI_BASE_URL") => models.iter().next(),
        (None, _) => None,
    };
    if let Some((its_name, model)) = default {
        let provider = provider(its_name, model, environment)?;
        // A name that we do not know is the server's.
        return Ok(match wish {
            Some(_) => (Provider { model: None, ..provider }, name),
            None => (provider, its_name.clone()),
        });
    }
    let is_named = wish.is_some();
    match provider_of_environment(environment)? {
        Some(provider) if is_named || environment.is_set("OPENAI_BASE_URL") => Ok((provider, name)),
        _ if !models.is_empty() => Err(which_model(wish, models)),
        Some(_) => Err(no_model_name()),
        None => Err(no_model()),
    }
}

fn provider(
    name: &str,
    model: &NamedModel,
    environment: &Environment,
) -> Result<Provider, Problem> {
    let NamedModel { kind, base_url, model, api_key_env } = model;
    let path = |key: &str| format!("models.{name}.{key}");
    let from_environment = openai_base_url(environment)?.filter(|_| kind.speaks_openai());
    let is_default = name == DEFAULT_MODEL;
    let (base_url, is_ours) = match (base_url, from_environment, kind) {
        (_, Some(url), _) if is_default => (url, true),
        (Some(url), ..) => (url.clone(), false),
        (None, Some(url), _) => (url, true),
        (None, None, Kind::OpenAiResponses) => (OPENAI_URL.to_owned(), true),
        (None, None, Kind::AnthropicMessages) => (ANTHROPIC_URL.to_owned(), true),
        (None, None, Kind::ChatCompletions) => {
            return Err(Problem::usage(format!("{}: missing", path("base_url")))
                .hint("give the address of the server, such as http://localhost:11434/v1"));
        }
    };
    let usual = if kind.speaks_openai() { "OPENAI_API_KEY" } else { "ANTHROPIC_API_KEY" };
    let api_key = match api_key_env {
        Some(variable) => Some(environment.get(variable).ok_or_else(|| {
            Problem::usage(format!(
                "{}: the environment variable `{variable}` is not set",
                path("api_key_env")
            ))
            .hint("set it, or take the line out of the settings if the server needs no key")
        })?),
        // The usual key goes to the usual place, and not to whatever address the file has.
        None if is_ours => environment.get(usual),
        None => None,
    };
    let (kind, api_key, model) = (*kind, api_key.map(Secret::from), model.clone());
    Ok(Provider { kind, base_url, api_key, model })
}

/// What the variables of the two providers say that everybody knows.
fn provider_of_environment(environment: &Environment) -> Result<Option<Provider>, Problem> {
    let key = |name| environment.get(name).map(Secret::from);
    let provider =
        |kind, base_url: String, api_key| Provider { kind, base_url, api_key, model: None };
    let openai_key = key("OPENAI_API_KEY");
    if let Some(base_url) = openai_base_url(environment)? {
        return Ok(Some(provider(Kind::ChatCompletions, base_url, openai_key)));
    }
    if openai_key.is_some() {
        return Ok(Some(provider(Kind::ChatCompletions, OPENAI_URL.to_owned(), openai_key)));
    }
    let anthropic_key = key("ANTHROPIC_API_KEY");
    Ok(anthropic_key
        .map(|key| provider(Kind::AnthropicMessages, ANTHROPIC_URL.to_owned(), Some(key))))
}

fn openai_base_url(environment: &Environment) -> Result<Option<String>, Problem> {
    match environment.get("OPENAI_BASE_URL") {
        Some(url) if is_http_url(url) => Ok(Some(url.to_owned())),
        Some(url) => Err(Problem::usage(format!("OPENAI_BASE_URL: {}", not_a_url(url)))),
        None => Ok(None),
    }
}

fn demo(environment: &Environment, is_watched: bool, mistakes: &mut Vec<String>) -> Demo {
    let usual = if is_watched { WATCHED_DEMO } else { Demo::default() };
    let mut millis = |name: &str, usual: Duration| {
        let Some(text) = environment.get(name) else { return usual };
        let Ok(millis) = text.parse() else {
            mistakes.push(format!("{name}: `{text}` is not a number of milliseconds"));
            return usual;
        };
        Duration::from_millis(millis)
    };
    Demo {
        pace: millis("TURNWIRE_DEMO_PACE_MS", usual.pace),
        tool_time: millis("TURNWIRE_DEMO_TOOL_MS", usual.tool_time),
    }
}

fn all_of(
    mut in_file: Vec<String>,
    in_environment: Vec<String>,
    file: Option<&SettingsFile>,
) -> Problem {
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

fn no_model() -> Problem {
    Problem::usage("no model is configured")
        .hint("to try it without one: turnwire run --model scripted \"multiply 5 and 4\"")
        .hint(
            "to name a server: OPENAI_BASE_URL=http://localhost:11434/v1 turnwire run --model \
             qwen3:8b \"…\", or set OPENAI_API_KEY or ANTHROPIC_API_KEY",
        )
        .hint(
            "to keep it, write into turnwire.toml:\n\n    [models.default]\n    kind = \
             \"chat_completions\"\n    base_url = \"http://localhost:11434/v1\"\n    model = \
             \"qwen3:8b\"\n",
        )
}

fn no_model_name() -> Problem {
    Problem::usage("there is a key, but no model is named")
        .hint("name one with --model NAME or TURNWIRE_MODEL=NAME")
}

fn which_model(wish: Option<&str>, models: &BTreeMap<String, NamedModel>) -> Problem {
    let names: Vec<&str> = models.keys().map(String::as_str).collect();
    match wish {
        Some(wish) => Problem::usage(format!("there is no model `{wish}` in the settings"))
            .hint(did_you_mean(wish, &names))
            .hint("a name for the server to know needs a [models.default] in the settings"),
        None => Problem::usage("the settings have several models, and none is the default")
            .hint(format!("choose one with --model: {}", one_of(&names)))
            .hint("or call one of them [models.default]"),
    }
}

/// The known word that was probably meant, or all of them.
fn did_you_mean(word: &str, known: &[&str]) -> String {
    let likeness = |known: &str| strsim::jaro_winkler(word, known);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest {
        Some(nearest) if likeness(nearest) >= ALIKE => format!("did you mean `{nearest}`?"),
        _ => one_of(known),
    }
}

fn one_of(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("there are {}", quoted.join(", "))
}

fn is_http_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/') && !rest.contains(' '))
}

fn not_a_url(text: &str) -> String {
    format!("`{text}` is not an address; it should look like http://localhost:11434/v1")
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
