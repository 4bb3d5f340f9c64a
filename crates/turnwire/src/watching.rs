//! Calls the callbacks on a separate thread.
//!
//! The thread reads the journal like any other reader, at its own pace. A callback that blocks
//! delays only this thread, a panic is caught here, and no callback sees an event that is not
//! durable.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::{Duration, Instant},
};

use futures::StreamExt;
use tokio::{runtime::Handle, sync::watch, time::timeout};
use tracing::{info_span, warn};
use turnwire_contract::{EventStream, Item, RecordedEvent, RunId, Seq, partial_debug};
use turnwire_surfaces::{
    CallbackFrame, Callbacks, ChatEvents, ChatFrame, MessageFrame, Messages, Projection, Stage,
    ToolCallbacks,
};

use crate::callbacks::{
    CallOptions, MessageCallbacks, OnEvent, Problem, TokenCallbacks, ToolUpdate,
};

/// Minimum interval between updates of the message list while text is appended; about thirty
/// updates per second.
const BETWEEN_CHANGES: Duration = Duration::from_millis(33);

/// The callbacks of a run.
#[derive(Default)]
pub(crate) struct Observers {
    pub(crate) tokens: Option<TokenCallbacks>,
    pub(crate) on_event: Option<OnEvent>,
    pub(crate) messages: Option<MessageCallbacks>,
    pub(crate) options: Option<CallOptions>,
    /// Items of the conversation before the run, for the message list.
    pub(crate) earlier: Vec<Item>,
}

impl Observers {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { tokens, on_event, messages, options, earlier: _ } = self;
        tokens.is_none() && on_event.is_none() && messages.is_none() && options.is_none()
    }

    /// Returns one observer per kind of callback, each with its projection.
    fn into_observers(self, runtime: &Handle) -> Vec<Box<dyn Observer>> {
        let Self { tokens, on_event, messages, options, earlier } = self;
        let mut into_observers: Vec<Box<dyn Observer>> = Vec::new();
        if let Some(callbacks) = tokens {
            let given = ToolCallbacks {
                start: callbacks.on_tool_start.is_some(),
                end: callbacks.on_tool_end.is_some(),
            };
            into_observers
                .push(Box::new(TokenObserver { surface: Callbacks::new(given), callbacks }));
        }
        if let Some(callback) = on_event {
            let (surface, runtime) = (ChatEvents::new(), runtime.clone());
            into_observers.push(Box::new(EventObserver { surface, callback, runtime }));
        }
        if let Some(callbacks) = messages {
            let (surface, changes) = (Messages::after(&earlier), Changes::default());
            into_observers.push(Box::new(MessageObserver { surface, callbacks, changes }));
        }
        if let Some(options) = options {
            into_observers.push(Box::new(OptionObserver { surface: Messages::new(), options }));
        }
        into_observers
    }
}

partial_debug!(Observers {});

/// Passes the events of a run to `observers` on a separate thread, and publishes the last processed
/// event in `seen`.
pub(crate) fn watch(
    observers: Observers,
    run_id: RunId,
    mut events: EventStream,
    seen: watch::Sender<Seq>,
) -> io::Result<()> {
    let runtime = Handle::current();
    let mut into_observers = observers.into_observers(&runtime);
    let show = move || {
        // Callbacks may spawn tasks, and their errors are logged with the run ID.
        let _runtime = runtime.enter();
        let _span = info_span!("callbacks", %run_id).entered();
        let mut wait = None;
        loop {
            let next = match wait {
                None => Ok(runtime.block_on(events.next())),
                Some(wait) => runtime.block_on(async { timeout(wait, events.next()).await }),
            };
            match next {
                Ok(Some(Ok(recorded))) => {
                    for observer in &mut into_observers {
                        observer.see(&recorded);
                    }
                    seen.send_replace(recorded.seq);
                }
                Ok(Some(Err(error))) => {
                    warn!(%error, "callbacks stopped, journal unavailable");
                    return;
                }
                Ok(None) => return,
                Err(_) => {
                    for observer in &mut into_observers {
                        observer.catch_up();
                    }
                }
            }
            wait = into_observers.iter().filter_map(|observer| observer.catches_up_in()).min();
        }
    };
    // A thread and not a task: a callback may block forever, and must not block the shutdown of the
    // runtime.
    thread::Builder::new().name("turnwire-callbacks".to_owned()).spawn(show).map(drop)
}

/// A projection of a run with its callbacks.
trait Observer: Send {
    fn see(&mut self, recorded: &RecordedEvent);

    /// Time until a postponed update is due.
    fn catches_up_in(&self) -> Option<Duration> {
        None
    }

    /// Delivers the postponed update.
    fn catch_up(&mut self) {}
}

/// Calls a callback, and logs its error or panic.
fn call(name: &str, callback: impl FnOnce() -> Problem) {
    match catch_unwind(AssertUnwindSafe(callback)) {
        Ok(None) => {}
        Ok(Some(problem)) => warn!(callback = name, %problem, "callback failed"),
        Err(panic) => {
            let problem = words_of(panic.as_ref());
            warn!(callback = name, %problem, "callback panicked");
        }
    }
}

/// Returns the message of a panic.
fn words_of(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<&str>().copied();
    words.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

struct TokenObserver {
    surface: Callbacks,
    callbacks: TokenCallbacks,
}

impl Observer for TokenObserver {
    fn see(&mut self, recorded: &RecordedEvent) {
        let TokenCallbacks { on_token, on_tool_start, on_tool_end } = &mut self.callbacks;
        for frame in self.surface.project(recorded) {
            match frame {
                CallbackFrame::Token(token) => {
                    if let Some(on_token) = on_token {
                        call("on_token", || on_token(&token));
                    }
                }
                CallbackFrame::ToolStart { name } => {
                    if let Some(on_tool_start) = on_tool_start {
                        call("on_tool_start", || on_tool_start(&name));
                    }
                }
                CallbackFrame::ToolEnd { name, summary } => {
                    if let Some(on_tool_end) = on_tool_end {
                        call("on_tool_end", || on_tool_end(&name, &summary));
                    }
                }
            }
        }
    }
}

struct EventObserver {
    surface: ChatEvents,
    callback: OnEvent,
    runtime: Handle,
}

impl Observer for EventObserver {
    fn see(&mut self, recorded: &RecordedEvent) {
        for frame in self.surface.project(recorded) {
            // The end of the stream is only for wires.
            if matches!(frame, ChatFrame::Done { .. }) {
                continue;
            }
            let Self { callback, runtime, .. } = self;
            call("on_event", || runtime.block_on(callback(frame.event_type(), frame.data())));
        }
    }
}

struct MessageObserver {
    surface: Messages,
    callbacks: MessageCallbacks,
    changes: Changes,
}

/// Time of the last call of `on_messages_change`, and whether an update is postponed.
#[derive(Default)]
struct Changes {
    told_at: Option<Instant>,
    held_back: bool,
}

impl Changes {
    fn wait(&self) -> Duration {
        let since = self.told_at.map(|told_at| told_at.elapsed());
        since.map_or(Duration::ZERO, |since| BETWEEN_CHANGES.saturating_sub(since))
    }
}

impl MessageObserver {
    fn tell_of_change(&mut self) {
        self.changes = Changes { told_at: Some(Instant::now()), held_back: false };
        if let Some(on_messages_change) = &mut self.callbacks.on_messages_change {
            call("on_messages_change", || on_messages_change(self.surface.messages()));
        }
    }
}

impl Observer for MessageObserver {
    fn see(&mut self, recorded: &RecordedEvent) {
        for frame in self.surface.project(recorded) {
            let callbacks = &mut self.callbacks;
            match &frame {
                MessageFrame::AssistantMessageAdded { .. } => {
                    if let Some(added) = &mut callbacks.on_assistant_message_added {
                        call("on_assistant_message_added", added);
                    }
                }
                MessageFrame::ContentUpdated { message, chunk } => {
                    if let Some(updated) = &mut callbacks.on_assistant_content_updated {
                        let accumulated = self.surface.accumulated(*message);
                        call("on_assistant_content_updated", || updated(chunk, accumulated));
                    }
                }
                MessageFrame::ToolBlockUpdated { .. } => {
                    if let Some(updated) = &mut callbacks.on_tool_block_updated
                        && let Some(update) = self.surface.update(&frame)
                    {
                        call("on_tool_block_updated", || updated(&update));
                    }
                }
                MessageFrame::MessagesChanged { structural } => {
                    if *structural || self.changes.wait().is_zero() {
                        self.tell_of_change();
                    } else {
                        self.changes.held_back = true;
                    }
                }
            }
        }
        if recorded.event.ends_the_run() && self.changes.held_back {
            self.tell_of_change();
        }
    }

    fn catches_up_in(&self) -> Option<Duration> {
        self.changes.held_back.then(|| self.changes.wait())
    }

    fn catch_up(&mut self) {
        if self.changes.held_back && self.changes.wait().is_zero() {
            self.tell_of_change();
        }
    }
}

struct OptionObserver {
    surface: Messages,
    options: CallOptions,
}

impl Observer for OptionObserver {
    fn see(&mut self, recorded: &RecordedEvent) {
        for frame in self.surface.project(recorded) {
            match &frame {
                MessageFrame::ContentUpdated { message, .. } => {
                    if let Some(updated) = &mut self.options.on_content_update {
                        let content = self.surface.accumulated(*message);
                        call("on_content_update", || updated(content));
                    }
                }
                MessageFrame::ToolBlockUpdated {
                    stage: Stage::Start | Stage::Streaming, ..
                } => {
                    if let Some(updated) = &mut self.options.on_tool_update
                        && let Some(update) = self.surface.update(&frame)
                    {
                        let (id, name, parameters) = (update.id, update.name, update.parameters);
                        let update = ToolUpdate { id, name, parameters };
                        call("on_tool_update", || updated(update));
                    }
                }
                MessageFrame::ToolBlockUpdated { stage: Stage::Running | Stage::End, .. }
                | MessageFrame::AssistantMessageAdded { .. }
                | MessageFrame::MessagesChanged { .. } => {}
            }
        }
    }
}
