//! Callback types and their return values.

use std::{fmt::Display, future::Future};

use futures::{FutureExt, future::BoxFuture};
use serde_json::Value;
use turnwire_contract::partial_debug;
use turnwire_surfaces::{Message, ToolBlockUpdate};

/// Return type of a callback: nothing, or a `Result` whose error is logged.
#[diagnostic::on_unimplemented(
    message = "a callback cannot return `{Self}`",
    note = "return nothing, or a `Result<(), E>` whose error can be displayed; it is logged"
)]
pub trait CallbackOutcome {
    /// Returns the error, if any.
    fn problem(self) -> Option<String>;
}

impl CallbackOutcome for () {
    fn problem(self) -> Option<String> {
        None
    }
}

impl<E: Display> CallbackOutcome for Result<(), E> {
    fn problem(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// The error of a callback, if any.
pub(crate) type Problem = Option<String>;

type OnText = Box<dyn FnMut(&str) -> Problem + Send>;
type OnTexts = Box<dyn FnMut(&str, &str) -> Problem + Send>;
type OnSignal = Box<dyn FnMut() -> Problem + Send>;
type OnToolBlock = Box<dyn FnMut(&ToolBlockUpdate<'_>) -> Problem + Send>;
type OnMessages = Box<dyn FnMut(&[Message]) -> Problem + Send>;
type OnTool = Box<dyn FnMut(ToolUpdate<'_>) -> Problem + Send>;
pub(crate) type OnEvent = Box<dyn FnMut(&'static str, Value) -> BoxFuture<'static, Problem> + Send>;

pub(crate) fn boxed_on_event<F, R>(
    mut callback: impl FnMut(&'static str, Value) -> F + Send + 'static,
) -> OnEvent
where
    F: Future<Output = R> + Send + 'static,
    R: CallbackOutcome + 'static,
{
    Box::new(move |event_type, data| callback(event_type, data).map(R::problem).boxed())
}

/// The callbacks `on_token`, `on_tool_start` and `on_tool_end`.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "they are called what the program calls them")]
pub(crate) struct TokenCallbacks {
    pub(crate) on_token: Option<OnText>,
    pub(crate) on_tool_start: Option<OnText>,
    pub(crate) on_tool_end: Option<OnTexts>,
}

/// Callbacks for a list of messages. All are optional.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "they are called what the program calls them")]
pub struct MessageCallbacks {
    pub(crate) on_assistant_message_added: Option<OnSignal>,
    pub(crate) on_assistant_content_updated: Option<OnTexts>,
    pub(crate) on_tool_block_updated: Option<OnToolBlock>,
    pub(crate) on_messages_change: Option<OnMessages>,
}

impl MessageCallbacks {
    /// Creates an empty set of callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback for a new message of the model. The message is already in the list.
    pub fn on_assistant_message_added<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut() -> R + Send + 'static,
    ) -> Self {
        self.on_assistant_message_added = Some(Box::new(move || callback().problem()));
        self
    }

    /// Sets the callback for text appended to a message. Its arguments are the new text and the
    /// full text so far. The latter is borrowed from the list, not copied.
    pub fn on_assistant_content_updated<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str, &str) -> R + Send + 'static,
    ) -> Self {
        let callback = move |chunk: &str, accumulated: &str| callback(chunk, accumulated).problem();
        self.on_assistant_content_updated = Some(Box::new(callback));
        self
    }

    /// Sets the callback for a change to a tool call.
    pub fn on_tool_block_updated<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&ToolBlockUpdate<'_>) -> R + Send + 'static,
    ) -> Self {
        let callback = move |update: &ToolBlockUpdate<'_>| callback(update).problem();
        self.on_tool_block_updated = Some(Box::new(callback));
        self
    }

    /// Sets the callback for a change to the list, which starts with the earlier messages of the
    /// conversation. Called on every structural change and at the end, and at most thirty times per
    /// second while text is appended.
    pub fn on_messages_change<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&[Message]) -> R + Send + 'static,
    ) -> Self {
        let callback = move |messages: &[Message]| callback(messages).problem();
        self.on_messages_change = Some(Box::new(callback));
        self
    }
}

/// Low-level callbacks for one input. All are optional.
#[derive(Default)]
pub struct CallOptions {
    pub(crate) on_content_update: Option<OnText>,
    pub(crate) on_tool_update: Option<OnTool>,
}

/// A tool call, as far as the model has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolUpdate<'a> {
    /// ID of the call.
    pub id: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// The arguments so far, as raw JSON.
    pub parameters: &'a str,
}

impl CallOptions {
    /// Creates an empty set of callbacks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback for the message text. Its argument is the full text so far.
    pub fn on_content_update<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str) -> R + Send + 'static,
    ) -> Self {
        self.on_content_update = Some(Box::new(move |content| callback(content).problem()));
        self
    }

    /// Sets the callback for a tool call. Called each time the model appends to the call.
    pub fn on_tool_update<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(ToolUpdate<'_>) -> R + Send + 'static,
    ) -> Self {
        self.on_tool_update = Some(Box::new(move |update| callback(update).problem()));
        self
    }
}

partial_debug!(TokenCallbacks {});
partial_debug!(MessageCallbacks {});
partial_debug!(CallOptions {});
