//! The request that creates a run, and the limits of a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::AddAssign,
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    Actor, BudgetScope, CallId, ConversationId, Decision, Entry, Generation, Item, ItemId, RunId,
    Scope, ServerRef, ServerSecrets, TenantId, ToolRef, ToolSpec, TraceContext,
};

/// A request for a run. Recorded with the run and never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Tenant of the run.
    #[serde(default)]
    pub tenant: TenantId,
    /// Who asked for the run. Not set if the server needs no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<Arc<Actor>>,
    /// Scopes of whoever asked, as far as models and tools of the settings name them. They hold for
    /// the whole run, whichever worker executes it.
    #[serde(default, rename = "uses", skip_serializing_if = "BTreeSet::is_empty")]
    pub granted_scopes: BTreeSet<Scope>,
    /// Trace context of the request, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Arc<TraceContext>>,
    /// Name of a configured model.
    pub model: String,
    /// The provider's name of the model, if it differs. A worker on which `model` refers to another
    /// model declines the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_model: Option<String>,
    /// Instructions for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Conversation that the run continues and adds to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// First entry of the conversation that the run replaces. It and everything after it is
    /// superseded when the run is created: it is no longer part of the conversation, and stays with
    /// the runs that it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ItemId>,
    /// Run that is continued, if there is no conversation. Its history, input and output come
    /// before the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// History, for a run that continues something that is not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Entry>,
    /// New items, usually one user message.
    pub input: Vec<Item>,
    /// Tools offered to the model. Shared, because many runs offer the same ones.
    #[serde(default)]
    pub tools: Vec<Arc<ToolSpec>>,
    /// Tool servers whose tools are also offered, after they are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerUse>,
    /// Calls to execute before the first turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_calls: Vec<FirstCall>,
    /// Number of items of the input that come before the first calls. The others come after their
    /// results.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub n_before_calls: usize,
    /// Whether the run ends after `first_calls`, without asking the model.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub calls_only: bool,
    /// How to handle calls that need approval.
    #[serde(default)]
    pub approvals: Approvals,
    /// Whether tools may ask the user for input. If false, such requests are declined at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inputs: bool,
    /// How to handle calls whose outcome is unknown.
    #[serde(default, skip_serializing_if = "UnknownOutcomes::is_default")]
    pub unknown_outcomes: UnknownOutcomes,
    /// Whether the model must, may or must not call tools.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether several calls of one answer may be executed concurrently.
    pub parallel_tool_calls: bool,
    /// Sampling and output parameters.
    #[serde(default)]
    pub generation: Generation,
    /// Limits of the run.
    #[serde(default)]
    pub limits: Limits,
    /// Metadata set by the client, returned unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// Data of the surface that received the request, which only that surface interprets: the
    /// fields that a response repeats, for example. Other code reads only its key `store`. Stored
    /// as `echo`.
    #[serde(rename = "echo", default, skip_serializing_if = "Map::is_empty")]
    pub surface_data: Map<String, Value>,
}

impl RunRequest {
    /// Creates a request without tools and with default limits.
    pub fn new(model: impl Into<String>, input: Vec<Item>) -> Self {
        Self {
            tenant: TenantId::default(),
            asked_by: None,
            granted_scopes: BTreeSet::new(),
            trace: None,
            model: model.into(),
            upstream_model: None,
            instructions: None,
            conversation_id: None,
            replaces: None,
            continues: None,
            before: Vec::new(),
            input,
            tools: Vec::new(),
            servers: Vec::new(),
            first_calls: Vec::new(),
            n_before_calls: 0,
            calls_only: false,
            approvals: Approvals::Wait,
            inputs: false,
            unknown_outcomes: UnknownOutcomes::Tell,
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            generation: Generation::default(),
            limits: Limits::default(),
            metadata: BTreeMap::new(),
            surface_data: Map::new(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl RunRequest {
    /// Returns the server with the label `label` in this run.
    pub fn server<'a>(&'a self, label: &'a str) -> ServerRef<'a> {
        let used = self.servers.iter().find(|server| server.label == label);
        used.map_or(label.into(), ServerUse::server)
    }

    /// Returns the input as conversation entries of the run `run_id`. The IDs are deterministic.
    pub fn entries(&self, run_id: &RunId) -> Vec<Entry> {
        Entry::of_input(run_id, &self.input)
    }
}

/// A tool server used by a run, with restrictions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerUse {
    /// Label, from the settings or from the request.
    pub label: String,
    /// URL of the server, if the request supplied it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Names of the tools to offer; all if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// Tools that need approval, in addition to those that always need it.
    pub ask_before: AskBefore,
    /// Whether the request supplied headers for the server. They are stored apart, encrypted, until
    /// the run ends.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_secrets: bool,
    /// These headers, until the run is created. No record and no event contains them.
    #[serde(skip)]
    pub secrets: Option<ServerSecrets>,
}

impl ServerUse {
    /// Uses all tools of the server `label`.
    pub fn all_of(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Returns the reference to the server.
    pub fn server(&self) -> ServerRef<'_> {
        ServerRef { label: &self.label, url: self.url.as_deref(), access: None }
    }

    /// Whether the tool `name` is offered.
    pub fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|known| known == name))
    }
}

/// Tools that need approval before each call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskBefore {
    /// None.
    #[default]
    Nothing,
    /// All.
    Everything,
    /// Only these.
    Only(Vec<String>),
    /// All except these.
    AllBut(Vec<String>),
}

impl AskBefore {
    /// Whether a call of the tool `name` needs approval.
    pub fn includes(&self, name: &str) -> bool {
        let has = |names: &[String]| names.iter().any(|known| known == name);
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Only(names) => has(names),
            Self::AllBut(names) => !has(names),
        }
    }
}

/// How a run handles calls that need approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approvals {
    /// The run waits for the answer.
    #[default]
    Wait,
    /// The run ends. The answer is one of the first calls of the next run.
    HandBack,
    /// The calls are denied because no person can be asked. The model is informed, and the run
    /// continues.
    Decline,
}

/// How a run handles calls whose outcome is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownOutcomes {
    /// The model is told that the outcome is unknown.
    #[default]
    Tell,
    /// A person settles the call, if tools may ask for input. Otherwise the model is told.
    Ask,
}

impl UnknownOutcomes {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A call that is executed before the first turn: one that waited for approval at the end of the
/// previous run, or one that is repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstCall {
    /// ID of the call. If the history ends with this call, this is its result; otherwise the call
    /// itself is also added to the history.
    pub call_id: CallId,
    /// The tool.
    pub tool: ToolRef,
    /// The arguments as raw JSON.
    pub arguments: String,
    /// Decision on the approval request, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The budget that the decision is about, if the approval request was about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<BudgetScope>,
}

/// Whether the model must, may or must not call tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call tools.
    None,
    /// The model must call at least one tool.
    Required,
    /// The model must call this tool.
    Named {
        /// Name of the tool.
        name: String,
    },
}

/// Limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Maximum number of turns.
    pub max_turns: u32,
    /// Maximum number of tool calls.
    pub max_tool_calls: u32,
    /// Cost at which the model is not asked again, in billionths of the operator's currency. No
    /// limit if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost_nanos: Option<u64>,
    /// Cost at which a person is asked before the run goes on. Nobody is asked if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_cost_nanos: Option<u64>,
    /// Share of the month's budget of the run's key or tenant at which a person is asked before the
    /// run goes on, in percent. Set by the engine, if there is such a budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_month_percent: Option<u8>,
    /// Maximum number of concurrent tool calls.
    pub max_parallel_calls: u32,
    /// Maximum number of consecutive turns with identical calls and identical results.
    pub max_repeats: u32,
    /// Maximum number of workers that may die during the run without making progress.
    pub max_recoveries: u32,
    /// Maximum execution time over all workers. Time spent waiting for people does not count.
    pub wall_clock: Duration,
    /// Maximum time without a report from a tool, if its spec sets none. Progress restarts it.
    pub call_silence: Duration,
    /// Maximum duration of a call, regardless of progress.
    pub call_total: Duration,
    /// Time after which an unanswered approval request is denied, if the tool's spec sets none.
    /// Never if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_expiry: Option<Duration>,
    /// Maximum number of attempts per call, if the tool may be called again and reports a retryable
    /// error.
    pub call_attempts: u32,
    /// Maximum time without output from the model.
    pub model_silence: Duration,
    /// Maximum duration of one turn.
    pub model_total: Duration,
    /// Maximum number of attempts per turn.
    pub model_attempts: u32,
    /// Maximum number of unreadable parts that are skipped per turn. With 0, the first one ends the
    /// turn.
    pub max_skipped_parts: u32,
    /// Maximum number of bytes of a result that the model receives.
    pub output_to_model: usize,
    /// Maximum number of bytes of a result in the journal. A larger result is stored as a blob.
    pub output_in_journal: usize,
    /// Maximum number of bytes of one answer of the model. The rest is not read.
    pub max_turn_output: usize,
    /// Maximum number of bytes of all answers together.
    pub max_run_output: usize,
    /// Maximum number of bytes of a call's arguments. A larger call is not executed.
    pub max_arguments: usize,
    /// Number of turns of a conversation for which the model receives results in full. Older
    /// results are shortened. All are in full if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_results_for: Option<u32>,
}

impl Limits {
    /// Whether a person may be asked about a budget during the run.
    pub fn ask_about_budgets(&self) -> bool {
        self.ask_cost_nanos.is_some() || self.ask_month_percent.is_some()
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 32,
            max_tool_calls: 128,
            max_cost_nanos: None,
            ask_cost_nanos: None,
            ask_month_percent: None,
            max_parallel_calls: 16,
            max_repeats: 3,
            max_recoveries: 10,
            wall_clock: Duration::from_mins(30),
            call_silence: Duration::from_mins(1),
            call_total: Duration::from_mins(10),
            approval_expiry: None,
            call_attempts: 2,
            model_silence: Duration::from_mins(1),
            model_total: Duration::from_mins(15),
            model_attempts: 3,
            max_skipped_parts: 16,
            output_to_model: 64 * 1024,
            output_in_journal: 1024 * 1024,
            max_turn_output: 4 * 1024 * 1024,
            max_run_output: 16 * 1024 * 1024,
            max_arguments: 256 * 1024,
            whole_results_for: None,
        }
    }
}

/// Tokens used by the model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Usage {
    /// Input tokens.
    #[schema(required)]
    pub input_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    #[schema(required)]
    pub cached_tokens: u64,
    /// Output tokens, including reasoning.
    #[schema(required)]
    pub output_tokens: u64,
    /// Output tokens used for reasoning.
    #[schema(required)]
    pub reasoning_tokens: u64,
    /// Cost in billionths of the operator's currency. Absent if it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanos: Option<u64>,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_nanos = match (self.cost_nanos, other.cost_nanos) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
    }
}
