//! One question to an agent, with whoever wants to watch the answer.

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

/// What an agent is asked.
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

/// One question, about to be asked. Await it for the [`Reply`].
///
/// Every callback is optional, and none can harm the run: one that panics, returns an error,
/// blocks or is slow is logged or waited for on a thread of its own, while the run goes on.
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

impl StreamChat {
    pub(crate) fn new(agent: Agent, conversation_id: Option<ConversationId>, input: Input) -> Self {
        let observers = Observers::default();
        Self { agent, conversation_id, input, limits: None, generation: None, observers }
    }

    /// Is called with every piece of the answer as it comes.
    ///
    /// Unless both [`on_tool_start`](Self::on_tool_start) and [`on_tool_end`](Self::on_tool_end)
    /// are given, the missing ones are told here, as `[Executing tool: …]` and
    /// `[Tool result: …]`.
    pub fn on_token<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str) -> R + Send + 'static,
    ) -> Self {
        self.tokens().on_token = Some(Box::new(move |token| callback(token).problem()));
        self
    }

    /// Is called with the tool's name before each tool begins.
    pub fn on_tool_start<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str) -> R + Send + 'static,
    ) -> Self {
        self.tokens().on_tool_start = Some(Box::new(move |name| callback(name).problem()));
        self
    }

    /// Is called with the tool's name and a summary of its result after each tool has ended.
    /// The summary is one line of at most 100 characters and `...`; a failure begins with
    /// `Error: `.
    pub fn on_tool_end<R: CallbackOutcome>(
        mut self,
        mut callback: impl FnMut(&str, &str) -> R + Send + 'static,
    ) -> Self {
        let callback = move |name: &str, result: &str| callback(name, result).problem();
        self.tokens().on_tool_end = Some(Box::new(callback));
        self
    }

    /// Is called with `tool_call`, `tool_result`, `response` or `error`, and what belongs to it,
    /// and awaited before the next one.
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

    /// Keeps a list of messages up to date and tells what changes in it. In a conversation the
    /// list begins with what was said before.
    pub fn messages(mut self, callbacks: MessageCallbacks) -> Self {
        self.observers.messages = Some(callbacks);
        self
    }

    /// Low-level callbacks: the answer so far, the arguments so far.
    pub fn options(mut self, options: CallOptions) -> Self {
        self.observers.options = Some(options);
        self
    }

    /// How far this run may go.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How the model should write this time.
    pub fn generation(mut self, generation: Generation) -> Self {
        self.generation = Some(generation);
        self
    }

    /// Starts the run and returns at once, with a handle to watch, cancel or await it. The run
    /// does not depend on the handle.
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
            // Read before the start: a quick run could have added to it already.
            let entries = agent.runs.store().history(&request.tenant, id).await?;
            let items = entries.into_iter().map(|entry| Arc::unwrap_or_clone(entry.item));
            observers.earlier = items.collect();
        }
        let (seen, watched) = tokio::sync::watch::channel(Seq::START);
        let handle = agent.runs.start_watched(request, Some(watched.clone())).await?;
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
