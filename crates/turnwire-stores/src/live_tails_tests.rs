use turnwire_contract::{Event, Timestamp};

use super::*;

fn recorded(seq: u64) -> Arc<RecordedEvent> {
    let (run_id, at) = (RunId::from("run_1"), Timestamp::from_micros(1));
    Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event: Event::TurnStarted { turn: 1 } })
}

fn tenant() -> TenantId {
    TenantId::from("tenant")
}

fn written(tails: &LiveTails, seqs: std::ops::RangeInclusive<u64>, bytes: usize) {
    tails.note_written(&tenant(), &seqs.map(recorded).collect::<Vec<_>>(), bytes);
}

fn found(tail: &RunTail, after: u64) -> Vec<u64> {
    match tail.after(Seq(after)) {
        TailRead::Events(events) => events.iter().map(|recorded| recorded.seq.0).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_reader_is_given_what_follows_its_place() {
    let tails = Arc::new(LiveTails::default());
    written(&tails, 1..=5, 100);
    let subscription = tails.subscribe(&tenant(), &RunId::from("run_1")).unwrap();
    assert_eq!(found(subscription.tail(), 0), [1, 2, 3, 4, 5]);
    assert_eq!(found(subscription.tail(), 3), [4, 5]);
    assert!(matches!(subscription.tail().after(Seq(5)), TailRead::NotYet));
    assert!(tails.subscribe(&TenantId::from("other"), &RunId::from("run_1")).is_none());
}

/// A tail is bounded by count and size. Dropped events are reported as being in the database, never
/// skipped.
#[test]
fn a_tail_is_bounded() {
    let tails = Arc::new(LiveTails::default());
    written(&tails, 1..=100, 100);
    let subscription = tails.subscribe(&tenant(), &RunId::from("run_1")).unwrap();
    assert!(matches!(subscription.tail().after(Seq(0)), TailRead::InDatabase));
    assert_eq!(found(subscription.tail(), 68).len(), KEPT_IN_ADVANCE.events);
    written(&tails, 101..=1_000, 1_000);
    assert_eq!(found(subscription.tail(), 744).len(), KEPT_FOR_READERS.events);
    assert!(matches!(subscription.tail().after(Seq(743)), TailRead::InDatabase));
    written(&tails, 1_001..=1_004, 4 * 60 * 1024);
    assert_eq!(found(subscription.tail(), 1_002), [1_003, 1_004]);
    assert!(matches!(subscription.tail().after(Seq(1_001)), TailRead::InDatabase));
}

/// C2: events from elsewhere are added if they follow the head, known ones are ignored, and a gap
/// is never skipped.
#[test]
fn only_what_follows_is_taken() {
    let tails = Arc::new(LiveTails::default());
    let head = Head { tenant: tenant(), last: Seq(3), is_over: false };
    let run_id = RunId::from("run_1");
    let page = |seqs: std::ops::RangeInclusive<u64>| Page {
        events: seqs.map(recorded).collect(),
        bytes: 1,
        n_rows: 1,
        ..Page::default()
    };
    assert_eq!(tails.arrived(&run_id, &page(4..=4)), AddOutcome::Unwanted);
    let subscription = tails.subscribe_at(&run_id, head);
    assert_eq!(tails.arrived(&run_id, &page(5..=6)), AddOutcome::Gap);
    assert!(matches!(subscription.tail().after(Seq(3)), TailRead::NotYet));
    assert_eq!(tails.arrived(&run_id, &page(2..=5)), AddOutcome::Accepted);
    assert_eq!(found(subscription.tail(), 3), [4, 5]);
    assert_eq!(tails.arrived(&run_id, &page(1..=2)), AddOutcome::Accepted);
    assert_eq!(subscription.tail().head().last, Seq(5));
    assert!(matches!(subscription.tail().after(Seq(2)), TailRead::InDatabase));
    // Between them is a row that begins before the head.
    assert_eq!(tails.found(&run_id, &page(8..=9)), AddOutcome::Accepted);
    assert!(matches!(subscription.tail().after(Seq(5)), TailRead::InDatabase));
    assert_eq!(found(subscription.tail(), 7), [8, 9]);
    drop(subscription);
    assert!(tails.find(&run_id).is_none(), "nobody reads it and nobody writes it here");
}

/// Runs written here are not polled, unless another worker writes them.
#[tokio::test(start_paused = true)]
async fn only_runs_that_others_may_write_are_followed() {
    let tails = Arc::new(LiveTails::default());
    let run_id = RunId::from("run_1");
    written(&tails, 1..=1, 1);
    let subscription = tails.subscribe(&tenant(), &run_id).unwrap();
    assert!(tails.followed().is_empty());
    assert!(!tails.misses(&run_id, Seq(2)));
    tokio::time::advance(WRITTEN_LATELY * 2).await;
    assert_eq!(tails.followed(), [(run_id.clone(), Seq(1))]);
    written(&tails, 2..=2, 1);
    assert!(tails.followed().is_empty());
    tails.release(&run_id);
    assert_eq!(tails.followed(), [(run_id.clone(), Seq(2))]);
    assert!(tails.misses(&run_id, Seq(3)) && !tails.misses(&run_id, Seq(2)));
    assert_eq!(tails.take_changes(), HashMap::from([(run_id.clone(), true)]));
    drop(subscription);
    assert_eq!(tails.take_changes(), HashMap::from([(run_id, false)]));
}

#[tokio::test(start_paused = true)]
async fn runs_that_were_left_are_swept_away() {
    let tails = Arc::new(LiveTails::default());
    written(&tails, 1..=1, 1);
    tails.sweep();
    assert!(tails.find(&RunId::from("run_1")).is_some());
    tokio::time::advance(IDLE * 2).await;
    tails.sweep();
    assert!(tails.find(&RunId::from("run_1")).is_none());
}

/// A run that turns out to be written elsewhere is subscribed to from then on.
#[tokio::test(start_paused = true)]
async fn a_run_that_others_have_written_is_followed_at_once() {
    let tails = Arc::new(LiveTails::default());
    let run_id = RunId::from("run_1");
    written(&tails, 1..=1, 1);
    let _subscription = tails.subscribe(&tenant(), &run_id).unwrap();
    assert!(tails.take_changes().is_empty());
    let run_key = Page { events: vec![recorded(2)], bytes: 1, n_rows: 1, ..Page::default() };
    assert_eq!(tails.arrived(&run_id, &run_key), AddOutcome::Accepted);
    assert_eq!(tails.take_changes(), HashMap::from([(run_id.clone(), true)]));
    assert_eq!(tails.followed(), [(run_id, Seq(2))]);
}
