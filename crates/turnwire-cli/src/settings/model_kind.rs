//! The APIs of model servers, and where the servers of their inventors are.

use turnwire_contract::CustomTools;

pub(super) const OPENAI_URL: &str = "https://api.openai.com/v1";
pub(super) const ANTHROPIC_URL: &str = "https://api.anthropic.com";
/// Example URL for error messages.
pub(super) const EXAMPLE_URL: &str = "http://localhost:11434/v1";

/// The variable with the key for the server of the inventor of an API.
pub(super) fn usual_key_variable(kind: Kind) -> &'static str {
    if kind.speaks_openai() { "OPENAI_API_KEY" } else { "ANTHROPIC_API_KEY" }
}

/// API of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ChatCompletions,
    OpenAiResponses,
    AnthropicMessages,
}

impl Kind {
    pub(super) const NAMES: [(&str, Self); 3] = [
        ("chat_completions", Self::ChatCompletions),
        ("openai_responses", Self::OpenAiResponses),
        ("anthropic_messages", Self::AnthropicMessages),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| *name)
    }

    pub(super) fn speaks_openai(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::OpenAiResponses)
    }

    /// Default support for custom tools. Few servers with Chat Completions support them.
    pub(super) fn usual_custom_tools(self) -> CustomTools {
        match self {
            Self::OpenAiResponses => CustomTools::Native,
            Self::ChatCompletions | Self::AnthropicMessages => CustomTools::AsFunctions,
        }
    }
}
