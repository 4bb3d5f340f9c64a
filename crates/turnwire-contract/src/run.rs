//! What a run was asked to do, and how far it may go.

use std::{collections::BTreeMap, ops::AddAssign, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    CallId, ConversationId, Decision, Entry, Generation, Item, RunId, ServerRef, TenantId,
    ToolKind, ToolRef, ToolSpec,
};

/// One turn of an agent, as asked for. Recorded with the run and never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Whose run it is.
    #[serde(default)]
    pub tenant: TenantId,
    /// Which of the configured models.
    pub model: String,
    /// Which model of its provider answers under that name, if it has another one there. A worker
    /// where the name means another model leaves the run to others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream_model: Option<String>,
    /// What the application tells the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The conversation it continues and adds to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// The run it continues, where there is no conversation: all that run had seen and said
    /// comes before the input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
    /// What came before, for a run that continues something no store has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Entry>,
    /// What is new: usually one message of the user.
    pub input: Vec<Item>,
    /// The tools offered to the model. Shared: ten thousand runs offer the same ones.
    #[serde(default)]
    pub tools: Vec<Arc<ToolSpec>>,
    /// The tool servers whose tools are offered too, once they were asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerUse>,
    /// Calls that are carried out before the model is asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_calls: Vec<FirstCall>,
    /// What to do about calls that a person must allow.
    #[serde(default)]
    pub approvals: Approvals,
    /// Whether somebody is there whom a tool may ask for input. If not, it is told so at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inputs: bool,
    /// Whether the model must, may or must not use them.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether several calls of one answer may run at the same time.
    pub parallel_tool_calls: bool,
    /// How the model should write.
    #[serde(default)]
    pub generation: Generation,
    /// How far the run may go.
    #[serde(default)]
    pub limits: Limits,
    /// The client's own notes, kept and handed back.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What only the surface understands that took the request, kept so that it can hand it
    /// back. Nothing else reads it.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub echo: Map<String, Value>,
}

impl RunRequest {
    /// Asks `model` about `input`, with no tools and the usual limits.
    pub fn new(model: impl Into<String>, input: Vec<Item>) -> Self {
        Self {
            tenant: TenantId::default(),
            model: model.into(),
            upstream_model: None,
            instructions: None,
            conversation_id: None,
            continues: None,
            before: Vec::new(),
            input,
            tools: Vec::new(),
            servers: Vec::new(),
            first_calls: Vec::new(),
            approvals: Approvals::Wait,
            inputs: false,
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            generation: Generation::default(),
            limits: Limits::default(),
            metadata: BTreeMap::new(),
            echo: Map::new(),
        }
    }
}

impl RunRequest {
    /// The server that goes by `label` in this run.
    pub fn server<'a>(&'a self, label: &'a str) -> ServerRef<'a> {
        let used = self.servers.iter().find(|server| server.label == label);
        used.map_or(label.into(), ServerUse::server)
    }

    /// The input as entries of a conversation, in a run of this id. The same request gives the
    /// same names every time.
    pub fn entries(&self, run_id: &RunId) -> Vec<Entry> {
        let run = run_id.as_str();
        let run = run.split_once('_').map_or(run, |(_, rest)| rest);
        let named = |(n, item): (usize, &Item)| {
            let prefix = match item {
                Item::Message { .. } => "msg",
                Item::Reasoning { .. } => "rs",
                Item::Call { kind: ToolKind::Custom, .. } => "ctc",
                Item::Call { .. } => "fc",
                Item::CallResult { custom: true, .. } => "ctco",
                Item::CallResult { .. } => "fco",
            };
            Entry::new(format!("{prefix}_{run}_{n}"), item.clone())
        };
        self.input.iter().enumerate().map(named).collect()
    }
}

/// A tool server that a run uses, and how far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerUse {
    /// Its label: in the settings, or in the request that brings it.
    pub label: String,
    /// Where it is, if a request brings it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Which of its tools are offered; all of them if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<Vec<String>>,
    /// Which of its tools a person must allow, beside those that always need it.
    pub ask_before: AskBefore,
}

impl ServerUse {
    /// All tools of the server `label`.
    pub fn all_of(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Which server that is.
    pub fn server(&self) -> ServerRef<'_> {
        ServerRef { label: &self.label, url: self.url.as_deref() }
    }

    /// Whether the tool of this name is offered.
    pub fn allows(&self, name: &str) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|known| known == name))
    }
}

/// Which tools a person must allow before each call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AskBefore {
    /// None of them.
    #[default]
    Nothing,
    /// All of them.
    Everything,
    /// These.
    Only(Vec<String>),
    /// All but these.
    AllBut(Vec<String>),
}

impl AskBefore {
    /// Whether a person must allow a call of the tool `name`.
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

/// What a run does about calls that a person must allow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approvals {
    /// It waits for the answer.
    #[default]
    Wait,
    /// It ends, and the answer comes with the next run, as one of its first calls.
    HandBack,
    /// Nobody can be asked: the calls are declined, the model is told, and the run goes on.
    Decline,
}

/// A call that is carried out before the model is asked: one that the run before had to ask a
/// person about, or one that is tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstCall {
    /// The call. If the history ends with a call of this id, this is the answer to it;
    /// otherwise the call itself enters the history too.
    pub call_id: CallId,
    /// Which tool.
    pub tool: ToolRef,
    /// The arguments, as raw JSON text.
    pub arguments: String,
    /// What a person decided about it, if one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// Whether the model must, may or must not use tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// Not at all.
    None,
    /// At least one.
    Required,
    /// This one.
    Named {
        /// Its name.
        name: String,
    },
}

/// How far a run may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// How often the model may be asked.
    pub max_turns: u32,
    /// How many calls may be carried out.
    pub max_tool_calls: u32,
    /// How many of them at the same time.
    pub max_parallel_calls: u32,
    /// How many turns in a row may bring the very same calls with the very same results.
    pub max_repeats: u32,
    /// How many workers may die over the run without having brought it on.
    pub max_recoveries: u32,
    /// How long the run may work, over all of its workers. The time in which it waits for people
    /// does not count.
    pub wall_clock: Duration,
    /// How long a tool may stay silent, if its own spec does not say. Progress starts it anew.
    pub call_silence: Duration,
    /// How long a call may take altogether, whatever it reports.
    pub call_total: Duration,
    /// How long a person may take to answer, if the tool's own spec does not say. For ever if not
    /// set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_expiry: Option<Duration>,
    /// How often a call is tried, if its tool may be called again and says that it may work.
    pub call_attempts: u32,
    /// How long the model may stay silent.
    pub model_silence: Duration,
    /// How long one turn of the model may take.
    pub model_total: Duration,
    /// How often a turn is tried before the run fails.
    pub model_attempts: u32,
    /// How many unreadable parts of an answer are left out before the turn is ended. With 0 the
    /// first one ends it.
    pub max_skipped_parts: u32,
    /// How many bytes of a result the model is shown.
    pub output_to_model: usize,
    /// How many bytes of a result the journal keeps; the whole goes beside it.
    pub output_in_journal: usize,
    /// How many bytes one answer of the model may have; what comes after is not waited for.
    pub max_turn_output: usize,
    /// How many bytes all of its answers may have together.
    pub max_run_output: usize,
    /// How many bytes the arguments of a call may have; one with more is not carried out.
    pub max_arguments: usize,
    /// For how many turns of a conversation the model is shown results whole; older ones are
    /// shown shortened. All of them if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole_results_for: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 32,
            max_tool_calls: 128,
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

/// What the model cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Usage {
    /// Tokens read.
    #[schema(required)]
    pub input_tokens: u64,
    /// Of those, how many came from a cache.
    #[schema(required)]
    pub cached_tokens: u64,
    /// Tokens written.
    #[schema(required)]
    pub output_tokens: u64,
    /// Of those, how many were thoughts.
    #[schema(required)]
    pub reasoning_tokens: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.cached_tokens += other.cached_tokens;
        self.output_tokens += other.output_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
    }
}
