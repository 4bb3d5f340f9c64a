//! Providers and servers, and where their rules differ from the API that they speak.
//!
//! A [`Vendor`] is data that the adapters read; no adapter knows a provider by its name. One that
//! speaks a known API is added by one entry in [`VENDORS`].

use std::{borrow::Cow, fmt};

use turnwire_contract::Parameter;

/// An API that an adapter speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Chat Completions of OpenAI, and what is compatible with it.
    ChatCompletions,
    /// The Responses API of OpenAI.
    OpenAiResponses,
    /// The Messages API of Anthropic.
    AnthropicMessages,
}

/// Where OpenAI is.
pub const OPENAI_URL: &str = "https://api.openai.com/v1";

/// Where Anthropic is.
pub const ANTHROPIC_URL: &str = "https://api.anthropic.com";

/// A provider, or a program that serves models.
pub struct Vendor {
    /// Its name in the settings.
    pub name: &'static str,
    /// The API to speak with it.
    pub api: Api,
    /// Where it is, if that is the same for everybody.
    pub base_url: Option<&'static str>,
    /// The variable that usually has its key.
    pub key_variable: Option<&'static str>,
    /// Ends of its host names, by which it is recognized where the settings name only the API.
    hosts: &'static [&'static str],
    /// Parameters of the API that it rejects.
    refused: &'static [Parameter],
    /// What is different in Chat Completions.
    pub(crate) chat: ChatRules,
}

impl Vendor {
    /// Returns the vendor of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        VENDORS.iter().find(|vendor| vendor.name == name)
    }

    /// Returns the vendor at this base URL.
    pub(crate) fn at(base_url: &str) -> Option<&'static Self> {
        let (_, rest) = base_url.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next()?;
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
        let is_below = |end: &&str| {
            host.strip_suffix(*end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        VENDORS.iter().find(|vendor| vendor.hosts.iter().any(is_below))
    }

    /// Returns the parameters that the vendor rejects, if it is a known one.
    pub(crate) fn refused(vendor: Option<&Self>) -> &'static [Parameter] {
        vendor.map_or(&[], |vendor| vendor.refused)
    }

    /// Returns `parameters` without those that the vendor rejects.
    pub(crate) fn accepted(vendor: Option<&Self>, parameters: &[Parameter]) -> Vec<Parameter> {
        let refused = Self::refused(vendor);
        parameters.iter().copied().filter(|parameter| !refused.contains(parameter)).collect()
    }
}

impl PartialEq for Vendor {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Vendor {}

impl fmt::Debug for Vendor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name)
    }
}

/// What a server of Chat Completions takes.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(crate) struct ChatRules {
    /// Field of the maximum length of the answer.
    pub(crate) max_tokens: &'static str,
    /// Field of the seed.
    pub(crate) seed: &'static str,
    /// Whether usage is sent only if asked for.
    pub(crate) asks_for_usage: bool,
    /// Whether a model may think about its calls.
    pub(crate) effort_with_functions: bool,
    pub(crate) call_ids: CallIds,
    pub(crate) system_messages: SystemMessages,
    /// Whether a message of the user may follow the results of tools.
    pub(crate) user_after_results: bool,
    /// Whether results carry the names of their tools.
    pub(crate) names_results: bool,
    pub(crate) forced_choice: ForcedChoice,
    pub(crate) given_back: GivenBack,
    /// Whether a message may contain files. If not, those of text are written as text.
    pub(crate) files: bool,
    /// Whether names of functions begin with a letter or `_`.
    pub(crate) names_begin_with_a_letter: bool,
}

impl ChatRules {
    /// Returns the name of a function as the server takes it.
    pub(crate) fn name<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let is_taken = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if is_taken || !self.names_begin_with_a_letter {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("_{name}"))
        }
    }
}

/// IDs of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallIds {
    Any,
    /// Nine letters or digits.
    Nine,
}

/// Where messages of the system may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SystemMessages {
    Anywhere,
    /// One, at the beginning: the templates of many open models refuse any other.
    First,
}

/// How a model is made to call a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForcedChoice {
    /// By name, or any.
    Named,
    /// Only by a word; one tool is forced by offering no other.
    Word,
    /// Only while it does not think.
    Thoughtless,
}

/// What a model gets back of its reasoning besides what was sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenBack {
    Nothing,
    /// `reasoning_content` with every message of the assistant, empty if there was none.
    Always,
    /// A signature with the first call of each step, a placeholder if there was none.
    Signature,
}

/// A server without rules of its own.
pub(crate) const OPEN: ChatRules = ChatRules {
    max_tokens: "max_tokens",
    seed: "seed",
    asks_for_usage: true,
    effort_with_functions: true,
    call_ids: CallIds::Any,
    system_messages: SystemMessages::Anywhere,
    user_after_results: true,
    names_results: false,
    forced_choice: ForcedChoice::Named,
    given_back: GivenBack::Nothing,
    files: true,
    names_begin_with_a_letter: false,
};

const OF_OPENAI: ChatRules =
    ChatRules { max_tokens: "max_completion_tokens", effort_with_functions: false, ..OPEN };

/// Servers with the templates of open models.
const LOCAL: ChatRules = ChatRules { system_messages: SystemMessages::First, files: false, ..OPEN };

/// A vendor without rules of its own, at an address of the operator.
const SERVER: Vendor = Vendor {
    name: "",
    api: Api::ChatCompletions,
    base_url: None,
    key_variable: None,
    hosts: &[],
    refused: &[],
    chat: OPEN,
};

/// All vendors.
pub static VENDORS: &[Vendor] = &[
    Vendor {
        name: "openai",
        api: Api::OpenAiResponses,
        base_url: Some(OPENAI_URL),
        key_variable: Some("OPENAI_API_KEY"),
        hosts: &["api.openai.com"],
        chat: OF_OPENAI,
        ..SERVER
    },
    Vendor {
        name: "azure",
        api: Api::OpenAiResponses,
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        hosts: &["openai.azure.com"],
        chat: OF_OPENAI,
        ..SERVER
    },
    Vendor {
        name: "anthropic",
        api: Api::AnthropicMessages,
        base_url: Some(ANTHROPIC_URL),
        key_variable: Some("ANTHROPIC_API_KEY"),
        hosts: &["api.anthropic.com"],
        ..SERVER
    },
    Vendor {
        name: "gemini",
        base_url: Some("https://generativelanguage.googleapis.com/v1beta/openai"),
        key_variable: Some("GEMINI_API_KEY"),
        hosts: &["generativelanguage.googleapis.com"],
        refused: &[
            Parameter::FrequencyPenalty,
            Parameter::PresencePenalty,
            Parameter::PromptCacheKey,
            Parameter::PromptCacheRetention,
            Parameter::SafetyIdentifier,
            Parameter::ServiceTier,
            Parameter::User,
            Parameter::Verbosity,
        ],
        chat: ChatRules {
            names_results: true,
            given_back: GivenBack::Signature,
            names_begin_with_a_letter: true,
            ..OPEN
        },
        ..SERVER
    },
    Vendor {
        name: "mistral",
        base_url: Some("https://api.mistral.ai/v1"),
        key_variable: Some("MISTRAL_API_KEY"),
        hosts: &["api.mistral.ai"],
        refused: &[
            Parameter::PromptCacheRetention,
            Parameter::SafetyIdentifier,
            Parameter::ServiceTier,
            Parameter::User,
            Parameter::Verbosity,
        ],
        chat: ChatRules {
            seed: "random_seed",
            asks_for_usage: false,
            call_ids: CallIds::Nine,
            user_after_results: false,
            names_results: true,
            files: false,
            ..OPEN
        },
        ..SERVER
    },
    Vendor {
        name: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        key_variable: Some("DEEPSEEK_API_KEY"),
        hosts: &["api.deepseek.com"],
        refused: &[
            Parameter::AnswerSchema,
            Parameter::SchemaDescription,
            Parameter::LooseSchema,
            Parameter::Logprobs,
            Parameter::TopLogprobs,
            Parameter::StrictFunctions,
        ],
        chat: ChatRules {
            forced_choice: ForcedChoice::Thoughtless,
            given_back: GivenBack::Always,
            files: false,
            ..OPEN
        },
        ..SERVER
    },
    Vendor {
        name: "xai",
        api: Api::OpenAiResponses,
        base_url: Some("https://api.x.ai/v1"),
        key_variable: Some("XAI_API_KEY"),
        hosts: &["api.x.ai"],
        refused: &[
            Parameter::FrequencyPenalty,
            Parameter::PresencePenalty,
            Parameter::ReasoningSummary,
            Parameter::ServiceTier,
        ],
        ..SERVER
    },
    Vendor {
        name: "groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key_variable: Some("GROQ_API_KEY"),
        hosts: &["api.groq.com"],
        refused: &[Parameter::Logprobs, Parameter::TopLogprobs],
        chat: ChatRules { files: false, ..OPEN },
        ..SERVER
    },
    Vendor {
        name: "openrouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key_variable: Some("OPENROUTER_API_KEY"),
        hosts: &["openrouter.ai"],
        ..SERVER
    },
    Vendor {
        name: "ollama",
        base_url: Some("http://localhost:11434/v1"),
        chat: ChatRules { files: false, ..OPEN },
        ..SERVER
    },
    Vendor { name: "vllm", chat: LOCAL, ..SERVER },
    Vendor {
        name: "llama_cpp",
        base_url: Some("http://localhost:8080/v1"),
        chat: ChatRules { forced_choice: ForcedChoice::Word, ..LOCAL },
        ..SERVER
    },
    Vendor {
        name: "lm_studio",
        base_url: Some("http://localhost:1234/v1"),
        refused: &[Parameter::JsonObject],
        chat: ChatRules { forced_choice: ForcedChoice::Word, ..LOCAL },
        ..SERVER
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_is_known_by_its_host() {
        let name_at = |url| Vendor::at(url).map(|vendor| vendor.name);
        assert_eq!(name_at("https://api.deepseek.com/v1"), Some("deepseek"));
        assert_eq!(name_at("https://my-resource.openai.azure.com:443/openai/v1"), Some("azure"));
        assert_eq!(name_at("https://user@api.openai.com"), Some("openai"));
        assert_eq!(name_at("https://notapi.openai.com"), None);
        assert_eq!(name_at("http://localhost/api.openai.com"), None);
        assert_eq!(name_at("localhost"), None);
    }

    #[test]
    fn names_are_unique() {
        for (n, vendor) in VENDORS.iter().enumerate() {
            assert!(VENDORS[..n].iter().all(|other| other.name != vendor.name), "{vendor:?}");
            assert!(!vendor.name.is_empty());
        }
    }
}
