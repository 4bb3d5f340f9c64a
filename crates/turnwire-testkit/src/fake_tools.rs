//! Fake tools with every behaviour a tool can have.

use std::{
    future::pending,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use turnwire_contract::{
    Effect, Image, Question, Reply, Tool, ToolContext, ToolError, ToolOutput, ToolRequest, ToolSpec,
};

/// What a [`FakeTool`] does when it is called.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Returns this text at once.
    Returns(String),
    /// Returns this data and a short text at once.
    ReturnsData(Value),
    /// Returns this text after a delay.
    Takes(Duration, String),
    /// Multiplies `a` and `b`.
    Multiplies,
    /// Fails with this message.
    Fails(String),
    /// Fails with this message after a delay.
    FailsAfter(Duration, String),
    /// Fails transiently this many times, then returns this text.
    FailsAtFirst(u32, String),
    /// Disappears after a delay, with an unknown outcome and this message.
    Vanishes(Duration, String),
    Panics,
    /// Never returns and ignores cancellation.
    Hangs,
    /// Returns only when it is cancelled.
    WaitsToBeStopped,
    /// Reports this many steps at this interval, then returns the text.
    Reports(u32, Duration, String),
    /// Returns an image without text.
    Draws,
    /// Asks a person this question and returns the answer.
    Asks(Question),
}

/// A tool for tests that records its calls.
#[derive(Debug, Clone)]
pub struct FakeTool {
    spec: ToolSpec,
    behaviour: Behaviour,
    n_calls: Arc<AtomicU32>,
    calls: Arc<Mutex<Vec<(Instant, ToolRequest)>>>,
}

impl FakeTool {
    /// Creates a pure, parallel tool that accepts any arguments.
    pub fn new(name: &str, behaviour: Behaviour) -> Self {
        let mut spec = ToolSpec::new(name, "A prop.");
        spec.effect = Effect::Pure;
        spec.parallel = true;
        if matches!(behaviour, Behaviour::Multiplies) {
            spec.parameters = json!({
                "type": "object",
                "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
                "required": ["a", "b"],
            });
        }
        Self { spec, behaviour, n_calls: Arc::default(), calls: Arc::default() }
    }

    pub fn with(mut self, change: impl FnOnce(&mut ToolSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    /// Returns how often it was called.
    pub fn n_calls(&self) -> u32 {
        self.n_calls.load(Ordering::SeqCst)
    }

    /// Returns the time and request of each call.
    pub fn calls(&self) -> Vec<(Instant, ToolRequest)> {
        self.calls.lock().expect("no test panics while it holds this lock").clone()
    }
}

#[async_trait]
impl Tool for FakeTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(
        &self,
        request: ToolRequest,
        context: ToolContext,
    ) -> Result<ToolOutput, ToolError> {
        let n_before = self.n_calls.fetch_add(1, Ordering::SeqCst);
        self.calls
            .lock()
            .expect("no test panics while it holds this lock")
            .push((Instant::now(), request.clone()));
        match &self.behaviour {
            Behaviour::Returns(text) => Ok(ToolOutput::text(text)),
            Behaviour::ReturnsData(data) => {
                let structured = Some(data.clone());
                Ok(ToolOutput { structured, ..ToolOutput::text("some data") })
            }
            Behaviour::Takes(time, text) => {
                sleep(*time).await;
                Ok(ToolOutput::text(text))
            }
            Behaviour::Multiplies => {
                let number = |name| request.arguments.get(name).and_then(serde_json::Value::as_f64);
                let product = number("a").unwrap_or(f64::NAN) * number("b").unwrap_or(f64::NAN);
                Ok(ToolOutput::text(product.to_string()))
            }
            Behaviour::Fails(message) => Err(ToolError::failed(message)),
            Behaviour::FailsAfter(time, message) => {
                sleep(*time).await;
                Err(ToolError::failed(message))
            }
            Behaviour::FailsAtFirst(times, text) if n_before >= *times => {
                Ok(ToolOutput::text(text))
            }
            Behaviour::FailsAtFirst(..) => Err(ToolError::Transient("not this time".to_owned())),
            Behaviour::Vanishes(time, what) => {
                sleep(*time).await;
                Err(ToolError::OutcomeUnknown(what.clone()))
            }
            // Panics without invoking the panic hook, so that nothing is printed.
            Behaviour::Panics => resume_unwind(Box::new("this prop crashes")),
            Behaviour::Hangs => pending().await,
            Behaviour::WaitsToBeStopped => {
                context.cancelled().await;
                Err(ToolError::failed("stopped"))
            }
            Behaviour::Reports(steps, time, text) => {
                context.phase("working").await;
                for step in 1..=*steps {
                    sleep(*time).await;
                    let (progress, total) = (f64::from(step), f64::from(*steps));
                    context.progress_with(progress, total, format!("step {step}")).await;
                    context.output(format!("line {step}\n")).await;
                }
                Ok(ToolOutput::text(text))
            }
            Behaviour::Asks(question) => match context.ask(question.clone()).await {
                Reply::Accepted { content } => {
                    Ok(ToolOutput::text(format!("told: {}", serde_json::Value::Object(content))))
                }
                Reply::Declined => Ok(ToolOutput::text("declined")),
                Reply::Cancelled => Err(ToolError::failed("nobody answered")),
            },
            Behaviour::Draws => {
                let image = Image { media_type: "image/png".to_owned(), base64: "iVBO".to_owned() };
                Ok(ToolOutput { images: vec![image], ..ToolOutput::default() })
            }
        }
    }
}
