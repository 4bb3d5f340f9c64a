//! Adapters of the [`Model`](turnwire_contract::Model) port.
//!
//! [`chat_completions`] is for OpenAI-compatible servers, [`openai_responses`] and
//! [`anthropic_messages`] for the APIs of that name. Each has three files: `request` (our prompt to
//! theirs), `stream` (their stream to [`ModelPart`](turnwire_contract::ModelPart)s) and `mod`.
//! [`scripted`] is a model that needs no server. Three wrappers change other models:
//! [`json_schema_calls`] adds tool calls, [`custom_tools`] adds custom tools to models that support
//! only functions, and [`without_parameters`] removes parameters that a server rejects.
//! [`upstreams`] passes requests on to one of several models. [`vendors`] says where providers
//! differ from the API that they speak.
//!
//! They use `sse_reader` to parse frames, `lenient_json` to parse their content, `logprobs` for log
//! probabilities, `translator` to drive an adapter's stream, `provider_error` to classify errors,
//! `seal` for reasoning that a provider wants back, `reported_cost` for what a provider charged, `request_fields` for optional fields of requests, and
//! `http` to send them. [`probe`] checks whether a provider can be reached.
//!
//! Adapters only translate. They do not retry, set no timeouts of their own, and never panic on
//! input. [`upstreams`] alone asks another upstream, as long as nothing was answered.
#![warn(missing_docs)]

pub mod anthropic_messages;
pub mod chat_completions;
pub mod custom_tools;
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod json_schema_calls;
mod json_text;
mod lenient_json;
mod logprobs;
pub mod openai_responses;
mod priced;
pub mod probe;
mod provider_error;
mod reported_cost;
mod request_fields;
pub mod scripted;
mod seal;
mod secret;
mod sse_reader;
mod translator;
pub mod upstreams;
pub mod vendors;
pub mod without_parameters;

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
pub use openai_responses::{OpenAiResponses, OpenAiResponsesOptions};
pub use priced::{Price, Priced};
pub use scripted::{Scripted, Turn};
pub use secret::Secret;
pub use upstreams::{Upstream, Upstreams, UpstreamsOptions};
pub use vendors::Vendor;
pub use without_parameters::WithoutParameters;
