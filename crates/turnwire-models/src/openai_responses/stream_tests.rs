use std::sync::Arc;

use turnwire_contract::{ModelPart, ToolKind, ToolSpec, Usage};

use super::ResponseStream;
use crate::{
    fixtures::{check_all, translate},
    seal::Origin,
};

/// Two tools in namespaces: one offered under its own name, one with a prefix.
fn dialect() -> ResponseStream {
    let tool = |name: &str, space: &str| {
        let (kind, server) = (ToolKind::Custom, Some(space.to_owned()));
        Arc::new(ToolSpec { kind, server, ..ToolSpec::new(name, "") })
    };
    ResponseStream::new(&[tool("exec", "functions"), tool("clock__now", "clock")], Origin::UNKNOWN)
}

/// S2-22: every recorded stream, whole, in pieces, and cut at every byte.
#[test]
fn every_stream_is_understood_however_it_is_cut() {
    check_all("openai_responses", 19, dialect);
}

/// What a provider charged is kept, in billionths.
#[test]
fn a_reported_cost_is_kept() {
    let stream = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\
        \"output\":[],\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":7},\
        \"output_tokens\":1,\"cost\":1.4e-4,\"cost_details\":{\"upstream_inference_cost\":null}}}}\n\n";
    let parts = translate(dialect(), [stream.as_bytes()]);
    let expected = Usage {
        input_tokens: 9,
        cached_tokens: 7,
        output_tokens: 1,
        reasoning_tokens: 0,
        cost_nanos: Some(140_000),
    };
    assert!(parts.contains(&Ok(ModelPart::Usage(expected))), "{parts:?}");
}
