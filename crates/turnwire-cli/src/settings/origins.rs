//! The settings in force, and where each value comes from.
//!
//! The schema has all keys with their defaults, the file has its own values, and the validated
//! settings have what depends on both and on the environment. Secrets are replaced by `***`.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value as Json, json};
use toml::Value;

use super::{
    ModelSettings, OtherNames, Provider, ServeSettings,
    file::SettingsFile,
    lines::Places,
    models::custom_tools_name,
    schema::{TableSchema, VARIABLE, below},
    sections::settings_schema,
    words::child,
};
use crate::{args::ServeArguments, environment::Environment, exit::Result};

/// What is printed in place of a secret.
const SECRET: &str = "***";

/// A setting in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    /// Path of its table.
    pub(crate) table: String,
    pub(crate) key: String,
    pub(crate) value: Option<Json>,
    pub(crate) source: Source,
}

impl Setting {
    pub(crate) fn path(&self) -> String {
        child(&self.table, &self.key)
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Source {
    Default,
    File {
        file: String,
        line: usize,
    },
    Environment {
        variable: String,
    },
    Flag {
        flag: String,
    },
    /// There is no value.
    Unset,
}

/// Returns all settings of a server with these flags, by table.
pub(crate) fn settings_in_force(
    arguments: &ServeArguments,
    environment: &Environment,
) -> Result<Vec<Setting>> {
    let file = SettingsFile::find(arguments.config.as_deref())?;
    let settings = ServeSettings::of(arguments, environment, file.as_ref())?;
    let table = file.as_ref().and_then(|file| file.table(&mut Vec::new())).unwrap_or_default();
    let mut walk = Walk { file: file.as_ref(), environment, found: Vec::new() };
    if let Some(schema) = settings_schema().as_object() {
        walk.table("", Some(&table), schema);
    }
    let mut found = walk.found;
    set_flags(&mut found, arguments);
    set_store(&mut found, &settings);
    set_models(&mut found, &settings, environment);
    Ok(found)
}

/// Collects the settings of the file and the defaults of the others.
struct Walk<'a> {
    file: Option<&'a SettingsFile>,
    environment: &'a Environment,
    found: Vec<Setting>,
}

impl Walk<'_> {
    /// Collects a table: its values first, then the tables in it, as TOML wants it.
    fn table(&mut self, path: &str, table: Option<&toml::Table>, schema: &TableSchema) {
        let Some(properties) = below(schema, "properties") else { return };
        let properties: Vec<(&String, &TableSchema)> = properties
            .iter()
            .filter_map(|(key, schema)| Some((key, schema.as_object()?)))
            .collect();
        let written = |key: &str| table.and_then(|table| table.get(key));
        for (key, schema) in &properties {
            let value = written(key);
            if !has_tables(schema) || (value.is_none() && !is_always_there(schema)) {
                let setting = self.setting(path, key, table, schema);
                self.found.push(setting);
            }
        }
        for (key, schema) in properties {
            let value = written(key);
            if has_tables(schema) && (value.is_some() || is_always_there(schema)) {
                self.below(&child(path, key), value, schema);
            }
        }
    }

    /// Collects what is in a table, a table of tables, or a list of tables.
    fn below(&mut self, path: &str, value: Option<&Value>, schema: &TableSchema) {
        if schema.contains_key("properties") {
            return self.table(path, value.and_then(Value::as_table), schema);
        }
        if let Some(schema) = below(schema, "additionalProperties") {
            for (name, value) in value.and_then(Value::as_table).into_iter().flatten() {
                self.table(&child(path, name), value.as_table(), schema);
            }
        }
        if let Some(schema) = below(schema, "items") {
            for (n, value) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
                self.table(&format!("{path}[{n}]"), value.as_table(), schema);
            }
        }
    }

    fn setting(
        &self,
        path: &str,
        key: &str,
        table: Option<&toml::Table>,
        schema: &TableSchema,
    ) -> Setting {
        let is_secret = schema.contains_key("writeOnly");
        let variable = schema.get(VARIABLE).and_then(Json::as_str);
        let set = variable.and_then(|name| Some((name, self.environment.get(name)?)));
        let elsewhere = table.and_then(|table| table.get(&format!("{key}_env"))?.as_str());
        let written = table.and_then(|table| table.get(key));
        let (value, source) = if let Some((variable, text)) = set {
            let is_secret = is_secret || key.ends_with("_env");
            let text = if is_secret { SECRET.to_owned() } else { without_password(text) };
            (Some(text.into()), Source::Environment { variable: variable.to_owned() })
        } else if let Some(variable) = elsewhere.filter(|_| written.is_none_or(Value::is_str)) {
            (Some(SECRET.into()), Source::Environment { variable: variable.to_owned() })
        } else if let Some(value) = written {
            (Some(shown(value, is_secret)), self.in_file(&child(path, key)))
        } else if let Some(value) = schema.get("default") {
            (Some(value.clone()), Source::Default)
        } else {
            (None, Source::Unset)
        };
        Setting { table: path.to_owned(), key: key.to_owned(), value, source }
    }

    fn in_file(&self, path: &str) -> Source {
        let place = self.file.and_then(|file| Some((file, Places::of(&file.text).line_of(path)?)));
        place.map_or(Source::Unset, |(file, line)| Source::File {
            file: file.path.display().to_string(),
            line,
        })
    }
}

/// Whether there are tables of settings in the value: it is one, or has several.
fn has_tables(schema: &TableSchema) -> bool {
    let is_table = |schema: &TableSchema| schema.contains_key("properties");
    let inner = below(schema, "additionalProperties").or_else(|| below(schema, "items"));
    is_table(schema) || inner.is_some_and(is_table)
}

/// Whether a table applies even if the file does not have it.
fn is_always_there(schema: &TableSchema) -> bool {
    schema.get("default").is_some_and(|default| *default == json!({}) || *default == json!([]))
}

/// A value of the file without secrets. A text that is only a reference to variables is none.
fn shown(value: &Value, is_secret: bool) -> Json {
    match value {
        Value::String(text) if is_secret && !is_reference(text) => SECRET.into(),
        Value::String(text) => without_password(text).into(),
        Value::Array(list) => list.iter().map(|value| shown(value, is_secret)).collect(),
        Value::Table(table) => {
            let entries = table.iter().map(|(key, value)| (key.clone(), shown(value, is_secret)));
            Json::Object(entries.collect())
        }
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    name.is_some_and(|name| !name.contains(['{', '}']))
}

/// Replaces what may be secret in a URL: user name and password, and the query.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (rest, query) = rest.find(['?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = authority.rsplit_once('@');
    let authority =
        host.map_or_else(|| authority.to_owned(), |(_, host)| format!("{SECRET}@{host}"));
    let query = if query.is_empty() { String::new() } else { format!("?{SECRET}") };
    format!("{scheme}://{authority}{path}{query}")
}

fn set(found: &mut [Setting], table: &str, key: &str, value: Json, source: Source) {
    let setting = found.iter_mut().find(|setting| setting.table == table && setting.key == key);
    if let Some(setting) = setting {
        setting.value = Some(value);
        setting.source = source;
    }
}

/// Adds what flags say.
fn set_flags(found: &mut [Setting], arguments: &ServeArguments) {
    let flag = |flag: &str| Source::Flag { flag: flag.to_owned() };
    if let Some(listen) = arguments.listen {
        set(found, "server", "listen", listen.to_string().into(), flag("--listen"));
    }
    let files = arguments.mcp_config.iter().map(|path| path.display().to_string());
    let lists = [
        ("server", "origins", "--origin", arguments.origin.clone()),
        ("mcp", "files", "--mcp-config", files.collect()),
    ];
    for (table, key, name, more) in lists {
        let setting = found.iter_mut().find(|found| found.table == table && found.key == key);
        let Some(setting) = setting.filter(|_| !more.is_empty()) else { continue };
        let list = setting.value.take().and_then(|list| list.as_array().cloned());
        let more = more.into_iter().map(Json::from);
        setting.value = Some(list.into_iter().flatten().chain(more).collect());
        setting.source = flag(name);
    }
}

/// A demo has its own default.
fn set_store(found: &mut [Setting], settings: &ServeSettings) {
    let url = found.iter_mut().find(|found| found.table == "store" && found.key == "url");
    let url = url.filter(|url| url.source == Source::Default && settings.store.is_none());
    if let Some(url) = url {
        url.value = Some(super::store::MEMORY.into());
    }
}

/// Adds what models get from the environment, and defaults that depend on other settings.
fn set_models(found: &mut Vec<Setting>, settings: &ServeSettings, environment: &Environment) {
    let is_named = |name: &str| found.iter().any(|setting| setting.table == child("models", name));
    let others = match &settings.models.others {
        OtherNames::PassedOn(provider) => Some(provider),
        OtherNames::AnsweredBy(_) | OtherNames::Refused => None,
    };
    let default = settings.models.default_name.as_deref().filter(|name| !is_named(name));
    if let Some((name, provider)) = default.zip(others)
        && settings.models.named.is_empty()
    {
        return found.extend(of_environment(name, provider, environment));
    }
    for (name, model) in &settings.models.named {
        if let ModelSettings::Provider(provider) = model {
            set_model(found, &child("models", name), provider, environment);
        }
    }
}

/// The settings of a model that only the environment has.
fn of_environment(name: &str, provider: &Provider, environment: &Environment) -> Vec<Setting> {
    let (table, key_variable) = (child("models", name), provider.kind.usual_key_variable());
    let base_url = provider.upstreams.first().map(|upstream| upstream.base_url.as_str());
    let setting = |key: &str, value: &str, variable: Option<&str>| Setting {
        table: table.clone(),
        key: key.to_owned(),
        value: Some(without_password(value).into()),
        source: variable.map_or(Source::Default, |variable| Source::Environment {
            variable: variable.to_owned(),
        }),
    };
    let server = ["OPENAI_BASE_URL"].into_iter().find(|name| environment.is_set(name));
    let key = key_variable.filter(|name| environment.is_set(name));
    [
        Some(setting("kind", provider.kind.name(), server.or(key))),
        base_url.map(|url| setting("base_url", url, server)),
        key.map(|key| setting("api_key_env", key, None)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn set_model(found: &mut [Setting], table: &str, provider: &Provider, environment: &Environment) {
    let is_unset = |found: &[Setting], table: &str, key: &str| {
        found.iter().any(|setting| {
            setting.table == table && setting.key == key && setting.source == Source::Unset
        })
    };
    if is_unset(found, table, "custom_tools") {
        let name = custom_tools_name(provider.custom_tools);
        set(found, table, "custom_tools", name.into(), Source::Default);
    }
    if let Some(time) = provider.timeouts.first_content.map(|time: Duration| time.as_secs_f64())
        && is_unset(found, table, "first_content_timeout_sec")
    {
        set(found, table, "first_content_timeout_sec", time.into(), Source::Default);
    }
    let has_list = found.iter().any(|setting| setting.table == format!("{table}.upstreams[0]"));
    let usual = environment.get("OPENAI_BASE_URL");
    for (n, upstream) in provider.upstreams.iter().enumerate() {
        let table = if has_list { format!("{table}.upstreams[{n}]") } else { table.to_owned() };
        let url = without_password(&upstream.base_url);
        let written = found.iter().find(|found| found.table == table && found.key == "base_url");
        let is_written = written.is_some_and(|found| found.value == Some(url.clone().into()));
        if !is_written {
            let is_usual = usual == Some(upstream.base_url.as_str());
            let variable = || Source::Environment { variable: "OPENAI_BASE_URL".to_owned() };
            let source = if is_usual { variable() } else { Source::Default };
            set(found, &table, "base_url", url.into(), source);
        }
        if !has_list && upstream.api_key.is_some() && is_unset(found, &table, "api_key_env") {
            let variable = provider.kind.usual_key_variable().unwrap_or_default();
            set(found, &table, "api_key_env", variable.into(), Source::Default);
        }
    }
}

#[cfg(test)]
#[path = "origins_tests.rs"]
mod tests;
