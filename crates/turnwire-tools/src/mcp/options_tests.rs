use super::{McpServerOptions, McpTransport};

/// A12: keys are never logged.
#[test]
fn no_key_is_printed() {
    let mut program = McpServerOptions::stdio("server", ["--quiet"]);
    let McpTransport::Stdio { env, .. } = &mut program.transport else { panic!("it is a program") };
    env.insert("API_KEY".to_owned(), "canary-one".to_owned());
    let mut address = McpServerOptions::http("https://mcp.example/mcp");
    let McpTransport::Http { bearer_token, headers, .. } = &mut address.transport else {
        panic!("it is an address")
    };
    *bearer_token = Some("canary-two".into());
    headers.insert("x-key".to_owned(), "canary-three".to_owned());

    let shown = format!("{program:?} {address:?}");
    assert!(!shown.contains("canary"), "{shown}");
    for name in ["server", "--quiet", "API_KEY", "mcp.example", "***", "x-key"] {
        assert!(shown.contains(name), "{name} is missing in {shown}");
    }
}
