//! `turnwire config`: what is wrong in a file, what is in force, and a file to begin with.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use crate::world::{Done, World};

/// A file with mistakes, and the lines that `turnwire config check` must print for it.
struct Broken {
    name: String,
    text: String,
    /// `mcp.json` beside it.
    servers: Option<String>,
    expected: String,
}

fn broken_files() -> Vec<Broken> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken-settings");
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let read = |extension: &str| fs::read_to_string(path.with_extension(extension));
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let expected = read("expected").expect(&name);
            let text = read("toml").unwrap();
            let servers = read("json").ok();
            files.insert(name.clone(), Broken { name, text, servers, expected });
        }
    }
    files.into_values().collect()
}

/// The folder of a broken file. Its first line may name variables: `# variables: NAME=value …`.
fn world_of(broken: &Broken) -> World {
    let mut world = World::new().with_file("turnwire.toml", &broken.text);
    if let Some(servers) = &broken.servers {
        world = world.with_file("mcp.json", servers);
    }
    let variables = broken.text.lines().next().and_then(|line| line.strip_prefix("# variables: "));
    for (name, value) in variables
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|pair| pair.split_once('='))
    {
        world = world.with(name, value);
    }
    world
}

/// Every mistake of each of these files is told once, in one go, with its line and its path, in the
/// order of the lines.
#[test]
fn every_mistake_of_broken_files_is_told_at_once() {
    let files = broken_files();
    assert!(files.len() >= 40, "{}", files.len());
    let mut wrong = Vec::new();
    for broken in &files {
        let done = world_of(broken).run(&["config", "check"]);
        assert_eq!(done.code, Some(2), "{}: {done:?}", broken.name);
        if done.stdout != broken.expected {
            wrong.push(format!("{}\n{}instead of\n{}", broken.name, done.stdout, broken.expected));
        }
        // What is secret in these files has this word in it.
        assert!(!format!("{done:?}").contains("canary"), "{}: {done:?}", broken.name);
        let n_lines = broken.expected.lines().count();
        let count = if n_lines == 1 { "a mistake".into() } else { format!("{n_lines} mistakes") };
        if !done.stderr.starts_with(&format!("error: {count} in ")) {
            wrong.push(format!("{}: {}", broken.name, done.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A program reads the same, with the parts apart.
#[test]
fn mistakes_are_told_as_json() {
    for broken in broken_files() {
        let done = world_of(&broken).run(&["config", "check", "--json"]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(2), ""), "{}", broken.name);
        let report: Value = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(report["ok"], false);
        let lines = report["mistakes"].as_array().unwrap().iter().map(|mistake| {
            let text = |key: &str| mistake[key].as_str().map(|text| format!("{text}: "));
            let place = mistake["line"].as_u64().map(|line| {
                format!("{}:{line}: ", mistake["file"].as_str().expect("a line has a file"))
            });
            let path = text("path").unwrap_or_default();
            format!("{}{path}{}\n", place.unwrap_or_default(), mistake["message"].as_str().unwrap())
        });
        assert_eq!(lines.collect::<String>(), broken.expected, "{}", broken.name);
    }
}

/// `doctor` and `serve` use the same words.
#[test]
fn doctor_and_serve_tell_the_same() {
    let broken = broken_files().into_iter().find(|file| file.name.contains("many")).unwrap();
    let world = world_of(&broken);
    let done = world.run(&["doctor", "--json"]);
    assert_eq!(done.code, Some(1));
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let message = report["checks"][0]["message"].as_str().unwrap();
    let expected: Vec<&str> = broken.expected.lines().collect();
    assert_eq!(message.lines().skip(1).collect::<Vec<_>>(), expected);
    let done = world.run(&["serve"]);
    assert_eq!(done.code, Some(2));
    let told = done.stderr.lines().filter_map(|line| line.strip_prefix("  "));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

const GOOD: &str = "[models.default]\nkind = \"chat_completions\"\nbase_url = \"http://m/v1\"\n\
                    [server]\napi_keys = [\"canary\"]\n[limits]\nmax_turns = 7\n";

#[test]
fn a_file_without_mistakes_is_summed_up() {
    let world = World::new().with_file("turnwire.toml", GOOD);
    let done = world.run(&["config", "check"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        done.stdout,
        "warning: turnwire.toml:5: server.api_keys: keys do not belong in a file; put them into a \
         variable and name it with api_keys_env\nno mistakes: 1 model, runs stored in SQLite, \
         listens on 127.0.0.1:7878\n"
    );
    let done = world.run(&["config", "check", "--json"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (report["ok"].as_bool(), report["mistakes"].as_array().unwrap().len()),
        (Some(true), 0)
    );
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn the_settings_in_force_are_toml_with_their_sources() {
    let world = World::new().with_file("turnwire.toml", GOOD).with("TURNWIRE_LISTEN", "[::1]:1");
    let done = world.run(&["config", "print"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert!(!done.stdout.contains("canary"), "{}", done.stdout);
    for line in [
        "listen = \"[::1]:1\"  # environment variable TURNWIRE_LISTEN",
        "api_keys = [\"***\"]  # turnwire.toml:5",
        "# health_listen is not set",
        "base_url = \"http://m/v1\"  # turnwire.toml:3",
        "max_turns = 7  # turnwire.toml:7",
        "max_tool_calls = 128  # default",
        "url = \"sqlite://turnwire.db\"  # default",
    ] {
        assert!(done.stdout.lines().any(|found| found == line), "no `{line}` in {}", done.stdout);
    }
    // It can be used as a file again.
    let again = World::new().with_file("turnwire.toml", &done.stdout);
    let checked = again.run(&["config", "check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let done = world.run(&["config", "print", "--json", "--listen", "127.0.0.1:2"]);
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let listen = report["settings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|setting| setting["path"] == "server.listen");
    let expected = serde_json::json!({ "path": "server.listen", "value": "127.0.0.1:2",
        "source": { "kind": "flag", "flag": "--listen" } });
    assert_eq!(listen, Some(&expected));
}

#[test]
fn the_schema_is_json_for_editors() {
    let done = World::new().run(&["config", "schema"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let schema: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    let listen = &schema["properties"]["server"]["properties"]["listen"];
    assert_eq!(listen["default"], "127.0.0.1:7878");
    assert!(listen["description"].as_str().unwrap().starts_with("The address to listen on"));
}

fn check_started(variables: &[(&str, &str)], expected: &[&str]) {
    let world = variables.iter().fold(World::new(), |world, (name, value)| world.with(name, value));
    let done: Done = world.run(&["config", "init"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{variables:?}");
    let text = fs::read_to_string(world.path().join("turnwire.toml")).unwrap();
    assert!(!text.contains("canary"), "{text}");
    for line in expected {
        assert!(text.lines().any(|found| found == *line), "no `{line}` in {text}");
    }
    let checked = world.run(&["config", "check"]);
    assert_eq!(checked.code, Some(0), "{text}: {checked:?}");
    let again = world.run(&["config", "init"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("turnwire.toml exists, and is not changed"), "{again:?}");
    assert_eq!(fs::read_to_string(world.path().join("turnwire.toml")).unwrap(), text);
}

/// The first file fits the environment, has no key in it and no mistakes, and replaces none.
#[test]
fn a_first_file_fits_the_environment() {
    check_started(&[], &["base_url = \"http://localhost:11434/v1\""]);
    check_started(&[("OPENAI_API_KEY", "canary")], &["api_key_env = \"OPENAI_API_KEY\""]);
    check_started(
        &[
            ("OPENAI_API_KEY", "canary"),
            ("ANTHROPIC_API_KEY", "canary"),
            ("BRAVE_API_KEY", "canary"),
        ],
        &["[models.default]", "[models.claude]", "provider = \"brave\""],
    );
    check_started(
        &[("ANTHROPIC_API_KEY", "canary")],
        &["[models.default]", "kind = \"anthropic_messages\""],
    );
    check_started(&[("OPENAI_BASE_URL", "http://m/v1")], &["base_url = \"http://m/v1\""]);
    check_started(
        &[("OPENAI_BASE_URL", "http://u:canary@m/v1"), ("TURNWIRE_STORE_URL", "memory:")],
        &["# Its address is in OPENAI_BASE_URL."],
    );
}

#[test]
fn a_first_file_can_be_elsewhere() {
    let world = World::new();
    let done = world.run(&["config", "init", "--output", "other.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("turnwire serve --config other.toml"), "{done:?}");
    assert_eq!(world.run(&["config", "check", "--config", "other.toml"]).code, Some(0));
    assert_eq!(world.run(&["config", "init", "--output", "no/such/folder/x"]).code, Some(1));
}
