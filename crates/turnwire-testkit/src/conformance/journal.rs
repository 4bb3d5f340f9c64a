//! Contract of [`Journal`].

use std::sync::Arc;

use futures::{FutureExt, StreamExt, TryStreamExt};
use turnwire_contract::{
    Event, Journal, JournalError, JournalHead, RecordedEvent, RunEnd, RunId, RunOutcome, Seq,
    TenantId, Timestamp, Usage,
};

/// Runs the whole suite on `log`, which may contain other runs.
pub async fn check(log: &dyn Journal) {
    places_have_no_gaps(log).await;
    of_two_writers_one_wins(log).await;
    a_batch_is_kept_whole_or_not_at_all(log).await;
    nothing_follows_the_end(log).await;
    a_reader_gets_what_is_there_and_what_comes(log).await;
    a_reader_can_begin_anywhere(log).await;
    an_unknown_run_is_not_found(log).await;
    what_is_stored_can_be_read_without_waiting(log).await;
    the_head_says_how_far_a_run_has_come(log).await;
    a_forgotten_run_is_gone(log).await;
    tenants_do_not_see_each_other(log).await;
    the_end_is_kept_with_what_the_run_leaves(log).await;
}

fn tenant() -> TenantId {
    TenantId::from("conformance")
}

fn event(run: &str, seq: u64, event: Event) -> Arc<RecordedEvent> {
    let (run_id, at) = (RunId::from(run), Timestamp::from_micros(1));
    Arc::new(RecordedEvent { run_id, seq: Seq(seq), at, event })
}

fn turn(run: &str, seq: u64) -> Arc<RecordedEvent> {
    event(run, seq, Event::TurnStarted { turn: 1 })
}

fn end(run: &str, seq: u64) -> Arc<RecordedEvent> {
    let outcome = RunOutcome::Completed;
    event(run, seq, Event::RunFinished { outcome, usage: Usage::default() })
}

async fn all(log: &dyn Journal, run: &str, after: u64) -> Vec<u64> {
    let events =
        log.read(&tenant(), &RunId::from(run), Seq(after)).await.expect("the run is there");
    let events: Vec<Arc<RecordedEvent>> = events.try_collect().await.expect("it can be read");
    events.iter().map(|recorded| recorded.seq.0).collect()
}

async fn places_have_no_gaps(log: &dyn Journal) {
    log.append(&tenant(), vec![turn("run_gaps", 1), turn("run_gaps", 2)]).await.expect("in order");
    let gap = log.append(&tenant(), vec![turn("run_gaps", 4)]).await;
    assert!(matches!(gap, Err(JournalError::Conflict { .. })), "a gap was accepted: {gap:?}");
    log.append(&tenant(), vec![end("run_gaps", 3)]).await.expect("in order");
    assert_eq!(all(log, "run_gaps", 0).await, [1, 2, 3]);
}

async fn of_two_writers_one_wins(log: &dyn Journal) {
    log.append(&tenant(), vec![turn("run_two", 1)]).await.expect("in order");
    let tenant_id = tenant();
    let (one, other) = tokio::join!(
        log.append(&tenant_id, vec![turn("run_two", 2)]),
        log.append(&tenant_id, vec![turn("run_two", 2)])
    );
    assert!(one.is_ok() != other.is_ok(), "both or neither won: {one:?}, {other:?}");
    let again = log.append(&tenant(), vec![turn("run_two", 1)]).await;
    assert!(
        matches!(again, Err(JournalError::Conflict { .. })),
        "the past was rewritten: {again:?}"
    );
}

async fn a_batch_is_kept_whole_or_not_at_all(log: &dyn Journal) {
    log.append(&tenant(), vec![turn("run_batch", 1)]).await.expect("in order");
    let overlapping = vec![turn("run_batch", 1), turn("run_batch", 2)];
    assert!(
        log.append(&tenant(), overlapping).await.is_err(),
        "a batch that overlaps was accepted"
    );
    log.append(&tenant(), vec![end("run_batch", 2)])
        .await
        .expect("nothing of the refused batch was kept");
    assert_eq!(all(log, "run_batch", 0).await, [1, 2]);
}

async fn nothing_follows_the_end(log: &dyn Journal) {
    log.append(&tenant(), vec![turn("run_end", 1), end("run_end", 2)]).await.expect("in order");
    let late = log.append(&tenant(), vec![turn("run_end", 3)]).await;
    assert!(matches!(late, Err(JournalError::Conflict { .. })), "an event after the end: {late:?}");
    assert_eq!(all(log, "run_end", 0).await, [1, 2]);
    let in_one_batch = log.append(&tenant(), vec![end("run_late", 1), turn("run_late", 2)]).await;
    assert!(in_one_batch.is_err(), "an event after the end, in one batch");
}

async fn a_reader_gets_what_is_there_and_what_comes(log: &dyn Journal) {
    log.append(&tenant(), vec![turn("run_live", 1)]).await.expect("in order");
    let mut reader =
        log.read(&tenant(), &RunId::from("run_live"), Seq::START).await.expect("it is there");
    let first = reader.next().await.expect("one is there").expect("it can be read");
    assert_eq!(first.seq, Seq(1));
    assert!(reader.next().now_or_never().is_none(), "there is no second event yet");
    log.append(&tenant(), vec![turn("run_live", 2), end("run_live", 3)]).await.expect("in order");
    let rest: Vec<Arc<RecordedEvent>> = reader.try_collect().await.expect("it can be read");
    assert_eq!(rest.iter().map(|recorded| recorded.seq.0).collect::<Vec<_>>(), [2, 3]);
}

async fn a_reader_can_begin_anywhere(log: &dyn Journal) {
    let many = (1..=600).map(|seq| turn("run_any", seq)).chain([end("run_any", 601)]);
    log.append(&tenant(), many.collect()).await.expect("in order");
    assert_eq!(all(log, "run_any", 599).await, [600, 601]);
    assert_eq!(all(log, "run_any", 0).await, (1..=601).collect::<Vec<_>>());
}

async fn an_unknown_run_is_not_found(log: &dyn Journal) {
    // The second id cannot exist in a database that rejects NUL characters.
    for name in ["run_unknown", "run_\0"] {
        let id = RunId::from(name);
        let unknown = log.read(&tenant(), &id, Seq::START).await.err();
        assert!(matches!(unknown, Some(JournalError::NotFound(_))), "{name:?}: {unknown:?}");
        let unknown = log.read_stored(&tenant(), &id, Seq::START).await;
        assert!(matches!(unknown, Err(JournalError::NotFound(_))), "{name:?}: {unknown:?}");
        log.delete(&tenant(), &id).await.expect("nothing is left to forget");
    }
    let headless = log.append(&tenant(), vec![turn("run_headless", 2)]).await;
    assert!(headless.is_err(), "a run without a beginning was accepted");
}

async fn what_is_stored_can_be_read_without_waiting(log: &dyn Journal) {
    let id = RunId::from("run_stored");
    log.append(&tenant(), vec![turn("run_stored", 1), turn("run_stored", 2)])
        .await
        .expect("it is new");
    let seqs = async |after| -> Vec<u64> {
        let stored = log.read_stored(&tenant(), &id, after).await.expect("it is there");
        stored.iter().map(|recorded| recorded.seq.0).collect()
    };
    assert_eq!(seqs(Seq::START).await, [1, 2]);
    assert_eq!(seqs(Seq(1)).await, [2]);
    assert!(seqs(Seq(2)).await.is_empty());
    assert!(seqs(Seq(9)).await.is_empty());
}

async fn the_head_says_how_far_a_run_has_come(log: &dyn Journal) {
    let id = RunId::from("run_head");
    let head = async || log.head(&tenant(), &id).await;
    assert!(matches!(head().await, Err(JournalError::NotFound(_))), "there is no such run yet");
    log.append(&tenant(), vec![turn("run_head", 1), turn("run_head", 2)]).await.expect("it is new");
    assert_eq!(head().await.expect("it is there"), JournalHead { last: Seq(2), is_over: false });
    log.append(&tenant(), vec![end("run_head", 3)]).await.expect("in order");
    assert_eq!(head().await.expect("it is there"), JournalHead { last: Seq(3), is_over: true });
    let theirs = log.head(&TenantId::from("other"), &id).await;
    assert!(matches!(theirs, Err(JournalError::NotFound(_))), "A1: {theirs:?}");
}

async fn a_forgotten_run_is_gone(log: &dyn Journal) {
    let id = RunId::from("run_forgotten");
    log.append(&tenant(), vec![turn("run_forgotten", 1), end("run_forgotten", 2)])
        .await
        .expect("it is new");
    log.delete(&tenant(), &id).await.expect("it is there");
    let gone = log.read_stored(&tenant(), &id, Seq::START).await;
    assert!(matches!(gone, Err(JournalError::NotFound(_))), "{gone:?}");
    log.delete(&tenant(), &id).await.expect("nothing is left to forget");
}

async fn tenants_do_not_see_each_other(log: &dyn Journal) {
    let (id, other) = (RunId::from("run_mine"), TenantId::from("other"));
    log.append(&tenant(), vec![turn("run_mine", 1)]).await.expect("it is new");
    let theirs = log.read(&other, &id, Seq::START).await.err();
    assert!(matches!(theirs, Some(JournalError::NotFound(_))), "A1: {theirs:?}");
    let theirs = log.read_stored(&other, &id, Seq::START).await;
    assert!(matches!(theirs, Err(JournalError::NotFound(_))), "A1: {theirs:?}");
    let theirs = log.append(&other, vec![turn("run_mine", 2)]).await;
    assert!(theirs.is_err(), "A1: another tenant has written");
    log.delete(&other, &id).await.expect("they have none");
    log.append(&tenant(), vec![end("run_mine", 2)]).await.expect("A1: it is not theirs to forget");
}

async fn the_end_is_kept_with_what_the_run_leaves(log: &dyn Journal) {
    let run_end = RunEnd { outcome: RunOutcome::Completed, entries: Vec::new() };
    log.append(&tenant(), vec![turn("run_left", 1)]).await.expect("it is new");
    let ended = log.append_end(&tenant(), vec![end("run_left", 2)], run_end.clone()).await;
    ended.expect("it is in order");
    let again = log.append_end(&tenant(), vec![end("run_left", 2)], run_end).await;
    assert!(
        matches!(again, Err(JournalError::Conflict { .. })),
        "C3: it has ended twice: {again:?}"
    );
    assert_eq!(all(log, "run_left", 0).await, [1, 2]);
}
