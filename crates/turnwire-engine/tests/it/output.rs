//! How much a model and a tool may say. C29, A14: beyond the limit there is a clear end, and
//! nothing that was cut is ever carried out (R18).

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::json;
use turnwire_contract::{
    Completeness, Event, Finish, IncompleteReason, Item, ModelPart, RunOutcome, Tool, ToolContext,
    ToolError, ToolKind, ToolOutcome, ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Played, TestBench};

use crate::{outcome_of, returns};

fn incomplete() -> RunOutcome {
    RunOutcome::Incomplete { reason: IncompleteReason::MaxOutputBytes }
}

/// What the model said, as far as it was recorded.
fn said(played: &Played) -> String {
    let texts = played.events().filter_map(|event| match event {
        Event::TextAdded { text, .. }
        | Event::ReasoningAdded { text, .. }
        | Event::RefusalAdded { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// C29: an answer of exactly as many bytes as allowed is one; a byte more is cut, and said to be.
#[tokio::test(start_paused = true)]
async fn an_answer_has_a_limit() {
    let answers = |n_bytes: usize| {
        let turn = Turn::new().text_in(["x".repeat(60), "y".repeat(n_bytes - 60)]);
        TestBench::new([turn]).limits(|limits| limits.max_turn_output = 100)
    };
    let played = answers(100).play().await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    assert_eq!(said(&played).len(), 100);
    let played = answers(101).play().await;
    assert_eq!(played.outcome, incomplete());
    assert_eq!(said(&played), "x".repeat(60) + &"y".repeat(40));
    let cut = played.events().find_map(|event| match event {
        Event::MessageFinished { text, completeness, .. } => Some((text.len(), *completeness)),
        _ => None,
    });
    assert_eq!(cut, Some((100, Completeness::Cut)));
}

/// C29: whatever the model sends counts, and no character is torn.
#[tokio::test(start_paused = true)]
async fn all_that_a_model_sends_counts() {
    let turns = [
        Turn::new().reasoning("x".repeat(101)),
        Turn::new().refusal("x".repeat(101)),
        Turn::new().text("ä".repeat(51)),
        Turn::new().part(ModelPart::EncryptedContent("s".repeat(101))),
        Turn::new().call_raw("t", ["x".repeat(101)]),
        (0..100).fold(Turn::new(), |turn, _| turn.call("t", json!({}))),
    ];
    for turn in turns {
        let tool = returns("t", "x");
        let played = TestBench::new([turn.text("and more")])
            .tool(tool.clone())
            .limits(|limits| limits.max_turn_output = 99)
            .play()
            .await;
        assert_eq!(played.outcome, incomplete());
        assert_eq!(tool.n_calls(), 0, "R18: nothing of an answer that was cut is carried out");
        assert!(!said(&played).contains("and more"));
    }
    let played = TestBench::new([Turn::new().text("ä".repeat(51))])
        .limits(|limits| limits.max_turn_output = 99)
        .play()
        .await;
    assert_eq!(said(&played), "ä".repeat(49));
}

/// C29: all answers of a run together have a limit too; one that its provider cut has its own
/// reason.
#[tokio::test(start_paused = true)]
async fn a_run_has_a_limit() {
    let talk = |n: u32| Turn::new().text("x".repeat(1_000)).call("t", json!({ "n": n }));
    let model = Scripted::new((0..20).map(talk));
    let played = TestBench::with_model(Arc::new(model.clone()))
        .tool(returns("t", "x"))
        .limits(|limits| limits.max_run_output = 4_500)
        .play()
        .await;
    assert_eq!(played.outcome, incomplete());
    assert!((3..=4).contains(&model.prompts().len()), "{}", model.prompts().len());
    assert!(said(&played).len() <= 4_500);

    let played = TestBench::new([Turn::new().text("x".repeat(1_000)).length_cut()]).play().await;
    let reason = IncompleteReason::MaxOutputTokens;
    assert_eq!(played.outcome, RunOutcome::Incomplete { reason });
}

/// R18, C29: arguments of exactly as many bytes as allowed are carried out; with one more they are
/// cut, the tool is not called, the model is told, and the run goes on.
#[tokio::test(start_paused = true)]
async fn arguments_that_are_too_long_are_never_carried_out() {
    let arguments = |n_bytes: usize| {
        let text = format!(r#"{{"a":"{}"}}"#, "x".repeat(n_bytes - 8));
        assert_eq!(text.len(), n_bytes);
        text.as_bytes().chunks(7).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
    };
    let play = async |arguments: Vec<String>, kind| {
        let model = Scripted::new([
            Turn::new().call_raw("t", arguments).call("other", json!({})),
            Turn::new().text("ok"),
        ]);
        let (tool, other) =
            (returns("t", "x").with(|spec| spec.kind = kind), returns("other", "y"));
        let played = TestBench::with_model(Arc::new(model.clone()))
            .tool(tool.clone())
            .tool(other.clone())
            .limits(|limits| limits.max_arguments = 4_000)
            .play()
            .await;
        (played, tool.n_calls(), other.n_calls(), model.prompts())
    };
    let (played, n_calls, _, _) = play(arguments(4_000), ToolKind::Function).await;
    assert_eq!((played.outcome, n_calls), (RunOutcome::Completed, 1));

    for kind in [ToolKind::Function, ToolKind::Client] {
        let (played, n_calls, n_others, prompts) = play(arguments(4_001), kind).await;
        assert_eq!((n_calls, n_others), (0, 1), "{kind:?}");
        assert_eq!(played.outcome, RunOutcome::Completed);
        let message = "they exceed the limit of 4000 bytes".to_owned();
        assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::InvalidArguments { message });
        let finished = played.events().find_map(|event| match event {
            Event::ArgumentsFinished { arguments, completeness, .. } => {
                Some((arguments.len(), *completeness))
            }
            _ => None,
        });
        assert_eq!(finished, Some((4_000, Completeness::Cut)));
        let told: Vec<&Item> = prompts[1].items.iter().map(AsRef::as_ref).collect();
        let is_told = |item: &&Item| match item {
            Item::CallResult { output, failed, .. } => *failed && output.contains("4000 bytes"),
            _ => false,
        };
        assert_eq!(told.iter().filter(|item| is_told(item)).count(), 1, "{told:#?}");
        let call = told.iter().find_map(|item| match item {
            Item::Call { name, arguments, .. } if name == "t" => Some(arguments),
            _ => None,
        });
        let call: serde_json::Value = serde_json::from_str(call.unwrap()).expect("legal JSON");
        assert!(call["invalid_arguments"].as_str().unwrap().len() <= 1_024);
        let finish = played.events().find_map(|event| match event {
            Event::TurnFinished { finish, .. } => Some(*finish),
            _ => None,
        });
        assert_eq!(finish, Some(Finish::CalledTools));
    }
}

/// R18: nobody is asked about half a call.
#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_half_a_call() {
    let tool = returns("t", "x").with(|spec| spec.needs_approval = true);
    let long = Turn::new().call("t", json!({ "a": "x".repeat(4_000) }));
    let played = TestBench::new([long, Turn::new().text("ok")])
        .tool(tool.clone())
        .limits(|limits| limits.max_arguments = 4_000)
        .play()
        .await;
    assert_eq!((played.outcome, tool.n_calls()), (RunOutcome::Completed, 0));
    assert!(
        !played
            .journal
            .iter()
            .any(|recorded| { matches!(recorded.event, Event::ApprovalRequested { .. }) })
    );
}

/// A tool that talks a lot while it works.
struct Chatterbox(ToolSpec);

#[async_trait]
impl Tool for Chatterbox {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: ToolRequest, context: ToolContext) -> Result<ToolOutput, ToolError> {
        for n in 0..200_u32 {
            context.output("x".repeat(50)).await;
            context.progress(f64::from(n), None).await;
        }
        Ok(ToolOutput::text("all of it"))
    }
}

/// C29: what a tool tells while it works is kept up to the limit, and then it is said that it is
/// not. What it returns is there in any case.
#[tokio::test(start_paused = true)]
async fn a_tool_that_talks_without_end_does_not_fill_the_journal() {
    let play = async |limit: usize| {
        TestBench::new([Turn::new().call("t", json!({})), Turn::new().text("ok")])
            .tool(Chatterbox(ToolSpec::new("t", "Talks.")))
            .limits(|limits| limits.output_in_journal = limit)
            .play()
            .await
    };
    let shown = |played: &Played| {
        let texts = played.events().filter_map(|event| match event {
            Event::ToolOutputAdded { text, .. } => Some(text.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>()
    };
    let played = play(1_000_000).await;
    assert_eq!(shown(&played).len(), 200);
    let played = play(1_000).await;
    let shown = shown(&played);
    assert!((3..12).contains(&shown.len()), "{shown:#?}");
    assert_eq!(shown.iter().filter(|text| text.contains("not shown")).count(), 1);
    let n_events = played.journal.len();
    assert!(n_events < 60, "{n_events}");
    assert!(outcome_of(&played, "call_1").is_success());
}
