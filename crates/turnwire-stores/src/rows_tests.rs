use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestRng, TestRunner},
};
use turnwire_contract::{ItemId, ToolOutcome, Usage};
use turnwire_testkit::scenarios;

use super::*;

fn read_back(rows: &[EventRow], run_id: &RunId) -> Vec<Arc<Recorded>> {
    let read = |row: &EventRow| from_row(run_id, row.first, row.last, &row.body).unwrap();
    rows.iter().flat_map(read).collect()
}

fn recorded(seq: u64, event: Event) -> Arc<Recorded> {
    let at = Timestamp::from_micros(1_700_000_000_000_000 + i64::try_from(seq).unwrap());
    Arc::new(Recorded { run_id: RunId::from("run_1"), seq: Seq(seq), at, event })
}

fn text(seq: u64, item: &str, text: &str) -> Arc<Recorded> {
    recorded(seq, Event::TextAdded { item_id: ItemId::from(item), text: text.to_owned() })
}

/// C2: whatever happened, and however it was cut into batches, the rows give it back as it was.
#[tokio::test(start_paused = true)]
async fn every_scenario_comes_back_as_it_was_however_it_was_cut() {
    for scenario in scenarios::all() {
        let name = scenario.name;
        let journal = scenario.play().await;
        let run_id = journal[0].run_id.clone();
        let cut = |sizes: Vec<usize>| {
            let (mut rest, mut rows) = (journal.as_slice(), Vec::new());
            for size in sizes.into_iter().chain([journal.len()]) {
                let (batch, later) = rest.split_at(size.min(rest.len()));
                rows.extend(to_rows(batch).unwrap());
                rest = later;
            }
            rows
        };
        let mut runner = TestRunner::new_with_rng(
            ProptestConfig::with_cases(32),
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let splits = vec(0_usize..12, 0..40);
        let checked = runner.run(&splits, |sizes| {
            let rows = cut(sizes);
            prop_assert_eq!(&read_back(&rows, &run_id), &journal);
            let firsts: Vec<i64> = rows.iter().map(|row| row.first).collect();
            let follow: Vec<i64> = rows.iter().map(|row| row.last + 1).collect();
            prop_assert_eq!(&firsts[1..], &follow[..follow.len() - 1]);
            Ok(())
        });
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn neighbouring_deltas_of_one_item_share_a_row_and_nothing_else_does() {
    let batch = [
        text(1, "msg_1", "one"),
        text(2, "msg_1", "\"two\"\u{0}\n"),
        text(3, "msg_2", "three"),
        recorded(4, Event::RefusalAdded { item_id: "msg_2".into(), text: "no".to_owned() }),
        recorded(5, Event::TurnStarted { turn: 1 }),
        recorded(6, Event::TurnStarted { turn: 2 }),
    ];
    let rows = to_rows(&batch).unwrap();
    let places: Vec<(i64, i64, &str)> =
        rows.iter().map(|row| (row.first, row.last, row.kind)).collect();
    let expected = [(1, 2, "delta"), (3, 3, "delta"), (4, 4, "delta")];
    assert_eq!(places[..3], expected);
    assert_eq!(places[3..], [(5, 5, "event"), (6, 6, "event")]);
    assert_eq!(
        rows[0].body,
        r#"[[1700000000000001,{"type":"text_added","item_id":"msg_1","text":"one"}],[1700000000000002,"\"two\"\u0000\n"]]"#
    );
    assert_eq!(read_back(&rows, &RunId::from("run_1")), batch);
}

#[test]
fn starts_and_ends_are_told_to_the_database() {
    let call_id = CallId::from("call_1");
    let started = Event::ToolStarted { call_id: call_id.clone(), attempt: 1, label: String::new() };
    let outcome = ToolOutcome::Cancelled;
    let finished = Event::ToolFinished { call_id, outcome, duration_ms: 1 };
    let over = Event::RunFinished {
        outcome: turnwire_contract::RunOutcome::Completed,
        usage: Usage::default(),
    };
    let rows = to_rows(&[recorded(1, started), recorded(2, finished), recorded(3, over)]).unwrap();
    let kinds: Vec<(&str, Option<&str>)> =
        rows.iter().map(|row| (row.kind, row.call.as_deref())).collect();
    assert_eq!(kinds, [("start", Some("call_1")), ("end", Some("call_1")), ("over", None)]);
}

/// Whatever a model calls its calls, the index takes it, and tells them apart.
#[test]
fn a_name_that_no_index_takes_is_replaced_in_the_index_only() {
    let names = ["a\0b".to_owned(), "a\0c".to_owned(), "x".repeat(100_000)];
    let in_index = names.each_ref().map(|name| index_name(&CallId::from(name.as_str())));
    assert!(in_index.iter().all(|name| name.len() < 100 && !name.contains('\0')));
    assert_ne!(in_index[0], in_index[1]);
}

/// A row is a page's worth at most, however many deltas come at once.
#[test]
fn a_row_does_not_grow_without_end() {
    let long = "x".repeat(1_000);
    let batch: Vec<Arc<Recorded>> = (1..=100).map(|seq| text(seq, "msg_1", &long)).collect();
    let rows = to_rows(&batch).unwrap();
    assert!(rows.iter().all(|row| row.body.len() < ROW_BYTES + 2_000));
    assert!((3..=5).contains(&rows.len()), "{}", rows.len());
    assert_eq!(read_back(&rows, &RunId::from("run_1")), batch);
}

#[test]
fn a_row_that_was_tampered_with_is_refused() {
    let run_id = RunId::from("run_1");
    let row = to_rows(&[text(1, "msg_1", "one")]).unwrap().remove(0);
    assert!(from_row(&run_id, 1, 2, &row.body).is_err(), "it says that it holds two");
    assert!(from_row(&run_id, 1, 1, "[[1,\"text of nothing\"]]").is_err());
    assert!(from_row(&run_id, 1, 1, "[").is_err());
}

/// A tool that is "not a number" of the way must not make its run unreadable.
#[test]
fn progress_that_is_not_a_number_can_be_read_again() {
    let progressed = |progress, total| {
        recorded(1, Event::ToolProgressed { call_id: "c".into(), progress, total, message: None })
    };
    let odd = progressed(f64::NAN, Some(f64::INFINITY));
    let rows = to_rows(&[odd]).unwrap();
    assert_eq!(read_back(&rows, &RunId::from("run_1")), [progressed(0.0, None)]);
}
