use turnwire_tools::McpTransport;

use super::*;

/// Reads the servers from a file with this text.
fn read(text: &str, variables: &[(&str, &str)]) -> Result<BTreeMap<String, McpServerOptions>> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mcp.json"), text).unwrap();
    fs::write(folder.path().join("turnwire.toml"), "[mcp]\nfiles = [\"mcp.json\"]").unwrap();
    let environment = variables.iter().copied().collect();
    let config = folder.path().join("turnwire.toml");
    McpSettings::read(Some(&config), &[], &environment).map(|settings| settings.servers)
}

/// Returns the errors without the directory of the file.
fn mistakes(text: &str) -> Vec<String> {
    let after = |line: &String| line.split_once("mcp.json:").unwrap().1.to_owned();
    read(text, &[]).unwrap_err().details.iter().map(after).collect()
}

/// A8: servers in the files of other programs are used if the settings name the file.
#[test]
fn files_of_other_programs_are_read_as_they_are() {
    let text = r#"{
        "mcpServers": {
            "file system": {
                "type": "stdio", "command": "npx", "args": ["-y", "server", "${HOME}/x"],
                "env": { "TOKEN": "${env:MY_TOKEN}", "LEVEL": "${LEVEL:-info}", "PORT": 3 },
                "headers": {}, "alwaysAllow": ["read"], "timeout": 60
            },
            "docs": {
                "type": "http", "url": "https://docs.example.com/${TEAM}/mcp", "env": {},
                "headers": { "Authorization": "Bearer ${MY_TOKEN}" }
            },
            "off": { "command": "nothing", "disabled": true },
            "also-off": { "command": "nothing", "enabled": false }
        },
        "inputs": []
    }"#;
    let variables = [("HOME", "/home/ann"), ("MY_TOKEN", "t0ken"), ("TEAM", "blue")];
    let servers = read(text, &variables).unwrap();
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["docs", "file_system"]);
    let McpTransport::Stdio { command, args, env, cwd } = &servers["file_system"].transport else {
        panic!("{servers:?}")
    };
    assert_eq!(command, "npx");
    assert_eq!(args, &["-y", "server", "/home/ann/x"]);
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(env, [("LEVEL", "info"), ("PORT", "3"), ("TOKEN", "t0ken")]);
    assert_eq!(*cwd, None);
    let McpTransport::Http { url, headers, .. } = &servers["docs"].transport else {
        panic!("{servers:?}")
    };
    assert_eq!(url, "https://docs.example.com/blue/mcp");
    assert_eq!(headers["Authorization"], "Bearer t0ken");
}

#[test]
fn the_other_place_for_servers_is_known() {
    let text = r#"{ "servers": { "a": { "url": "http://a/mcp", "type": "streamable-http" } } }"#;
    assert_eq!(read(text, &[]).unwrap().len(), 1);
}

#[test]
fn every_mistake_is_told_with_its_place() {
    let text = r#"{ "mcpServers": {
        "asks": { "command": "x", "env": { "KEY": "${input:key}" } },
        "both": { "command": "x", "url": "http://a/mcp" },
        "empty": {},
        "kind": { "type": "carrier-pigeon", "url": "http://a/mcp" },
        "list": [],
        "old": { "type": "sse", "url": "http://a/sse" },
        "open": { "command": "x", "args": ["${NAME"] },
        "unset": { "url": "http://${NOBODY}/mcp" },
        "url": { "url": "a/mcp" },
        "without": { "type": "http", "command": "x" }
    } }"#;
    assert_eq!(
        mistakes(text),
        [
            "2: mcpServers.asks.env.KEY: `${input:…}` means something to another program only; use a variable, ${NAME}",
            "3: mcpServers.both: has `command` and `url`; keep one of them",
            "4: mcpServers.empty: `command` or `url` is missing",
            "5: mcpServers.kind.type: there is no `carrier-pigeon`; there are `stdio` and `http`",
            "6: mcpServers.list: not an object",
            "7: mcpServers.old.type: servers that speak only the old HTTP+SSE are not supported; ask for its streamable HTTP address",
            "8: mcpServers.open.args[0]: there is a `${` without its `}`",
            "9: mcpServers.unset.url: the environment variable `NOBODY` is not set",
            "10: mcpServers.url.url: `a/mcp` is not an address; it should look like https://docs.example.com/mcp",
            "11: mcpServers.without: `url` is missing, and the type is `http`",
        ]
    );
    assert_eq!(mistakes("{}"), ["1: there is no `mcpServers` in it"]);
    assert_eq!(mistakes(r#"{"mcpServers":[]}"#), ["1: mcpServers: not an object"]);
    assert!(mistakes("[mcp]")[0].starts_with("1: not JSON: "));
    let same = r#"{ "mcpServers": { "a.b": { "command": "x" }, "a b": { "command": "x" } } }"#;
    let words = "another name has the same label; rename one of them";
    assert_eq!(mistakes(same), [format!("1: mcpServers.\"a b\": {words}")]);
}

#[test]
fn two_servers_of_one_name_are_a_mistake() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    fs::write(&file, r#"{ "mcpServers": { "a": { "command": "x" } } }"#).unwrap();
    let config = folder.path().join("turnwire.toml");
    fs::write(&config, "[mcp_servers.a]\ncommand = \"y\"").unwrap();
    let environment = [("", ""); 0].into_iter().collect();
    let problem = McpSettings::read(Some(&config), &[file], &environment).unwrap_err();
    let words =
        "mcp.json:1: mcpServers.a: there is a server of that name already; rename one of them";
    assert!(problem.details[0].ends_with(words), "{problem}");
    let missing = [PathBuf::from("/no/such/mcp.json")];
    let problem = McpSettings::read(Some(&config), &missing, &environment).unwrap_err();
    assert!(
        problem.details[0].starts_with("--mcp-config: /no/such/mcp.json cannot be read: "),
        "{problem}"
    );
}
