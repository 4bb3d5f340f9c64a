//! What the stories share.

use std::{
    collections::HashMap,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt, TryStreamExt};
use serde_json::{Map, Value};
use tokio::{sync::Semaphore, time::timeout};
use turnwire::{Agent, AgentBuilder, Event, RecordedEvent, Run};
use turnwire_models::{Scripted, Turn};
use turnwire_testkit::{Behaviour, FakeTool};
use turnwire_tools::{FunctionTool, NoArguments};

/// Long enough for the busiest machine; only a hanging test waits this long.
const TOO_LONG: Duration = Duration::from_mins(1);

/// An agent that follows a script, to be given its tools.
pub(crate) fn scripted(turns: impl IntoIterator<Item = Turn>) -> AgentBuilder {
    Agent::builder().model(Scripted::new(turns))
}

/// A tool that returns `text`.
pub(crate) fn returns(name: &str, text: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Returns(text.to_owned()))
}

/// A tool that fails with `message`.
pub(crate) fn fails(name: &str, message: &str) -> FakeTool {
    FakeTool::new(name, Behaviour::Fails(message.to_owned()))
}

/// The result of `future`, which must not take for ever.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(TOO_LONG, future).await.expect("this does not take for ever")
}

/// What was seen, in order. Clones write into the same book.
#[derive(Debug)]
pub(crate) struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Notes<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::default())
    }

    pub(crate) fn write(&self, note: impl Into<T>) {
        self.0.lock().expect("nobody panics while writing").push(note.into());
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().expect("nobody panics while writing"))
    }

    pub(crate) fn all(&self) -> Vec<T>
    where
        T: Clone,
    {
        self.0.lock().expect("nobody panics while writing").clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().expect("nobody panics while writing").len()
    }
}

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// A gate that stays shut until somebody opens it. Clones are the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn shut() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.add_permits(1);
    }

    /// Waits until it is open, and leaves it open.
    pub(crate) async fn pass(&self) {
        let _permit = self.0.acquire().await.expect("a gate is never taken away");
    }

    /// A tool that says `done` once the gate is open.
    pub(crate) fn tool(&self, name: &str) -> FunctionTool<NoArguments> {
        let gate = self.clone();
        FunctionTool::new(name, "Waits.", move |_: NoArguments| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                "done"
            }
        })
        .parallel()
    }
}

/// The whole journal of a run, once it is over.
pub(crate) async fn journal(run: &Run) -> Vec<Arc<RecordedEvent>> {
    let events = run.events().await.expect("the run can be followed");
    in_time(events.try_collect()).await.expect("the journal can be read")
}

/// The journal as it would read for any other run that went the same way: without times, and
/// with ids counted in the order they appear.
pub(crate) async fn story(run: &Run) -> Vec<Value> {
    let mut names = HashMap::new();
    let events = journal(run).await;
    let values = events
        .iter()
        .map(|recorded| serde_json::to_value(&recorded.event).expect("every event can be written"));
    values.map(|value| anonymous(value, &mut names)).collect()
}

fn anonymous(value: Value, names: &mut HashMap<String, String>) -> Value {
    match value {
        Value::String(text) if is_id(&text) => {
            let next = format!("id_{}", names.len() + 1);
            Value::String(names.entry(text).or_insert(next).clone())
        }
        Value::Array(values) => {
            values.into_iter().map(|value| anonymous(value, names)).collect::<Vec<_>>().into()
        }
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(name, _)| !name.ends_with("_ms"));
            let kept = kept.map(|(name, value)| (name, anonymous(value, names)));
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// Whether this is an id that the engine made up: `run_` and 32 hexadecimal digits.
fn is_id(text: &str) -> bool {
    let digits = text.rsplit_once('_').map(|(_, digits)| digits);
    digits.is_some_and(|digits| {
        digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// Waits for the first event that `wanted` finds something in.
pub(crate) async fn wait_for<T>(run: &Run, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
    let mut events = run.events().await.expect("the run can be followed");
    in_time(async {
        while let Some(recorded) = events.next().await {
            let recorded = recorded.expect("the journal can be read");
            if let Some(found) = wanted(&recorded.event) {
                return found;
            }
        }
        panic!("the run ended before that happened")
    })
    .await
}
