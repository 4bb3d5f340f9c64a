//! `[functions.*]`: HTTP APIs that the model can call.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};
use turnwire_contract::Effect;
use turnwire_engine::Access;
use turnwire_tools::{HttpFunctionOptions, HttpMethod, Secret};

use super::{
    file::{SettingsFile, read_table, table_of},
    schema::words_of,
    tool_servers::{EFFECTS, USUAL_EFFECT, effect_of, filled, is_header, is_label, seconds, texts},
    words::{access_of, check_needed_url, child, did_you_mean, is_told, missing, one_of, value_of},
};
use crate::environment::Environment;

/// Names of the built-in tools.
const TAKEN: [&str; 2] = ["web_search", "file_search"];
/// Example URL for error messages.
const EXAMPLE_URL: &str = "https://api.example.com/weather/{city}";

/// An HTTP endpoint as a tool.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawFunction {
    /// The description for the model
    #[schemars(extend("x-required" = true))]
    description: Option<String>,
    /// `"GET"`, `"POST"`, `"PUT"`, `"PATCH"` or `"DELETE"`
    #[schemars(extend("enum" = words_of(&HttpMethod::NAMES), "x-required" = true))]
    method: Option<String>,
    /// The URL; `{name}` in its path or query is replaced by the argument of that name
    #[schemars(extend("x-required" = true))]
    url: Option<String>,
    /// The JSON Schema of the arguments, as a table or a JSON string
    #[schemars(with = "Option<TableOrText>")]
    parameters: Option<Value>,
    /// A file with the JSON Schema
    parameters_file: Option<PathBuf>,
    /// The effect class: `"pure"`, `"idempotent"` or `"once"`
    #[schemars(extend("enum" = words_of(&EFFECTS), "default" = USUAL_EFFECT))]
    effect: Option<String>,
    /// Headers sent with every request
    #[schemars(extend("writeOnly" = true))]
    headers: BTreeMap<String, String>,
    /// Headers whose whole value is in the named variable
    header_env: BTreeMap<String, String>,
    /// How long a call may take
    #[schemars(extend("exclusiveMinimum" = 0, "default" = usual_timeout()))]
    timeout_sec: Option<f64>,
    /// Whether each call needs approval
    #[schemars(extend("default" = false))]
    require_approval: Option<bool>,
    /// The tenants that may use it; for others it does not exist
    tenants: Option<Vec<String>>,
    /// Scopes of which a caller needs one, such as `use:research`; for others it does not exist
    scopes: Option<Vec<String>>,
}

/// The schema of the arguments.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum TableOrText {
    Table(serde_json::Map<String, serde_json::Value>),
    Text(String),
}

fn usual_timeout() -> u64 {
    HttpFunctionOptions::new("", HttpMethod::Get, "").timeout.as_secs()
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
        let path = child("functions", &name);
        if !is_label(&name) {
            let words = "a function's name has 1 to 64 letters, digits, `_` and `-`";
            mistakes.push(format!("{path}: {words}"));
        }
        if TAKEN.contains(&name.as_str()) {
            let words = "this name is taken by a built-in tool; give it another name";
            mistakes.push(format!("{path}: {words}"));
        }
        if let Some(table) = table_of(&path, Some(value), mistakes) {
            let function = named_function(&name, table, file, mistakes);
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
) -> NamedFunction {
    let path = child("functions", name);
    let raw: RawFunction = read_table(&path, table, mistakes);
    let timeout = seconds(&path, "timeout_sec", raw.timeout_sec, mistakes);
    let headers = texts(&path, "headers", raw.headers, is_header, mistakes);
    let header_env = texts(&path, "header_env", raw.header_env, is_header, mistakes);
    for name in header_env.keys().filter(|name| headers.contains_key(*name)) {
        mistakes.push(format!("{path}: `{name}` is in `headers` and in `header_env`"));
    }
    let access = access_of(&path, raw.tenants, raw.scopes, mistakes);
    let method = method(&path, raw.method.as_deref(), mistakes);
    // The default is the most conservative class.
    let effect = raw.effect.and_then(|word| effect_of(&path, &word, mistakes));
    let parameters = parameters(&path, raw.parameters, raw.parameters_file, file, mistakes);
    check_needed_url(&format!("{path}.url"), raw.url.as_deref(), EXAMPLE_URL, mistakes);
    if raw.description.as_deref().is_none_or(|text| text.trim().is_empty()) {
        let why = "missing; the model reads it to know when to call";
        missing(&format!("{path}.description"), why, mistakes);
    }
    let method = method.unwrap_or(HttpMethod::Get);
    let mut options = HttpFunctionOptions::new(name, method, raw.url.unwrap_or_default());
    options.description = raw.description.unwrap_or_default();
    options.effect = effect.unwrap_or(Effect::Once);
    options.needs_approval = raw.require_approval.unwrap_or_default();
    options.timeout = timeout.unwrap_or(options.timeout);
    options.parameters = parameters.unwrap_or(options.parameters);
    // What was reported about the address or about the arguments is not reported again.
    let is_fine = |key: &str| !is_told(&format!("{path}.{key}"), mistakes);
    if ["url", "parameters", "parameters_file"].into_iter().all(is_fine)
        && let Err(error) = options.check()
    {
        mistakes.push(format!("{path}.url: {error}"));
    }
    NamedFunction { options, access, headers, header_env }
}

fn method(path: &str, word: Option<&str>, mistakes: &mut Vec<String>) -> Option<HttpMethod> {
    let names = HttpMethod::NAMES.map(|(name, _)| name);
    let Some(word) = word else {
        let why = format!("missing; {}", one_of(&names));
        missing(&format!("{path}.method"), &why, mistakes);
        return None;
    };
    let found = HttpMethod::NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
    if found.is_none() {
        let advice = did_you_mean(&word.to_ascii_uppercase(), &names);
        mistakes.push(format!("{path}.method: there is no method `{word}`; {advice}"));
    }
    found.map(|(_, method)| *method)
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
        let path = child("functions", name);
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
                Err(why) => {
                    let path = child(&format!("{path}.headers"), header);
                    mistakes.push(format!("{path}: {why}"));
                }
            }
        }
        for (header, variable) in &function.header_env {
            let path = child(&format!("{path}.header_env"), header);
            let value = value_of(&path, variable, environment, mistakes);
            let value = value.map(|value| (header.clone(), Secret::from(value)));
            options.secret_headers.extend(value);
        }
        ready.push(options);
    }
    ready
}

#[cfg(test)]
#[path = "functions_tests.rs"]
mod tests;
