//! Runs of every shape that a crash could find.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use turnwire_contract::{
    ConversationId, Decision, Effect, Item, Limits, RunRequest, ServerUse, ToolKind,
};
use turnwire_testkit::{Behaviour, FakeServers, FakeTool};

/// A kind of run, and the world outside that it works on. The world outlives every process.
#[derive(Clone)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) request: RunRequest,
    pub(crate) tools: Vec<FakeTool>,
    pub(crate) servers: FakeServers,
    /// What the person says who is asked.
    pub(crate) decision: Decision,
    /// What the last message says when nothing goes wrong.
    pub(crate) answer: &'static str,
    /// Whether a finished run comes first, which this one continues.
    pub(crate) continues: bool,
}

impl Shape {
    fn new(name: &'static str, turns: Value) -> Self {
        let script = json!({ "turns": turns }).to_string();
        Self {
            name,
            request: RunRequest::new("any", vec![Item::user(script)]),
            tools: Vec::new(),
            servers: FakeServers::default(),
            decision: Decision::Approved,
            answer: "done",
            continues: false,
        }
    }

    fn tool(mut self, prop: FakeTool) -> Self {
        self.request.tools.push(Arc::new(turnwire_contract::Tool::spec(&prop).clone()));
        self.tools.push(prop);
        self
    }

    fn with(mut self, change: impl FnOnce(&mut RunRequest)) -> Self {
        change(&mut self.request);
        self
    }
}

fn prop(name: &str, effect: Effect) -> FakeTool {
    FakeTool::new(name, Behaviour::Returns(format!("{name} worked")))
        .with(|spec| spec.effect = effect)
}

fn call(name: &str) -> Value {
    json!({ "name": name, "arguments": { "n": 1 } })
}

/// All of them, each with a world of its own.
pub(crate) fn shapes() -> Vec<Shape> {
    let done = json!({ "text": "done" });
    let one = |tool: &str| json!([{ "calls": [call(tool)] }, done]);
    let asks = |tool: &str| prop(tool, Effect::Once).with(|spec| spec.needs_approval = true);
    vec![
        Shape::new("text", json!([{ "text": ["do", "ne"] }])),
        Shape::new("thoughts", json!([{ "reasoning": ["hm, ", "well"], "text": "done" }])),
        Shape::new("pure tool", one("look")).tool(prop("look", Effect::Pure)),
        Shape::new("idempotent tool", one("set")).tool(prop("set", Effect::Idempotent)),
        Shape::new("tool that acts once", one("pay")).tool(prop("pay", Effect::Once)),
        Shape::new(
            "parallel tools",
            json!([{ "text": "now ", "calls": [call("look"), call("pay"), call("set")] }, done]),
        )
        .tool(prop("look", Effect::Pure))
        .tool(prop("pay", Effect::Once))
        .tool(prop("set", Effect::Idempotent)),
        Shape::new(
            "several turns",
            json!([{ "calls": [call("look")] }, { "calls": [call("set")] }, done]),
        )
        .tool(prop("look", Effect::Pure))
        .tool(prop("set", Effect::Idempotent)),
        Shape::new("allowed by a person", one("pay")).tool(asks("pay")),
        Shape {
            decision: Decision::Denied { reason: "no".to_owned() },
            ..Shape::new("refused by a person", one("pay")).tool(asks("pay"))
        },
        Shape::new("conversation", one("look"))
            .tool(prop("look", Effect::Pure))
            .with(|request| request.conversation_id = Some(ConversationId::from("conv_1"))),
        Shape { continues: true, ..Shape::new("continued run", json!([done])) },
        Shape::new("big result", one("read"))
            .tool(FakeTool::new("read", Behaviour::Returns("big ".repeat(2_000))))
            .with(|request| {
                request.limits = Limits { output_in_journal: 1_000, ..Limits::default() };
            }),
        Shape {
            servers: FakeServers::default().slow(
                "docs",
                Duration::from_millis(1),
                [prop("find", Effect::Pure)],
            ),
            ..Shape::new("tool server", one("find"))
                .with(|request| request.servers = vec![ServerUse::all_of("docs")])
        },
        Shape {
            answer: "",
            ..Shape::new("function of the client", json!([{ "calls": [call("theirs")] }]))
                .tool(prop("theirs", Effect::Once).with(|spec| spec.kind = ToolKind::Client))
        },
        Shape::new("tool that reports", one("work")).tool(FakeTool::new(
            "work",
            // Long enough apart for an append of its own each.
            Behaviour::Reports(2, Duration::from_millis(50), "worked".to_owned()),
        )),
    ]
}
