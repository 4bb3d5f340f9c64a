//! `[functions.*]`: HTTP APIs that the model can call.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use toml::{Table, Value};
use turnwire_contract::Effect;
use turnwire_engine::Access;
use turnwire_tools::{HttpFunctionOptions, HttpMethod, Secret};

use super::{
    file::{RawTable, SettingsFile, read_table, table_of},
    tool_servers::{EFFECTS, filled, is_header, is_label, seconds, texts},
    words::{access_of, did_you_mean, is_http_url, not_a_url, not_set, one_of},
};
use crate::environment::Environment;

/// Names of the built-in tools.
const TAKEN: [&str; 2] = ["web_search", "file_search"];
/// Example URL for error messages.
const EXAMPLE_URL: &str = "https://api.example.com/weather/{city}";

/// A function as written in the file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFunction {
    description: Option<String>,
    method: Option<String>,
    url: Option<String>,
    parameters: Option<Value>,
    parameters_file: Option<PathBuf>,
    effect: Option<String>,
    /// May contain keys, so errors must not quote them.
    headers: Option<Value>,
    header_env: Option<Value>,
    timeout_sec: Option<f64>,
    require_approval: Option<bool>,
    tenants: Option<Vec<String>>,
    scopes: Option<Vec<String>>,
}

impl RawTable for RawFunction {
    const KEYS: &'static [&'static str] = &[
        "description",
        "method",
        "url",
        "parameters",
        "parameters_file",
        "effect",
        "headers",
        "header_env",
        "timeout_sec",
        "require_approval",
        "tenants",
        "scopes",
    ];
}

/// A validated function, without values from the environment.
pub(super) struct NamedFunction {
    options: HttpFunctionOptions,
    /// Who may use it.
    pub(super) access: Access,
    /// Headers as written, with `${NAME}`.
    headers: BTreeMap<String, String>,
    /// Headers whose values are in environment variables.
    header_env: BTreeMap<String, String>,
}

pub(super) fn named_functions(
    functions: Table,
    file: &SettingsFile,
    mistakes: &mut Vec<String>,
) -> BTreeMap<String, NamedFunction> {
    let mut named = BTreeMap::new();
    for (name, value) in functions {
        let path = format!("functions.{name}");
        if !is_label(&name) {
            let words = "a function's name has 1 to 64 letters, digits, `_` and `-`";
            mistakes.push(format!("{path}: {words}"));
        }
        if TAKEN.contains(&name.as_str()) {
            let words = "this name is taken by a built-in tool; give it another name";
            mistakes.push(format!("{path}: {words}"));
        }
        let Some(table) = table_of(&path, Some(value), mistakes) else { continue };
        if let Some(function) = named_function(&name, table, file, mistakes) {
            named.insert(name, function);
        }
    }
    named
}

fn named_function(
    name: &str,
    table: Table,
    file: &SettingsFile,
    mistakes: &mut Vec<String>,
) -> Option<NamedFunction> {
    let path = format!("functions.{name}");
    let had_url = table.contains_key("url");
    let raw: RawFunction = read_table(&format!("{path}."), table, mistakes);
    let n_mistakes = mistakes.len();
    let timeout = seconds(&path, "timeout_sec", raw.timeout_sec, mistakes);
    let headers = texts(&path, "headers", raw.headers, is_header, mistakes);
    let header_env = texts(&path, "header_env", raw.header_env, is_header, mistakes);
    for name in header_env.keys().filter(|name| headers.contains_key(*name)) {
        mistakes.push(format!("{path}: `{name}` is in `headers` and in `header_env`"));
    }
    let access = access_of(&path, raw.tenants, raw.scopes, mistakes);
    let method = method(&path, raw.method.as_deref(), mistakes);
    let effect = effect(&path, raw.effect.as_deref(), mistakes);
    let parameters = parameters(&path, raw.parameters, raw.parameters_file, file, mistakes);
    match raw.url.as_deref() {
        Some(url) if !is_http_url(url) => {
            mistakes.push(format!("{path}.url: {}", not_a_url(url, EXAMPLE_URL)));
        }
        None if !had_url => {
            mistakes.push(format!("{path}.url: missing; it should look like {EXAMPLE_URL}"));
        }
        Some(_) | None => {}
    }
    if raw.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        mistakes
            .push(format!("{path}.description: missing; the model reads it to know when to call"));
    }
    let mut options = HttpFunctionOptions::new(name, method?, raw.url?);
    options.description = raw.description.unwrap_or_default();
    options.effect = effect;
    options.needs_approval = raw.require_approval.unwrap_or_default();
    options.timeout = timeout.unwrap_or(options.timeout);
    options.parameters = parameters.unwrap_or(options.parameters);
    // Each error is reported once.
    if mistakes.len() == n_mistakes
        && let Err(error) = options.check()
    {
        mistakes.push(format!("{path}.url: {error}"));
    }
    Some(NamedFunction { options, access, headers, header_env })
}

fn method(path: &str, word: Option<&str>, mistakes: &mut Vec<String>) -> Option<HttpMethod> {
    let names = HttpMethod::NAMES.map(|(name, _)| name);
    let Some(word) = word else {
        mistakes.push(format!("{path}.method: missing; {}", one_of(&names)));
        return None;
    };
    let found = HttpMethod::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    if found.is_none() {
        let advice = did_you_mean(&word.to_ascii_uppercase(), &names);
        mistakes.push(format!("{path}.method: there is no method `{word}`; {advice}"));
    }
    found.map(|(_, method)| *method)
}

/// Parses the effect class. The default is the most conservative one.
fn effect(path: &str, word: Option<&str>, mistakes: &mut Vec<String>) -> Effect {
    let Some(word) = word else { return Effect::Once };
    let found = EFFECTS.iter().find(|(name, _)| *name == word);
    if found.is_none() {
        let advice = did_you_mean(word, &EFFECTS.map(|(name, _)| name));
        mistakes.push(format!("{path}.effect: there is no effect `{word}`; {advice}"));
    }
    found.map_or(Effect::Once, |(_, effect)| *effect)
}

/// Reads the schema from a table, a JSON text, or a file next to the settings.
fn parameters(
    path: &str,
    inline: Option<Value>,
    elsewhere: Option<PathBuf>,
    file: &SettingsFile,
    mistakes: &mut Vec<String>,
) -> Option<serde_json::Value> {
    let read = match (inline, elsewhere) {
        (Some(_), Some(_)) => {
            let words = "has `parameters` and `parameters_file`; keep one of them";
            mistakes.push(format!("{path}: {words}"));
            return None;
        }
        (None, None) => return None,
        (Some(Value::String(text)), None) => (
            "parameters",
            serde_json::from_str(&text).map_err(|error| format!("not JSON: {error}")),
        ),
        (Some(table), None) => {
            ("parameters", serde_json::to_value(table).map_err(|error| error.to_string()))
        }
        (None, Some(name)) => ("parameters_file", schema_in(&name, file)),
    };
    let (key, schema) = read;
    let schema = schema.and_then(|schema: serde_json::Value| {
        let is_schema = schema.get("type").and_then(serde_json::Value::as_str) == Some("object");
        if is_schema {
            Ok(schema)
        } else {
            Err("not a JSON Schema of `type` \"object\"".to_owned())
        }
    });
    schema.map_err(|why| mistakes.push(format!("{path}.{key}: {why}"))).ok()
}

fn schema_in(name: &Path, file: &SettingsFile) -> Result<serde_json::Value, String> {
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let place = folder.join(name);
    let text = fs::read_to_string(&place)
        .map_err(|error| format!("{} cannot be read: {error}", place.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{} is not JSON: {error}", place.display()))
}

/// Returns the functions with values from the environment.
pub(super) fn functions(
    named: &BTreeMap<String, NamedFunction>,
    environment: &Environment,
    mistakes: &mut Vec<String>,
) -> Vec<HttpFunctionOptions> {
    let mut ready = Vec::new();
    for (name, function) in named {
        let path = format!("functions.{name}");
        let mut options = function.options.clone();
        for (header, text) in &function.headers {
            match filled(text, environment) {
                // Values from the environment are treated as secret.
                Ok(value) if text.contains("${") => {
                    options.secret_headers.insert(header.clone(), Secret::from(value));
                }
                Ok(value) => {
                    options.headers.insert(header.clone(), value);
                }
                Err(why) => mistakes.push(format!("{path}.headers.{header}: {why}")),
            }
        }
        for (header, variable) in &function.header_env {
            let Some(value) = environment.get(variable) else {
                mistakes.push(format!("{path}.header_env.{header}: {}", not_set(variable)));
                continue;
            };
            options.secret_headers.insert(header.clone(), Secret::from(value));
        }
        ready.push(options);
    }
    ready
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
