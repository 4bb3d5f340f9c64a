//! The message list of S4: messages, with a block for each call.

use turnwire_contract::{CallId, Role, ToolOutcome, ToolRef};

use crate::{preview::result_summary, words};

/// A message of the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// ID of the message, stable for the whole run: `input_1`, `input_2`, … for input, the ID of
    /// the first item for output of the model.
    pub id: String,
    /// Role of the author.
    pub role: Role,
    /// The text so far. Includes a refusal.
    pub content: String,
    /// The reasoning so far.
    pub reasoning: String,
    /// The calls of this message, in the order of the model.
    pub tool_blocks: Vec<ToolBlock>,
    /// State of the text.
    pub state: MessageState,
}

/// State of the text of a message. Its tools may still be running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageState {
    /// More text follows.
    Streaming,
    /// The text is complete.
    Complete,
    /// The text was cut off.
    Cut,
    /// The worker died; another message replaces this one.
    Superseded,
}

/// A call, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolBlock {
    /// ID of the tool call.
    pub id: CallId,
    /// The tool and its kind.
    pub tool: ToolRef,
    /// The arguments so far, as JSON text.
    pub parameters: String,
    /// The arguments so far, in short form.
    pub compact_params: String,
    /// Stage of the call. Never goes back.
    pub stage: Stage,
    /// What the tool is doing, in short form.
    pub note: String,
    /// Partial output of the tool.
    pub output: String,
    /// The result in the journal, exactly as the tool returned it.
    pub result: Option<String>,
    /// Whether the tool succeeded.
    pub success: Option<bool>,
    /// Error message.
    pub error: Option<String>,
    /// The result, in short form.
    pub short_result: Option<String>,
    /// Images that the tool returned, as `data:` URLs.
    pub images: Vec<String>,
    /// Execution time in milliseconds.
    pub duration_ms: u64,
}

/// Stage of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The model has named the call.
    Start,
    /// The model generates the arguments.
    Streaming,
    /// A tool executes the call, or it waits for the user.
    Running,
    /// The call has ended.
    End,
}

impl Stage {
    /// The name of the stage in S4.
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
        if let ToolOutcome::Succeeded { output } = outcome {
            self.result = Some(output.text.clone());
            self.short_result = Some(words::call_outcome(outcome));
            self.images = output.images.iter().map(turnwire_contract::Image::data_url).collect();
        } else {
            self.short_result = Some(result_summary(outcome));
        }
    }
}
