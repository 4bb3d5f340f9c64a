//! Valid and invalid OAuth settings.

use turnwire_tools::McpTransport;

use super::*;
use crate::settings::testing::{check_mistakes, demo_settings};

const SERVER: &str = "[mcp_servers.s]\nurl = \"https://docs.example.com/mcp\"\n";

fn login(lines: &str, variables: &[(&str, &str)]) -> OAuthOptions {
    let text = format!("{SERVER}[mcp_servers.s.oauth]\n{lines}");
    let mut servers = demo_settings(&text, variables).unwrap().tool_servers;
    match servers.remove("s").unwrap().transport {
        McpTransport::Http { oauth: Some(oauth), .. } => *oauth,
        other => panic!("{other:?}"),
    }
}

fn check_mistake(lines: &str, expected: &[&str]) {
    let text = format!("{SERVER}[mcp_servers.s.oauth]\n{lines}");
    let expected: Vec<String> =
        expected.iter().map(|mistake| format!("mcp_servers.s.oauth{mistake}")).collect();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    check_mistakes(&text, &[], &expected);
}

/// An empty table is sufficient, because the server announces the rest.
#[test]
fn a_person_logs_in_with_nothing_said() {
    let expected = OAuthOptions {
        token_file: Some("/home/ann/.local/state/turnwire/mcp/s.json".into()),
        ..OAuthOptions::default()
    };
    assert_eq!(login("", &[("HOME", "/home/ann")]), expected);
    let elsewhere = login("", &[("HOME", "/home/ann"), ("XDG_STATE_HOME", "/state")]);
    assert_eq!(elsewhere.token_file.unwrap(), Path::new("/state/turnwire/mcp/s.json"));
    assert_eq!(login("", &[]).token_file, None, "in memory, where there is no home");
}

#[test]
fn everything_can_be_said() {
    let lines = r#"
grant = "person"
client_id = "us"
client_secret_env_var = "SECRET"
client_metadata_url = "https://us.example.com/client.json"
scopes = ["read", "write"]
token_file = "/tokens/s.json"
redirect_port = 7999
private_addresses = true
"#;
    let expected = OAuthOptions {
        grant: Grant::AuthorizationCode,
        client_id: Some("us".into()),
        client_secret: Some("hush".into()),
        client_metadata_url: Some("https://us.example.com/client.json".into()),
        scopes: vec!["read".into(), "write".into()],
        token_file: Some("/tokens/s.json".into()),
        redirect_port: Some(7999),
        private_addresses: true,
    };
    assert_eq!(login(lines, &[("SECRET", "hush")]), expected);
}

#[test]
fn a_machine_logs_in_with_a_secret_or_a_key() {
    let secret = "grant = \"machine\"\nclient_id = \"us\"\nclient_secret_env_var = \"SECRET\"";
    assert_eq!(login(secret, &[("SECRET", "hush")]).grant, Grant::ClientCredentials);
    let key = "grant = \"machine\"\nclient_id = \"us\"\nprivate_key_env_var = \"KEY\"\n";
    let with = |lines: &str| login(&format!("{key}{lines}"), &[("KEY", "pem")]).grant;
    let expected = |algorithm| Grant::ClientCredentialsWithKey { key: "pem".into(), algorithm };
    assert_eq!(with(""), expected(SigningAlgorithm::Es256));
    let rsa = with("private_key_algorithm = \"RS256\"");
    assert_eq!(rsa, expected(SigningAlgorithm::Rs256));
}

/// A12: secrets come from the environment, and errors do not quote them.
#[test]
fn mistakes_are_told() {
    check_mistake("grant = \"machin\"", &[".grant: there is no `machin`; did you mean `machine`?"]);
    check_mistake(
        "grant = \"machine\"\nclient_id = \"us\"",
        &[": a machine needs `client_id`, and `client_secret_env_var` or `private_key_env_var`"],
    );
    check_mistake(
        "client_metadata_url = \"ftp://x\"",
        &[".client_metadata_url: `ftp://x` is not an address; it should look like \
           https://turnwire.example.com/client.json"],
    );
    check_mistake(
        "private_key_algorithm = \"HS256\"",
        &[".private_key_algorithm: there is no `HS256`; did you mean `RS256`?"],
    );
    check_mistake("scope = [\"x\"]", &[".scope: there is no such setting; did you mean `scopes`?"]);
}
