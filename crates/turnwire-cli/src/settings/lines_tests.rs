use super::Places;

fn line_of(text: &str, path: &str) -> Option<usize> {
    Places::of(text).line_of(path)
}

const TEXT: &str = r#"# the team's server
[server]
listen = "127.0.0.1:1"
hosts = [
    "a",
    "b",
]

[models."gpt.5"]
kind = "chat_completions"

[mcp_servers.docs]
url = "https://docs"
tools.search = { effect = "pure" }

[[mcp.on_request]]
url = "https://one"

[[mcp.on_request]]
url = "https://two"
tenants = ["default"]
"#;

#[test]
fn a_setting_has_its_line_and_a_missing_one_that_of_its_table() {
    let lines = [
        ("server", 2),
        ("server.listen", 3),
        ("server.lsten", 2),
        ("server.hosts", 4),
        ("server.hosts[1]", 6),
        ("server.hosts[7]", 4),
        ("models.\"gpt.5\".kind", 10),
        ("models.\"gpt.5\".model", 9),
        ("mcp_servers.docs.tools.search", 14),
        ("mcp_servers.docs.tools.search.effect", 14),
        ("mcp_servers.docs.command", 12),
        ("mcp.on_request[1].tenants", 21),
        ("mcp.on_request[1].tenants[0]", 21),
    ];
    for (path, line) in lines {
        assert_eq!(line_of(TEXT, path), Some(line), "{path}");
    }
    for path in ["", "serve", "servers", "models.gpt", "OPENAI_BASE_URL", "mcp.json"] {
        let line = line_of(TEXT, path);
        assert!(line.is_none() || path.starts_with('m'), "{path}: {line:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_has_no_lines_and_does_no_harm() {
    assert_eq!(line_of("[server\nlisten = ", "models"), None);
}
