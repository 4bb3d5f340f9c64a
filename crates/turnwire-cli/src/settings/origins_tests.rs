//! What `turnwire config print` knows of each setting.

use super::*;

const FILE: &str = r#"
[server]
api_keys = ["canary-key"]
origins = ["https://a.example"]
[models.default]
kind = "chat_completions"
base_url = "http://user:canary-password@m/v1?key=canary-query"
[mcp_servers.a]
command = "x"
args = ["--token=canary-arg"]
env = { A = "${SET}", B = "canary-env" }
[store]
url_env = "DATABASE"
[limits]
max_turns = 7
"#;

fn in_force(text: &str, variables: &[(&str, &str)], arguments: ServeArguments) -> Vec<Setting> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turnwire.toml");
    std::fs::write(&path, text).unwrap();
    let arguments = ServeArguments { config: Some(path), ..arguments };
    settings_in_force(&arguments, &variables.iter().copied().collect()).unwrap()
}

fn found(settings: &[Setting], path: &str) -> (Json, String) {
    let setting = settings.iter().find(|setting| setting.path() == path).expect(path);
    let source = match &setting.source {
        Source::Default => "default".to_owned(),
        Source::File { line, .. } => format!("line {line}"),
        Source::Environment { variable } => variable.clone(),
        Source::Flag { flag } => flag.clone(),
        Source::Unset => "unset".to_owned(),
    };
    (setting.value.clone().unwrap_or_default(), source)
}

/// Each source wins over the one before: default, file, environment, flag.
#[test]
fn every_value_has_its_source() {
    let variables =
        [("DATABASE", "sqlite://canary.db"), ("SET", "x"), ("TURNWIRE_LISTEN", "127.0.0.1:2")];
    let settings = in_force(FILE, &variables, ServeArguments::default());
    let expected = [
        ("server.listen", json!("127.0.0.1:2"), "TURNWIRE_LISTEN"),
        ("server.health_listen", Json::Null, "unset"),
        ("limits.max_turns", json!(7), "line 15"),
        ("limits.max_tool_calls", json!(128), "default"),
        ("store.url", json!("***"), "DATABASE"),
        ("store.lease_ms", json!(2000), "default"),
        ("models.default.base_url", json!("http://***@m/v1?***"), "line 7"),
        ("models.default.custom_tools", json!("functions"), "default"),
        ("mcp_servers.a.env", json!({ "A": "${SET}", "B": "***" }), "line 11"),
        ("mcp_servers.a.startup_timeout_sec", json!(10), "default"),
        ("oidc", Json::Null, "unset"),
    ];
    for (path, value, source) in expected {
        assert_eq!(found(&settings, path), (value, source.to_owned()), "{path}");
    }
    let arguments = ServeArguments {
        listen: "127.0.0.1:3".parse().ok(),
        origin: vec!["https://b.example".to_owned()],
        ..ServeArguments::default()
    };
    let settings = in_force(FILE, &variables, arguments);
    assert_eq!(found(&settings, "server.listen"), (json!("127.0.0.1:3"), "--listen".to_owned()));
    let origins = json!(["https://a.example", "https://b.example"]);
    assert_eq!(found(&settings, "server.origins"), (origins, "--origin".to_owned()));
}

/// A6: no secret is shown, wherever it is written.
#[test]
fn secrets_are_not_shown() {
    let variables = [
        ("DATABASE", "postgres://canary@db/x"),
        ("SET", "canary-variable"),
        ("TURNWIRE_METRICS_TOKEN", "canary-token"),
        ("TURNWIRE_FANOUT_URL", "redis://:canary@r/"),
    ];
    let settings = in_force(FILE, &variables, ServeArguments::default());
    let shown = format!("{settings:?}");
    assert!(!shown.contains("canary"), "{shown}");
}

/// Every key of the schema that can apply is listed.
#[test]
fn all_keys_are_listed() {
    let settings = in_force("", &[("OPENAI_BASE_URL", "http://m/v1")], ServeArguments::default());
    assert!(settings.len() > 90, "{}", settings.len());
    assert_eq!(
        found(&settings, "models.default.base_url"),
        (json!("http://m/v1"), "OPENAI_BASE_URL".to_owned())
    );
}
