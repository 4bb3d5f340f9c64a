//! What a tool sees of a worker that gives its run up.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should fall over")]

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::StreamExt;
use serde_json::json;
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};
use turnwire_contract::{
    Event, Item, Journal, RecordedEvent, RunRequest, TenantId, Tool, ToolContext, ToolError,
    ToolOutput, ToolRequest, ToolSpec,
};
use turnwire_engine::{EngineParts, Runs, Toolbox};
use turnwire_models::{Scripted, Turn};
use turnwire_stores::Store;

use crate::support::Backend;

/// So long that no run is claimed because its worker is late.
const LEASE: Duration = Duration::from_mins(1);

/// How long anything may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// How a call ended for its tool.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Cancelled,
    /// Dropped, and told that another worker continues the call.
    Left,
    Dropped,
}

/// How the worker lets go of the run.
#[derive(Debug, Clone, Copy)]
enum Way {
    HandOver,
    /// Another worker has taken the run over.
    Lost,
    Cancel,
}

/// A tool that works until it is cancelled or dropped.
struct Patient {
    spec: ToolSpec,
    report: Arc<Notify>,
    ends: mpsc::UnboundedSender<End>,
}

/// Says how the call ended when it is dropped.
struct Call {
    context: ToolContext,
    ends: mpsc::UnboundedSender<End>,
    was_cancelled: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        let end = match (self.was_cancelled, self.context.is_left()) {
            (true, _) => End::Cancelled,
            (false, true) => End::Left,
            (false, false) => End::Dropped,
        };
        let _ = self.ends.send(end);
    }
}

#[async_trait]
impl Tool for Patient {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: ToolRequest, context: ToolContext) -> Result<ToolOutput, ToolError> {
        let mut call = Call { context, ends: self.ends.clone(), was_cancelled: false };
        loop {
            tokio::select! {
                () = call.context.cancelled() => break,
                () = self.report.notified() => call.context.phase("still at it").await,
            }
        }
        call.was_cancelled = true;
        Err(ToolError::failed("the call was cancelled"))
    }
}

/// C14, C20: a worker that hands its run over, or has lost it, does not cancel the run's calls:
/// another worker continues them. Only a cancel cancels.
#[tokio::test]
async fn leaving_is_not_cancelling() {
    for backend in Backend::both() {
        for (way, expected) in
            [(Way::HandOver, End::Left), (Way::Lost, End::Left), (Way::Cancel, End::Cancelled)]
        {
            let end = timeout(SOON, end_of_call(&backend, way)).await;
            assert_eq!(end, Ok(expected), "{way:?}, {}", backend.url);
        }
    }
}

async fn end_of_call(backend: &Backend, way: Way) -> End {
    let [store, other]: [Store; 2] = backend.stores_with(2, LEASE).await.try_into().unwrap();
    let (report, (ends, mut ended)) = (Arc::new(Notify::new()), mpsc::unbounded_channel());
    let spec = ToolSpec::new("patient", "Works on.");
    let mut tools = Toolbox::default();
    tools.add(Arc::new(Patient { spec, report: Arc::clone(&report), ends })).unwrap();
    let specs = tools.specs();
    let runs = Runs::new(EngineParts {
        any_model: Some(Arc::new(Scripted::new([Turn::new().call("patient", json!({}))]))),
        tools,
        journal: Arc::new(store.clone()),
        store: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        workers: Arc::new(store),
        ..EngineParts::default()
    });
    runs.start_worker().await.unwrap();
    let mut request = RunRequest::new("m", vec![Item::user("?")]);
    request.tools = specs;
    let run = runs.start(request).await.unwrap();
    let mut events = run.events().await.unwrap();
    let started = loop {
        let recorded = events.next().await.unwrap().unwrap();
        if matches!(recorded.event, Event::ToolStarted { .. }) {
            break recorded;
        }
    };
    match way {
        Way::HandOver => runs.hand_over(Duration::ZERO).await,
        Way::Lost => {
            let event = Event::taken_over(2);
            let taken = RecordedEvent { event, seq: started.seq.next(), ..(*started).clone() };
            other.append(&TenantId::default(), vec![Arc::new(taken)]).await.unwrap();
            report.notify_one();
        }
        Way::Cancel => {
            runs.cancel(&TenantId::default(), run.id()).await.unwrap();
        }
    }
    ended.recv().await.unwrap()
}
