//! The Turnwire SDK: agents whose every step is visible.
//!
//! An [`Agent`] has a model, instructions and tools. [`Agent::stream_chat`] asks it something;
//! what you attach to that call is told of every step, and what you await is the reply:
//!
//! ```
//! use turnwire::Agent;
//! use turnwire_models::{Scripted, Turn};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), turnwire::Error> {
//! let model = Scripted::new([Turn::new().text_in(["Hello, ", "world."])]);
//! let agent = Agent::builder().model(model).build()?;
//! let reply = agent.stream_chat("Greet me.").on_token(|token| print!("{token}")).await?;
//! assert_eq!(reply.text, "Hello, world.");
//! # Ok(()) }
//! ```
//!
//! Reading order: [`agent`] is how one is made, [`chat`] is one question, [`run`] is what is
//! under way, [`callbacks`] are the functions you may give, and `watching` calls them.
//!
//! Models and tools come from `turnwire-models` and `turnwire-tools`, or are your own: anything
//! that implements [`Model`] or [`Tool`]. Runs are kept in memory and end with their process; with
//! a [store](AgentBuilder::store), such as that of `turnwire-stores`, they outlive it.
//!
//! Every type in a signature of this crate can be named with this crate alone.

pub mod agent;
pub mod callbacks;
pub mod chat;
pub mod error;
pub mod run;
mod watching;

pub use agent::{Agent, AgentBuilder, Conversation};
pub use callbacks::{CallOptions, CallbackOutcome, MessageCallbacks, ToolUpdate};
pub use chat::{Input, StreamChat};
pub use error::Error;
pub use run::{Reply, Run};

/// What implementing a port takes beside this crate.
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

/// Everything that the parts of Turnwire agree on: the ports, and all that is named in them. The
/// usual ones are above.
pub use turnwire_contract as contract;
/// The engine underneath, for those who go beyond an [`Agent`]: see [`Agent::runs`].
pub use turnwire_engine as engine;
/// The libraries whose types are in signatures of this crate, in the versions that fit.
pub use {futures, serde_json};

/// The program in the README is compiled and run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
