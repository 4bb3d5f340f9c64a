//! The native surface: every event, as it stands in the journal.
//!
//! What goes over the wire is [`Recorded`](turnwire_contract::Recorded) as it serializes,
//! `{"run_id", "seq", "at", "event": {"type", …}}`: the same line that the journal keeps and
//! `--json` prints, so that a stream, a file and an export are one format. The contract knows
//! nothing of any document about it, so its words are repeated here, once. Tests send every
//! kind of event through these types and back; a field that is missing here, or is written
//! differently, fails them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// An event with its place in the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NativeRecord {
    /// The run it belongs to.
    pub run_id: String,
    /// Its place: 1, 2, 3, … without gaps.
    pub seq: u64,
    /// When it was recorded.
    #[schema(format = DateTime)]
    pub at: String,
    /// What happened.
    pub event: NativeEvent,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum NativeEvent {
    /// The run exists and waits to be worked on.
    RunQueued {
        /// What was asked for; all a projection ever needs to know of the request.
        #[schema(value_type = Object)]
        request: Value,
    },
    /// A worker has taken up the run.
    RunStarted,
    /// Another worker continues a run whose worker went away.
    RunTakenOver {
        /// 2 for the second worker, and so on.
        attempt: u32,
    },

    /// The model is being asked.
    TurnStarted {
        /// 1 for the first answer of this run.
        turn: u32,
    },
    /// The model could not be reached or broke off before its first word; it is asked again.
    TurnRetried {
        /// The turn that is tried again.
        turn: u32,
        /// 2 for the second try.
        attempt: u32,
        /// What went wrong.
        reason: FailureShape,
        /// How long the engine waits first.
        delay_ms: u64,
    },
    /// The worker died in the middle of this turn; what it had said so far is superseded.
    TurnAbandoned {
        /// The turn that will be asked for again.
        turn: u32,
    },
    /// A part of the answer could not be read and was left out; the rest goes on.
    PartSkipped {
        /// The turn whose answer has a gap.
        turn: u32,
        /// How many bytes the part had.
        bytes: u64,
        /// What went wrong.
        reason: FailureShape,
    },
    /// The model has said all it will say this time.
    TurnFinished {
        /// Which turn.
        turn: u32,
        /// Why it stopped.
        finish: FinishShape,
        /// What it cost.
        usage: UsageShape,
    },

    /// The model begins to speak.
    MessageStarted {
        /// The message.
        item_id: String,
    },
    /// The provider told how likely the tokens are of the text that comes next.
    LogprobsAdded {
        /// The message.
        item_id: String,
        /// The tokens.
        logprobs: Vec<LogprobShape>,
    },
    /// The model added `text` to its answer.
    TextAdded {
        /// The message.
        item_id: String,
        /// Only the new part.
        text: String,
    },
    /// The model added `text` to its refusal.
    RefusalAdded {
        /// The message.
        item_id: String,
        /// Only the new part.
        text: String,
    },
    /// A source was attached to the text so far.
    AnnotationAdded {
        /// The message.
        item_id: String,
        /// The source.
        annotation: AnnotationShape,
    },
    /// The message is closed.
    MessageFinished {
        /// The message.
        item_id: String,
        /// All of its text.
        text: String,
        /// All of its refusal; empty when the model did not refuse.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        refusal: String,
        /// Whether the model finished it, or it was cut.
        completeness: CompletenessShape,
    },
    /// The model thought aloud. The first one of an item opens it.
    ReasoningAdded {
        /// The reasoning item.
        item_id: String,
        /// Only the new part.
        text: String,
    },
    /// The reasoning item is closed.
    ReasoningFinished {
        /// The reasoning item.
        item_id: String,
        /// All of its text.
        text: String,
        /// The provider's opaque proof of the reasoning, to be handed back to it unread.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        seal: Option<String>,
        /// Whether the model finished it, or it was cut.
        completeness: CompletenessShape,
    },

    /// A tool server is being asked for its tools.
    DiscoveryStarted {
        /// The output item that stands for the question.
        item_id: String,
        /// The server's label.
        server: String,
    },
    /// A tool server has answered, or not.
    ToolsDiscovered {
        /// The output item that stands for the question.
        item_id: String,
        /// The server's label.
        server: String,
        /// What it answered.
        outcome: DiscoveryOutcomeShape,
    },

    /// The model names a call; its arguments follow.
    CallAnnounced {
        /// The call, unique within the run.
        call_id: String,
        /// The output item that stands for it.
        item_id: String,
        /// Which tool, and of what kind.
        tool: ToolRefShape,
    },
    /// The model wrote more of the arguments.
    ArgumentsAdded {
        /// The call.
        call_id: String,
        /// Only the new part, as raw JSON text.
        text: String,
    },
    /// The arguments are closed.
    ArgumentsFinished {
        /// The call.
        call_id: String,
        /// All of them, as raw JSON text.
        arguments: String,
        /// Cut arguments are shown and never executed.
        completeness: CompletenessShape,
    },

    /// A person must allow the call first.
    ApprovalRequested {
        /// The call that waits.
        call_id: String,
        /// Until when the answer may come: then the call is denied. For ever if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(format = DateTime)]
        expires_at: Option<String>,
        /// What the tool says of itself now, if that is why a person is asked: its definition
        /// is not the one that was trusted before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed: Option<String>,
    },
    /// A person has answered, now or earlier for the whole conversation, or nobody has in time.
    ApprovalResolved {
        /// The call that waited.
        call_id: String,
        /// What was decided.
        decision: DecisionShape,
        /// The arguments to call the tool with instead of the model's, as raw JSON text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// Whether the answer holds for the rest of the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        remember: bool,
        /// Where the answer came from: a surface, such as `/ws/chat`, or `expiry`, `nobody`,
        /// `conversation`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },

    /// A tool is about to work on the call; recorded before it does anything.
    ToolStarted {
        /// The call.
        call_id: String,
        /// 1 for the first try.
        attempt: u32,
        /// The arguments in a few words, for people; empty if there is nothing to say.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        label: String,
    },
    /// The tool works on without us, under a name: whoever takes the run over asks for it by that
    /// name instead of calling the tool again.
    ToolTaskStarted {
        /// The call.
        call_id: String,
        /// The name, as the tool gave it.
        task: String,
    },
    /// The tool entered a phase of its work.
    ToolPhase {
        /// The call.
        call_id: String,
        /// The phase, in the tool's words.
        phase: String,
    },
    /// The tool told how far it is.
    ToolProgressed {
        /// The call.
        call_id: String,
        /// How much is done, in the tool's own unit.
        progress: f64,
        /// How much there is, if the tool knows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
        /// What it is doing, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The tool let out some of its output early.
    ToolOutputAdded {
        /// The call.
        call_id: String,
        /// Only the new part.
        text: String,
    },
    /// The tool asks a person for input, and waits.
    InputRequested {
        /// The call.
        call_id: String,
        /// The question: a call may have several.
        input_id: String,
        /// What is asked, in the tool's words.
        message: String,
        /// The JSON Schema of what it wants to know.
        #[schema(value_type = Object)]
        schema: Value,
        /// Until when the answer may come. For as long as the call lasts if not set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schema(format = DateTime)]
        expires_at: Option<String>,
    },
    /// The question of a tool is settled. Exactly one per question.
    InputResolved {
        /// The call.
        call_id: String,
        /// The question.
        input_id: String,
        /// What the tool was told.
        reply: ReplyShape,
        /// Where the answer came from: a surface, or `expiry`, `nobody`, `call_over`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The tool has said nothing for a while, and is still being waited for.
    ToolStayedSilent {
        /// The call.
        call_id: String,
        /// How long the tool has been at work altogether.
        elapsed_ms: u64,
    },
    /// The tool failed in a way that allows another try, and is called again.
    ToolRetried {
        /// The call.
        call_id: String,
        /// 2 for the second try.
        attempt: u32,
        /// Why the try before it did not count.
        reason: FailureShape,
    },
    /// The call is over, one way or the other. Exactly one per call.
    ToolFinished {
        /// The call.
        call_id: String,
        /// How it ended.
        outcome: ToolOutcomeShape,
        /// How long the tool worked; 0 if it never started.
        duration_ms: u64,
    },

    /// The run is over. Always last, always once.
    RunFinished {
        /// How it ended.
        outcome: RunOutcomeShape,
        /// What all turns cost together.
        usage: UsageShape,
    },
}

/// What went wrong, in public words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeFailure)]
pub struct FailureShape {
    /// Stable, for programs; listed in the page on failure codes.
    pub code: String,
    /// One sentence, for people and models.
    pub message: String,
    /// How long to wait before it is worth another try, if somebody has said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What the model cost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeUsage)]
pub struct UsageShape {
    /// Tokens read.
    pub input_tokens: u64,
    /// Of those, how many came from a cache.
    pub cached_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those, how many were thoughts.
    pub reasoning_tokens: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeFinish)]
#[serde(rename_all = "snake_case")]
pub enum FinishShape {
    /// It had nothing more to say.
    Answered,
    /// It waits for its calls.
    CalledTools,
    /// It ran out of room.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// The stream broke off, or the run was stopped.
    Interrupted,
}

/// How likely a token was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeLogprob)]
pub struct LogprobShape {
    /// The token.
    pub token: String,
    /// The logarithm of its probability.
    pub logprob: f64,
    /// Its bytes, if the provider told them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
    /// What else might have stood there, likeliest first, in the same shape.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    pub top: Vec<LogprobShape>,
}

/// Where a statement comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeAnnotation)]
pub struct AnnotationShape {
    /// The kind of source, such as `url_citation` or `file_citation`.
    pub kind: String,
    /// The facts of that kind.
    #[schema(value_type = Object)]
    pub source: Value,
}

/// Whether something was said to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeCompleteness)]
#[serde(rename_all = "snake_case")]
pub enum CompletenessShape {
    /// The model finished it.
    Complete,
    /// It was cut: by a limit, a cancel or a broken connection.
    Cut,
    /// Its worker died; what follows replaces it.
    Superseded,
}

/// What came of asking a server for its tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeDiscoveryOutcome)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DiscoveryOutcomeShape {
    /// It answered.
    Listed {
        /// Those of its tools that the run may use.
        #[schema(value_type = Vec<Object>)]
        tools: Vec<Value>,
    },
    /// It did not.
    Failed {
        /// Why.
        failure: FailureShape,
    },
}

/// Which tool, and of what kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeToolRef)]
pub struct ToolRefShape {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ToolKindShape,
    /// The server it lives on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
}

/// What kind of tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeToolKind)]
#[serde(rename_all = "snake_case")]
pub enum ToolKindShape {
    /// A function that the server runs.
    Function,
    /// A function that the client runs.
    Client,
    /// A tool of an MCP server.
    Mcp,
    /// The built-in web search.
    WebSearch,
    /// The built-in file search.
    FileSearch,
}

/// What a person decided about a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeDecision)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum DecisionShape {
    /// Go ahead.
    Approved,
    /// Do not.
    Denied {
        /// Why; may be empty.
        reason: String,
    },
}

/// What a tool is told that has asked a person for input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeReply)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ReplyShape {
    /// Here it is.
    Accepted {
        /// What the person said, in the shape that was asked for.
        #[schema(value_type = Object)]
        content: serde_json::Map<String, Value>,
    },
    /// The person does not want to say, or nobody can be asked.
    Declined,
    /// There is no answer: the person has put the question aside, or it is too late for one.
    Cancelled,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeToolOutcome)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum ToolOutcomeShape {
    /// The tool says it worked.
    Succeeded {
        /// What it returned.
        output: ToolOutputShape,
    },
    /// The tool says it did not work, or it fell over.
    Failed {
        /// Why.
        failure: FailureShape,
    },
    /// The tool did not answer in time.
    TimedOut {
        /// How long it was waited for.
        after_ms: u64,
    },
    /// The call was stopped.
    Cancelled,
    /// A person said no.
    Denied {
        /// Why, in that person's words; may be empty.
        reason: String,
    },
    /// The arguments do not fit the tool.
    InvalidArguments {
        /// What does not fit.
        message: String,
    },
    /// There is no such tool.
    NotFound {
        /// What to do about it.
        message: String,
    },
    /// The call was not carried out because the run stopped before it.
    Skipped {
        /// What stopped it.
        reason: String,
    },
    /// The worker, the tool's server or the connection to it died while the tool worked; whether
    /// it did its work is not known.
    OutcomeUnknown {
        /// What is known.
        message: String,
    },
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeToolOutput)]
pub struct ToolOutputShape {
    /// The result as text; only its beginning when `rest` is set.
    pub text: String,
    /// The result as data, if the tool gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub structured: Option<Value>,
    /// Pictures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageShape>,
    /// The result in a few words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short: Option<String>,
    /// Where the whole text is, when it was too big for the journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<KeptAsideShape>,
}

/// A text kept beside the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeKeptAside)]
pub struct KeptAsideShape {
    /// Where the whole text is.
    pub blob: String,
    /// How many bytes it has.
    pub bytes: u64,
}

/// A picture a tool returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeImage)]
pub struct ImageShape {
    /// Its media type, such as `image/png`.
    pub media_type: String,
    /// Its bytes in base64.
    pub base64: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeRunOutcome)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum RunOutcomeShape {
    /// The model gave its answer, or handed calls to the client.
    Completed,
    /// The run stopped at a limit; what it has is good but not whole.
    Incomplete {
        /// Which limit.
        reason: IncompleteReasonShape,
    },
    /// The model or the engine could not go on.
    Failed {
        /// Why.
        failure: FailureShape,
    },
    /// Somebody stopped it.
    Cancelled,
}

/// Which limit a run ran into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NativeIncompleteReason)]
#[serde(rename_all = "snake_case")]
pub enum IncompleteReasonShape {
    /// The model's answer was cut by its length.
    MaxOutputTokens,
    /// The model's answer, or all of them together, had as many bytes as allowed.
    MaxOutputBytes,
    /// The model was asked as often as allowed.
    MaxTurns,
    /// As many tools were called as allowed.
    MaxToolCalls,
    /// The run took as long as allowed.
    TimeLimit,
    /// The same call with the same arguments came again and again.
    RepeatedCall,
    /// The provider withheld the answer.
    ContentFilter,
}

#[cfg(test)]
#[path = "native_event_tests.rs"]
mod tests;
