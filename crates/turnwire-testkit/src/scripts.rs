//! Generates random runs: model output, tool behaviour, and cancels.

use std::{io, sync::Arc, time::Duration};

use proptest::prelude::*;
use serde_json::json;
use turnwire_contract::{CallId, Event, ModelError, ModelPart, RecordedEvent, Tool, Usage};
use turnwire_models::{Scripted, Turn};

use crate::{
    fake_tools::{Behaviour, FakeTool},
    test_bench::{Act, TestBench},
};

/// Number of tools of a random run. The model may also call a tool that does not exist.
pub const N_TOOLS: usize = 8;

#[derive(Debug, Clone)]
pub struct RandomRun {
    /// The model's turns. After the last one it says "Done.".
    pub turns: Vec<RandomTurn>,
    /// The behaviour of the tools.
    pub tools: Vec<RandomTool>,
    /// Whether calls may run in parallel.
    pub parallel: bool,
    /// Commands to the run, and after how many events.
    pub disturbances: Vec<(u64, Disturbance)>,
    /// Maximum number of turns and of calls.
    pub limits: (u32, u32),
    /// Soft limit of the budget. Each turn costs 1.
    pub ask_cost: Option<u64>,
}

/// One answer of the model.
#[derive(Debug, Clone)]
pub struct RandomTurn {
    reasoning: Option<String>,
    text: Vec<String>,
    refusal: Option<String>,
    calls: Vec<RandomCall>,
    pause_before_calls: bool,
    interleaved: bool,
    answer_end: AnswerEnd,
}

/// A call in the model's answer.
#[derive(Debug, Clone)]
pub struct RandomCall {
    tool: usize,
    arguments: Vec<String>,
    id: Option<String>,
}

/// How the model's answer ends.
#[derive(Debug, Clone)]
pub enum AnswerEnd {
    /// Ends normally.
    Well,
    /// Ends at the length limit.
    Length,
    /// Withheld by the provider's content filter.
    Filter,
    /// Ends with an error in the middle.
    Breaks,
    /// Ends without output.
    Silently,
    Never,
    /// Fails before it starts.
    Fails,
}

#[derive(Debug, Clone)]
pub struct RandomTool {
    /// What it does when called.
    pub behaviour: Behaviour,
    beside_others: bool,
    needs_approval: bool,
    may_repeat: bool,
}

/// A command to the run.
#[derive(Debug, Clone)]
pub enum Disturbance {
    CancelRun,
    /// Cancels the latest announced call.
    CancelLastCall,
}

impl RandomRun {
    /// Returns new instances of the tools.
    pub fn props(&self) -> Vec<FakeTool> {
        let prop = |(n, tool): (usize, &RandomTool)| {
            FakeTool::new(&format!("tool_{n}"), tool.behaviour.clone()).with(|spec| {
                spec.parallel = tool.beside_others;
                spec.needs_approval = tool.needs_approval;
                if !tool.may_repeat {
                    spec.effect = turnwire_contract::Effect::Once;
                }
                spec.timeout = Some(Duration::from_secs(20));
            })
        };
        self.tools.iter().enumerate().map(prop).collect()
    }

    pub fn model(&self) -> Scripted {
        let turns = self.turns.iter().map(RandomTurn::script);
        Scripted::new(turns.chain([Turn::new().text("Done.")])).repeat_last()
    }

    /// Returns the run, ready to be executed with these tools.
    pub fn stage(&self, model: Scripted, props: &[FakeTool]) -> TestBench {
        let tools = props.iter().map(|prop| Arc::new(prop.clone()) as Arc<dyn Tool>);
        TestBench::with_model(Arc::new(model))
            .tools(tools)
            .tool_silent_interval(Duration::from_secs(3))
            .request(|request| request.parallel_tool_calls = self.parallel)
            .limits(|limits| {
                (limits.max_turns, limits.max_tool_calls) = self.limits;
                limits.ask_cost_nanos = self.ask_cost;
                limits.wall_clock = Duration::from_mins(10);
            })
    }

    /// Executes the run in simulated time, on a runtime of its own, and returns its journal.
    ///
    /// # Errors
    ///
    /// Fails if there can be no runtime.
    pub fn play(&self) -> io::Result<Vec<Arc<RecordedEvent>>> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build()?;
        let stage = self.stage(self.model(), &self.props());
        Ok(runtime.block_on(stage.play_with(self.director())).journal)
    }

    /// Returns a director that sends the commands and answers every approval, denying every second
    /// one.
    pub fn director(&self) -> impl FnMut(&RecordedEvent) -> Option<Act> {
        let disturbances = self.disturbances.clone();
        let mut last_call: Option<CallId> = None;
        let mut n_asked = 0;
        move |recorded| {
            if let Event::CallAnnounced { call_id, .. } = &recorded.event {
                last_call = Some(call_id.clone());
            }
            if let Event::ApprovalRequested { call_id, .. } = &recorded.event {
                n_asked += 1;
                let decision = match n_asked % 2 {
                    0 => turnwire_contract::Decision::Denied { reason: String::new() },
                    _ => turnwire_contract::Decision::Approved,
                };
                return Some(Act::Resolve(call_id.clone(), decision));
            }
            let now = disturbances.iter().find(|(seq, _)| *seq == recorded.seq.0)?;
            match (&now.1, &last_call) {
                (Disturbance::CancelRun, _) => Some(Act::CancelRun),
                (Disturbance::CancelLastCall, Some(call_id)) => {
                    Some(Act::CancelCall(call_id.clone()))
                }
                (Disturbance::CancelLastCall, None) => None,
            }
        }
    }
}

impl RandomTurn {
    fn script(&self) -> Turn {
        if matches!(self.answer_end, AnswerEnd::Fails) {
            let message = "out of reach".to_owned();
            return Turn::fails(ModelError::Unavailable { message, retry_after: None });
        }
        let mut turn = Turn::new();
        if let Some(reasoning) = &self.reasoning {
            turn = turn.reasoning(reasoning);
        }
        turn = turn.text_in(self.text.clone());
        if let Some(refusal) = &self.refusal {
            turn = turn.refusal(refusal);
        }
        if self.pause_before_calls {
            turn = turn.pause(Duration::from_secs(1));
        }
        for part in self.call_parts() {
            turn = turn.part(part);
        }
        turn = turn.usage(Usage { cost_nanos: Some(1), ..Usage::default() });
        match self.answer_end {
            AnswerEnd::Well | AnswerEnd::Fails => turn,
            AnswerEnd::Length => turn.length_cut(),
            AnswerEnd::Filter => turn.content_filter(),
            AnswerEnd::Breaks => turn.breaks("the line went dead"),
            AnswerEnd::Silently => turn.ends_silently(),
            AnswerEnd::Never => turn.wait_forever(),
        }
    }

    fn call_parts(&self) -> Vec<ModelPart> {
        let keyed = || (0..).zip(&self.calls);
        let start = |(key, call): (u32, &RandomCall)| ModelPart::CallStarted {
            key,
            id: call.id.clone(),
            name: format!("tool_{}", call.tool),
        };
        let arguments = |(key, call): (u32, &RandomCall)| {
            let part = move |text: &String| ModelPart::CallArguments { key, text: text.clone() };
            call.arguments.iter().map(part).collect::<Vec<_>>()
        };
        if self.interleaved {
            return keyed().map(start).chain(keyed().flat_map(arguments)).collect();
        }
        keyed().flat_map(|call| [vec![start(call)], arguments(call)].concat()).collect()
    }
}

/// Returns a strategy for random runs.
pub fn any_run() -> impl Strategy<Value = RandomRun> {
    let disturbance =
        (1_u64..60, prop_oneof![Just(Disturbance::CancelRun), Just(Disturbance::CancelLastCall),]);
    (
        prop::collection::vec(any_turn(), 1..4),
        prop::collection::vec(any_tool(), N_TOOLS),
        any::<bool>(),
        prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(disturbance, 1..3)],
        (1_u32..6, prop_oneof![4 => Just(128_u32), 1 => 1_u32..6]),
        prop::option::weighted(0.3, 1_u64..4),
    )
        .prop_map(|(turns, tools, parallel, disturbances, limits, ask_cost)| RandomRun {
            turns,
            tools,
            parallel,
            disturbances,
            limits,
            ask_cost,
        })
}

fn any_turn() -> impl Strategy<Value = RandomTurn> {
    (
        prop::option::weighted(0.3, "[a-z ]{1,12}"),
        prop::collection::vec("[a-zé ]{1,8}", 0..4),
        prop::option::weighted(0.1, "[a-z]{1,6}"),
        prop_oneof![1 => Just(Vec::new()), 4 => prop::collection::vec(any_call(), 1..=8)],
        any::<bool>(),
        any::<bool>(),
        prop_oneof![
            12 => Just(AnswerEnd::Well),
            1 => Just(AnswerEnd::Length),
            1 => Just(AnswerEnd::Filter),
            1 => Just(AnswerEnd::Breaks),
            1 => Just(AnswerEnd::Silently),
            1 => Just(AnswerEnd::Never),
            2 => Just(AnswerEnd::Fails),
        ],
    )
        .prop_map(
            |(reasoning, text, refusal, calls, pause_before_calls, interleaved, answer_end)| {
                RandomTurn {
                    reasoning,
                    text,
                    refusal,
                    calls,
                    pause_before_calls,
                    interleaved,
                    answer_end,
                }
            },
        )
}

fn any_call() -> impl Strategy<Value = RandomCall> {
    let good = (0..9_u8).prop_map(|n| {
        let text = json!({ "n": n }).to_string();
        let (first, rest) = text.split_at(text.len() / 2);
        vec![first.to_owned(), rest.to_owned()]
    });
    let arguments = prop_oneof![
        8 => good,
        1 => Just(Vec::new()),
        1 => Just(vec!["{\"n\": ".to_owned()]),
        1 => Just(vec!["[1]".to_owned()]),
    ];
    // Ids repeat now and then, as those of some providers do.
    let id = prop::option::weighted(0.7, "call_[a-c]");
    (0..=N_TOOLS, arguments, id).prop_map(|(tool, arguments, id)| RandomCall {
        tool,
        arguments,
        id,
    })
}

fn any_tool() -> impl Strategy<Value = RandomTool> {
    let time = prop_oneof![
        3 => (1_u64..2_000).prop_map(Duration::from_millis),
        1 => (10_u64..40).prop_map(Duration::from_secs),
    ];
    let behaviour = prop_oneof![
        3 => "[a-z]{0,6}".prop_map(Behaviour::Returns),
        3 => (time.clone(), "[a-z]{0,6}").prop_map(|(time, text)| Behaviour::Takes(time, text)),
        1 => "[a-z]{1,6}".prop_map(Behaviour::Fails),
        1 => (time.clone(), "[a-z]{1,6}").prop_map(|(t, text)| Behaviour::FailsAfter(t, text)),
        1 => (1_u32..4).prop_map(|n| Behaviour::FailsAtFirst(n, "at last".to_owned())),
        1 => Just(Behaviour::Panics),
        1 => Just(Behaviour::Hangs),
        1 => Just(Behaviour::WaitsToBeStopped),
        1 => (1_u32..4, time).prop_map(|(n, t)| Behaviour::Reports(n, t, "reported".to_owned())),
    ];
    (behaviour, prop::bool::weighted(0.8), prop::bool::weighted(0.1), any::<bool>()).prop_map(
        |(behaviour, beside_others, needs_approval, may_repeat)| RandomTool {
            behaviour,
            beside_others,
            needs_approval,
            may_repeat,
        },
    )
}
