//! Custom tools and logprobs.

use std::sync::Arc;

use turnwire_contract::{InputFormat, Logprob, ModelPart, ToolKind, ToolSpec};
use turnwire_models::Turn;

use super::{Scenario, undisturbed};
use crate::test_bench::TestBench;

const PATCH: [&str; 2] = ["*** Begin Patch\n+\"quo", "ted\"\n*** End Patch\n"];

fn apply_patch() -> ToolSpec {
    let definition = "start: /.+/".to_owned();
    ToolSpec {
        kind: ToolKind::Custom,
        format: Some(InputFormat::Grammar { syntax: "lark".to_owned(), definition }),
        server: Some("files".to_owned()),
        namespace_description: "Files.".to_owned(),
        ..ToolSpec::new("apply_patch", "Edits files.")
    }
}

fn patching(pieces: &[&str]) -> Turn {
    let call = ModelPart::CallStarted {
        key: 0,
        id: Some("call_p".to_owned()),
        name: "apply_patch".to_owned(),
    };
    pieces.iter().fold(Turn::new().text("Let me see. ").part(call), |turn, piece| {
        turn.part(ModelPart::CallArguments { key: 0, text: (*piece).to_owned() })
    })
}

fn offered(turn: Turn) -> TestBench {
    TestBench::new([turn]).request(|request| request.tools.push(Arc::new(apply_patch())))
}

fn token(token: &str, logprob: f64, top: Vec<Logprob>) -> Logprob {
    Logprob { token: token.to_owned(), logprob, bytes: None, top }
}

pub(super) fn custom() -> Vec<Scenario> {
    let other = || vec![token("Hi", -1.5, Vec::new())];
    let logprobs = Turn::new()
        .part(ModelPart::Logprobs(vec![token("Hel", -0.25, other()), token("lo", -0.5, vec![])]))
        .text("Hello")
        .part(ModelPart::Logprobs(vec![token(".", -0.125, Vec::new())]))
        .text(".");
    vec![
        undisturbed("custom_tool", offered(patching(&PATCH))),
        undisturbed("custom_tool_cut", offered(patching(&PATCH[..1]).length_cut())),
        undisturbed("logprobs", TestBench::new([logprobs])),
    ]
}
