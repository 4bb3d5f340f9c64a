//! What vendors refuse today.

use turnwire_testkit::vendors::Vendor as V;

use super::scenarios::Scenario as S;

/// The cells that are red, each with a rule that is broken in it. A repair deletes lines; nothing
/// is added without a reason in the commit.
#[rustfmt::skip]
pub(super) const KNOWN_RED: &[(V, S, &str)] = &[
    // The name of a deployment does not say what its model takes.
    (V::Azure, S::Parameters, "parameter"),
    // Every third turn shortens what is older, which the cache and the signatures do not survive.
    (V::OpenAi, S::ShortenedResults, "costs more than it adds"),
    (V::OpenAiChat, S::ShortenedResults, "costs more than it adds"),
    (V::Azure, S::ShortenedResults, "costs more than it adds"),
    (V::Anthropic, S::ShortenedResults, "costs more than it adds"),
    (V::AnthropicPreserved, S::ShortenedResults, "costs more than it adds"),
    (V::Gemini, S::ShortenedResults, "costs more than it adds"),
    (V::Mistral, S::ShortenedResults, "costs more than it adds"),
    (V::DeepSeek, S::ShortenedResults, "costs more than it adds"),
    (V::Xai, S::ShortenedResults, "costs more than it adds"),
    (V::Groq, S::ShortenedResults, "costs more than it adds"),
    (V::OpenRouter, S::ShortenedResults, "costs more than it adds"),
    (V::Ollama, S::ShortenedResults, "costs more than it adds"),
    (V::Vllm, S::ShortenedResults, "costs more than it adds"),
    (V::LlamaCpp, S::ShortenedResults, "costs more than it adds"),
    (V::LmStudio, S::ShortenedResults, "costs more than it adds"),
];
