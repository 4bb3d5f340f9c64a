//! One input to an agent, with the callbacks for its run.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::Arc,
};

use serde_json::Value;
use turnwire_contract::{ConversationId, Generation, Item, Limits, Seq};

use crate::{
    agent::Agent,
    callbacks::{CallOptions, CallbackOutcome, MessageCallbacks, TokenCallbacks, boxed_on_event},
    error::Error,
    run::{Reply, Run},
    watching::{Observers, watch},
};

/// Input for an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct Input(pub Vec<Item>);

impl From<&str> for Input {
    fn from(text: &str) -> Self {
        Self(vec![Item::user(text)])
    }
}

impl From<String> for Input {
    fn from(text: String) -> Self {
        Self(vec![Item::user(text)])
    }
}

impl From<Item> for Input {
    fn from(item: Item) -> Self {
        Self(vec![item])
    }
}

impl From<Vec<Item>> for Input {
    fn from(items: Vec<Item>) -> Self {
        Self(items)
    }
}

/// An input that is about to be sent. Await it for the [`Reply`].
///
/// All callbacks are optional, and none can affect the run. They are called on a separate thread.
/// Errors and panics are logged. A blocking or slow callback does not delay the run.
#[derive(Debug)]
#[must_use = "nothing is asked until this is awaited or started"]
pub struct StreamChat {
    agent: Agent,
    conversation_id: Option<ConversationId>,
    input: Input,
    limits: Option<Limits>,
    generation: Option<Generation>,
    observers: Observers,
}

impl Agent {
    /// Sends input in a new conversation. Nothing happens until the result is awaited or
    /// [started](StreamChat::start).
    pub fn stream_chat(&self, input: impl Into<Input>) -> StreamChat {
        StreamChat::new(self.clone(), None, input.into())
    }
}

impl StreamChat {
    pub(crate) fn new(agent: Agent, conversation_id: Option<ConversationId>, input: Input) -> Self {
        let observers = Observers::default();
        Self { agent, conversation_id, input, limits: None, generation: None, observers }
    }

    /// Sets the callback for the text of the answer, as it arrives.
    ///
    /// If [`on_tool_start`](Self::on_tool_start) or [`on_tool_end`](Self::on_tool_end) is not set,
    /// this callback gets `[Executing tool: …]` or `[Tool result: …]` instead.
    pub fn on_token<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str) -> R + Send + 'static,
    ) -> Self {
        self.tokens().on_token = Some(Box::new(move |token| callback(token).problem()));
        self
    }

    /// Sets the callback for the start of a tool. Its argument is the name of the tool.
    pub fn on_tool_start<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str) -> R + Send + 'static,
    ) -> Self {
        self.tokens().on_tool_start = Some(Box::new(move |name| callback(name).problem()));
        self
    }

    /// Sets the callback for the end of a tool. Its arguments are the name of the tool and a
    /// summary of the result: one line of at most 100 characters and `...`, starting with `Error: `
    /// for a failure.
    pub fn on_tool_end<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str, &str) -> R + Send + 'static,
    ) -> Self {
        let callback = move |name: &str, result: &str| callback(name, result).problem();
        self.tokens().on_tool_end = Some(Box::new(callback));
        self
    }

    /// Sets an async callback for the events `tool_call`, `tool_result`, `response` and `error`.
    /// Its arguments are the name and the data of the event. It is awaited before the next event.
    pub fn on_event<F, R>(
        mut self,
        callback: impl FnMut(&'static str, Value) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = R> + Send + 'static,
        R: CallbackOutcome + 'static,
    {
        self.observers.on_event = Some(boxed_on_event(callback));
        self
    }

    /// Maintains a list of messages and reports its changes. In a conversation the list starts with
    /// the earlier messages.
    pub fn messages(mut self, callbacks: MessageCallbacks) -> Self {
        self.observers.messages = Some(callbacks);
        self
    }

    /// Sets low-level callbacks: the text so far, and the arguments so far.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.observers.options = Some(options);
        self
    }

    /// Sets the limits of this run.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the sampling and output parameters of this run.
    pub fn generation(mut self, generation: Generation) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Starts the run and returns a handle to follow, cancel or await it. The run continues if the
    /// handle is dropped.
    pub async fn start(self) -> Result<Run, Error> {
        let Self { agent, conversation_id, input, limits, generation, mut observers } = self;
        let mut request = agent.request(input.0);
        request.conversation_id.clone_from(&conversation_id);
        request.limits = limits.unwrap_or(request.limits);
        request.generation = generation.unwrap_or(request.generation);
        if observers.is_empty() {
            let handle = agent.runs.start(request).await?;
            return Ok(Run::new(agent, handle, conversation_id, None));
        }
        if let (Some(id), Some(_)) = (&conversation_id, &observers.messages) {
            // Read before the start, because a fast run may already have added to it.
            let entries = agent.runs.store().history(&request.tenant, id).await?;
            let items = entries.into_iter().map(|entry| Arc::unwrap_or_clone(entry.item));
            observers.earlier = items.collect();
        }
        let (seen, watched) = tokio::sync::watch::channel(Seq::START);
        let handle = agent.runs.start_with_first_reader(request, Some(watched.clone())).await?;
        let events = handle.events().await?;
        watch(observers, handle.id().clone(), events, seen).map_err(|error| {
            handle.cancel();
            Error::NoThread(error)
        })?;
        Ok(Run::new(agent, handle, conversation_id, Some(watched)))
    }

    fn tokens(&mut self) -> &mut TokenCallbacks {
        self.observers.tokens.get_or_insert_default()
    }
}

impl IntoFuture for StreamChat {
    type Output = Result<Reply, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start().await?.reply().await })
    }
}
