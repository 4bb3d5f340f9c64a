use tokio::sync::mpsc;
use turnwire_contract::{Event, RunId, RunRequest, SpanCounts};

use super::*;
use crate::journal_for_tests::{
    PARENT, RUN, answer, call_finished, call_repeated, recorded, request, until_call,
};

fn observer(sampler: Sampler, max_queue: usize) -> (TraceObserver, mpsc::Receiver<SpanData>) {
    let counts = Arc::new(SpanCounts::default());
    let (queue, spans) = SpanQueue::new(max_queue, counts);
    (TraceObserver::new(sampler, false, SharedProviders::default(), queue), spans)
}

fn watch(
    observer: &TraceObserver,
    request: &Arc<RunRequest>,
    was_lost: bool,
) -> Box<dyn RunObserver> {
    let run_id = &RunId::from(RUN);
    observer.observe(ObservedRun {
        run_id,
        request,
        is_model_configured: true,
        servers: Vec::new(),
        was_lost,
    })
}

fn sent(spans: &mut mpsc::Receiver<SpanData>) -> Vec<SpanData> {
    std::iter::from_fn(|| spans.try_recv().ok()).collect()
}

/// The journal of a run that is taken over, and where the takeover begins.
fn taken_over() -> (Vec<RecordedEvent>, usize) {
    let request = request(Some(PARENT));
    let before = until_call(&request);
    let n_before = before.len();
    let after = [Event::taken_over(2), call_repeated(), call_finished()];
    (recorded(before.into_iter().chain(after).chain(answer())), n_before)
}

/// The successor of a lost worker sends what that one may not have sent: the same spans.
#[test]
fn a_takeover_sends_the_same_spans_again() {
    let (journal, n_before) = taken_over();
    let (observer, mut spans) = observer(Sampler::default(), 100);
    let request = request(Some(PARENT));
    let mut first = watch(&observer, &request, false);
    for recorded in &journal[..n_before] {
        first.note(recorded);
    }
    let of_first = sent(&mut spans);
    assert_eq!(of_first.len(), 2);
    // A takeover that failed before it recorded anything sends nothing.
    let mut failed = watch(&observer, &request, true);
    for recorded in &journal[..n_before] {
        failed.recall(recorded);
    }
    drop(failed);
    assert_eq!(sent(&mut spans), []);
    let mut second = watch(&observer, &request, true);
    for recorded in &journal[..n_before] {
        second.recall(recorded);
    }
    assert_eq!(sent(&mut spans), []);
    for recorded in &journal[n_before..] {
        second.note(recorded);
    }
    let of_second = sent(&mut spans);
    assert_eq!(of_second[..2], of_first);
    assert_eq!(of_second.len(), 7);
}

/// A worker that released the run has sent its spans.
#[test]
fn spans_of_a_worker_that_released_the_run_are_not_sent_again() {
    let (journal, n_before) = taken_over();
    let (observer, mut spans) = observer(Sampler::default(), 100);
    let mut watch = watch(&observer, &request(Some(PARENT)), false);
    for recorded in &journal[..n_before] {
        watch.recall(recorded);
    }
    for recorded in &journal[n_before..] {
        watch.note(recorded);
    }
    assert_eq!(sent(&mut spans).len(), 5);
}

/// A journal that has ended is not followed by a takeover, and its spans may not have been sent.
#[test]
fn spans_of_a_journal_that_has_ended_are_sent() {
    let (journal, _) = taken_over();
    let (observer, mut spans) = observer(Sampler::default(), 100);
    let mut watch = watch(&observer, &request(Some(PARENT)), true);
    for recorded in &journal {
        watch.recall(recorded);
    }
    assert_eq!(sent(&mut spans).len(), 7);
}

#[test]
fn a_trace_that_is_not_sampled_has_no_spans() {
    let (journal, _) = taken_over();
    let (observer, mut spans) = observer(Sampler::default(), 100);
    let unsampled = PARENT.replace("-01", "-00");
    let mut watch = watch(&observer, &request(Some(&unsampled)), true);
    for recorded in &journal {
        watch.note(recorded);
    }
    assert_eq!(sent(&mut spans), []);
}

/// A queue that is full drops spans and counts them. Nobody waits.
#[test]
fn a_full_queue_drops_and_counts() {
    let (journal, _) = taken_over();
    let counts = Arc::new(SpanCounts::default());
    let (queue, mut spans) = SpanQueue::new(3, Arc::clone(&counts));
    let observer = TraceObserver::new(Sampler::default(), false, SharedProviders::default(), queue);
    let mut watch = watch(&observer, &request(Some(PARENT)), false);
    for recorded in &journal {
        watch.note(recorded);
    }
    assert_eq!((sent(&mut spans).len(), counts.n_dropped()), (3, 4));
}
