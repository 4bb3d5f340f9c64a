//! Who is told first, and that everybody is told.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot::{Receiver, error::TryRecvError};
use tokio_util::task::TaskTracker;

use super::*;

type Answer = Receiver<Result<(), JournalError>>;

fn job(tenant: &str, seq: u64) -> (Job, Answer) {
    Job::of_one_event(tenant, "run_1", seq)
}

fn jobs(tenant: &str, n: u64) -> (Vec<Job>, Vec<Answer>) {
    (1..=n).map(|seq| job(tenant, seq)).unzip()
}

fn reports() -> Reports {
    Reports::new(CommitNotifier { tails: Arc::default(), publisher: None })
}

/// Returns how many were told, and fails if a later one was told before an earlier one.
fn n_told(answers: &mut [Answer]) -> usize {
    let is_told = |answer: &mut Answer| !matches!(answer.try_recv(), Err(TryRecvError::Empty));
    let told: Vec<bool> = answers.iter_mut().map(is_told).collect();
    let n = told.iter().filter(|is_told| **is_told).count();
    assert!(told.iter().take(n).all(|is_told| *is_told), "out of order: {told:?}");
    n
}

/// A tenant with few appends in a batch does not wait for the five hundred of another, which are
/// told a few at a time.
#[test]
fn a_tenant_with_few_appends_is_told_first() {
    let mut reports = reports();
    let (mut batch, mut loud) = jobs("loud", 500);
    let (quiet, mut of_quiet) = jobs("quiet", 3);
    batch.extend(quiet);
    let n = batch.len();
    reports.add(batch, vec![true; n]);
    assert_eq!((n_told(&mut of_quiet), n_told(&mut loud)), (3, 0));
    reports.next_group();
    assert!(!reports.is_empty());
    assert_eq!(loud.iter_mut().filter_map(|answer| answer.try_recv().ok()).count(), GROUP);
}

/// Many tenants with few appends each are not told at once either, and still before the flood.
#[test]
fn many_tenants_with_few_appends_come_before_a_flood() {
    let mut reports = reports();
    let (mut batch, mut loud) = jobs("loud", 100);
    let mut of_many = Vec::new();
    for n in 0..10 {
        let (few, answers) = jobs(&format!("quiet_{n}"), 4);
        batch.extend(few);
        of_many.extend(answers);
    }
    let n = batch.len();
    reports.add(batch, vec![true; n]);
    for n_told_by_now in [GROUP, 2 * GROUP] {
        assert_eq!((n_told(&mut of_many), n_told(&mut loud)), (n_told_by_now, 0));
        reports.next_group();
    }
    assert_eq!((n_told(&mut of_many), n_told(&mut loud)), (40, 3 * GROUP - 40));
}

/// Appends of a tenant are told in their order, also when a batch with few of them comes after one
/// with many: a reader sees the events of a run in order.
#[test]
fn a_tenant_is_told_in_order() {
    let mut reports = reports();
    let (first, mut answers) = jobs("loud", 20);
    reports.add(first, vec![true; 20]);
    let (later, of_later) = job("loud", 21);
    reports.add(vec![later], vec![true]);
    answers.extend([of_later]);
    assert_eq!(n_told(&mut answers), 0);
    reports.next_group();
    assert_eq!(n_told(&mut answers), GROUP);
}

/// Other tasks have their turn between the groups, and whoever stops in the middle can go on: all
/// are told, each with its own answer.
#[tokio::test]
async fn all_are_told_with_turns_for_others() {
    let mut reports = reports();
    let (batch, answers) = jobs("loud", 100);
    let kept: Vec<bool> = (0..100).map(|n| n % 7 != 0).collect();
    reports.add(batch, kept.clone());
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&turns);
    let other = TaskTracker::new().spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            yield_now().await;
        }
    });
    tokio::select! {
        biased;
        () = reports.all() => panic!("all at once"),
        () = yield_now() => {}
    }
    assert!(!reports.is_empty());
    reports.all().await;
    assert!(turns.load(Ordering::Relaxed) >= 100 / GROUP, "{turns:?}");
    other.abort();
    for (answer, is_kept) in answers.into_iter().zip(kept) {
        assert_eq!(answer.await.unwrap().is_ok(), is_kept);
    }
}
