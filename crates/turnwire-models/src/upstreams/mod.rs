//! Several upstreams of one model: load by weight, and fail-over before the first content.
//!
//! [`Upstreams`] is a [`Model`] that passes a request on to one of several others. `pool` chooses
//! it, `breaker` keeps requests away from one that fails, and `answer` waits for the first content.
//! If an upstream fails before that, the request goes to another one, and the run does not notice.
//! After it, the error is passed on, because a client may have seen the content.
//!
//! A request tries each upstream at most once. A budget limits such retries to a fifth of the
//! requests, so that a general outage is not multiplied; the retries of the engine, which pause
//! first, are on top.

mod answer;
mod breaker;
mod pool;

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use tokio::time::{Instant, timeout};
use tower::retry::budget::{Budget, TpsBudget};
use tracing::{debug, warn};
use turnwire_contract::{Capabilities, Model, ModelError, ModelStream, Prompt, partial_debug};

use self::{
    answer::{Answer, until_content},
    pool::{Pool, Refusal, UpstreamPermit},
};

/// Default of [`UpstreamsOptions::max_wait`].
pub const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(5);

/// Time for which requests count towards the budget.
const BUDGET_WINDOW: Duration = Duration::from_secs(10);

/// Retries per second that are allowed without any requests.
const MIN_RETRIES_PER_SECOND: u32 = 3;

/// Part of the requests that may be retried.
const RETRIED_PART: f32 = 0.2;

/// Number of seconds after which a request that found all upstreams busy may be sent again.
const BUSY_WAIT: Duration = Duration::from_secs(2);

/// One of several upstreams.
#[derive(Clone)]
pub struct Upstream {
    /// Name for the log.
    pub name: String,
    /// The model there.
    pub model: Arc<dyn Model>,
    /// Share of the requests, relative to the other upstreams. With 0 it is used only if no other
    /// upstream can be.
    pub weight: u32,
    /// Maximum number of concurrent requests; unlimited if not set.
    pub max_concurrency: Option<usize>,
}

impl Upstream {
    /// An upstream of weight 1 without a concurrency limit.
    pub fn new(name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        Self { name: name.into(), model, weight: 1, max_concurrency: None }
    }
}

partial_debug!(Upstream { name, weight, max_concurrency });

/// Settings of [`Upstreams`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamsOptions {
    /// Maximum time until the first content of an answer; then the next upstream is asked. The
    /// engine's limit on silence has to be longer. Unlimited if not set.
    pub first_content_timeout: Option<Duration>,
    /// Maximum time that a request waits while all upstreams are at their concurrency limit.
    pub max_wait: Duration,
}

impl Default for UpstreamsOptions {
    fn default() -> Self {
        Self { first_content_timeout: None, max_wait: DEFAULT_MAX_WAIT }
    }
}

/// A model with several upstreams. An only upstream is never passed over.
#[derive(Clone)]
pub struct Upstreams {
    pool: Arc<Pool>,
    budget: Arc<TpsBudget>,
    options: UpstreamsOptions,
}

impl Upstreams {
    /// Passes requests on to `upstreams`. Without any, all requests fail as misconfigured.
    pub fn new(upstreams: Vec<Upstream>, options: UpstreamsOptions) -> Self {
        let budget = TpsBudget::new(BUDGET_WINDOW, MIN_RETRIES_PER_SECOND, RETRIED_PART);
        Self { pool: Arc::new(Pool::new(upstreams)), budget: Arc::new(budget), options }
    }

    /// Goes on from `before`, after a change of the settings: an upstream with the same
    /// [model](Upstream::model) is as healthy and as busy as it was there.
    pub fn succeeding(self, before: &Self) -> Self {
        let Self { pool, budget: _, options } = self;
        let pool = match Arc::try_unwrap(pool) {
            Ok(pool) => Arc::new(pool.succeeding(&before.pool)),
            // It is in use, so it has a state of its own.
            Err(pool) => pool,
        };
        Self { pool, budget: Arc::clone(&before.budget), options }
    }

    /// Asks `upstream`, and returns its answer once that has content.
    async fn ask(
        &self,
        mut upstream: UpstreamPermit,
        prompt: Prompt,
    ) -> Result<ModelStream, ModelError> {
        let Some(model) = upstream.model() else { return Err(nobody()) };
        let started = Instant::now();
        let asked = match (self.pool.len(), self.options.first_content_timeout) {
            // Nothing could be done but to pass the error on.
            (0 | 1, None) => model.stream(prompt).await.map(|parts| (Vec::new().into(), parts)),
            (_, None) => first_content(&model, prompt).await,
            (_, Some(limit)) => match timeout(limit, first_content(&model, prompt)).await {
                Ok(asked) => asked,
                Err(_) => Err(silent(limit)),
            },
        };
        let elapsed_ms = started.elapsed().as_millis();
        match asked {
            Ok((held, parts)) => {
                debug!(upstream = upstream.name(), elapsed_ms, "upstream answers");
                upstream.succeed();
                Ok(Box::pin(Answer::new(held, parts, upstream)))
            }
            Err(error) => {
                // Every other error is logged by the engine.
                if self.pool.len() > 1 && another_may_answer(&error) {
                    warn!(upstream = upstream.name(), elapsed_ms, %error, "upstream failed");
                }
                if is_fault(&error) {
                    upstream.fail(&error);
                } else {
                    upstream.succeed();
                }
                Err(error)
            }
        }
    }
}

#[async_trait]
impl Model for Upstreams {
    fn upstream_model(&self, name: &str) -> String {
        self.pool.first_model().map_or_else(|| name.to_owned(), |model| model.upstream_model(name))
    }

    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        self.budget.deposit();
        let mut tried = Vec::new();
        let mut errors = Vec::new();
        loop {
            let upstream = match self.pool.acquire(&tried, self.options.max_wait).await {
                Ok(upstream) => upstream,
                Err(Refusal::Busy) if errors.is_empty() => return Err(busy()),
                Err(Refusal::Busy) => return Err(most_useful(errors)),
                Err(Refusal::PassedOver(causes)) => {
                    errors.extend(causes);
                    return Err(most_useful(errors));
                }
            };
            tried.push(upstream.index);
            match self.ask(upstream, prompt.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(error) if another_may_answer(&error) => errors.push(error),
                Err(error) => return Err(error),
            }
            if tried.len() >= self.pool.len() || !self.budget.withdraw() {
                return Err(most_useful(errors));
            }
        }
    }

    fn capabilities(&self) -> Capabilities {
        self.pool.first_model().map_or_else(Capabilities::default, |model| model.capabilities())
    }
}

impl fmt::Debug for Upstreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstreams").field("options", &self.options).finish_non_exhaustive()
    }
}

type FirstContent = (std::collections::VecDeque<turnwire_contract::ModelPart>, ModelStream);

async fn first_content(model: &Arc<dyn Model>, prompt: Prompt) -> Result<FirstContent, ModelError> {
    let mut parts = model.stream(prompt).await?;
    let held = until_content(&mut parts).await?;
    Ok((held, parts))
}

/// Whether the error says that the upstream does not work. A request that an upstream rejects says
/// nothing about it, nor does a model name from a request that it does not have.
fn is_fault(error: &ModelError) -> bool {
    match error {
        ModelError::Unavailable { .. }
        | ModelError::RateLimited { .. }
        | ModelError::Misconfigured { .. }
        | ModelError::Broken { .. } => true,
        ModelError::UnknownModel { .. }
        | ModelError::Overloaded { .. }
        | ModelError::ContextTooLong { .. }
        | ModelError::ContentFiltered { .. }
        | ModelError::Rejected { .. } => false,
    }
}

fn another_may_answer(error: &ModelError) -> bool {
    is_fault(error)
        || matches!(error, ModelError::UnknownModel { .. } | ModelError::Overloaded { .. })
}

/// Returns the error that says the most to the client: one that passes, the soonest first.
fn most_useful(errors: Vec<ModelError>) -> ModelError {
    let rank = |error: &ModelError| match error {
        ModelError::Unavailable { retry_after, .. }
        | ModelError::RateLimited { retry_after, .. }
        | ModelError::Overloaded { retry_after, .. } => (0, retry_after.unwrap_or_default()),
        ModelError::Broken { .. } => (0, Duration::ZERO),
        ModelError::Misconfigured { .. } => (2, Duration::ZERO),
        _ => (1, Duration::ZERO),
    };
    errors.into_iter().min_by_key(rank).unwrap_or_else(nobody)
}

fn silent(limit: Duration) -> ModelError {
    let message = format!("no content within {} s", limit.as_secs_f64());
    ModelError::Unavailable { message, retry_after: None }
}

fn busy() -> ModelError {
    let message = "all upstreams are at their concurrency limit".to_owned();
    ModelError::Overloaded { message, retry_after: Some(BUSY_WAIT) }
}

fn nobody() -> ModelError {
    ModelError::Misconfigured { message: "the model has no upstreams".to_owned() }
}

#[cfg(test)]
#[path = "upstreams_tests.rs"]
mod tests;
