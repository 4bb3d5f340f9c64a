//! What a reload changes is named as in the file.

use crate::{args::ServeArguments, environment::Environment};

use super::{super::file::SettingsFile, *};

fn read(text: &str) -> ServeSettings {
    let environment: Environment = [("TURNWIRE_STORE_URL", "memory:")].into_iter().collect();
    let model = "[models.default]\nkind = \"chat_completions\"\nbase_url = \"http://one/v1\"\n";
    let file = SettingsFile { path: "turnwire.toml".into(), text: format!("{model}{text}") };
    ServeSettings::of(&ServeArguments::default(), &environment, Some(&file)).unwrap()
}

#[track_caller]
fn assert_changes(old: &str, new: &str, changed: &[&str], needs_restart: &[&str]) {
    let (old, new) = (read(old), read(new));
    assert_eq!(old.reloadable_changes(&new), changed);
    assert_eq!(old.fixed_changes(&new), needs_restart);
}

#[test]
fn the_same_settings_have_no_changes() {
    let text = "[server]\napi_keys = [\"a\"]\n[mcp_servers.docs]\nurl = \"http://docs\"\n";
    assert_changes(text, text, &[], &[]);
}

#[test]
fn what_a_reload_changes_is_named() {
    let model = |name: &str, url: &str| {
        format!(
            "[models.{name}]\nkind = \"chat_completions\"\nbase_url = \"{url}\"\nmodel = \"m\"\n"
        )
    };
    let server = |name: &str| format!("[mcp_servers.{name}]\nurl = \"http://{name}\"\n");
    let keys = |keys: &str| format!("[server]\napi_keys = {keys}\n");
    assert_changes(&keys("[\"a\"]"), &keys("[\"b\"]"), &["server.api_keys"], &[]);
    assert_changes(&model("x", "http://x"), &model("x", "http://y"), &["models.x"], &[]);
    assert_changes(
        &model("x", "http://x"),
        &model("y", "http://x"),
        &["models.x", "models.y"],
        &[],
    );
    assert_changes(&server("a"), &server("b"), &["mcp_servers.a", "mcp_servers.b"], &[]);
    assert_changes("", "[limits]\nmax_turns = 3\n", &["limits"], &[]);
    assert_changes("", "[limits]\nmax_runs = 3\n", &["limits"], &[]);
    assert_changes("", "[quotas.per_tenant]\nrequests_per_minute = 3\n", &["quotas"], &[]);
}

#[test]
fn what_needs_a_restart_is_named() {
    assert_changes("", "[server]\nlisten = \"127.0.0.1:1\"\n", &[], &["server.listen"]);
    assert_changes(
        "",
        "[limits]\nmax_connections = 3\n",
        &[],
        &["limits of connections and memory"],
    );
    let embeddings = "[embeddings]\nbase_url = \"http://e/v1\"\nmodel = \"m\"\n";
    assert_changes("", embeddings, &[], &["embeddings"]);
}
