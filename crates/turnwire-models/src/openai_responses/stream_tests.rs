use std::sync::Arc;

use turnwire_contract::{ToolKind, ToolSpec};

use super::ResponseStream;
use crate::fixtures::check_all;

/// Two tools in namespaces: one offered under its own name, one with a prefix.
fn dialect() -> ResponseStream {
    let tool = |name: &str, space: &str| {
        let (kind, server) = (ToolKind::Custom, Some(space.to_owned()));
        Arc::new(ToolSpec { kind, server, ..ToolSpec::new(name, "") })
    };
    ResponseStream::new(&[tool("exec", "functions"), tool("clock__now", "clock")])
}

/// S2-22: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all("openai_responses", 19, dialect);
}
