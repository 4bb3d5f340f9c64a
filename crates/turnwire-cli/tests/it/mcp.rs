//! `turnwire mcp`: which servers there are, whether they answer, and what they can do.

use serde_json::{Value, json};

use crate::{
    toy::{Toy, path},
    world::World,
};

const TOY: &str = "[mcp_servers.toy]\ncommand = \"sh\"\nargs = [\"toy.sh\"]\n";

/// A server that is listed is started, asked and ended; what cannot be reached is said.
#[test]
fn servers_are_listed_with_their_tools() {
    let file =
        format!("{TOY}require_approval = \"always\"\ntools.greet = {{ effect = \"pure\" }}\n");
    let world = World::new().with_file("turnwire.toml", &file).with("PATH", &path());
    let toy = Toy::new(&world);
    let running = world.start(&["mcp", "list", "--json"]);
    let mut alive = toy.watch();
    let done = running.finish();
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    assert_eq!(alive.all(), "goodbye");
    let mut listed: Value = serde_json::from_str(&done.stdout).unwrap();
    assert!(listed[0]["took_ms"].take().is_u64());
    assert_eq!(
        listed,
        json!([{
            "name": "toy",
            "transport": { "type": "stdio", "command": "sh" },
            "took_ms": null,
            "tools": [{
                "name": "greet", "description": "", "effect": "pure", "needs_approval": true,
                "parameters": { "type": "object" },
            }],
        }])
    );
}

#[test]
fn a_server_that_does_not_answer_is_1_and_says_why() {
    let file = "[mcp_servers.gone]\ncommand = \"no-such-program\"\n\
                [mcp_servers.far]\nurl = \"http://127.0.0.1:1/mcp?key=s3cret\"\n";
    let world = World::new().with_file("turnwire.toml", file).with("PATH", &path());
    let done = world.run(&["mcp", "list"]);
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let lines: Vec<&str> = done.stdout.lines().collect();
    assert!(lines[0].starts_with("far  failed  http://127.0.0.1:1/mcp  "), "{}", done.stdout);
    assert!(lines[1].contains("the tool server `far` is not available: "), "{}", done.stdout);
    assert!(lines[2].starts_with("gone  failed  no-such-program  "), "{}", done.stdout);
    assert!(!done.stdout.contains("s3cret"));
}

/// A8: the files of other programs, named in the settings or on the command line.
#[test]
fn servers_of_other_programs_are_found() {
    let servers = json!({ "mcpServers": { "my toy": { "command": "sh", "args": ["toy.sh"] } } });
    let world = World::new().with_file("mcp.json", &servers.to_string()).with("PATH", &path());
    let toy = Toy::new(&world);
    let running = world.start(&["mcp", "test", "my_toy", "--mcp-config", "mcp.json"]);
    let mut alive = toy.watch();
    let done = running.finish();
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{}", done.stdout);
    assert!(done.stdout.starts_with("my_toy  ok  sh  "), "{}", done.stdout);
    assert!(done.stdout.contains("\n  greet  once        asks nobody"), "{}", done.stdout);
    assert_eq!(alive.all(), "goodbye");
}

/// A call is made, and what came of it is told: the toy knows no calls.
#[test]
fn a_tool_can_be_called() {
    let world = World::new().with_file("turnwire.toml", TOY).with("PATH", &path());
    let toy = Toy::new(&world);
    let call = ["mcp", "test", "toy", "--call", "greet", "--args", "{\"who\": \"me\"}", "--json"];
    let running = world.start(&call);
    let mut alive = toy.watch();
    let done = running.finish();
    assert_eq!(done.code, Some(1), "{}", done.stderr);
    let tested: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(
        (&tested["call"]["tool"], &tested["call"]["success"]),
        (&json!("greet"), &json!(false))
    );
    let problem = tested["call"]["problem"].as_str().unwrap();
    assert!(problem.contains("no such method"), "{problem}");
    assert_eq!(alive.all(), "goodbye");
}

#[test]
fn wrong_usage_is_2() {
    let world = World::new().with_file("turnwire.toml", TOY).with("PATH", &path());
    let problem = |arguments: &[&str], expected: &str| {
        let done = world.run(arguments);
        assert_eq!((done.code, done.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(done.stderr.contains(expected), "no `{expected}` in:\n{}", done.stderr);
    };
    problem(
        &["mcp", "test", "toi"],
        "there is no MCP server `toi` in the settings\nhint: did you mean `toy`?",
    );
    problem(&["mcp", "test", "toy", "--call", "greet", "--args", "3"], "--args: not a JSON object");
    problem(&["mcp", "test", "toy", "--args", "{}"], "--call <TOOL>");
    problem(&["mcp", "list", "--mcp-config", "none.json"], "none.json cannot be read: ");
    let done = World::new().run(&["mcp", "list"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""));
    assert!(done.stderr.contains("no MCP server is configured"), "{}", done.stderr);
}
