//! Address and authentication of the gateway.

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

fn keys(text: &str, variables: &[(&str, &str)]) -> Vec<String> {
    demo_settings(text, variables).unwrap().auth.api_keys
}

#[test]
fn an_address_to_listen_on_has_a_port() {
    let address = |text| listen_address(text).map(|address| address.to_string()).ok();
    assert_eq!(address("0.0.0.0:80").as_deref(), Some("0.0.0.0:80"));
    assert_eq!(address("[::1]:80").as_deref(), Some("[::1]:80"));
    assert_eq!(address("localhost:0").as_deref(), Some("127.0.0.1:0"));
    for wrong in ["", "7878", "127.0.0.1", "example.com:80", "localhost", "127.0.0.1:70000"] {
        assert_eq!(address(wrong), None, "{wrong}");
    }
}

#[test]
fn one_key_or_several_are_in_the_variable_that_is_named() {
    let text = "[server]\napi_keys_env = \"KEYS\"\n";
    assert_eq!(keys(text, &[("KEYS", "one")]), ["one"]);
    assert_eq!(keys(text, &[("KEYS", " one, two ,")]), ["one", "two"]);
    let both = format!("{text}api_keys = [\"three\"]\n");
    assert_eq!(keys(&both, &[("KEYS", "one")]), ["three", "one"]);
    assert_eq!(keys("", &[]), [""; 0]);
}

#[test]
fn the_environment_wins_over_the_keys_of_the_file() {
    let text = "[server]\napi_keys_env = \"NOT_SET\"\napi_keys = [\"three\"]\n";
    assert_eq!(keys(text, &[("TURNWIRE_API_KEYS", "one,two")]), ["one", "two"]);
}

/// A9: a mistake in the keys must not disable authentication.
#[test]
fn keys_that_are_none_are_mistakes() {
    check_mistakes(
        "[server]\napi_keys_env = \"NOT_SET\"\napi_keys = []\n",
        &[],
        &[
            "server.api_keys: there is no key in it",
            "server.api_keys_env: the environment variable `NOT_SET` is not set",
        ],
    );
    let wrong = "a key must not be empty or have spaces, and must be plain ASCII";
    let text = "[server]\napi_keys_env = \"KEYS\"\napi_keys = [\"\"]\n";
    let in_file = format!("server.api_keys: {wrong}");
    let named = "server.api_keys_env: `KEYS`: there is no key in it";
    check_mistakes(text, &[("KEYS", ",")], &[&in_file, named]);
    let in_environment = format!("TURNWIRE_API_KEYS: {wrong}");
    check_mistakes("", &[("TURNWIRE_API_KEYS", "a b")], &[&in_environment]);
    check_mistakes(
        "",
        &[("TURNWIRE_API_KEYS", " , ")],
        &["TURNWIRE_API_KEYS: there is no key in it"],
    );
}

/// The key of whoever collects metrics, in the variable that is named or in ours.
#[test]
fn the_metrics_token_is_in_a_variable() {
    let token = |text, variables: &[(&str, &str)]| {
        demo_settings(text, variables).unwrap().auth.metrics_token
    };
    let text = "[server]\nmetrics_token_env = \"SCRAPER\"\n";
    assert_eq!(token(text, &[("SCRAPER", "one\n")]).as_deref(), Some("one"));
    let both = [("SCRAPER", "one"), ("TURNWIRE_METRICS_TOKEN", "two")];
    assert_eq!(token(text, &both).as_deref(), Some("two"));
    assert_eq!(token("", &[]), None);
    let missing = "server.metrics_token_env: the environment variable `SCRAPER` is not set";
    check_mistakes(text, &[], &[missing]);
    let wrong = "TURNWIRE_METRICS_TOKEN: a key must not be empty or have spaces, and must be plain \
                 ASCII";
    check_mistakes("", &[("TURNWIRE_METRICS_TOKEN", "a b")], &[wrong]);
}

#[test]
fn a_complaint_about_keys_does_not_show_them() {
    let expected = "server.api_keys: not a list of texts";
    check_mistakes("[server]\napi_keys = \"secret\"\n", &[], &[expected]);
    let entry = "server.api_keys[0]: not a text; put it in quotes";
    check_mistakes("[server]\napi_keys = [7]\n", &[], &[entry]);
    let settings = demo_settings("[server]\napi_keys = [\"hidden\"]\n", &[]).unwrap();
    assert!(!format!("{settings:?}").contains("hidden"));
}

/// A9: a wildcard would allow every page, and browsers never send a path.
#[test]
fn hosts_and_origins_are_names() {
    let text = r#"
[server]
hosts = ["chat.example.com", "chat.example.com:8443", "[::1]:80"]
origins = ["https://app.example.com", "http://localhost:3000"]
"#;
    let auth = demo_settings(text, &[]).unwrap().auth;
    assert_eq!(auth.hosts, ["chat.example.com", "chat.example.com:8443", "[::1]:80"]);
    assert_eq!(auth.origins, ["https://app.example.com", "http://localhost:3000"]);
    let origin = |n: usize, text: &str| {
        format!(
            "server.origins[{n}]: `{text}` is not the origin of a web page; it should look like \
             https://chat.example.com"
        )
    };
    check_mistakes(
        r#"
[server]
listen = "here"
hosts = ["https://chat.example.com", "*"]
origins = ["*", "null", "https://app.example.com/", "app.example.com"]
instructions = 3
"#,
        &[],
        &[
            "server.instructions: not a text; put it in quotes",
            "server.listen: `here`: not an address to listen on; it should look like \
             127.0.0.1:7878",
            "server.hosts[0]: `https://chat.example.com` is not a name; it should look like \
             chat.example.com",
            "server.hosts[1]: `*` is not a name; it should look like chat.example.com",
            &origin(0, "*"),
            &origin(1, "null"),
            &origin(2, "https://app.example.com/"),
            &origin(3, "app.example.com"),
        ],
    );
}
