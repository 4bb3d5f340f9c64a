//! What a run was asked to do, and how far it may go.

use std::{collections::BTreeMap, ops::AddAssign, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{ConversationId, Item, TenantId, ToolSpec};

/// One turn of an agent, as asked for. Recorded with the run and never changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Whose run it is.
    #[serde(default)]
    pub tenant: TenantId,
    /// Which of the configured models.
    pub model: String,
    /// What the application tells the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The conversation it continues and adds to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<ConversationId>,
    /// What is new: usually one message of the user.
    pub input: Vec<Item>,
    /// The tools offered to the model. Shared: ten thousand runs offer the same ones.
    #[serde(default)]
    pub tools: Vec<Arc<ToolSpec>>,
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
}

impl RunRequest {
    /// Asks `model` about `input`, with no tools and the usual limits.
    pub fn new(model: impl Into<String>, input: Vec<Item>) -> Self {
        Self {
            tenant: TenantId::default(),
            model: model.into(),
            instructions: None,
            conversation_id: None,
            input,
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            parallel_tool_calls: true,
            generation: Generation::default(),
            limits: Limits::default(),
            metadata: BTreeMap::new(),
        }
    }
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

/// How the model should write. What is not set is left to the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Generation {
    /// More is wilder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Only the likeliest words that make up this share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The longest answer of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// How long to think, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// The JSON Schema that the answer must fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Value>,
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
    /// How long the run may take in the hands of one worker.
    pub wall_clock: Duration,
    /// How long a tool may stay silent, if its own spec does not say. Progress starts it anew.
    pub call_silence: Duration,
    /// How long a call may take altogether, whatever it reports.
    pub call_total: Duration,
    /// How often a call is tried, if its tool may be called again and says that it may work.
    pub call_attempts: u32,
    /// How long the model may stay silent.
    pub model_silence: Duration,
    /// How long one turn of the model may take.
    pub model_total: Duration,
    /// How often a turn is tried before the run fails.
    pub model_attempts: u32,
    /// How many bytes of a result the model is shown.
    pub output_to_model: usize,
    /// How many bytes of a result the journal keeps; the whole goes beside it.
    pub output_in_journal: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_turns: 32,
            max_tool_calls: 128,
            max_parallel_calls: 16,
            max_repeats: 3,
            wall_clock: Duration::from_mins(30),
            call_silence: Duration::from_mins(1),
            call_total: Duration::from_mins(10),
            call_attempts: 2,
            model_silence: Duration::from_mins(1),
            model_total: Duration::from_mins(15),
            model_attempts: 3,
            output_to_model: 64 * 1024,
            output_in_journal: 1024 * 1024,
        }
    }
}

/// What the model cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens read.
    pub input_tokens: u64,
    /// Of those, how many came from a cache.
    pub cached_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those, how many were thoughts.
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
