//! The schema, the documentation and the example have the same keys and the same defaults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::*;
use crate::{
    args::ServeArguments,
    environment::Environment,
    settings::{ServeSettings, settings_schema, testing::file},
};

const EXAMPLE: &str = include_str!("../../../../examples/turnwire.toml");
const REFERENCE: &str = include_str!("../../../../docs/settings.md");

/// The tables of the schema with their keys. Names that people choose are `NAME` and `TOOL`.
fn tables() -> BTreeMap<String, Map<String, Json>> {
    let mut tables = BTreeMap::new();
    collect("", settings_schema().as_object().unwrap(), &mut tables);
    tables
}

fn collect(
    path: &str,
    schema: &Map<String, Json>,
    tables: &mut BTreeMap<String, Map<String, Json>>,
) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
        tables.insert(path.to_owned(), properties.clone());
        for (key, schema) in properties {
            collect(&below(key), schema.as_object().unwrap(), tables);
        }
    }
    let name = if path.split('.').next_back() == Some("tools") { "TOOL" } else { "NAME" };
    if let Some(schema) = schema.get("additionalProperties").and_then(Json::as_object) {
        collect(&below(name), schema, tables);
    }
    if let Some(schema) = schema.get("items").and_then(Json::as_object) {
        collect(path, schema, tables);
    }
}

/// Tables that are described where they are named, and the ones that they are like.
fn is_described_elsewhere(table: &str) -> bool {
    ["", "models.NAME.price", "quotas.per_key", "quotas.tenants.NAME"].contains(&table)
}

/// The rows of docs/settings.md: table, key and default.
fn rows() -> Vec<(String, String, String)> {
    // Other chapters are about all tables.
    let chapters = REFERENCE.split("\n## ").filter(|chapter| chapter.starts_with("`["));
    let rows = chapters.flat_map(|chapter| {
        let title = chapter.lines().next().unwrap();
        let table = title.trim_matches('`').trim_matches(['[', ']']).to_owned();
        chapter.lines().filter_map(move |line| {
            let (key, rest) = line.strip_prefix("| `")?.split_once("` |")?;
            let default = rest.split(" |").next()?.trim();
            Some((table.clone(), key.to_owned(), default.to_owned()))
        })
    });
    rows.collect()
}

#[test]
fn every_key_is_in_the_reference_and_nothing_else_is() {
    let tables = tables().into_iter().filter(|(table, _)| !is_described_elsewhere(table));
    let in_schema: BTreeSet<(String, String)> = tables
        .flat_map(|(table, keys)| keys.into_iter().map(move |(key, _)| (table.clone(), key)))
        .collect();
    let in_reference: BTreeSet<(String, String)> =
        rows().into_iter().map(|(table, key, _)| (table, key)).collect();
    assert!(in_schema.len() > 150, "{}", in_schema.len());
    let missing: Vec<_> = in_schema.difference(&in_reference).collect();
    let unknown: Vec<_> = in_reference.difference(&in_schema).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

/// The reference tells the defaults that the schema has, which are those of the code.
#[test]
fn the_reference_has_the_defaults() {
    let tables = tables();
    let mut n_compared = 0;
    for (table, key, told) in rows() {
        let Some(default) = tables[&table][&key].get("default") else {
            continue;
        };
        let shown = match default {
            Json::Array(list) if list.is_empty() => continue,
            Json::Object(table) if table.is_empty() => continue,
            other => format!("`{other}`"),
        };
        assert!(told.replace(' ', "").starts_with(&shown), "{table}.{key}: {told}, not {shown}");
        n_compared += 1;
    }
    assert!(n_compared > 70, "{n_compared}");
}

#[test]
fn every_key_is_in_the_example() {
    for (table, keys) in tables() {
        if is_described_elsewhere(&table) {
            continue;
        }
        for (key, _) in keys {
            assert!(
                has_example(&table, &key),
                "examples/turnwire.toml has no `{key}` of [{table}]"
            );
        }
    }
}

/// Whether the example file has a line for a setting: active, commented (`# key = …`), or as an
/// alternative (`# or: key = …`).
fn has_example(section: &str, key: &str) -> bool {
    let wanted: Vec<&str> = section.split('.').chain([key]).collect();
    let fits = |path: &[String]| {
        let mut pairs = wanted.iter().zip(path);
        path.len() >= wanted.len()
            && pairs.all(|(wanted, part)| ["NAME", "TOOL"].contains(wanted) || part == wanted)
    };
    let mut table: Vec<String> = Vec::new();
    for line in EXAMPLE.lines() {
        let line = line.strip_prefix("# ").unwrap_or(line);
        let line = line.strip_prefix("or: ").unwrap_or(line);
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_start_matches('[').split(']').next().unwrap_or_default();
            table = name.split('.').map(str::to_owned).collect();
            if fits(&table) {
                return true;
            }
        } else if let Ok(setting) = line.parse::<toml::Table>() {
            let paths = paths_in(&toml::Value::Table(setting));
            if paths.into_iter().any(|path| fits(&[table.clone(), path].concat())) {
                return true;
            }
        }
    }
    false
}

/// Returns the path of every value in `value`.
fn paths_in(value: &toml::Value) -> Vec<Vec<String>> {
    let toml::Value::Table(table) = value else { return vec![Vec::new()] };
    let below = |(key, value): (&String, &toml::Value)| {
        let rest = paths_in(value).into_iter();
        rest.map(|rest| [vec![key.clone()], rest].concat()).collect::<Vec<_>>()
    };
    table.iter().flat_map(below).collect()
}

fn all_of_example() -> String {
    let is_setting =
        |line: &str| line.starts_with('[') || (line.contains(" = ") && !line.starts_with("or: "));
    let lines = EXAMPLE.lines().map(|line| match line.strip_prefix("# ") {
        Some(rest) if is_setting(rest) => rest,
        Some(_) => "",
        None => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn errors_of(text: &str) -> Vec<String> {
    let validator = jsonschema::draft202012::new(&settings_schema()).unwrap();
    let table: toml::Table = text.parse().unwrap();
    let json = serde_json::to_value(table).unwrap();
    validator.iter_errors(&json).map(|error| error.to_string()).collect()
}

/// An editor accepts the example, with all that is commented out.
#[test]
fn the_example_is_valid() {
    assert_eq!(errors_of(EXAMPLE), [""; 0]);
    assert_eq!(errors_of(&all_of_example()), [""; 0]);
}

/// An editor refuses what the program refuses.
#[test]
fn unknown_keys_and_wrong_values_are_invalid() {
    let wrong = [
        "colour = 1",
        "[server]\nlisten = 5",
        "[server]\nlsten = ''",
        "[models.a]\nkind = 'chat'",
        "[models.a]\nbase_url = 'http://a'",
        "[models.a]\nkind = 'chat_completions'\nprice = { input = 1, output = 1, in = 1 }",
        "[[models.a.upstreams]]\nweight = -1",
        "[mcp_servers.a]\nurl = 'http://a'\ntools.b.effect = 'twice'",
        "[mcp_servers.a]\nurl = 'http://a'\nrequire_approval = { allways = ['x'] }",
        "[mcp_servers.a]\nurl = 'http://a'\noauth.grant = 'robot'",
        "[[webhooks]]\nurl = 'http://a'",
        "[[webhooks]]\nurl = 'http://a'\nsecret_env = 'A'\nevents = ['response.gone']",
        "[egress]\nports = [0]",
        "[limits]\nmax_turns = 0",
        "[limits]\nmax_turns = 4294967296",
        "[store]\nlease_ms = 99",
        "[quotas.tenants.a]\ntokens = 1",
    ];
    for text in wrong {
        assert_ne!(errors_of(text), [""; 0], "{text}");
    }
}

/// A file with all defaults means the same as an empty one.
#[test]
fn the_defaults_are_those_in_force() {
    let mut written = toml::Table::new();
    for (table, keys) in tables() {
        // The others are not there by default.
        let is_one = !table.is_empty() && !table.contains(['.', '[']);
        if !is_one
            || ["oidc", "web_search", "webhooks", "embeddings", "secrets", "encryption"]
                .contains(&table.as_str())
        {
            continue;
        }
        let defaults = keys.iter().filter_map(|(key, schema)| {
            let default = schema.get("default").filter(|default| !default.is_object())?;
            Some((key.clone(), toml::Value::try_from(default).unwrap()))
        });
        written.insert(table, toml::Value::Table(defaults.collect()));
    }
    assert!(written.len() > 7, "{written:?}");
    let settings = |text: &str| {
        let environment: Environment = [("OPENAI_BASE_URL", "http://m/v1")].into_iter().collect();
        let arguments = ServeArguments::default();
        let settings = ServeSettings::of(&arguments, &environment, Some(&file(text))).unwrap();
        format!("{:?}", ServeSettings { digest: None, ..settings })
    };
    assert_eq!(settings(&written.to_string()), settings(""));
    let model = "[models.a]\nkind = 'chat_completions'\nbase_url = 'http://a/v1'\n";
    let with = |table: &str, begin: &str| {
        let tables = tables();
        let lines = tables[table].iter().filter_map(|(key, schema)| {
            let default = toml::Value::try_from(schema.get("default")?).unwrap();
            // What the code does for a list without a member is not always what it does for none.
            let is_empty = default.as_array().is_some_and(Vec::is_empty);
            (!default.is_table() && !is_empty).then(|| format!("{key} = {default}\n"))
        });
        format!("{begin}{}", lines.collect::<String>())
    };
    let optional = [
        ("oidc", "[oidc]\nissuer = 'https://i'\naudience = 'a'\n"),
        ("web_search", "[web_search]\nprovider = 'searxng'\nbase_url = 'http://s'\n"),
        ("mcp_servers.NAME", "[mcp_servers.a]\ncommand = 'true'\n"),
        ("functions.NAME", "[functions.a]\ndescription = 'a'\nmethod = 'GET'\nurl = 'http://a'\n"),
        ("mcp_servers.NAME.oauth", "[mcp_servers.a]\nurl = 'http://a'\n[mcp_servers.a.oauth]\n"),
    ];
    for (table, begin) in optional {
        let debug = settings(&with(table, begin));
        // An approval that is refused by name is more than one that is not needed.
        assert_eq!(debug.replace("exempt: true", "exempt: false"), settings(begin), "{table}");
    }
    let debug = settings(&with("models.NAME", model));
    let named = "connect: Some(10s), first_content: None, max_wait: Some(5s)";
    assert!(debug.contains(named), "{debug}");
    let unnamed = "connect: None, first_content: None, max_wait: None";
    assert_eq!(debug.replace(named, unnamed), settings(model));
}
