//! Models, and how to speak to them.
//!
//! Three adapters of the [`Model`](turnwire_contract::Model) port, named after what the other
//! side speaks: [`chat_completions`] for the many OpenAI-compatible servers, [`openai_responses`]
//! and [`anthropic_messages`]. Each is the same three files: `request` (ours → theirs), `stream`
//! (theirs → [`ModelPart`](turnwire_contract::ModelPart)) and `mod` (the two together).
//! [`scripted`] is a model that needs no one to speak to. Three more are put around others:
//! [`json_schema_calls`] lets a model that cannot call tools do so, [`custom_tools`] one that knows
//! only functions use tools with plain text, and [`limited`] leaves out what a server refuses.
//!
//! Below them, in reading order: `sse_reader` finds the frames in the bytes, `lenient_json`
//! reads what is in them, `logprobs` some of it for two of them, `translator` hands it to an adapter's stream, `provider_error` says
//! what a complaint means, and `http` carries it all over the network. [`probe`] finds out whether
//! a provider can be reached at all.
//!
//! Adapters translate. They do not retry, do not wait longer or shorter than they are told, and
//! no input makes them panic.

pub mod anthropic_messages;
pub mod chat_completions;
pub mod custom_tools;
mod http;
pub mod json_schema_calls;
mod lenient_json;
pub mod limited;
mod logprobs;
mod openai_fields;
pub mod openai_responses;
pub mod probe;
mod provider_error;
pub mod scripted;
mod secret;
mod sse_reader;
mod translator;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod parameters_tests;
#[cfg(test)]
mod sample_prompt;

pub use anthropic_messages::{AnthropicMessages, AnthropicMessagesOptions};
pub use chat_completions::{ChatCompletions, ChatCompletionsOptions};
pub use custom_tools::CustomToolsAsFunctions;
pub use http::{DEFAULT_CONNECT_TIMEOUT, SetupError};
pub use json_schema_calls::JsonSchemaCalls;
pub use limited::Limited;
pub use openai_responses::{OpenAiResponses, OpenAiResponsesOptions};
pub use scripted::{Scripted, Turn};
pub use secret::Secret;
