//! What each vendor refuses, as a table.
//!
//! A rule that only reports of others confirm is a field that can be switched; it is off where the
//! reports disagree.

use super::{Dialect, Vendor};

/// The rules of one vendor.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "a table")]
pub struct Rules {
    pub dialect: Dialect,
    /// Path of the API below the address that the adapter is given.
    pub base: &'static str,
    /// Models of the vendor. The first is asked; the second after a change of the model.
    pub models: [&'static str; 2],
    /// Prefix and number of letters of the ids that it gives to calls.
    pub given_ids: (&'static str, usize),
    /// Whether an id of a call is accepted.
    pub ids: fn(&str) -> bool,
    /// Whether the name of a tool is accepted.
    pub tool_names: fn(&str) -> bool,
    /// Fields of requests that are refused.
    pub refused_fields: &'static [&'static str],
    /// Fields of an assistant's message that are known; all if empty.
    pub message_fields: &'static [&'static str],
    /// Whether `stream_options` is refused.
    pub refuses_stream_options: bool,
    /// What becomes of a forced choice of a tool by `required`.
    pub required: Choice,
    /// What becomes of a choice by name.
    pub named: Choice,
    pub json_schema: bool,
    pub json_object: bool,
    pub strict_tools: bool,
    /// Keywords that are refused in the schema of an answer.
    pub answer_keywords: &'static [&'static str],
    /// Whether every object of an answer's schema must be closed and every property required.
    pub answer_strict: bool,
    /// Keywords that are refused in the schemas of tools. Reports about Gemini disagree, so there
    /// are none.
    pub tool_keywords: &'static [&'static str],
    /// Whether parameters may have unions at their top.
    pub unions_at_top: bool,
    /// Whether a system message may come only first, and only once.
    pub one_system: bool,
    /// Whether the user may speak after the result of a call.
    pub user_after_tool: bool,
    /// Whether results need the name of the tool. Reports about Gemini disagree, so it is off.
    pub named_results: bool,
    /// Whether a message may carry a file that is no picture.
    pub files: bool,
    /// How an answer may end besides the usual ends, without being complete; empty if in no way.
    pub odd_end: &'static str,
    /// Whether tools are refused unless the effort is `none`.
    pub tools_need_no_effort: bool,
    /// Whether the model thinks without being asked.
    pub thinks_unasked: bool,
    /// How reasoning is shown.
    pub shows: Shows,
    /// What has to be given back.
    pub gives_back: GivesBack,
}

/// What becomes of a forced choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Taken,
    Refused,
    /// Refused unless thinking is switched off.
    RefusedByThinking,
    /// The model decides as if it were `auto`.
    Ignored,
}

/// How a dialect of Chat Completions shows reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    Nothing,
    Reasoning,
    ReasoningContent,
    /// Content is a list of chunks.
    Chunks,
    Details,
}

/// What has to be in a message of the assistant that has calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivesBack {
    Nothing,
    /// `reasoning_content`, in every message, even if empty.
    ReasoningContent,
    /// The signature of the first call, in the current turn.
    CallSignature,
    /// `reasoning_details` as they were, in the current turn.
    Details,
    /// Encrypted reasoning of this account, if any.
    Sealed,
    /// Signed thinking, unchanged and in its place.
    Signed,
    /// The same, bound to everything before it.
    Bound,
}

fn up_to_64(text: &str) -> bool {
    (1..=64).contains(&text.len())
}

fn is_word(text: &str) -> bool {
    let known = |letter: u8| letter.is_ascii_alphanumeric() || b"_-".contains(&letter);
    up_to_64(text) && text.bytes().all(known)
}

fn nine_letters(text: &str) -> bool {
    text.len() == 9 && text.bytes().all(|letter| letter.is_ascii_alphanumeric())
}

fn begins_with_letter(text: &str) -> bool {
    let known = |letter: u8| letter.is_ascii_alphanumeric() || b"_.:-".contains(&letter);
    let first = text.bytes().next();
    up_to_64(text)
        && text.bytes().all(known)
        && first.is_some_and(|letter| letter.is_ascii_alphabetic() || letter == b'_')
}

fn any(text: &str) -> bool {
    !text.is_empty()
}

/// A tolerant server of Chat Completions.
const CHAT: Rules = Rules {
    dialect: Dialect::Chat,
    base: "/v1",
    models: ["model", "model-2"],
    given_ids: ("call_", 24),
    ids: any,
    tool_names: is_word,
    refused_fields: &[],
    message_fields: &[],
    refuses_stream_options: false,
    required: Choice::Taken,
    named: Choice::Taken,
    json_schema: true,
    json_object: true,
    strict_tools: true,
    answer_keywords: &[],
    answer_strict: false,
    tool_keywords: &[],
    unions_at_top: true,
    one_system: false,
    user_after_tool: true,
    named_results: false,
    files: true,
    odd_end: "",
    tools_need_no_effort: false,
    thinks_unasked: true,
    shows: Shows::Nothing,
    gives_back: GivesBack::Nothing,
};

const OPENAI: Rules = Rules {
    dialect: Dialect::Responses,
    models: ["gpt-5.6", "gpt-5.4"],
    ids: up_to_64,
    refused_fields: &["temperature", "top_p", "logprobs"],
    answer_keywords: &["allOf", "not", "if", "dependentRequired", "dependentSchemas"],
    answer_strict: true,
    unions_at_top: false,
    gives_back: GivesBack::Sealed,
    ..CHAT
};

const ANTHROPIC: Rules = Rules {
    dialect: Dialect::Messages,
    base: "",
    models: ["claude-opus-4-6", "claude-sonnet-4-5"],
    given_ids: ("toolu_01", 22),
    ids: is_word,
    answer_keywords: &[
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "maxItems",
        "uniqueItems",
        "not",
    ],
    unions_at_top: false,
    thinks_unasked: false,
    gives_back: GivesBack::Signed,
    ..CHAT
};

impl Rules {
    /// The rules of `vendor`.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn of(vendor: Vendor) -> Self {
        match vendor {
            Vendor::OpenAi => OPENAI,
            Vendor::OpenAiChat => Self {
                dialect: Dialect::Chat,
                refused_fields: &["temperature", "top_p", "logprobs", "max_tokens", "stop"],
                tools_need_no_effort: true,
                gives_back: GivesBack::Nothing,
                ..OPENAI
            },
            Vendor::Azure => {
                Self { base: "/openai/v1", models: ["our-deployment", "our-other"], ..OPENAI }
            }
            Vendor::Xai => Self {
                models: ["grok-4.5", "grok-4"],
                refused_fields: &[
                    "frequency_penalty",
                    "presence_penalty",
                    "stop",
                    "background",
                    "service_tier",
                ],
                ..OPENAI
            },
            Vendor::Anthropic => Self { odd_end: "model_context_window_exceeded", ..ANTHROPIC },
            Vendor::AnthropicPreserved => Self {
                models: ["claude-opus-5-5", "claude-fable-5-1"],
                refused_fields: &["temperature", "top_p", "top_k"],
                required: Choice::Refused,
                named: Choice::Refused,
                thinks_unasked: true,
                odd_end: "refusal",
                gives_back: GivesBack::Bound,
                ..ANTHROPIC
            },
            Vendor::Gemini => Self {
                base: "/v1beta/openai",
                models: ["gemini-3-pro-preview", "gemini-3-flash-preview"],
                given_ids: ("function-call-", 18),
                tool_names: begins_with_letter,
                gives_back: GivesBack::CallSignature,
                ..CHAT
            },
            Vendor::Mistral => Self {
                models: ["magistral-medium-latest", "mistral-large-latest"],
                given_ids: ("", 9),
                ids: nine_letters,
                refused_fields: &[
                    "seed",
                    "user",
                    "verbosity",
                    "safety_identifier",
                    "prompt_cache_retention",
                    "store",
                    "max_completion_tokens",
                ],
                message_fields: &["role", "content", "tool_calls", "prefix"],
                refuses_stream_options: true,
                user_after_tool: false,
                files: false,
                odd_end: "model_length",
                shows: Shows::Chunks,
                ..CHAT
            },
            Vendor::DeepSeek => Self {
                base: "",
                models: ["deepseek-v4", "deepseek-v4-flash"],
                given_ids: ("call_00_", 24),
                refused_fields: &["logprobs", "top_logprobs"],
                required: Choice::RefusedByThinking,
                named: Choice::RefusedByThinking,
                json_schema: false,
                strict_tools: false,
                odd_end: "insufficient_system_resource",
                shows: Shows::ReasoningContent,
                gives_back: GivesBack::ReasoningContent,
                ..CHAT
            },
            Vendor::Groq => Self {
                base: "/openai/v1",
                models: ["openai/gpt-oss-120b", "qwen/qwen3-32b"],
                refused_fields: &["logprobs", "logit_bias", "top_logprobs"],
                message_fields: &["role", "content", "tool_calls", "name", "reasoning"],
                shows: Shows::Reasoning,
                ..CHAT
            },
            Vendor::OpenRouter => Self {
                base: "/api/v1",
                models: ["google/gemini-3-pro-preview", "google/gemini-3-flash-preview"],
                given_ids: ("tool_0_work_", 20),
                odd_end: "error",
                shows: Shows::Details,
                gives_back: GivesBack::Details,
                ..CHAT
            },
            Vendor::Ollama => Self {
                models: ["gpt-oss:20b", "qwen3:8b"],
                given_ids: ("call_", 8),
                files: false,
                required: Choice::Ignored,
                named: Choice::Ignored,
                shows: Shows::Reasoning,
                ..CHAT
            },
            Vendor::Vllm => Self {
                models: ["Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-9B"],
                given_ids: ("chatcmpl-tool-", 32),
                odd_end: "abort",
                one_system: true,
                shows: Shows::Reasoning,
                ..CHAT
            },
            Vendor::LlamaCpp => Self {
                models: ["qwen3.5-9b", "qwen3.5-4b"],
                given_ids: ("", 32),
                files: false,
                named: Choice::Ignored,
                one_system: true,
                shows: Shows::ReasoningContent,
                ..CHAT
            },
            Vendor::LmStudio => Self {
                models: ["qwen3.5-9b", "gpt-oss-20b"],
                given_ids: ("", 9),
                named: Choice::Refused,
                json_object: false,
                shows: Shows::ReasoningContent,
                ..CHAT
            },
        }
    }
}
