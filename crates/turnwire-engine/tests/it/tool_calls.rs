//! One tool call, wrapped in its life cycle.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use turnwire_contract::{
    Event, Seq, TenantId, Tool, ToolContext, ToolError, ToolOutcome, ToolOutput, ToolRequest,
    ToolSpec,
};
use turnwire_engine::Runs;
use turnwire_models::Turn;
use turnwire_testkit::{Act, Behaviour, FakeTool, TestBench};

use crate::{calls, kinds, outcome_of, returns};

/// I3, S0-1: the start is durable before the tool does anything. The tool looks for itself.
#[tokio::test(start_paused = true)]
async fn the_start_is_in_the_journal_before_the_tool_works() {
    struct Looks {
        spec: ToolSpec,
        runs: Arc<OnceCell<Runs>>,
    }

    #[async_trait]
    impl Tool for Looks {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }

        async fn call(
            &self,
            _: ToolRequest,
            context: ToolContext,
        ) -> Result<ToolOutput, ToolError> {
            let runs = self.runs.get().unwrap();
            let mut events =
                runs.follow(&TenantId::default(), &context.run_id, Seq::START).await.unwrap();
            let mut found = false;
            while let Some(Some(Ok(recorded))) = events.next().now_or_never() {
                found |= matches!(&recorded.event,
                    Event::ToolStarted { call_id, .. } if *call_id == context.call_id);
            }
            Ok(ToolOutput::text(if found { "found" } else { "missing" }))
        }
    }

    let cell = Arc::new(OnceCell::new());
    let looks = Looks { spec: ToolSpec::new("looks", ""), runs: Arc::clone(&cell) };
    let (runs, request) =
        TestBench::new([calls(&["looks"]), Turn::new().text("ok")]).tool(looks).set_up();
    cell.set(runs.clone()).unwrap();
    let journal = runs.start(request).await.unwrap().journal().await.unwrap();
    let found = journal.iter().any(|recorded| matches!(&recorded.event,
        Event::ToolFinished { outcome: ToolOutcome::Succeeded { output }, .. } if output.text == "found"));
    assert!(found, "{journal:#?}");
}

/// S1-E1, lesson 12: each end is recorded when it comes, not when the slowest is done.
#[tokio::test(start_paused = true)]
async fn parallel_tools_run_at_the_same_time_and_end_one_by_one() {
    let after = |name: &str, seconds| {
        FakeTool::new(name, Behaviour::Takes(Duration::from_secs(seconds), name.to_owned()))
    };
    let played = TestBench::new([calls(&["slow", "quick"]), Turn::new().text("ok")])
        .tool(after("slow", 4))
        .tool(after("quick", 1))
        .play()
        .await;
    let ends: Vec<(String, u64)> = played
        .events()
        .filter_map(|event| match event {
            Event::ToolFinished { call_id, duration_ms, .. } => {
                Some((call_id.to_string(), *duration_ms))
            }
            _ => None,
        })
        .collect();
    assert_eq!(ends, [("call_2".to_owned(), 1000), ("call_1".to_owned(), 4000)]);
    let start = |n: usize| played.journal[n].at;
    assert_eq!(played.journal.last().unwrap().at.since(start(0)), Duration::from_secs(4));
}

/// S0-11, S1-E2: one at a time, in order.
#[tokio::test(start_paused = true)]
async fn calls_run_in_order_when_parallel_calls_are_off() {
    let played = TestBench::new([calls(&["a", "b"]), Turn::new().text("ok")])
        .tool(FakeTool::new("a", Behaviour::Takes(Duration::from_secs(1), "a".into())))
        .tool(returns("b", "b"))
        .request(|request| request.parallel_tool_calls = false)
        .play()
        .await;
    let order: Vec<String> =
        kinds(&played.journal).into_iter().filter(|kind| kind.starts_with("tool_")).collect();
    assert_eq!(order, ["tool_started", "tool_finished", "tool_started", "tool_finished"]);
}

/// A tool that may not run beside others runs alone, and the safe ones before it together.
#[tokio::test(start_paused = true)]
async fn an_unsafe_tool_runs_alone() {
    let second = Duration::from_secs(1);
    let takes = |name: &str| FakeTool::new(name, Behaviour::Takes(second, name.to_owned()));
    let played = TestBench::new([calls(&["a", "b", "alone", "c"]), Turn::new().text("ok")])
        .tool(takes("a"))
        .tool(takes("b"))
        .tool(takes("c"))
        .tool(takes("alone").with(|spec| spec.parallel = false))
        .play()
        .await;
    let mut running = 0;
    let most: Vec<i32> = played
        .events()
        .filter_map(|event| match event {
            Event::ToolStarted { .. } => {
                running += 1;
                Some(running)
            }
            Event::ToolFinished { .. } => {
                running -= 1;
                None
            }
            _ => None,
        })
        .collect();
    assert_eq!(most, [1, 2, 1, 1]);
}

/// Limit: no more than so many side by side.
#[tokio::test(start_paused = true)]
async fn no_more_calls_run_at_once_than_allowed() {
    let slow = FakeTool::new("t", Behaviour::Takes(Duration::from_secs(1), "t".into()));
    let played = TestBench::new([calls(&["t"; 5]), Turn::new().text("ok")])
        .tool(slow)
        .limits(|limits| limits.max_parallel_calls = 2)
        .play()
        .await;
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::from_secs(3));
}

/// S4-9: a silent tool is said to be still at work; a tool that reports is not.
#[tokio::test(start_paused = true)]
async fn a_silent_tool_is_reported() {
    let silent = FakeTool::new("silent", Behaviour::Takes(Duration::from_millis(3500), "x".into()));
    let chatty =
        FakeTool::new("chatty", Behaviour::Reports(4, Duration::from_millis(900), "y".into()));
    let played = TestBench::new([calls(&["silent", "chatty"]), Turn::new().text("ok")])
        .tool(silent)
        .tool(chatty)
        .tool_silent_interval(Duration::from_secs(1))
        .play()
        .await;
    let beats: Vec<(String, u64)> = played
        .events()
        .filter_map(|event| match event {
            Event::ToolStayedSilent { call_id, elapsed_ms } => {
                Some((call_id.to_string(), *elapsed_ms))
            }
            _ => None,
        })
        .collect();
    let expected = [1000, 2000, 3000].map(|ms| ("call_1".to_owned(), ms));
    assert_eq!(beats, expected);
}

/// What a tool reports is recorded in its order, also what it says last.
#[tokio::test(start_paused = true)]
async fn everything_a_tool_reports_is_recorded() {
    let chatty = FakeTool::new("t", Behaviour::Reports(2, Duration::ZERO, "done".into()));
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(chatty).play().await;
    let reports: Vec<Value> = played
        .journal
        .iter()
        .map(|recorded| serde_json::to_value(&recorded.event).unwrap())
        .skip_while(|event| event["type"] != "tool_started")
        .take_while(|event| event["type"] != "turn_started")
        .collect();
    let call = "call_1";
    assert_eq!(
        reports,
        [
            json!({"type":"tool_started","call_id":call,"attempt":1}),
            json!({"type":"tool_phase","call_id":call,"phase":"working"}),
            json!({"type":"tool_progressed","call_id":call,"progress":1.0,"total":2.0,"message":"step 1"}),
            json!({"type":"tool_output_added","call_id":call,"text":"line 1\n"}),
            json!({"type":"tool_progressed","call_id":call,"progress":2.0,"total":2.0,"message":"step 2"}),
            json!({"type":"tool_output_added","call_id":call,"text":"line 2\n"}),
            json!({"type":"tool_finished","call_id":call,"outcome":{"status":"succeeded","output":{"text":"done"}},"duration_ms":0}),
        ]
    );
}

/// More than a channel full of notes in one breath: none is lost.
#[tokio::test(start_paused = true)]
async fn a_flood_of_notes_loses_none() {
    let chatty = FakeTool::new("t", Behaviour::Reports(500, Duration::ZERO, "done".into()));
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(chatty).play().await;
    let lines: String = played
        .events()
        .filter_map(|event| match event {
            Event::ToolOutputAdded { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let expected: Vec<String> = (1..=500).map(|n| format!("line {n}")).collect();
    assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
}

/// Lesson 15: progress starts the silence anew, the whole time has a limit of its own.
#[tokio::test(start_paused = true)]
async fn silence_and_the_whole_time_are_limited_separately() {
    let second = Duration::from_secs(1);
    let chatty = |n| FakeTool::new("t", Behaviour::Reports(n, second, "done".into()));
    let stage = |n| {
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(chatty(n)).limits(|limits| {
            limits.call_silence = Duration::from_millis(1500);
            limits.call_total = Duration::from_secs(5);
        })
    };
    let played = stage(4).play().await;
    assert!(outcome_of(&played, "call_1").is_success());
    let played = stage(20).play().await;
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::TimedOut { after_ms: 5000 });
    let hangs = FakeTool::new("t", Behaviour::Hangs);
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(hangs.with(|spec| spec.timeout = Some(Duration::from_secs(2))))
        .play()
        .await;
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::TimedOut { after_ms: 2000 });
}

/// L3: a tool that timed out is told to stop.
#[tokio::test(start_paused = true)]
async fn a_tool_that_timed_out_sees_that_it_is_stopped() {
    struct Notices {
        spec: ToolSpec,
        noticed: Arc<tokio::sync::Notify>,
    }
    #[async_trait]
    impl Tool for Notices {
        fn spec(&self) -> &ToolSpec {
            &self.spec
        }
        async fn call(
            &self,
            _: ToolRequest,
            context: ToolContext,
        ) -> Result<ToolOutput, ToolError> {
            assert!(!context.is_cancelled());
            let (noticed, watched) = (Arc::clone(&self.noticed), context.clone());
            // A helper of the tool that lives on for a moment.
            #[expect(clippy::disallowed_methods, reason = "the tool's own business")]
            tokio::spawn(async move {
                watched.cancelled().await;
                assert!(watched.is_cancelled());
                noticed.notify_one();
            });
            std::future::pending().await
        }
    }
    let noticed = Arc::new(tokio::sync::Notify::new());
    let tool = Notices { spec: ToolSpec::new("t", ""), noticed: Arc::clone(&noticed) };
    TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(tool).play().await;
    noticed.notified().await;
}

/// A tool that may be called twice and says that it may work is called twice, with one key.
#[tokio::test(start_paused = true)]
async fn a_tool_that_may_work_next_time_is_tried_again() {
    let flaky = FakeTool::new("t", Behaviour::FailsAtFirst(1, "fine".into()));
    let played =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(flaky.clone()).play().await;
    assert!(outcome_of(&played, "call_1").is_success());
    let keys: Vec<String> =
        flaky.calls().into_iter().map(|(_, request)| request.idempotency_key).collect();
    assert_eq!(keys, ["run_1:call_1", "run_1:call_1"]);
    let retried = played.events().any(
        |event| matches!(event, Event::ToolRetried { attempt: 2, reason, .. } if reason.message == "not this time"),
    );
    assert!(retried);

    let hopeless = FakeTool::new("t", Behaviour::FailsAtFirst(9, "never".into()));
    let played =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(hopeless.clone()).play().await;
    assert_eq!(hopeless.n_calls(), 2);
    assert_eq!(outcome_of(&played, "call_1").problem().as_deref(), Some("not this time"));
}

/// C5: a tool that must not act twice is never called twice.
#[tokio::test(start_paused = true)]
async fn a_tool_that_acts_once_is_never_tried_again() {
    let once = FakeTool::new("t", Behaviour::FailsAtFirst(1, "fine".into()))
        .with(|spec| spec.effect = turnwire_contract::Effect::Once);
    let played =
        TestBench::new([calls(&["t"]), Turn::new().text("ok")]).tool(once.clone()).play().await;
    assert_eq!(once.n_calls(), 1);
    assert!(!outcome_of(&played, "call_1").is_success());
}

/// A call that waits to be tried again can be stopped.
#[tokio::test(start_paused = true)]
async fn a_retry_can_be_cancelled() {
    let flaky = FakeTool::new("t", Behaviour::FailsAtFirst(1, "fine".into()));
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(flaky.clone())
        .play_with(|recorded| match &recorded.event {
            Event::ToolRetried { call_id, .. } => Some(Act::CancelCall(call_id.clone())),
            _ => None,
        })
        .await;
    assert_eq!(flaky.n_calls(), 1);
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::Cancelled);
}

/// S0-12, T6: a crash of one tool touches no other.
#[tokio::test(start_paused = true)]
async fn a_panicking_tool_still_finishes_and_harms_no_other() {
    let played = TestBench::new([calls(&["bomb", "fine"]), Turn::new().text("ok")])
        .tool(FakeTool::new("bomb", Behaviour::Panics))
        .tool(returns("fine", "fine"))
        .play()
        .await;
    let ToolOutcome::Failed { failure } = outcome_of(&played, "call_1") else { panic!() };
    assert_eq!(failure.code, "tool_panicked");
    assert_eq!(failure.message, "the tool `bomb` crashed");
    assert!(outcome_of(&played, "call_2").is_success());
}

/// A tool's own words for people are recorded, and a crash in them costs only the words.
#[tokio::test(start_paused = true)]
async fn display_hooks_are_recorded_and_cannot_harm() {
    struct Wordy(ToolSpec, bool);
    #[async_trait]
    impl Tool for Wordy {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Ok(ToolOutput::text("a\nb\nc"))
        }
        fn label(&self, arguments: &Map<String, Value>) -> Option<String> {
            assert!(!self.1, "crash");
            Some(format!("number {}", arguments["n"]))
        }
        fn short_result(&self, output: &ToolOutput) -> Option<String> {
            assert!(!self.1, "crash");
            Some(format!("{} lines", output.text.lines().count()))
        }
    }
    for (crashes, label, short) in [(false, "number 1", Some("3 lines")), (true, "", None)] {
        let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
            .tool(Wordy(ToolSpec::new("t", ""), crashes))
            .play()
            .await;
        let found = played.events().find_map(|event| match event {
            Event::ToolStarted { label, .. } => Some(label.as_str()),
            _ => None,
        });
        assert_eq!(found, Some(label));
        let ToolOutcome::Succeeded { output } = outcome_of(&played, "call_1") else { panic!() };
        assert_eq!(output.short.as_deref(), short);
    }
}

/// A tool may find the arguments senseless though they fit the schema.
#[tokio::test(start_paused = true)]
async fn a_tool_may_refuse_its_arguments() {
    struct Picky(ToolSpec);
    #[async_trait]
    impl Tool for Picky {
        fn spec(&self) -> &ToolSpec {
            &self.0
        }
        async fn call(&self, _: ToolRequest, _: ToolContext) -> Result<ToolOutput, ToolError> {
            Err(ToolError::InvalidArguments("n is too small".into()))
        }
    }
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(Picky(ToolSpec::new("t", "")))
        .play()
        .await;
    let message = "n is too small".to_owned();
    assert_eq!(*outcome_of(&played, "call_1"), ToolOutcome::InvalidArguments { message });
}

/// A tool that the request does not offer is not there, even if the engine has it.
#[tokio::test(start_paused = true)]
async fn a_tool_that_was_not_offered_is_not_run() {
    let prop = returns("secret", "x");
    let (runs, mut request) =
        TestBench::new([calls(&["secret"]), Turn::new().text("ok")]).tool(prop.clone()).set_up();
    request.tools.clear();
    let journal = runs.start(request).await.unwrap().journal().await.unwrap();
    assert_eq!(prop.n_calls(), 0);
    let refused = journal.iter().any(|recorded| {
        matches!(&recorded.event, Event::ToolFinished { outcome: ToolOutcome::NotFound { .. }, .. })
    });
    assert!(refused);
}

/// A tool that does not listen is dropped when it is given up: nothing is left running.
#[tokio::test(start_paused = true)]
async fn a_tool_that_was_given_up_does_not_go_on() {
    let played = TestBench::new([calls(&["t"]), Turn::new().text("ok")])
        .tool(FakeTool::new("t", Behaviour::Hangs))
        .play()
        .await;
    let gone = tokio::time::timeout(Duration::from_hours(1), played.runs.shut_down()).await;
    assert!(gone.is_ok(), "the tool is still at work");
}
