//! AG-UI: what its official client enforces holds for every recorded and every random run, and a
//! stream that is cut anywhere is continued to the byte.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::sync::Arc;

use proptest::{prelude::*, sample::Index, test_runner::Config};
use serde_json::{Value, json};
use turnwire_contract::RecordedEvent;
use turnwire_surfaces::{AgUiFrame, ag_ui::ProtocolVersion};
use turnwire_testkit::{
    ag_ui_order::violations,
    scenarios,
    scripts::any_run,
    surfaces::{ag_ui_frames, ag_ui_text},
};

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V1, ProtocolVersion::Before1];

fn events(frames: &[AgUiFrame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_str(&frame.data()).unwrap()).collect()
}

fn stream<'a>(frames: impl IntoIterator<Item = &'a AgUiFrame>) -> String {
    frames.into_iter().map(ag_ui_text).collect()
}

/// What a second reader of the journal gets after frame `number`.
fn rest(journal: &[Arc<RecordedEvent>], version: ProtocolVersion, number: u64) -> String {
    let frames = ag_ui_frames(journal, version);
    stream(frames.iter().filter(|frame| frame.number > number))
}

/// AG-UI 2.3: every recorded run is in order.
#[tokio::test(start_paused = true)]
async fn every_scenario_is_in_order() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        for version in VERSIONS {
            let wrong = violations(&events(&ag_ui_frames(&journal, version)));
            assert!(wrong.is_empty(), "{name}: {wrong:#?}");
        }
    }
}

/// C10, C11, I6: cut at every frame of every recorded run, the first part and the rest are the
/// whole.
#[tokio::test(start_paused = true)]
async fn every_scenario_can_be_cut_anywhere() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        for version in VERSIONS {
            let frames = ag_ui_frames(&journal, version);
            let whole = stream(&frames);
            for (n, last) in frames.iter().enumerate() {
                let seen = stream(frames.iter().take(n + 1));
                let rest = rest(&journal, version, last.number);
                assert_eq!(seen + &rest, whole, "{name} cut at {}", last.number);
            }
        }
    }
}

/// AG-UI 2.3: the checker can complain.
#[test]
fn the_checker_finds_what_is_wrong() {
    let event =
        |kind: &str| json!({ "type": kind, "timestamp": 1, "messageId": "m", "delta": "x" });
    let all = |kinds: &[&str]| kinds.iter().map(|kind| event(kind)).collect::<Vec<_>>();
    for (wrong, complaint) in [
        (&["TEXT_MESSAGE_START"][..], "outside of any run"),
        (&["RUN_STARTED", "RUN_STARTED", "RUN_FINISHED"], "inside a run"),
        (&["RUN_STARTED", "TEXT_MESSAGE_CONTENT", "RUN_FINISHED"], "not open"),
        (&["RUN_STARTED", "TEXT_MESSAGE_START", "RUN_FINISHED"], "are open"),
        (&["RUN_STARTED", "RUN_FINISHED", "CUSTOM"], "outside of any run"),
        (&["RUN_STARTED", "ACTIVITY_DELTA", "RUN_FINISHED"], "not there"),
        (&["RUN_STARTED", "NEW_EVENT", "RUN_FINISHED"], "not an event"),
        (&["RUN_STARTED"], "no end"),
    ] {
        let found = violations(&all(wrong));
        assert!(found.iter().any(|found| found.contains(complaint)), "{wrong:?}: {found:?}");
    }
    let right = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"];
    assert_eq!(violations(&all(&right)), Vec::<String>::new());
    let null = json!({ "type": "RUN_STARTED", "timestamp": 1, "parentRunId": null });
    assert_eq!(violations(&[null, event("RUN_FINISHED")]).len(), 1);
}

#[expect(clippy::disallowed_methods, reason = "a test has no settings file")]
fn config() -> Config {
    let cases = std::env::var("TURNWIRE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256);
    Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

proptest! {
    #![proptest_config(config())]

    /// AG-UI 2.3, C11: any run is in order, and can be cut anywhere.
    #[test]
    fn every_random_run_is_in_order_and_can_be_cut(script in any_run(), cut in any::<Index>()) {
        let journal = script.play().unwrap();
        for version in VERSIONS {
            let frames = ag_ui_frames(&journal, version);
            let wrong = violations(&events(&frames));
            prop_assert!(wrong.is_empty(), "{wrong:#?}");
            let (seen, _) = frames.split_at(cut.index(frames.len()) + 1);
            let last = seen.last().map_or(0, |frame| frame.number);
            prop_assert_eq!(stream(seen) + &rest(&journal, version, last), stream(&frames));
        }
    }
}
