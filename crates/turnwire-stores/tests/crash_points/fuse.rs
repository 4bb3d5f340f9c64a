//! A process that dies at a chosen point.
//!
//! Every port is wrapped: just before and just after each interaction with the store, the model
//! or a tool there is a point with a name. At the chosen one the fuse burns: whoever got there
//! never gets on, and the test drops the whole runtime, as the end of a process would.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use tokio::sync::Notify;
use turnwire_contract::{
    Model, ModelError, ModelStream, Prompt, Tool, ToolContext, ToolError, ToolOutput, ToolRequest,
    ToolSpec,
};
use turnwire_testkit::{Broken, StoreCall, Watcher};

/// Knows every point that was reached, and where it has to end.
#[derive(Debug, Default)]
pub(crate) struct Fuse {
    at: Option<String>,
    reached: Mutex<Reached>,
    burnt: Notify,
}

#[derive(Debug, Default)]
struct Reached {
    counts: HashMap<String, usize>,
    names: Vec<String>,
}

impl Fuse {
    /// Burns at the point of this name; never, if there is none.
    pub(crate) fn new(at: Option<String>) -> Arc<Self> {
        Arc::new(Self { at, ..Self::default() })
    }

    /// All points that were reached, in order.
    pub(crate) fn reached(&self) -> Vec<String> {
        self.reached.lock().unwrap().names.clone()
    }

    /// Waits until it has burnt.
    pub(crate) async fn burnt(&self) {
        self.burnt.notified().await;
    }

    async fn point(&self, side: &str, what: &str) {
        let name = {
            let mut reached = self.reached.lock().unwrap();
            let kind = format!("{side} {what}");
            let count = reached.counts.entry(kind.clone()).or_default();
            *count += 1;
            let name = format!("{kind} {count}");
            reached.names.push(name.clone());
            name
        };
        if self.at.as_ref() == Some(&name) {
            self.burnt.notify_one();
            pending::<()>().await;
        }
    }

    async fn around<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        self.point("before", what).await;
        let done = work.await;
        self.point("after", what).await;
        done
    }
}

/// A model or a tool with a fuse.
#[derive(Clone)]
pub(crate) struct Fused<T> {
    pub(crate) inner: T,
    pub(crate) fuse: Arc<Fuse>,
}

#[async_trait]
impl Model for Fused<turnwire_models::Scripted> {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        self.fuse.around("model", self.inner.stream(prompt)).await
    }
}

#[async_trait]
impl Tool for Fused<turnwire_testkit::FakeTool> {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        self.fuse.around("tool", self.inner.call(request, context)).await
    }
}

/// The points at the store: what changes it, and what a run is built from.
fn point_of(call: StoreCall<'_>) -> Option<&'static str> {
    match call.name {
        "append_end" => Some("append the end"),
        "put" => Some("put aside"),
        name @ ("append" | "create" | "finish" | "allowed" | "allow" | "context" | "history") => {
            Some(name)
        }
        _ => None,
    }
}

#[async_trait]
impl Watcher for Fuse {
    async fn before(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        if let Some(what) = point_of(call) {
            self.point("before", what).await;
        }
        Ok(())
    }

    async fn after(&self, call: StoreCall<'_>) -> Result<(), Broken> {
        if let Some(what) = point_of(call) {
            self.point("after", what).await;
        }
        Ok(())
    }
}
