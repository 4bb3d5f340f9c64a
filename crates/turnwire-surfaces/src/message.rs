//! What the message list of S4 is made of: messages, and in them a block for each call.

use turnwire_contract::{CallId, Role, ToolOutcome, ToolRef};

use crate::{preview::result_summary, words};

/// One message of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Stable for the whole run: `input_1`, `input_2`, … for what was asked, the id of the
    /// first item the model opened for its own.
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// What is said, so far. A refusal is here too.
    pub content: String,
    /// What was thought, so far.
    pub reasoning: String,
    /// The calls of this message, in the order the model named them.
    pub tool_blocks: Vec<ToolBlock>,
    /// Whether more of the content will come.
    pub state: MessageState,
}

/// Whether a message was said to its end. Its tools may still be at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// More will come.
    Streaming,
    /// It was said to its end.
    Complete,
    /// It was cut; what is there stays.
    Cut,
    /// Its worker died; another message replaces it.
    Superseded,
}

/// One call, as it is shown.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolBlock {
    /// The call.
    pub id: CallId,
    /// Which tool, and of what kind.
    pub tool: ToolRef,
    /// The arguments as raw JSON text, so far.
    pub parameters: String,
    /// The arguments in a few words, so far.
    pub compact_params: String,
    /// How far it has come; never goes back.
    pub stage: Stage,
    /// What the tool is doing, in a few words.
    pub note: String,
    /// What the tool let out while it worked.
    pub output: String,
    /// The whole text in the journal, exactly as the tool returned it.
    pub result: Option<String>,
    /// Whether the tool says it worked.
    pub success: Option<bool>,
    /// What went wrong, in one sentence.
    pub error: Option<String>,
    /// The result in a few words.
    pub short_result: Option<String>,
    /// Pictures the tool returned, as addresses that carry them along.
    pub images: Vec<String>,
    /// How long the tool worked.
    pub duration_ms: u64,
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The model has named it.
    Start,
    /// The model is writing its arguments.
    Streaming,
    /// A tool is at work on it, or it waits for a person.
    Running,
    /// It is over.
    End,
}

impl Stage {
    /// The stage as S4 writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Streaming => "streaming",
            Self::Running => "running",
            Self::End => "end",
        }
    }
}

impl Message {
    pub(crate) fn new(id: String, role: Role, state: MessageState) -> Self {
        let (content, reasoning) = (String::new(), String::new());
        Self { id, role, content, reasoning, tool_blocks: Vec::new(), state }
    }
}

impl ToolBlock {
    pub(crate) fn new(id: CallId, tool: ToolRef) -> Self {
        Self {
            id,
            tool,
            parameters: String::new(),
            compact_params: String::new(),
            stage: Stage::Start,
            note: String::new(),
            output: String::new(),
            result: None,
            success: None,
            error: None,
            short_result: None,
            images: Vec::new(),
            duration_ms: 0,
        }
    }

    pub(crate) fn end(&mut self, outcome: &ToolOutcome, duration_ms: u64) {
        self.stage = Stage::End;
        self.success = Some(outcome.is_success());
        self.error = outcome.problem();
        self.duration_ms = duration_ms;
        match outcome {
            ToolOutcome::Succeeded { output } => {
                self.result = Some(output.text.clone());
                self.short_result = Some(words::ending(outcome));
                self.images =
                    output.images.iter().map(turnwire_contract::Image::data_url).collect();
            }
            ToolOutcome::Failed { .. }
            | ToolOutcome::TimedOut { .. }
            | ToolOutcome::Cancelled
            | ToolOutcome::Denied { .. }
            | ToolOutcome::InvalidArguments { .. }
            | ToolOutcome::NotFound { .. }
            | ToolOutcome::Skipped { .. }
            | ToolOutcome::OutcomeUnknown { .. } => {
                self.short_result = Some(result_summary(outcome));
            }
        }
    }
}
