//! One turn of the model: what is retried, what is not, and what becomes of each part.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::json;
use turnwire_contract::{
    Completeness, Event, Finish, Model, ModelError, ModelPart, ModelStream, Prompt, RunOutcome,
    ToolKind, ToolSpec, Usage,
};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Act, Played, TestBench};

use crate::{calls, kinds, returns};

fn away(retry_after: Option<u64>) -> Turn {
    let retry_after = retry_after.map(Duration::from_secs);
    Turn::fails(ModelError::Unavailable { message: "503".into(), retry_after })
}

fn code(played: &Played) -> &str {
    let RunOutcome::Failed { failure } = &played.outcome else { panic!("{:?}", played.outcome) };
    &failure.code
}

fn retries(played: &Played) -> Vec<(u32, String, u64)> {
    let retry = |event: &Event| match event {
        Event::TurnRetried { attempt, reason, delay_ms, .. } => {
            Some((*attempt, reason.code.clone(), *delay_ms))
        }
        _ => None,
    };
    played.events().filter_map(retry).collect()
}

/// Retries before the first word, with growing waits, and not for ever.
#[tokio::test(start_paused = true)]
async fn a_model_that_is_away_is_asked_again() {
    let played = TestBench::new([away(None), away(Some(7)), Turn::new().text("ok")]).play().await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    let unavailable = || "model_unavailable".to_owned();
    assert_eq!(retries(&played), [(2, unavailable(), 500), (3, unavailable(), 7_000)]);
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::from_millis(7_500));

    let played =
        TestBench::new([away(None), away(None), away(None), Turn::new().text("late")]).play().await;
    assert_eq!(code(&played), "model_unavailable");
    assert_eq!(retries(&played), [(2, unavailable(), 500), (3, unavailable(), 1_000)]);
}

/// A provider that asks to wait is waited for as long as it asks; if that is too long, the run ends
/// at once and says when to come back.
#[tokio::test(start_paused = true)]
async fn a_wait_that_is_asked_for_is_kept_or_told() {
    for error in [
        |retry_after| ModelError::Unavailable { message: String::new(), retry_after },
        |retry_after| ModelError::RateLimited { message: String::new(), retry_after },
    ] {
        let busy = |seconds| Turn::fails(error(Some(Duration::from_secs(seconds))));
        let played = TestBench::new([busy(60), Turn::new().text("ok")]).play().await;
        assert_eq!(played.outcome, RunOutcome::Completed);
        assert_eq!(retries(&played)[0].2, 60_000);

        let played = TestBench::new([busy(61), Turn::new().text("ok")]).play().await;
        let RunOutcome::Failed { failure } = &played.outcome else { panic!("{played:?}") };
        assert_eq!(failure.retry_after_ms, Some(61_000));
        assert_eq!(retries(&played), []);
    }
}

/// A12: whatever a model's error says stays in the log: the words of a failure are ours.
#[tokio::test(start_paused = true)]
async fn the_words_of_an_error_are_not_told() {
    let message = || "sk-UPSTREAMSECRET".to_owned();
    let errors = [
        (ModelError::Unavailable { message: message(), retry_after: None }, "model_unavailable"),
        (ModelError::RateLimited { message: message(), retry_after: None }, "model_rate_limited"),
        (ModelError::Misconfigured { message: message() }, "model_misconfigured"),
        (ModelError::UnknownModel { message: message() }, "model_not_found"),
        (ModelError::ContextTooLong { message: message() }, "context_length_exceeded"),
        (ModelError::ContentFiltered { message: message() }, "content_filtered"),
        (ModelError::Rejected { message: message() }, "model_rejected"),
        (ModelError::Broken { message: message() }, "model_broke_off"),
    ];
    for (error, expected) in errors {
        let turns = [Turn::fails(error.clone()), Turn::fails(error.clone()), Turn::fails(error)];
        let played = TestBench::new(turns).play().await;
        assert_eq!(code(&played), expected);
        let journal = serde_json::to_string(&played.journal).unwrap();
        assert!(!journal.contains(&message()), "{journal}");
    }
}

fn skipped(played: &Played) -> Vec<(u32, u64, String)> {
    let skip = |event: &Event| match event {
        Event::PartSkipped { turn, bytes, reason } => Some((*turn, *bytes, reason.code.clone())),
        _ => None,
    };
    played.events().filter_map(skip).collect()
}

/// S2-22: a part that cannot be read is recorded where it stood, and the answer goes on; as many as
/// the limit allows, and one more ends the turn.
#[tokio::test(start_paused = true)]
async fn an_unreadable_part_is_recorded_and_the_answer_goes_on() {
    let lost = || ModelPart::Unreadable { bytes: 9 };
    let told = || (1, 9, "model_unreadable".to_owned());
    let two = || Turn::new().text("It ").part(lost()).text("goes ").part(lost()).text("on.");
    for (limit, is_enough) in [(2, true), (1, false), (0, false)] {
        let stage = TestBench::new([two()]).limits(|limits| limits.max_skipped_parts = limit);
        let played = stage.play().await;
        if is_enough {
            assert_eq!(played.outcome, RunOutcome::Completed);
            assert_eq!(skipped(&played), [told(), told()]);
            let text = played.events().find_map(|event| match event {
                Event::MessageFinished { text, .. } => Some(text.clone()),
                _ => None,
            });
            assert_eq!(text.unwrap(), "It goes on.");
        } else {
            assert_eq!(code(&played), "model_broke_off", "{limit}");
        }
    }
    // Nobody has heard anything yet, so it is asked again.
    let played = TestBench::new([Turn::new().part(lost()).breaks("reset"), Turn::new().text("ok")]);
    let played = played.play().await;
    assert_eq!((&played.outcome, skipped(&played).len()), (&RunOutcome::Completed, 1));
    assert_eq!(retries(&played).len(), 1);
}

/// S2-22: R18: a call whose arguments may have a gap is not carried out, wherever the gap is; the
/// model is
/// told. A call of the client's ends the run, because the client would carry it out.
#[tokio::test(start_paused = true)]
async fn a_call_of_an_answer_with_a_gap_is_not_carried_out() {
    let lost = || ModelPart::Unreadable { bytes: 9 };
    let call = || Turn::new().call("t", json!({ "a": 1 }));
    for turn in [call().part(lost()), Turn::new().part(lost()).call("t", json!({ "a": 1 }))] {
        let model = Scripted::new([turn, Turn::new().text("Again?")]);
        let tool = returns("t", "x");
        let played = TestBench::with_model(Arc::new(model.clone())).tool(tool.clone()).play().await;
        assert_eq!((&played.outcome, tool.n_calls()), (&RunOutcome::Completed, 0));
        let told = crate::told(&model.prompts()[1].items);
        assert!(told[0].1.contains("could not be read"), "{told:?}");
        assert!(told[0].2, "it is told as a failure");
    }
    let client = ToolSpec { kind: ToolKind::Client, ..ToolSpec::new("t", "The client's.") };
    let stage = TestBench::new([call().part(lost())]);
    let played = stage.request(|request| request.tools.push(Arc::new(client))).play().await;
    assert_eq!(code(&played), "model_broke_off");
}

/// A refused request would be refused again.
#[tokio::test(start_paused = true)]
async fn a_rejected_request_is_not_tried_again() {
    let rejected = ModelError::Rejected { message: "no such model".into() };
    let played = TestBench::new([Turn::fails(rejected), Turn::new().text("ok")]).play().await;
    assert_eq!(code(&played), "model_rejected");
    assert_eq!(retries(&played), []);
}

/// A stream that breaks before its first word is tried again, one that breaks later is not:
/// somebody may have read it. L41, I12: what was open is closed.
#[tokio::test(start_paused = true)]
async fn a_broken_stream_is_retried_only_before_its_first_word() {
    let played = TestBench::new([
        Turn::new().usage(Usage::default()).breaks("reset"),
        Turn::new().ends_silently(),
        Turn::new().text("ok"),
    ])
    .play()
    .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    let broke_off = || "model_broke_off".to_owned();
    assert_eq!(retries(&played), [(2, broke_off(), 500), (3, broke_off(), 1_000)]);

    let spoke = [
        Turn::new().text("I").breaks("reset"),
        Turn::new().reasoning("Hm").breaks("reset"),
        Turn::new().refusal("No").breaks("reset"),
        Turn::new().call("t", json!({})).breaks("reset"),
        Turn::new().text("I").ends_silently(),
    ];
    for turn in spoke {
        let played = TestBench::new([turn, Turn::new().text("ok")]).play().await;
        assert_eq!(code(&played), "model_broke_off");
        assert_eq!(retries(&played), []);
        let end: Vec<String> = kinds(&played.journal).into_iter().rev().take(2).collect();
        assert_eq!(end, ["run_finished", "turn_finished"]);
        let interrupted = played
            .events()
            .any(|event| matches!(event, Event::TurnFinished { finish: Finish::Interrupted, .. }));
        assert!(interrupted);
    }
}

/// Idle and total timeouts of the model.
#[tokio::test(start_paused = true)]
async fn a_silent_model_is_given_up() {
    let silent = || Turn::new().wait_forever();
    let played = TestBench::new([silent(), silent(), silent()]).play().await;
    assert_eq!(code(&played), "model_silent");
    assert_eq!(retries(&played).len(), 2);
    let spoke = Turn::new().text("Well").wait_forever();
    let played = TestBench::new([spoke]).play().await;
    assert_eq!(code(&played), "model_silent");
    assert_eq!(retries(&played), []);
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::from_mins(1));

    let words =
        (0..40).fold(Turn::new(), |turn, _| turn.text("word ").pause(Duration::from_secs(30)));
    let played = TestBench::new([words.text("end")]).play().await;
    assert_eq!(code(&played), "model_silent");
    let took = played.journal.last().unwrap().at.since(played.journal[0].at);
    assert_eq!(took, Duration::from_mins(15));
}

/// A model that never begins to answer counts as silent too.
#[tokio::test(start_paused = true)]
async fn a_model_that_never_begins_is_given_up() {
    struct Deaf;
    #[async_trait]
    impl Model for Deaf {
        async fn stream(&self, _: Prompt) -> Result<ModelStream, ModelError> {
            std::future::pending().await
        }
    }
    let played = TestBench::with_model(Arc::new(Deaf)).play().await;
    assert_eq!(code(&played), "model_silent");
    let played = TestBench::with_model(Arc::new(Deaf))
        .play_with(|recorded| (recorded.seq.0 == 3).then_some(Act::CancelRun))
        .await;
    assert_eq!(played.outcome, RunOutcome::Cancelled);
}

/// A model that crashes ends its run, and only its run.
#[tokio::test(start_paused = true)]
async fn a_crashing_model_ends_its_run_properly() {
    struct Bomb;
    #[async_trait]
    impl Model for Bomb {
        async fn stream(&self, _: Prompt) -> Result<ModelStream, ModelError> {
            panic!("boom")
        }
    }
    let played = TestBench::with_model(Arc::new(Bomb)).play().await;
    assert_eq!(code(&played), "engine_failed");
    assert_eq!(
        kinds(&played.journal),
        ["run_queued", "run_started", "turn_started", "turn_finished", "run_finished"]
    );
}

/// R18: a model that says it was interrupted has not finished, and its calls are not carried out.
#[tokio::test(start_paused = true)]
async fn an_interrupted_answer_is_a_broken_one() {
    let tool = returns("t", "x");
    let turn = calls(&["t"]).part(ModelPart::Finished(Finish::Interrupted));
    let played = TestBench::new([turn]).tool(tool.clone()).play().await;
    assert_eq!(code(&played), "model_broke_off");
    assert_eq!(tool.n_calls(), 0);
}

/// I11: blocks of one kind are closed before another begins, with their whole text.
#[tokio::test(start_paused = true)]
async fn words_and_thoughts_take_turns() {
    let turn = Turn::new()
        .reasoning("a")
        .reasoning("b")
        .text("c")
        .text("")
        .text("d")
        .reasoning("e")
        .call_with_id("call_1", "t", json!({}))
        .text("f");
    let played =
        TestBench::new([turn, Turn::new().text("ok")]).tool(returns("t", "x")).play().await;
    let blocks: Vec<String> = played
        .events()
        .filter_map(|event| match event {
            Event::ReasoningFinished { item_id, text, .. }
            | Event::MessageFinished { item_id, text, .. } => Some(format!("{item_id} {text}")),
            Event::CallAnnounced { call_id, .. } => Some(call_id.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(blocks, ["rs_1 ab", "msg_1 cd", "rs_2 e", "call_1", "msg_2 f", "msg_3 ok"]);
}

/// Sources stand with the text they belong to.
#[tokio::test(start_paused = true)]
async fn annotations_are_recorded_with_their_message() {
    let annotation =
        turnwire_contract::Annotation { kind: "url_citation".into(), source: json!({"url": "x"}) };
    let turn = Turn::new().text("see").part(ModelPart::Annotation(annotation.clone()));
    let played = TestBench::new([turn]).play().await;
    let found = played.events().any(|event| {
        matches!(event,
        Event::AnnotationAdded { item_id, annotation: found }
            if item_id.as_str() == "msg_1" && *found == annotation)
    });
    assert!(found);
}

/// Lesson 1.2: ids that are missing, empty or used before are replaced.
#[tokio::test(start_paused = true)]
async fn every_call_has_an_id_of_its_own() {
    let call = |id: Option<&str>, key| ModelPart::CallStarted {
        key,
        id: id.map(str::to_owned),
        name: "t".into(),
    };
    let turns = [
        Turn::new()
            .part(call(Some("same"), 0))
            .part(call(Some("same"), 1))
            .part(call(None, 2))
            .part(call(Some(""), 3)),
        Turn::new().part(call(Some("same"), 0)).part(call(Some("other"), 1)),
        Turn::new().text("ok"),
    ];
    let played = TestBench::new(turns).tool(returns("t", "x")).play().await;
    let ids: Vec<&str> = played
        .events()
        .filter_map(|event| match event {
            Event::CallAnnounced { call_id, .. } => Some(call_id.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, ["same", "call_1", "call_2", "call_3", "call_4", "other"]);
}

/// Arguments of calls that were never begun go nowhere, and break nothing.
#[tokio::test(start_paused = true)]
async fn arguments_without_a_call_are_dropped() {
    let lost = ModelPart::CallArguments { key: 5, text: "{}".into() };
    let empty = ModelPart::CallArguments { key: 0, text: String::new() };
    let turn = Turn::new().text("a").part(lost).part(empty);
    let played = TestBench::new([turn]).play().await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    assert!(!kinds(&played.journal).contains(&"arguments_added".to_owned()));
}

/// The usage of a turn is the last one said, the run's is the sum.
#[tokio::test(start_paused = true)]
async fn usage_is_summed_over_turns() {
    let usage = |n| Usage {
        input_tokens: n,
        cached_tokens: n + 1,
        output_tokens: n + 2,
        reasoning_tokens: n + 3,
        cost_nanos: None,
    };
    let turns =
        [calls(&["t"]).usage(usage(100)).usage(usage(1)), Turn::new().text("ok").usage(usage(10))];
    let played = TestBench::new(turns).tool(returns("t", "x")).play().await;
    let Some(Event::RunFinished { usage: total, .. }) = played.events().last() else { panic!() };
    let expected = Usage {
        input_tokens: 11,
        cached_tokens: 13,
        output_tokens: 15,
        reasoning_tokens: 17,
        cost_nanos: None,
    };
    assert_eq!(*total, expected);
}

/// A provider charges for an answer that breaks off, too: what is known of its usage is counted with
/// the attempt that follows, and with the end of a run that has none.
#[tokio::test(start_paused = true)]
async fn what_a_broken_answer_used_is_counted() {
    let usage =
        |input_tokens, cost| Usage { input_tokens, cost_nanos: Some(cost), ..Usage::default() };
    let used = |played: &Played| -> Vec<Usage> {
        let of_event = |event: &Event| match event {
            Event::TurnFinished { usage, .. } | Event::RunFinished { usage, .. } => Some(*usage),
            _ => None,
        };
        played.events().filter_map(of_event).collect()
    };
    let breaks = |n| Turn::new().usage(usage(n, n)).usage(usage(2 * n, n)).breaks("reset");
    let answer = || Turn::new().text("ok").usage(usage(5, 7));
    let played = TestBench::new([breaks(100), away(None), breaks(1_000), answer()])
        .request(|request| request.limits.model_attempts = 4)
        .play()
        .await;
    assert_eq!(played.outcome, RunOutcome::Completed);
    assert_eq!(used(&played), [usage(2_205, 1_107); 2]);

    let gives_up = TestBench::new([breaks(100), breaks(1_000), breaks(1_000)]).play().await;
    assert_eq!(code(&gives_up), "model_broke_off");
    assert_eq!(used(&gives_up), [usage(4_200, 2_100); 2]);

    let spoke = Turn::new().usage(usage(3, 4)).text("I was").breaks("reset");
    let cut = TestBench::new([calls(&["t"]).usage(usage(10, 10)), spoke]).tool(returns("t", "x"));
    let cut = cut.play().await;
    assert_eq!(used(&cut), [usage(10, 10), usage(3, 4), usage(13, 14)]);
}

/// Many parts at once are all recorded, each as an event of its own (S4-1).
#[tokio::test(start_paused = true)]
async fn a_fast_model_loses_nothing() {
    let words: Vec<String> = (0..1_000).map(|n| format!("{n} ")).collect();
    let played = TestBench::new([Turn::new().text_in(words.clone())]).play().await;
    let added: Vec<&str> = played
        .events()
        .filter_map(|event| match event {
            Event::TextAdded { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(added, words);
    let whole = played.events().any(|event| matches!(event,
        Event::MessageFinished { text, completeness: Completeness::Complete, .. } if *text == words.concat()));
    assert!(whole);
}

/// Cancelling while a retry is waited for.
#[tokio::test(start_paused = true)]
async fn a_retry_of_the_model_can_be_cancelled() {
    let model = Scripted::new([away(None), Turn::new().text("ok")]);
    let played = TestBench::with_model(Arc::new(model.clone()))
        .play_with(|recorded| {
            matches!(recorded.event, Event::TurnRetried { .. }).then_some(Act::CancelRun)
        })
        .await;
    assert_eq!(played.outcome, RunOutcome::Cancelled);
    assert_eq!(model.prompts().len(), 1);
}

/// Parts without words leave no trace.
#[tokio::test(start_paused = true)]
async fn empty_parts_are_not_recorded() {
    let call = ModelPart::CallStarted { key: 0, id: Some("call_1".into()), name: "t".into() };
    let turn = Turn::new()
        .part(ModelPart::Text(String::new()))
        .part(ModelPart::Refusal(String::new()))
        .part(ModelPart::Reasoning(String::new()))
        .part(call)
        .part(ModelPart::CallArguments { key: 0, text: String::new() });
    let played =
        TestBench::new([turn, Turn::new().text("ok")]).tool(returns("t", "x")).play().await;
    assert_eq!(
        kinds(&played.journal)[3..6],
        ["call_announced", "arguments_finished", "turn_finished"]
    );
}
