//! What speaks with a model server: an API, or a vendor whose API, address and rules are known.

use turnwire_contract::CustomTools;
pub(super) use turnwire_models::vendors::{ANTHROPIC_URL, OPENAI_URL};
use turnwire_models::vendors::{Api, VENDORS, Vendor};

/// Example URL for error messages.
pub(super) const EXAMPLE_URL: &str = "http://localhost:11434/v1";

/// API of the server, or its vendor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ChatCompletions,
    OpenAiResponses,
    AnthropicMessages,
    Vendor(&'static Vendor),
}

impl Kind {
    pub(super) const APIS: [(&str, Self); 3] = [
        ("chat_completions", Self::ChatCompletions),
        ("openai_responses", Self::OpenAiResponses),
        ("anthropic_messages", Self::AnthropicMessages),
    ];

    /// All kinds and their names.
    pub(super) fn names() -> Vec<(&'static str, Self)> {
        let vendors = VENDORS.iter().map(|vendor| (vendor.name, Self::Vendor(vendor)));
        Self::APIS.into_iter().chain(vendors).collect()
    }

    pub(super) fn name(self) -> &'static str {
        Self::names().into_iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The API that is spoken.
    pub(crate) fn api(self) -> Api {
        match self {
            Self::ChatCompletions => Api::ChatCompletions,
            Self::OpenAiResponses => Api::OpenAiResponses,
            Self::AnthropicMessages => Api::AnthropicMessages,
            Self::Vendor(vendor) => vendor.api,
        }
    }

    /// The vendor, if the settings name one.
    pub(crate) fn vendor(self) -> Option<&'static Vendor> {
        match self {
            Self::Vendor(vendor) => Some(vendor),
            Self::ChatCompletions | Self::OpenAiResponses | Self::AnthropicMessages => None,
        }
    }

    /// The address of whoever invented the API, or of the vendor.
    pub(super) fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::ChatCompletions => None,
            Self::OpenAiResponses => Some(OPENAI_URL),
            Self::AnthropicMessages => Some(ANTHROPIC_URL),
            Self::Vendor(vendor) => vendor.base_url,
        }
    }

    /// The variable with the key for that address.
    pub(super) fn usual_key_variable(self) -> Option<&'static str> {
        match self {
            Self::ChatCompletions | Self::OpenAiResponses => Some("OPENAI_API_KEY"),
            Self::AnthropicMessages => Some("ANTHROPIC_API_KEY"),
            Self::Vendor(vendor) => vendor.key_variable,
        }
    }

    /// Whether `OPENAI_BASE_URL` is about it.
    pub(super) fn speaks_openai(self) -> bool {
        matches!(self, Self::ChatCompletions | Self::OpenAiResponses)
    }

    /// Default support for custom tools. Few servers with Chat Completions support them.
    pub(super) fn usual_custom_tools(self) -> CustomTools {
        match self.api() {
            Api::OpenAiResponses => CustomTools::Native,
            Api::ChatCompletions | Api::AnthropicMessages => CustomTools::AsFunctions,
        }
    }
}
