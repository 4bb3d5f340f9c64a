//! S4-19: all surfaces agree about a run, whatever happens in it.

use std::collections::HashMap;

use proptest::prelude::*;
use turnwire_contract::{CallId, Event, Finish, RunOutcome, ToolOutcome};

use super::*;
use crate::story::{Story, failed, succeeded};

/// How one call goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fate {
    Works,
    Fails,
    NeverStarts,
    IsStartedAgain,
    SpeaksTooLate,
}

#[derive(Debug, Clone)]
pub(crate) struct Turn {
    pub(crate) text: String,
    pub(crate) fates: Vec<Fate>,
    pub(crate) is_abandoned: bool,
}

pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let fate = prop_oneof![
        Just(Fate::Works),
        Just(Fate::Fails),
        Just(Fate::NeverStarts),
        Just(Fate::IsStartedAgain),
        Just(Fate::SpeaksTooLate),
    ];
    let turn = ("[a-z\u{e9}\u{0}\n]{0,6}", prop::collection::vec(fate, 0..4), any::<bool>());
    let turn = turn.prop_map(|(text, fates, is_abandoned)| Turn { text, fates, is_abandoned });
    prop::collection::vec(turn, 0..5)
}

pub(crate) fn tell(turns: &[Turn]) -> Story {
    let mut story = Story::new();
    for (turn, Turn { text, fates, is_abandoned }) in (1..).zip(turns) {
        story = story.turn().says(&[text.as_str()]);
        let calls: Vec<(String, Fate)> =
            fates.iter().enumerate().map(|(n, fate)| (format!("call_{turn}_{n}"), *fate)).collect();
        for (call, _) in &calls {
            story =
                story.announced(call, "x").writes(call, "{").writes(call, "}").written(call, "{}");
        }
        if *is_abandoned {
            story = story.then(Event::TurnAbandoned { turn });
            continue;
        }
        story = story.turn_done(Finish::CalledTools);
        for (call, fate) in &calls {
            if !matches!(fate, Fate::NeverStarts) {
                story = story.started(call);
            }
            if matches!(fate, Fate::IsStartedAgain) {
                story = story.started_with(call, 2, "");
            }
        }
        for (call, fate) in calls.iter().rev() {
            story = story.finished(
                call,
                match fate {
                    Fate::Fails => failed("no"),
                    Fate::NeverStarts => ToolOutcome::Cancelled,
                    Fate::Works | Fate::IsStartedAgain | Fate::SpeaksTooLate => succeeded("1"),
                },
            );
            if matches!(fate, Fate::SpeaksTooLate) {
                let call_id = CallId::from(call.as_str());
                story = story.then(Event::ToolPhase { call_id, phase: "late".to_owned() });
                story = story.finished(call, failed("again"));
            }
        }
    }
    story.ended(RunOutcome::Completed)
}

proptest! {
    /// S4-19.
    #[test]
    fn all_surfaces_tell_the_same_story(turns in turns()) {
        let n_calls = turns.iter().filter(|turn| !turn.is_abandoned).map(|turn| turn.fates.len()).sum();
        let said: Vec<String> = turns.iter().map(|turn| turn.text.replace('\0', "")).collect();

        let mut tokens = String::new();
        let (mut n_open, mut n_ended) = (0, 0);
        for frame in tell(&turns).seen_by(&mut Callbacks::new(ToolCallbacks { start: true, end: true })) {
            match frame {
                CallbackFrame::Token(text) => tokens.push_str(&text),
                CallbackFrame::ToolStart { .. } => n_open += 1,
                CallbackFrame::ToolEnd { .. } => {
                    prop_assert!(n_open > 0, "an end without a start");
                    n_open -= 1;
                    n_ended += 1;
                }
            }
        }
        prop_assert_eq!((n_open, n_ended), (0, n_calls));
        prop_assert_eq!(&tokens, &said.concat());

        let mut messages = Messages::new();
        let mut stages: HashMap<(usize, usize), Stage> = HashMap::new();
        let mut content = String::new();
        for frame in tell(&turns).seen_by(&mut messages) {
            match frame {
                MessageFrame::ContentUpdated { chunk, .. } => content.push_str(&chunk),
                MessageFrame::ToolBlockUpdated { message, block, stage, .. } => {
                    let before = stages.insert((message, block), stage);
                    prop_assert_eq!(before.is_none(), stage == Stage::Start);
                    prop_assert!(before.is_none_or(|before| before <= stage && before != Stage::End));
                }
                MessageFrame::AssistantMessageAdded { .. } | MessageFrame::MessagesChanged { .. } => {}
            }
        }
        prop_assert_eq!(content, said.concat());
        prop_assert!(stages.values().all(|stage| *stage == Stage::End));
        prop_assert_eq!(stages.len(), turns.iter().map(|turn| turn.fates.len()).sum::<usize>());

        let whole = turns.iter().zip(&said).filter(|(turn, _)| !turn.is_abandoned);
        let last = whole.map(|(_, text)| text).rfind(|text| !text.is_empty());
        let frames = tell(&turns).seen_by(&mut ChatEvents::new());
        let content = last.cloned().unwrap_or_default();
        let end = [ChatFrame::Response { content }, ChatFrame::Done { conversation_id: None }];
        prop_assert!(frames.ends_with(&end));
        prop_assert_eq!(frames.len(), 2 * n_calls + 2);

        let mut transcript = Transcript::new();
        let frames = tell(&turns).seen_by(&mut transcript);
        let began = frames.iter().filter(|frame| matches!(frame, TranscriptFrame::ToolBegan { .. }));
        let ended = frames.iter().filter(|frame| matches!(frame, TranscriptFrame::ToolEnded { .. }));
        prop_assert_eq!((began.count(), ended.count()), (n_calls, n_calls));
    }
}
