//! The thread that writes to the terminal, which may block, for example on a pager.

use std::{collections::VecDeque, io, sync::Arc, thread};

use futures::{StreamExt, stream::BoxStream};
use tokio::sync::{mpsc, oneshot};
use turnwire::RecordedEvent;

use super::RunUpdate;
use crate::{
    exit::{Problem, Result},
    terminal::{DisplayUpdate, Look, Screen},
};

/// Maximum number of queued updates for the terminal. If it is full, reading the events pauses;
/// they stay in the journal.
const MAX_QUEUED_UPDATES: usize = 64;

pub(super) struct Display {
    updates: mpsc::Sender<DisplayUpdate>,
    result: oneshot::Receiver<io::Result<()>>,
}

/// Result of waiting for the next event.
pub(super) enum DisplayStep {
    Event(Result<Arc<RecordedEvent>>),
    /// Another update was displayed first.
    Updated,
    Ended,
    NoDisplay,
}

impl Display {
    pub(super) fn open(look: Look) -> Result<Self> {
        let (updates, mut incoming) = mpsc::channel::<DisplayUpdate>(MAX_QUEUED_UPDATES);
        let (done, result) = oneshot::channel();
        let work = move || {
            let mut screen = Screen::new(look);
            let mut shown = Ok(());
            while let (Ok(()), Some(update)) = (&shown, incoming.blocking_recv()) {
                shown = screen.show(&update);
            }
            // Restores the terminal even if the answer could not be written.
            let finished = screen.finish();
            let _ = done.send(shown.and(finished));
        };
        let thread = thread::Builder::new().name("terminal".to_owned()).spawn(work);
        thread.map_err(|error| {
            Problem::failure(format!("cannot start the display thread: {error}"))
        })?;
        Ok(Self { updates, result })
    }

    /// Sends an update that may be dropped if the queue is full.
    pub(super) fn tell(&self, update: DisplayUpdate) {
        let _ = self.updates.try_send(update);
    }

    /// Waits for room in the queue, then displays an update or what happens next to the run;
    /// updates come first. Cancel safe.
    pub(super) async fn show_next(
        &mut self,
        run: &mut BoxStream<'static, Result<RunUpdate>>,
        updates: &mut VecDeque<DisplayUpdate>,
    ) -> DisplayStep {
        let Ok(slot) = self.updates.reserve().await else { return DisplayStep::NoDisplay };
        if let Some(update) = updates.pop_front() {
            slot.send(update);
            return DisplayStep::Updated;
        }
        tokio::select! {
            next = run.next() => match next {
                Some(Ok(RunUpdate::Event(recorded))) => {
                    slot.send(DisplayUpdate::Event(Arc::clone(&recorded)));
                    DisplayStep::Event(Ok(recorded))
                }
                Some(Ok(RunUpdate::Connection(connection))) => {
                    slot.send(DisplayUpdate::Connection(connection));
                    DisplayStep::Updated
                }
                Some(Err(problem)) => DisplayStep::Event(Err(problem)),
                None => DisplayStep::Ended,
            },
            () = self.updates.closed() => DisplayStep::NoDisplay,
        }
    }

    /// Waits until everything is displayed. Returns whether all of it could be written.
    pub(super) async fn close(self) -> io::Result<()> {
        drop(self.updates);
        self.result.await.unwrap_or_else(|_| Err(io::Error::other("the terminal crashed")))
    }
}
