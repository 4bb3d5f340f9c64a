//! The Turnwire SDK.
//!
//! An [`Agent`] has a model, instructions and tools. [`Agent::stream_chat`] sends it an input.
//! Callbacks on that call report every step, and awaiting it returns the reply:
//!
//! ```
//! use turnwire::{
//!     Agent,
//!     models::{Scripted, Turn},
//! };
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), turnwire::Error> {
//! let model = Scripted::new([Turn::new().text_in(["Hello, ", "world."])]);
//! let agent = Agent::builder().model(model).build()?;
//! let reply = agent.stream_chat("Greet me.").on_token(|token| print!("{token}")).await?;
//! assert_eq!(reply.text, "Hello, world.");
//! # Ok(()) }
//! ```
//!
//! [`agent`] builds an agent, [`chat`] is one input, [`conversation`]
//! a series of them, [`run`] is a run in progress, [`callbacks`]
//! are the callback types, and `watching` calls them.
//!
//! This crate is the only dependency that a program needs. [`models`] has OpenAI-compatible
//! servers, Anthropic, and a scripted model for tests; [`tools`] has functions, HTTP functions, MCP
//! servers and web search. Any type that implements [`Model`] or [`Tool`] can be used instead. By
//! default runs are in memory and end with their process. With a [store](AgentBuilder::store), such
//! as SQLite or PostgreSQL in [`stores`], they survive it.
//!
//! Every type in a signature of this crate is re-exported by this crate.
#![warn(missing_docs)]

pub mod agent;
pub mod callbacks;
pub mod chat;
pub mod conversation;
pub mod error;
pub mod run;
mod watching;

pub use agent::{Agent, AgentBuilder};
pub use callbacks::{CallOptions, CallbackOutcome, MessageCallbacks, ToolUpdate};
pub use chat::{Input, StreamChat};
pub use conversation::Conversation;
pub use error::Error;
pub use run::{Reply, Run};

/// Attribute macro for implementations of the ports.
pub use async_trait::async_trait;
pub use turnwire_contract::{
    ApprovalAnswer, BlobError, BlobStore, CallId, Completeness, Content, ConversationId,
    ConversationRecord, Decision, Effect, Entry, Event, EventStream, Failure, Finish, Generation,
    Image, IncompleteReason, Item, ItemId, Journal, JournalError, JournalHead, Limits, Model,
    ModelError, ModelPart, ModelStream, Prompt, Question, RecordedEvent, Role, RunId, RunOutcome,
    RunRecord, RunRequest, RunStatus, RunStore, Seq, StoreError, TenantId, Timestamp, Tool,
    ToolContext, ToolError, ToolKind, ToolOutcome, ToolOutput, ToolRef, ToolRequest, ToolServers,
    ToolSpec, Usage, Workers,
};
pub use turnwire_engine::{Runs, StartError, ToolboxError};
pub use turnwire_surfaces::{Message, MessageState, Stage, ToolBlock, ToolBlockUpdate};

/// The crate `turnwire-contract`: all ports and the types in them. The most common ones are
/// re-exported above.
pub use turnwire_contract as contract;
/// The crate `turnwire-engine`, for use beyond an [`Agent`]: see [`Agent::runs`].
pub use turnwire_engine as engine;
/// Models: the crate `turnwire-models`.
pub use turnwire_models as models;
/// Stores on SQLite and PostgreSQL: the crate `turnwire-stores`.
pub use turnwire_stores as stores;
/// Tools, also those of MCP servers: the crate `turnwire-tools`.
pub use turnwire_tools as tools;
/// Libraries whose types are in signatures of this crate, in matching versions.
pub use {futures, schemars, serde, serde_json};

/// Compiles and runs the program in the README as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
