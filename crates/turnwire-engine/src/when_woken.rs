//! A future that is polled when it was woken, and not whenever the task around it is.
//!
//! The task of a run waits for its next event and, beside it, for what hardly ever happens: a stop,
//! a handover, a time limit, the expiry of a question. Such waits cost more than the event they
//! stand beside if all of them are polled for each.
//!
//! `FuturesUnordered` does this for many futures. For one it takes several times the memory, and
//! every waiting run has such a future.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::task::AtomicWaker;

/// A future that is polled only when it was woken.
#[derive(Debug)]
pub struct WhenWoken<F> {
    /// `None` after it has completed.
    future: Option<F>,
    signal: Arc<Signal>,
}

/// Notes that the future was woken, and wakes the task.
#[derive(Debug)]
struct Signal {
    is_set: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_set.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl<F> WhenWoken<F> {
    /// Wraps a future, which is polled for the first time with the result.
    pub fn new(future: F) -> Self {
        let signal = Signal { is_set: AtomicBool::new(true), task: AtomicWaker::new() };
        Self { future: Some(future), signal: Arc::new(signal) }
    }
}

impl<F: Future + Unpin> Future for WhenWoken<F> {
    type Output = F::Output;

    /// Never completes again after it has.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future: Some(future), signal } = &mut *self else { return Poll::Pending };
        // Registered first, so that a signal which comes now wakes the task again.
        signal.task.register(context.waker());
        if !signal.is_set.swap(false, Ordering::Acquire) {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(signal));
        let polled = Pin::new(future).poll(&mut Context::from_waker(&waker));
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, poll_fn},
        sync::atomic::AtomicU32,
    };

    use futures::{FutureExt, future::join};
    use tokio::{sync::Notify, task::yield_now};

    use super::*;

    /// Polls of the task are not polls of the future, but for the first one.
    #[tokio::test]
    async fn it_is_polled_only_when_woken() {
        let (n_polls, notify) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
        let counted = {
            let (n_polls, notify) = (Arc::clone(&n_polls), Arc::clone(&notify));
            let mut notified = Box::pin(async move { notify.notified().await });
            poll_fn(move |context| {
                n_polls.fetch_add(1, Ordering::Relaxed);
                notified.poll_unpin(context)
            })
        };
        let busy = async {
            for _ in 0..100 {
                yield_now().await;
            }
            assert_eq!(n_polls.load(Ordering::Relaxed), 1);
            notify.notify_one();
        };
        join(WhenWoken::new(counted), busy).await;
        assert_eq!(n_polls.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn it_completes_once() {
        let mut done = WhenWoken::new(Box::pin(async {}));
        (&mut done).await;
        assert!(done.now_or_never().is_none());
        assert!(WhenWoken::new(pending::<()>()).now_or_never().is_none());
    }
}
