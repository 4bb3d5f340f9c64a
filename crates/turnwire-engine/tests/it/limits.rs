//! How far a run may go. A14: an endless model stops at the bound, with the reason.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use turnwire_contract::{Event, IncompleteReason, Item, RunOutcome, ToolOutcome};
use turnwire_engine::RunState;
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool, TestBench};

use crate::{calls, outcome_of, returns};

fn incomplete(reason: IncompleteReason) -> RunOutcome {
    RunOutcome::Incomplete { reason }
}

fn call(n: u32) -> Turn {
    Turn::new().call("t", json!({ "n": n }))
}

/// A14, L13: the reason is the limit that was hit, not another.
#[tokio::test(start_paused = true)]
async fn turns_are_limited() {
    let model = Scripted::new((1..9).map(call));
    let played = TestBench::with_model(Arc::new(model.clone()))
        .tool(returns("t", "x"))
        .limits(|limits| limits.max_turns = 3)
        .play()
        .await;
    assert_eq!(played.outcome, incomplete(IncompleteReason::MaxTurns));
    assert_eq!(model.prompts().len(), 3);
    // The last turn is an answer in time.
    let model = Scripted::new([call(1), Turn::new().text("done")]);
    let played = TestBench::with_model(Arc::new(model))
        .tool(returns("t", "x"))
        .limits(|limits| limits.max_turns = 2)
        .play()
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// A14: as many calls as allowed, the rest are skipped and said to be.
#[tokio::test(start_paused = true)]
async fn tool_calls_are_limited() {
    let tool = returns("t", "x");
    let played = TestBench::new([calls(&["t", "t", "t", "t"]), Turn::new().text("ok")])
        .tool(tool.clone())
        .limits(|limits| limits.max_tool_calls = 3)
        .play()
        .await;
    assert_eq!(played.outcome, incomplete(IncompleteReason::MaxToolCalls));
    assert_eq!(tool.n_calls(), 3);
    let reason = "the run has used up its tool calls".to_owned();
    assert_eq!(*outcome_of(&played, "call_4"), ToolOutcome::Skipped { reason });
    // Exactly as many as allowed is allowed.
    let played = TestBench::new([calls(&["t", "t", "t"]), Turn::new().text("ok")])
        .tool(returns("t", "x"))
        .limits(|limits| limits.max_tool_calls = 3)
        .play()
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// A14, A19: an answer of twenty thousand calls is cut, so that skipping them takes no time.
#[tokio::test(start_paused = true)]
async fn calls_of_one_turn_are_limited() {
    let many = (0..20_000).fold(Turn::new(), |turn, n| turn.call("unknown", json!({ "n": n })));
    let played = TestBench::new([many]).limits(|limits| limits.max_tool_calls = 3).play().await;
    let is_call = |event: &&Event| matches!(event, Event::CallAnnounced { .. });
    assert_eq!(played.events().filter(is_call).count(), 24);
    assert_eq!(played.outcome, incomplete(IncompleteReason::MaxToolCalls));
}

/// A14, L35: the same calls with the same results lead nowhere.
#[tokio::test(start_paused = true)]
async fn a_run_that_goes_in_circles_stops() {
    let model = Scripted::new([call(7)]).repeat_last();
    let played =
        TestBench::with_model(Arc::new(model.clone())).tool(returns("t", "x")).play().await;
    assert_eq!(played.outcome, incomplete(IncompleteReason::RepeatedCall));
    assert_eq!(model.prompts().len(), 3);
}

/// Asking again is fine as long as it brings news, or is not the same question.
#[tokio::test(start_paused = true)]
async fn a_run_that_gets_somewhere_does_not_stop() {
    let turns = || [call(1), call(2), call(1), call(2), Turn::new().text("ok")];
    let played = TestBench::new(turns()).tool(returns("t", "x")).play().await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    let same = [call(1), call(1), call(1), call(1), Turn::new().text("ok")];
    let flaky = FakeTool::new("t", Behaviour::FailsAtFirst(3, "x".into()));
    let played = TestBench::new(same)
        .tool(flaky)
        .limits(|limits| (limits.call_attempts, limits.max_repeats) = (1, 4))
        .play()
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// A limit that never comes is no limit, and an interval of zero reports nothing.
#[tokio::test(start_paused = true)]
async fn endless_limits_and_no_reports_of_silence_are_allowed() {
    let slow = FakeTool::new("t", Behaviour::Takes(Duration::from_secs(3), "x".into()))
        .with(|spec| spec.timeout = Some(Duration::MAX));
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(slow)
        .tool_silent_interval(Duration::ZERO)
        .limits(|limits| {
            limits.wall_clock = Duration::MAX;
            limits.call_total = Duration::MAX;
            limits.model_total = Duration::MAX;
            limits.model_silence = Duration::MAX;
        })
        .play()
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    let beats = played.events().filter(|event| matches!(event, Event::ToolStayedSilent { .. }));
    assert_eq!(beats.count(), 0);
}

/// A picture that changes is news (L44).
#[tokio::test(start_paused = true)]
async fn a_new_picture_is_news() {
    struct Camera(turnwire_contract::ToolSpec, std::sync::atomic::AtomicU32);
    #[async_trait::async_trait]
    impl turnwire_contract::Tool for Camera {
        fn spec(&self) -> &turnwire_contract::ToolSpec {
            &self.0
        }
        async fn call(
            &self,
            _: turnwire_contract::ToolRequest,
            _: turnwire_contract::ToolContext,
        ) -> Result<turnwire_contract::ToolOutput, turnwire_contract::ToolError> {
            let n = self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let (media_type, base64) = ("image/png".to_owned(), format!("{n:04}"));
            let images = vec![turnwire_contract::Image { media_type, base64 }];
            Ok(turnwire_contract::ToolOutput { images, ..Default::default() })
        }
    }
    let camera = Camera(turnwire_contract::ToolSpec::new("t", ""), 0.into());
    let turns = [call(1), call(1), call(1), call(1), Turn::new().text("ok")];
    let played = TestBench::new(turns).tool(camera).play().await;
    assert_eq!(played.outcome, RunOutcome::Completed);
}

/// The run's whole time, whatever it is doing.
#[tokio::test(start_paused = true)]
async fn the_wall_clock_is_limited() {
    for turn in [Turn::new().text("Well").wait_forever(), calls(&["hang"])] {
        let played = TestBench::new([turn])
            .tool(FakeTool::new("hang", Behaviour::Hangs))
            .limits(|limits| limits.wall_clock = Duration::from_secs(20))
            .play()
            .await;
        assert_eq!(played.outcome, incomplete(IncompleteReason::TimeLimit));
        let took = played.journal.last().unwrap().at.since(played.journal[0].at);
        assert!(took >= Duration::from_secs(20) && took < Duration::from_secs(21), "{took:?}");
    }
}

/// R18, S1-D: a cut answer ends the run as incomplete; cut calls are shown, not executed.
#[tokio::test(start_paused = true)]
async fn a_cut_answer_ends_the_run_and_executes_nothing() {
    let tool = returns("t", "x");
    let cases = [
        (
            Turn::new().text("a").call_raw("t", ["{}"]).length_cut(),
            IncompleteReason::MaxOutputTokens,
        ),
        (
            Turn::new().text("a").call_raw("t", ["{}"]).content_filter(),
            IncompleteReason::ContentFilter,
        ),
    ];
    for (turn, reason) in cases {
        let played = TestBench::new([turn]).tool(tool.clone()).play().await;
        assert_eq!(played.outcome, incomplete(reason));
        assert_eq!(tool.n_calls(), 0);
        let skipped = played.events().any(|event| {
            matches!(event, Event::ToolFinished { outcome: ToolOutcome::Skipped { reason }, .. }
                if reason == "the model's answer was cut off")
        });
        assert!(skipped);
        let cut = played.events().any(|event| {
            matches!(
                event,
                Event::ArgumentsFinished { completeness: turnwire_contract::Completeness::Cut, .. }
            )
        });
        assert!(cut);
        // I14: the words stay, the cut call does not.
        let Some(Event::RunQueued { request }) = played.events().next() else { panic!() };
        let mut state = RunState::new(played.run.id(), Arc::clone(request), Vec::new());
        played.events().for_each(|event| state.apply(event));
        let added: Vec<Item> = state.added().iter().map(|e| Item::clone(&e.item)).collect();
        assert_eq!(added, [Item::user("Go."), Item::assistant("a")]);
    }
}
