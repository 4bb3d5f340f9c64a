//! C27: a journal with an event that cannot be read is shown on every surface, for every run that
//! is written down and every event of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{fs, sync::Arc};

use serde_json::Value;
use turnwire_contract::{Event, RecordedEvent};
use turnwire_testkit::{scenarios, surfaces};

const TERMINAL: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

/// C27: Nothing panics; and a client of the Responses API gets numbers without a gap and, as long
/// as the
/// end of the run can be read, one end.
#[test]
fn every_surface_shows_a_run_with_an_unreadable_event() {
    let mut n_journals = 0;
    for scenario in scenarios::all() {
        let text = fs::read_to_string(scenario.folder().join("events.jsonl")).unwrap();
        let journal: Vec<Arc<RecordedEvent>> =
            text.lines().map(|line| Arc::new(serde_json::from_str(line).unwrap())).collect();
        for (n, readable) in journal.iter().enumerate() {
            let mut journal = journal.clone();
            let unreadable =
                RecordedEvent { event: Event::unreadable(), ..RecordedEvent::clone(readable) };
            *journal.get_mut(n).unwrap() = Arc::new(unreadable);
            for (name, write_down) in surfaces::ALL {
                let shown = write_down(&journal);
                if name.starts_with("responses") {
                    check_stream(&shown, !readable.event.ends_the_run(), scenario.name, n);
                }
            }
            n_journals += 1;
        }
    }
    assert!(n_journals > 500, "only {n_journals} journals");
}

fn check_stream(shown: &str, has_end: bool, scenario: &str, n: usize) {
    let frames: Vec<Value> =
        shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers = frames.iter().filter_map(|frame| frame["sequence_number"].as_u64());
    assert!(numbers.eq(0..frames.len() as u64), "{scenario} without event {n}: {shown}");
    let ends = frames
        .iter()
        .filter(|frame| frame["type"].as_str().is_some_and(|kind| TERMINAL.contains(&kind)));
    assert_eq!(ends.count(), usize::from(has_end), "{scenario} without event {n}: {shown}");
}
