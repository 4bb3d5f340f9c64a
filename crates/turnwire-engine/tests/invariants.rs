//! I1–I14 over random runs: up to eight parallel tools that behave in every way a tool can, a
//! model that breaks in every way a model can, and cancels at random moments.
//!
//! `TURNWIRE_CASES=10000` sets how many.

use std::{collections::HashMap, sync::Arc};

use proptest::{prelude::*, test_runner::Config};
use turnwire_contract::{Event, Item, Prompt, RecordedEvent, ToolOutcome};
use turnwire_engine::{RunState, Step};
use turnwire_surfaces::{
    Callbacks, ChatEvents, ChatStream, ChatStreamOptions, MessageFrame, Messages, Profile,
    Responses, Stage, ToolCallbacks, Transcript, WithCursors, WsChat, WsOptions,
};
use turnwire_testkit::{
    Behaviour, Played, invariants,
    scripts::{RandomRun, any_run},
    surfaces::{ASKED, frames},
};

#[expect(clippy::disallowed_methods, reason = "a test has no settings file")]
fn cases() -> u32 {
    std::env::var("TURNWIRE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256)
}

fn config() -> Config {
    Config {
        cases: cases(),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(config())]

    /// I1–I8, I10–I12, I14, S1-SC-004.
    #[test]
    fn every_random_run_keeps_every_invariant(script in any_run()) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (played, prompts) = runtime.block_on(play(&script));
        let journal = &played.journal;

        let wrong = invariants::violations(journal.iter().map(AsRef::as_ref));
        prop_assert!(wrong.is_empty(), "{wrong:#?}\n{}", turnwire_testkit::surfaces::events(journal));
        for prompt in &prompts {
            let wrong = invariants::history_violations(prompt);
            prop_assert!(wrong.is_empty(), "{wrong:#?} in {prompt:#?}");
        }
        successes_are_the_tools_own(&script, journal)?;
        the_fold_agrees(&played)?;
        surfaces_are_pure(journal)?;
        every_block_starts_once_and_ends_once(journal)?;
    }
}

async fn play(script: &RandomRun) -> (Played, Vec<Prompt>) {
    let (model, props) = (script.model(), script.props());
    let stage = script.stage(model.clone(), &props);
    let played = stage.play_with(script.director()).await;
    (played, model.prompts())
}

/// I4: succeeded if and only if the tool said so.
fn successes_are_the_tools_own(
    script: &RandomRun,
    journal: &[Arc<RecordedEvent>],
) -> Result<(), TestCaseError> {
    let mut names = HashMap::new();
    for recorded in journal {
        if let Event::CallAnnounced { call_id, tool, .. } = &recorded.event {
            names.insert(call_id.clone(), tool.name.clone());
        }
        let Event::ToolFinished { call_id, outcome, .. } = &recorded.event else { continue };
        let Some(name) = names.get(call_id) else {
            return Err(TestCaseError::fail(format!("{call_id} was never announced")));
        };
        let number = name.trim_start_matches("tool_").parse().unwrap_or(usize::MAX);
        let behaviour = script.tools.get(number).map(|tool| &tool.behaviour);
        match (outcome, behaviour) {
            (
                ToolOutcome::Succeeded { output },
                Some(
                    Behaviour::Returns(text)
                    | Behaviour::Takes(_, text)
                    | Behaviour::FailsAtFirst(_, text)
                    | Behaviour::Reports(_, _, text),
                ),
            ) => prop_assert_eq!(&output.text, text),
            (ToolOutcome::Succeeded { .. }, other) => {
                prop_assert!(false, "I4: {name} succeeded though it is {other:?}");
            }
            (ToolOutcome::Failed { .. }, Some(Behaviour::Returns(_) | Behaviour::Takes(..))) => {
                prop_assert!(false, "I4: {name} failed though it works");
            }
            (ToolOutcome::NotFound { .. }, behaviour) => prop_assert!(behaviour.is_none()),
            _ => {}
        }
    }
    Ok(())
}

/// A run read back from its journal gives the same answers.
fn the_fold_agrees(played: &Played) -> Result<(), TestCaseError> {
    let Some(Event::RunQueued { request }) = played.events().next() else {
        return Err(TestCaseError::fail("a journal begins with RunQueued"));
    };
    let mut state = RunState::new(played.run.id(), Arc::clone(request), Vec::new());
    for event in played.events() {
        state.apply(event);
    }
    prop_assert_eq!(state.outcome(), Some(&played.outcome));
    prop_assert_eq!(state.next_step(), Step::Finish(played.outcome.clone()));
    let Some(Event::RunFinished { outcome, .. }) = played.events().last() else {
        return Err(TestCaseError::fail("a journal ends with RunFinished"));
    };
    prop_assert_eq!(outcome, &played.outcome);
    let items: Vec<Arc<Item>> = state.added().iter().map(|e| Arc::clone(&e.item)).collect();
    let added: Vec<Item> = items.iter().map(|item| Item::clone(item)).collect();
    prop_assert_eq!(added.get(..1), Some(request.input.as_slice()));
    let history = Prompt { items, ..state.prompt() };
    let wrong = invariants::history_violations(&history);
    prop_assert!(wrong.is_empty(), "{wrong:#?} in {added:#?}");
    Ok(())
}

/// I6, I8: the frames of a prefix are a prefix of the frames, on every surface.
fn surfaces_are_pure(journal: &[Arc<RecordedEvent>]) -> Result<(), TestCaseError> {
    let (prefix, _) = journal.split_at(journal.len() / 2);
    macro_rules! pure {
        ($projection:expr) => {
            let (part, whole) = (frames(prefix, $projection), frames(journal, $projection));
            prop_assert!(whole.starts_with(&part));
            prop_assert_eq!(whole, frames(journal, $projection));
        };
    }
    pure!(Callbacks::new(ToolCallbacks::default()));
    pure!(ChatEvents::new());
    pure!(Messages::new());
    pure!(Transcript::new());
    pure!(Responses::new(Profile::Strict));
    pure!(Responses::new(Profile::Extended));
    pure!(WsChat::new(WsOptions::default()));
    pure!(WsChat::new(ASKED));
    pure!(WithCursors::new(ChatStream::new(ChatStreamOptions {
        tokens: true,
        approvals: true,
        inputs: true
    })));
    Ok(())
}

/// I1, I10 as a message manager sees them (S4-7, S4-10).
fn every_block_starts_once_and_ends_once(
    journal: &[Arc<RecordedEvent>],
) -> Result<(), TestCaseError> {
    let mut stages: HashMap<(usize, usize), Vec<Stage>> = HashMap::new();
    for frame in frames(journal, Messages::new()) {
        if let MessageFrame::ToolBlockUpdated { message, block, stage, .. } = frame {
            stages.entry((message, block)).or_default().push(stage);
        }
    }
    for stages in stages.values() {
        prop_assert_eq!(stages.first(), Some(&Stage::Start));
        prop_assert_eq!(stages.last(), Some(&Stage::End));
        prop_assert_eq!(stages.iter().filter(|stage| **stage == Stage::Start).count(), 1);
        prop_assert_eq!(stages.iter().filter(|stage| **stage == Stage::End).count(), 1);
    }
    Ok(())
}
