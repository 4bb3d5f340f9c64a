//! Metrics of runs: a projection of their events as this process records them.
//!
//! Labels have the values of a fixed list or of the settings. A name that a client or a model made
//! up is counted as [`OTHER`], so that nobody can create series.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::Family,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use turnwire_contract::{
    CallId, DiscoveryOutcome, Event, Finish, ObservedRun, Observer, RecordedEvent, RunObserver,
    RunOutcome, Timestamp, ToolKind, ToolOutcome, ToolRef, Usage,
};
use turnwire_engine::failures;

use super::{CodeLabel, OutcomeLabel, histograms};

/// Label of models and servers that are not in the settings.
const OTHER: &str = "other";
const INPUT: &str = "input";
const OUTPUT: &str = "output";
/// Billionths in one unit of the operator's currency.
const NANOS: f64 = 1e9;

/// The families, shared by the observers of all runs.
#[derive(Debug, Clone)]
pub(crate) struct RunMetrics(Arc<Families>);

metric_table! {
    /// The metrics of all runs.
    struct Families {
        /// Runs started here
        runs_started: Counter,
        /// Runs that ended here, by outcome
        runs_finished: Family<OutcomeLabel, Counter>,
        /// Runs that failed here, by error code
        runs_failed: Family<CodeLabel, Counter>,
        /// Time from the creation of a run to its end
        run_duration in Seconds: Histogram = Histogram::new(exponential_buckets(0.1, 2.0, 16)),
        /// Finished answers of models, by model and by why the model stopped
        turns: Family<TurnLabels, Counter>,
        /// Duration of an answer of a model, retries included
        turn_duration in Seconds: Family<ModelLabel, Histogram> = histograms(seconds),
        /// Failed requests to models that were repeated
        turn_retries: Family<ModelLabel, Counter>,
        /// Time from the request to a model to the first part of its answer
        time_to_first_token in Seconds: Family<ModelLabel, Histogram> = histograms(seconds),
        /// Tokens used, by model and type
        tokens: Family<TokenLabels, Counter>,
        /// Tokens of an answer of a model that reports them, by model and type
        turn_tokens: Family<TokenLabels, Histogram> = histograms(token_counts),
        /// Cost of models, in the operator's currency
        cost: Family<ModelLabel, Counter<f64, AtomicU64>>,
        /// Tool calls that ended, by kind of tool, server and outcome
        tool_calls: Family<CallOutcomeLabels, Counter>,
        /// Execution time of tool calls that were started
        tool_call_duration in Seconds: Family<CallLabels, Histogram> = histograms(seconds),
        /// Failed tool calls that were repeated
        tool_call_retries: Family<CallLabels, Counter>,
        /// Requests to tool servers for their tools, by server and outcome
        tool_listings: Family<ListingLabels, Counter>,
        /// Calls that waited for a person's approval
        approvals_requested: Counter,
        /// Time from the append of events to their being durable
        journal_append in Seconds: Histogram = Histogram::new(exponential_buckets(0.0005, 2.0, 14)),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModelLabel {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    model: String,
    finish: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    model: String,
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    kind: &'static str,
    server: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallOutcomeLabels {
    kind: &'static str,
    server: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ListingLabels {
    server: String,
    outcome: &'static str,
}

/// Buckets from 10 ms to 5 minutes.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.01, 2.0, 16))
}

/// Buckets from 1 to 67 million tokens, as the semantic conventions have them.
fn token_counts() -> Histogram {
    Histogram::new(exponential_buckets(1.0, 4.0, 14))
}

impl RunMetrics {
    /// Registers the families. Those of `models` exist from the start, so that a rate has a value
    /// before the first run.
    pub(super) fn new(registry: &mut Registry, models: &[String]) -> Self {
        let families = Families::new(registry);
        families.begin();
        families.add_models(models);
        Self(Arc::new(families))
    }

    /// Adds the families of models that a reload brought. Those of models that are gone stay.
    pub(super) fn add_models(&self, models: &[String]) {
        self.0.add_models(models);
    }
}

impl Families {
    fn begin(&self) {
        for outcome in ["completed", "incomplete", "failed", "cancelled"] {
            drop(self.runs_finished.get_or_create(&OutcomeLabel { outcome }));
        }
        for code in failures::CODES.into_iter().chain([OTHER]) {
            drop(self.runs_failed.get_or_create(&CodeLabel { code }));
        }
        self.add_models(&[OTHER.to_owned()]);
        for kind in [ToolKind::Function, ToolKind::Mcp] {
            let server = if kind == ToolKind::Mcp { OTHER } else { "" }.to_owned();
            let labels = CallLabels { kind: kind_name(kind), server };
            drop(self.tool_call_duration.get_or_create(&labels));
            drop(self.tool_call_retries.get_or_create(&labels));
            for outcome in ["succeeded", "failed"] {
                drop(self.tool_calls.get_or_create(&labels.clone().ended(outcome)));
            }
        }
        for outcome in ["listed", "failed"] {
            let server = OTHER.to_owned();
            drop(self.tool_listings.get_or_create(&ListingLabels { server, outcome }));
        }
    }

    fn add_models(&self, models: &[String]) {
        for model in models {
            let label = ModelLabel { model: model.clone() };
            drop(self.turn_duration.get_or_create(&label));
            drop(self.turn_retries.get_or_create(&label));
            drop(self.time_to_first_token.get_or_create(&label));
            drop(self.cost.get_or_create(&label));
            for finish in [Finish::Answered, Finish::CalledTools, Finish::Interrupted] {
                let (model, finish) = (model.clone(), finish_name(finish));
                drop(self.turns.get_or_create(&TurnLabels { model, finish }));
            }
            self.count_tokens(model, &Usage::default());
            for r#type in [INPUT, OUTPUT] {
                let labels = TokenLabels { model: model.clone(), r#type };
                drop(self.turn_tokens.get_or_create(&labels));
            }
        }
    }

    fn count_tokens(&self, model: &str, usage: &Usage) {
        let counts = [
            (INPUT, usage.input_tokens),
            ("cached", usage.cached_tokens),
            (OUTPUT, usage.output_tokens),
            ("reasoning", usage.reasoning_tokens),
        ];
        let n_all = usage.input_tokens.saturating_add(usage.output_tokens);
        for (r#type, n) in counts {
            let labels = TokenLabels { model: model.to_owned(), r#type };
            self.tokens.get_or_create(&labels).inc_by(n);
            // A provider that reports nothing has not used zero tokens.
            if n_all > 0 && [INPUT, OUTPUT].contains(&r#type) {
                #[expect(clippy::cast_precision_loss, reason = "a bucket is rounded anyway")]
                self.turn_tokens.get_or_create(&labels).observe(n as f64);
            }
        }
    }
}

impl CallLabels {
    fn ended(self, outcome: &'static str) -> CallOutcomeLabels {
        CallOutcomeLabels { kind: self.kind, server: self.server, outcome }
    }
}

impl Observer for RunMetrics {
    fn observe(&self, run: ObservedRun<'_>) -> Box<dyn RunObserver> {
        let is_named = run.is_model_configured;
        let mut servers: BTreeSet<String> = run.servers.into_iter().collect();
        // A request may give a server of its own a label of the settings.
        servers.retain(|label| run.request.server(label).url.is_none());
        Box::new(MeasuredRun {
            families: Arc::clone(&self.0),
            model: if is_named { run.request.model.clone() } else { OTHER.to_owned() },
            servers,
            queued_at: None,
            turn: None,
            calls: HashMap::new(),
        })
    }
}

/// What is counted about one run.
struct MeasuredRun {
    families: Arc<Families>,
    model: String,
    /// Labels that the settings have.
    servers: BTreeSet<String>,
    queued_at: Option<Timestamp>,
    turn: Option<OpenTurn>,
    /// The calls that have not ended.
    calls: HashMap<CallId, CallLabels>,
}

#[derive(Debug, Clone, Copy)]
struct OpenTurn {
    began: Timestamp,
    has_spoken: bool,
}

impl MeasuredRun {
    /// Follows the run, and returns the start of the turn if this is its first part.
    fn follow(&mut self, recorded: &RecordedEvent) -> Option<Timestamp> {
        match &recorded.event {
            Event::RunQueued { .. } => self.queued_at = Some(recorded.at),
            // Turn 0 is not a model's: it has the calls of the request.
            Event::TurnStarted { turn } if *turn > 0 => {
                self.turn = Some(OpenTurn { began: recorded.at, has_spoken: false });
            }
            Event::TurnAbandoned { .. } => self.turn = None,
            Event::CallAnnounced { call_id, tool, .. } => {
                self.calls.insert(call_id.clone(), self.labels(tool));
                return self.first_part();
            }
            Event::TextAdded { .. } | Event::RefusalAdded { .. } | Event::ReasoningAdded { .. } => {
                return self.first_part();
            }
            _ => {}
        }
        None
    }

    /// Forgets what has ended.
    fn forget(&mut self, recorded: &RecordedEvent) {
        match &recorded.event {
            Event::TurnFinished { .. } => self.turn = None,
            Event::ToolFinished { call_id, .. } => drop(self.calls.remove(call_id)),
            _ => {}
        }
    }

    fn first_part(&mut self) -> Option<Timestamp> {
        let turn = self.turn.as_mut().filter(|turn| !turn.has_spoken)?;
        turn.has_spoken = true;
        Some(turn.began)
    }

    fn labels(&self, tool: &ToolRef) -> CallLabels {
        let server = tool.server.as_deref().map(|label| self.server(label)).unwrap_or_default();
        CallLabels { kind: kind_name(tool.kind), server }
    }

    fn server(&self, label: &str) -> String {
        self.servers.get(label).cloned().unwrap_or_else(|| OTHER.to_owned())
    }

    fn model(&self) -> ModelLabel {
        ModelLabel { model: self.model.clone() }
    }

    fn turn_finished(&self, at: Timestamp, finish: Finish, usage: &Usage) {
        let Some(turn) = self.turn else { return };
        let (families, model) = (&self.families, self.model.clone());
        families.turns.get_or_create(&TurnLabels { model, finish: finish_name(finish) }).inc();
        observe(&families.turn_duration.get_or_create(&self.model()), at.since(turn.began));
        families.count_tokens(&self.model, usage);
        #[expect(clippy::cast_precision_loss, reason = "a metric is rounded anyway")]
        let cost = usage.cost_nanos.unwrap_or(0) as f64 / NANOS;
        families.cost.get_or_create(&self.model()).inc_by(cost);
    }

    fn call_finished(&self, call_id: &CallId, outcome: &ToolOutcome, duration_ms: u64) {
        let Some(labels) = self.calls.get(call_id) else { return };
        let families = &self.families;
        families.tool_calls.get_or_create(&labels.clone().ended(outcome.name())).inc();
        // A call that ended before it began has no duration; one that was started may have taken less
        // than a millisecond.
        let was_started = match outcome {
            ToolOutcome::Succeeded { .. }
            | ToolOutcome::Failed { .. }
            | ToolOutcome::TimedOut { .. }
            | ToolOutcome::OutcomeUnknown { .. } => true,
            ToolOutcome::Cancelled
            | ToolOutcome::Denied { .. }
            | ToolOutcome::InvalidArguments { .. }
            | ToolOutcome::NotFound { .. }
            | ToolOutcome::Skipped { .. } => duration_ms > 0,
        };
        if was_started {
            let duration = Duration::from_millis(duration_ms);
            observe(&families.tool_call_duration.get_or_create(labels), duration);
        }
    }
}

impl RunObserver for MeasuredRun {
    fn recall(&mut self, recorded: &RecordedEvent) {
        self.follow(recorded);
        self.forget(recorded);
    }

    fn note(&mut self, recorded: &RecordedEvent) {
        if let Some(began) = self.follow(recorded) {
            let first_tokens = self.families.time_to_first_token.get_or_create(&self.model());
            observe(&first_tokens, recorded.at.since(began));
        }
        let families = &self.families;
        match &recorded.event {
            Event::RunStarted => drop(families.runs_started.inc()),
            Event::TurnRetried { .. } => {
                families.turn_retries.get_or_create(&self.model()).inc();
            }
            Event::TurnFinished { finish, usage, .. } => {
                self.turn_finished(recorded.at, *finish, usage);
            }
            Event::ToolRetried { call_id, .. } => {
                if let Some(labels) = self.calls.get(call_id) {
                    families.tool_call_retries.get_or_create(labels).inc();
                }
            }
            Event::ToolFinished { call_id, outcome, duration_ms } => {
                self.call_finished(call_id, outcome, *duration_ms);
            }
            Event::ApprovalRequested { .. } => drop(families.approvals_requested.inc()),
            Event::ToolsDiscovered { server, outcome, .. } => {
                let outcome = match outcome {
                    DiscoveryOutcome::Listed { .. } => "listed",
                    DiscoveryOutcome::Failed { .. } => "failed",
                };
                let server = self.server(server);
                families.tool_listings.get_or_create(&ListingLabels { server, outcome }).inc();
            }
            Event::RunFinished { outcome, .. } => {
                if let RunOutcome::Failed { failure } = outcome {
                    let code = known_code(&failure.code);
                    families.runs_failed.get_or_create(&CodeLabel { code }).inc();
                }
                let outcome = outcome.name();
                families.runs_finished.get_or_create(&OutcomeLabel { outcome }).inc();
                if let Some(queued_at) = self.queued_at {
                    observe(&families.run_duration, recorded.at.since(queued_at));
                }
            }
            _ => {}
        }
        self.forget(recorded);
    }

    fn appended(&mut self, after: Duration) {
        observe(&self.families.journal_append, after);
    }
}

fn observe(histogram: &Histogram, duration: Duration) {
    histogram.observe(duration.as_secs_f64());
}

/// The code, if it is one of the engine. A journal of a newer version may have others.
fn known_code(code: &str) -> &'static str {
    failures::CODES.into_iter().find(|known| *known == code).unwrap_or(OTHER)
}

fn finish_name(finish: Finish) -> &'static str {
    match finish {
        Finish::Answered => "answered",
        Finish::CalledTools => "called_tools",
        Finish::Length => "length",
        Finish::ContentFilter => "content_filter",
        Finish::Interrupted => "interrupted",
    }
}

fn kind_name(kind: ToolKind) -> &'static str {
    match kind {
        ToolKind::Function => "function",
        ToolKind::Client => "client",
        ToolKind::Custom => "custom",
        ToolKind::Mcp => "mcp",
        ToolKind::WebSearch => "web_search",
        ToolKind::FileSearch => "file_search",
    }
}
