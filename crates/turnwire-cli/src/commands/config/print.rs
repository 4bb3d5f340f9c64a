//! `turnwire config print`: the settings in force, as TOML with the source of each value.

use serde_json::{Value, json};
use turnwire_surfaces::{clean, wire_json_pretty};

use crate::{
    args::{ConfigPrintArguments, ServeArguments},
    environment::Environment,
    exit::Result,
    settings::{Setting, Source, key_name, settings_in_force},
};

pub(super) fn print(arguments: &ConfigPrintArguments, environment: &Environment) -> Result<String> {
    let as_served = ServeArguments {
        listen: arguments.listen,
        origin: arguments.origin.clone(),
        ..arguments.served.as_served()
    };
    let settings = settings_in_force(&as_served, environment)?;
    if arguments.json {
        let settings: Vec<Value> = settings.iter().map(as_json).collect();
        return Ok(wire_json_pretty(&json!({ "settings": settings })));
    }
    Ok(as_toml(&settings))
}

fn as_json(setting: &Setting) -> Value {
    json!({ "path": setting.path(), "value": setting.value, "source": setting.source })
}

fn as_toml(settings: &[Setting]) -> String {
    let mut lines = Vec::new();
    let mut table = "";
    for setting in settings {
        if setting.table != table {
            table = &setting.table;
            lines.extend([String::new(), header(table)]);
        }
        lines.push(line(setting));
    }
    lines.join("\n").trim_start().to_owned()
}

fn header(table: &str) -> String {
    match table.rsplit_once('[') {
        Some((list, _)) => format!("[[{list}]]"),
        None => format!("[{table}]"),
    }
}

fn line(setting: &Setting) -> String {
    let key = key_name(&setting.key);
    let value = setting.value.as_ref().and_then(|value| toml::Value::try_from(value).ok());
    let source = match &setting.source {
        Source::Default => "default".to_owned(),
        Source::File { file, line } => format!("{file}:{line}"),
        Source::Environment { variable } => format!("environment variable {variable}"),
        Source::Flag { flag } => format!("flag {flag}"),
        Source::Unset => return format!("# {key} is not set"),
    };
    let value = value.map_or_else(String::new, |value| value.to_string());
    // A file may contain escape sequences.
    clean(&format!("{key} = {value}  # {source}")).into_owned()
}
