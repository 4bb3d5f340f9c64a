//! The lifecycle checker finds nothing wrong with our own streams, whole or taken up anywhere.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::fs;

use proptest::{prelude::*, sample::Index, test_runner::Config};
use serde_json::Value;
use turnwire_surfaces::{CheckOptions, Checker, check::Finding};
use turnwire_testkit::{
    scenarios,
    scripts::{RandomRun, any_run},
    surfaces,
};

const WHOLE: CheckOptions = CheckOptions { is_resumed: false, is_sse: false };
const REST: CheckOptions = CheckOptions { is_resumed: true, is_sse: false };

fn events(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn findings(events: &[Value], options: CheckOptions) -> Vec<Finding> {
    let mut checker = Checker::new(options);
    for event in events {
        checker.event(None, event);
    }
    checker.finish().findings
}

/// S1-SC-004, R4, C11: every golden of the Responses surface is fine, in both profiles, and so is
/// the rest of it after each of its events.
#[test]
fn every_golden_is_fine_whole_and_resumed() {
    let mut n_streams = 0;
    for scenario in scenarios::all() {
        for file in ["responses.jsonl", "responses_extended.jsonl"] {
            let stream = events(&fs::read_to_string(scenario.folder().join(file)).unwrap());
            assert_eq!(findings(&stream, WHOLE), [], "{} {file}", scenario.name);
            for n in 0..=stream.len() {
                let rest = stream.get(n..).unwrap();
                assert_eq!(findings(rest, REST), [], "{} {file} after {n}", scenario.name);
            }
            n_streams += 1;
        }
    }
    assert!(n_streams >= 90, "only {n_streams} goldens");
}

#[expect(clippy::disallowed_methods, reason = "a test has no settings file")]
fn config() -> Config {
    let cases = std::env::var("TURNWIRE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256);
    Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() }
}

/// What both profiles of the Responses surface show of a random run.
fn streams(script: &RandomRun) -> [Vec<Value>; 2] {
    let journal = &script.play().unwrap();
    [events(&surfaces::responses(journal)), events(&surfaces::responses_extended(journal))]
}

proptest! {
    #![proptest_config(config())]

    /// S1-SC-004, R4, C11: the stream of any run is fine, and so is the rest of it wherever it is
    /// taken up.
    #[test]
    fn every_random_run_is_fine_whole_and_resumed(script in any_run(), cut in any::<Index>()) {
        for stream in streams(&script) {
            prop_assert_eq!(findings(&stream, WHOLE), vec![]);
            let (_, rest) = stream.split_at(cut.index(stream.len() + 1));
            prop_assert_eq!(findings(rest, REST), vec![]);
        }
    }
}
