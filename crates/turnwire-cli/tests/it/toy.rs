//! A tool server that the binary can start.

use std::{fs::File, path::PathBuf, process::Command};

use crate::world::{Watched, World};

/// An MCP server with one tool. It writes down what it finds in its environment. When its input
/// ends it says goodbye after a moment, and stays.
const TOY: &str = r#"
exec 3>alive
printf '%s|%s' "$TOKEN" "$OTHER" >environment
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*) what='"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"toy","version":"1"}}' ;;
    *'"method":"tools/list"'*) what='"result":{"tools":[{"name":"greet","inputSchema":{"type":"object"}}]}' ;;
    *'"id":'*) what='"error":{"code":-32601,"message":"no such method"}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$what"
done
sleep 0.05; printf goodbye >&3
exec sleep 3600
"#;

/// The server in a folder, as `toy.sh`.
pub(crate) struct Toy {
    alive: PathBuf,
}

impl Toy {
    pub(crate) fn new(world: &World) -> Self {
        std::fs::write(world.path().join("toy.sh"), TOY).unwrap();
        let alive = world.path().join("alive");
        assert!(Command::new("mkfifo").arg(&alive).status().unwrap().success());
        Self { alive }
    }

    /// Waits until it was started, and watches what it says until it and all it has started are
    /// gone. It does nothing before it is watched.
    pub(crate) fn watch(&self) -> Watched {
        Watched::new(File::open(&self.alive).unwrap())
    }
}

/// Where the programs are that the toy server needs.
pub(crate) fn path() -> String {
    std::env::vars().find(|(name, _)| name == "PATH").expect("a PATH").1
}
