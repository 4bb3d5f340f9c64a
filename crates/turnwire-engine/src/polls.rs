//! What each thread of the runtime is doing for which run, for a watchdog outside the runtime.
//!
//! The future of a run or of a tool notes in the slot of its thread that it is being polled. A poll
//! takes microseconds; one that takes seconds keeps the thread from everything else.

use std::{
    cell::OnceCell,
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, Weak},
    task::{Context, Poll},
    thread::{self, ThreadId},
};

use pin_project_lite::pin_project;
use turnwire_contract::RunId;

use crate::sync::lock;

/// The slots of all threads that have polled a run.
static SLOTS: Mutex<Vec<Weak<Slot>>> = Mutex::new(Vec::new());

thread_local! {
    static SLOT: OnceCell<Arc<Slot>> = const { OnceCell::new() };
}

/// What one thread is doing.
#[derive(Debug)]
struct Slot {
    thread: ThreadId,
    current: Mutex<Current>,
}

#[derive(Debug, Default)]
struct Current {
    /// Number of polls that this thread has begun.
    number: u64,
    /// What is being polled.
    work: Option<Arc<Work>>,
}

impl Slot {
    fn register() -> Arc<Self> {
        let slot = Arc::new(Self { thread: thread::current().id(), current: Mutex::default() });
        let mut slots = lock(&SLOTS);
        slots.retain(|slot| slot.strong_count() > 0);
        slots.push(Arc::downgrade(&slot));
        slot
    }
}

/// A task of a run, and what it does.
#[derive(Debug)]
pub(crate) struct Work {
    run_id: RunId,
    step: Mutex<&'static str>,
}

impl Work {
    pub(crate) fn new(run_id: &RunId, step: &'static str) -> Arc<Self> {
        Arc::new(Self { run_id: run_id.clone(), step: Mutex::new(step) })
    }

    /// Notes what the task does from here on.
    pub(crate) fn begin(&self, step: &'static str) {
        *lock(&self.step) = step;
    }
}

pin_project! {
    /// A future that notes when it is being polled.
    pub(crate) struct Noted<F> {
        work: Arc<Work>,
        #[pin]
        future: F,
    }
}

impl<F> Noted<F> {
    pub(crate) fn new(work: Arc<Work>, future: F) -> Self {
        Self { work, future }
    }
}

impl<F: Future> Future for Noted<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _poll = CurrentPoll::begin(this.work);
        this.future.poll(context)
    }
}

/// A poll, until it is dropped.
struct CurrentPoll {
    /// What the thread did around it.
    before: Option<Arc<Work>>,
}

impl CurrentPoll {
    fn begin(work: &Arc<Work>) -> Self {
        let begin = |slot: &OnceCell<Arc<Slot>>| {
            let mut current = lock(&slot.get_or_init(Slot::register).current);
            current.number += 1;
            current.work.replace(Arc::clone(work))
        };
        // A thread that is ending has no slot.
        Self { before: SLOT.try_with(begin).unwrap_or_default() }
    }
}

impl Drop for CurrentPoll {
    fn drop(&mut self) {
        let before = self.before.take();
        let end = |slot: &OnceCell<Arc<Slot>>| {
            if let Some(slot) = slot.get() {
                lock(&slot.current).work = before;
            }
        };
        let _ = SLOT.try_with(end);
    }
}

/// A poll that has lasted for some looks of a watchdog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongPoll {
    /// The run that is polled.
    pub run_id: RunId,
    /// What is done for it: a step of the run, such as `calls of tools`.
    pub step: String,
    /// How many looks it was seen in before this one.
    pub n_looks: u32,
}

/// Looks at the threads again and again. It counts its own looks instead of reading a clock: a
/// process that was stopped for a minute has not been busy for a minute.
#[derive(Debug, Default)]
pub struct PollWatch {
    seen: HashMap<ThreadId, (u64, u32)>,
}

impl PollWatch {
    /// Returns the polls that were there at the last look too, longest first.
    pub fn look(&mut self) -> Vec<LongPoll> {
        let mut long = Vec::new();
        let mut seen = HashMap::new();
        let slots: Vec<Arc<Slot>> = lock(&SLOTS).iter().filter_map(Weak::upgrade).collect();
        for slot in slots {
            let current = lock(&slot.current);
            let Some(work) = &current.work else { continue };
            let n_looks = match self.seen.get(&slot.thread) {
                Some((number, n_looks)) if *number == current.number => n_looks.saturating_add(1),
                _ => 0,
            };
            seen.insert(slot.thread, (current.number, n_looks));
            if n_looks > 0 {
                let (run_id, step) = (work.run_id.clone(), (*lock(&work.step)).to_owned());
                long.push(LongPoll { run_id, step, n_looks });
            }
        }
        self.seen = seen;
        long.sort_by_key(|poll| std::cmp::Reverse(poll.n_looks));
        long
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, sync::mpsc};

    use super::*;

    /// C36: a poll that lasts is seen with its run and step, and no longer once it has ended.
    #[test]
    fn a_long_poll_is_seen_while_it_lasts() {
        let (begun, has_begun) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let polling = thread::spawn(move || {
            let work = Work::new(&RunId::from("run_blocking"), "calls of tools");
            let blocking = poll_fn(move |_| {
                begun.send(()).unwrap();
                may_go_on.recv().unwrap();
                Poll::Ready(())
            });
            futures::executor::block_on(Noted::new(work, blocking));
        });
        has_begun.recv().unwrap();
        let mut watch = PollWatch::default();
        let mut look = || {
            let mut polls = watch.look();
            polls.retain(|poll| poll.run_id.as_str() == "run_blocking");
            polls
        };
        assert_eq!(look(), [], "it may have begun just now");
        for n_looks in 1..4 {
            let run_id = RunId::from("run_blocking");
            assert_eq!(look(), [LongPoll { run_id, step: "calls of tools".to_owned(), n_looks }]);
        }
        go_on.send(()).unwrap();
        polling.join().unwrap();
        assert_eq!(look(), []);
    }
}
